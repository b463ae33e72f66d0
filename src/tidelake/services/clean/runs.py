"""The cleans on the timeline, for people to look at."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.format.plans import CleanerPlan
from tidelake.format.service_metadata import CleanMetadata
from tidelake.query import TableSource


@dataclass(frozen=True, slots=True)
class CleanRun:
    """A completed clean."""

    instant: str
    completion_time: str
    files_deleted: int
    taken_ms: int
    earliest_retained: str
    last_completed: str
    policy: str
    version: int


def cleans_of(source: TableSource, limit: int | None) -> tuple[CleanRun, ...]:
    """The last completed cleans, newest first; None for all."""
    found = []
    for instant in source.timeline.of_action("clean")[::-1][:limit]:
        done = source.reader.record(CleanMetadata, instant.file_name)
        plan = source.reader.record(CleanerPlan, instant.requested_file_name)
        found.append(
            CleanRun(
                instant.requested_time,
                instant.completion_time or "",
                done.total_files_deleted,
                done.time_taken_in_millis,
                done.earliest_commit_to_retain,
                done.last_completed_commit_timestamp,
                plan.policy,
                done.version or 1,
            )
        )
    return tuple(found)
