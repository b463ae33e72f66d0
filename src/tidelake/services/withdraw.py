"""Taking a plan off the timeline: one that can never be completed, or that a user does not want.

A plan keeps its file groups from others for as long as it is pending: writers that change one of a clustering's get
``ConflictError``. So a plan that came to nothing must go, and its work is planned anew: the window of the next plan and
its carry list are those from before it.

First it is rolled back, which says on the timeline that files of its instant do not count, whoever may still write them.
Then it is claimed, by a claim that never ends and with a turn of the head: from here on nobody can complete it. Then it
goes. A withdrawal that died is gone on with by the next one, and by whoever would carry the plan out.
"""

from __future__ import annotations

from tidelake.errors import ConflictError
from tidelake.format.names import State, TimelineName
from tidelake.services.context import ServiceCall
from tidelake.services.execution import files_carrying, pending_plans
from tidelake.services.kinds import ServiceKind
from tidelake.timeline import Timeline
from tidelake.timeline.claim import end_claim, take_claim
from tidelake.write.rollback import delete_markers, rollback, token_number


def withdraw(call: ServiceCall, kind: ServiceKind, requested: str) -> None:
    """Remove a pending plan; ConflictError if it has completed, or is gone, or another executor has claimed it."""
    source = call.source()
    moves = call.moves(source)
    pending = next((i for i in pending_plans(source.timeline, kind) if i.requested_time == requested), None)
    if pending is None:
        raise _ended(kind, requested)
    path = moves.path(TimelineName(requested, kind.action, State.REQUESTED))
    facts = kind.facts(call.storage.get(path))
    partitions = sorted({partition for partition, _ in facts.groups}) if facts else []
    rollback(call.storage, source.config, call.clock, pending, call.lock())

    def refuse_ended(timeline: Timeline) -> None:
        if all(i.requested_time != requested for i in pending_plans(timeline, kind)):
            raise _ended(kind, requested)

    def used_number() -> int:
        # At least one, as the rollback freed a claim: so the claim is made with a turn of the head.
        return max([1, *map(token_number, files_carrying(call.storage, partitions, requested))])

    take_claim(
        call.storage,
        call.clock,
        moves,
        requested,
        call.writer.dead_after_ms,
        used_number,
        refuse_ended,
        withdraws=True,
    )
    for file in files_carrying(call.storage, partitions, requested):
        call.storage.delete(file)
    call.storage.delete(moves.path(TimelineName(requested, kind.action, State.INFLIGHT)))
    call.storage.delete(path)
    delete_markers(call.storage, requested)
    end_claim(call.storage, requested)


def _ended(kind: ServiceKind, requested: str) -> ConflictError:
    return ConflictError(f"the {kind.name} {requested} has completed, or is gone, or is another's", instant=requested)
