"""Publishing the plans of a service, and finding those that wait: what compaction and clustering share.

A plan is made within the turn of the head that publishes it, so nothing can complete between the look and the plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tidelake._progress import current
from tidelake.errors import ConflictError, UnavailableError
from tidelake.format.names import State
from tidelake.query import TableSource
from tidelake.services.context import ServiceCall
from tidelake.services.execution import pending_plans
from tidelake.services.kinds import ServiceKind
from tidelake.services.planner import Outcome, ServicePlanner
from tidelake.services.report import ServicePlan, describe_outcome
from tidelake.timeline import Timeline
from tidelake.timeline.transitions import DRAWS, Publication, Published
from tidelake.write.transaction import Commit, recover

P = TypeVar("P", bound=ServicePlanner)
Execute = Callable[[ServiceCall, str], Commit]


def schedule(
    call: ServiceCall,
    source: TableSource,
    make: Callable[[ServiceCall, TableSource], P],
    encode: Callable[[P, Outcome], bytes],
    *,
    dry_run: bool,
) -> ServicePlan | None:
    """Publish the plan that a planner makes; None if there is no work and nothing to say. A dry run writes nothing."""
    if dry_run:
        planner = make(call, source)
        outcome = planner.run(source)
        return describe_outcome(planner.kind.name, outcome, None) if outcome.chosen or outcome.notes else None
    current().stage("plan")
    recover(call.storage, source.config, call.clock, call.writer, call.lock())
    made: list[tuple[str, Outcome]] = []
    moves = call.moves(source)
    held: set[str] = set()

    def decide(timeline: Timeline) -> Publication | Published:
        now = TableSource(source.storage, source.config, timeline, source.reader)
        planner = make(call, now)
        outcome = planner.run(now)
        for _ in range(DRAWS):
            if outcome.instant is None or outcome.instant in held or moves.hold(outcome.instant):
                break
            planner.refuse(outcome.instant)
            outcome = planner.run(now)
        else:
            raise UnavailableError(f"no free instant was found in {DRAWS} tries", table=call.storage.uri)
        held.update((outcome.instant,) if outcome.instant else ())
        made[:] = [(planner.kind.name, outcome)]
        if not outcome.chosen:
            planner.keep(now, outcome)
            return Published("", None, "")
        plan = encode(planner, outcome)
        return Publication(planner.kind.action, State.REQUESTED, outcome.instant, lambda _: plan)

    try:
        published = moves.publish(decide)
    finally:
        for instant in held:
            moves.let_go(instant)
    name, outcome = made[-1]
    if published.instant or outcome.notes:
        return describe_outcome(name, outcome, published.instant or None)
    return None


def run_oldest(call: ServiceCall, kind: ServiceKind, execute: Execute) -> Commit | None:
    """Carry out the oldest plan that nobody is at; None if none waits."""
    refused: ConflictError | None = None
    for instant in _waiting(call, kind):
        try:
            return execute(call, instant)
        except ConflictError as error:
            refused = error
    if refused is not None:
        raise refused
    return None


def run_waiting(call: ServiceCall, kind: ServiceKind, execute: Execute) -> Commit | None:
    """Carry out every plan that waits; the last commit. What another is at is left to it."""
    done: Commit | None = None
    for instant in _waiting(call, kind):
        try:
            done = execute(call, instant)
        except ConflictError:
            continue  # its executor lives, or it was withdrawn: its file groups are planned later
    return done


def _waiting(call: ServiceCall, kind: ServiceKind) -> list[str]:
    """The plans that wait, with one that was decided and whose planner died before it was seen."""
    call.moves(call.source()).finish_last_turn()
    return [pending.requested_time for pending in pending_plans(call.source().timeline, kind)]
