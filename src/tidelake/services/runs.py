"""The plans of a service that are on the timeline, waiting, under way or done, for people to look at."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.errors import NotFoundError
from tidelake.query import TableSource
from tidelake.services.kinds import ServiceKind


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One plan and how far it is."""

    instant: str
    state: str
    """REQUESTED, INFLIGHT or COMPLETED."""
    file_groups: int
    partitions: tuple[str, ...]
    left: tuple[str, ...]
    """Partitions in which the plan left work."""
    is_ours: bool


def runs_of(source: TableSource, kind: ServiceKind, limit: int | None = None) -> tuple[RunSummary, ...]:
    """The plans of a kind, newest first; None for all."""
    found: list[RunSummary] = []
    for instant in reversed(source.timeline.instants):
        if instant.pending_action != kind.action or (limit is not None and len(found) == limit):
            continue
        try:
            facts = kind.facts(source.storage.get(f"{source.config.timeline_dir}/{instant.requested_file_name}"))
        except NotFoundError:
            continue  # withdrawn since the timeline was read
        if facts is not None:
            partitions = tuple(sorted({partition for partition, _ in facts.groups}))
            state = instant.state.name
            found.append(
                RunSummary(
                    instant.requested_time,
                    state,
                    len(facts.groups),
                    partitions,
                    tuple(sorted(facts.missing)),
                    facts.is_ours,
                )
            )
    return tuple(found)
