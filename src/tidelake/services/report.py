"""What a user sees of a plan: its operations with their reasons, and what it leaves for later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelake.services.event_notes import EventTimeNotes
from tidelake.services.planner import Outcome
from tidelake.services.strategy import Candidate


@dataclass(frozen=True, slots=True)
class PlannedOperation:
    """One file group of a plan."""

    partition_path: str
    file_id: str
    base_file: str | None
    logs: tuple[str, ...]
    reason: str
    bytes: int


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """What a service will do, or, in a dry run, would do. ``instant`` is None in a dry run."""

    service: str
    instant: str | None
    operations: tuple[PlannedOperation, ...]
    left: Mapping[str, str] = field(default_factory=dict)
    """Partitions in which work is left for the next plan, with the reason."""
    partition_source: str = "incremental"
    window_start: str | None = None
    commits: tuple[str, ...] = ()
    """The commits, by requested time, in the window that was looked at."""
    event_time: EventTimeNotes | None = None
    """Of a compaction by event time: T, P, whether it covers, and why not, or why there is no plan."""

    @property
    def missing_partitions(self) -> tuple[str, ...]:
        """Partitions with work that this plan leaves."""
        return tuple(self.left)

    @property
    def bytes(self) -> int:
        """The bytes that the plan reads."""
        return sum(op.bytes for op in self.operations)

    def __str__(self) -> str:
        name = self.instant or "dry run"
        lines = [
            f"{self.service} ({name}): {len(self.operations)} file groups, {self.bytes:,} bytes, "
            f"partitions: {self.partition_source}"
        ]
        if self.event_time is not None:
            lines.append(f"  {self.event_time}")
        if self.window_start is not None:
            lines.append(f"  looked at {len(self.commits)} commits completed since {self.window_start}")
        lines += [f"  {op.partition_path or '.'} {op.file_id}: {op.reason}" for op in self.operations]
        lines += [f"  left for later: {path or '.'} ({reason})" for path, reason in self.left.items()]
        return "\n".join(lines)


def describe_outcome(service: str, outcome: Outcome, instant: str | None) -> ServicePlan:
    """What a pass found, as a user sees it."""
    return ServicePlan(
        service,
        instant,
        tuple(_described(candidate) for candidate in outcome.chosen),
        outcome.left,
        outcome.window.source,
        outcome.window.left,
        outcome.window.instants,
        outcome.notes,
    )


def _described(candidate: Candidate) -> PlannedOperation:
    file_slice = candidate.file_slice
    return PlannedOperation(
        file_slice.partition_path,
        file_slice.file_id,
        None if file_slice.base is None else str(file_slice.base.name),
        tuple(str(log.name) for log in file_slice.logs),
        candidate.reason,
        file_slice.size_bytes,
    )
