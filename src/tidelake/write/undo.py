"""A user takes a write back: one that is pending, however lively it looks, or the last one that completed.

Of a pending table service what its executor did is taken back; its plan stays, and can be carried out again.

A completed write goes only while nothing knows of it: no write completed after it, nothing was begun since that may have
read it, and no savepoint keeps it. A clean since then may have removed what the write replaced, so it counts, too. Whoever
begins a write at this very moment finds out when it commits (``conflicts.py``).
"""

from __future__ import annotations

from tidelake._clock import Clock
from tidelake.config import TableConfig
from tidelake.errors import ConflictError, InvalidError, UnsupportedError
from tidelake.locking import Lock
from tidelake.query.high_marks import keep_commits_marks
from tidelake.storage import Storage
from tidelake.timeline import Instant, Timeline, TimelineReader, load_timeline
from tidelake.write.conflicts import SERVICES
from tidelake.write.metadata_table import retire_metadata_table
from tidelake.write.rollback import rollback


def undo(storage: Storage, config: TableConfig, clock: Clock, requested_time: str, lock: Lock | None = None) -> str:
    """Roll back a write; returns the rollback's own instant. ``ConflictError`` names what is in the way."""
    timeline = load_timeline(storage, config)
    reader = TimelineReader(storage, config)
    target = next((i for i in timeline.instants if i.requested_time == requested_time and i.is_write), None)
    if target is None:
        raise InvalidError(
            f"there is no write {requested_time!r} on the active timeline", value=requested_time, table=storage.uri
        )
    _refuse_services(target, reader)

    def check(completed: Instant, now: Timeline) -> None:
        _refuse_services(completed, reader)
        _refuse_dependents(completed, now)
        if config.event_time_field is not None:
            keep_commits_marks(storage, [reader.commit(completed)])
        retire_metadata_table(storage, clock)

    return rollback(storage, config, clock, target, lock, check)


def _refuse_services(instant: Instant, reader: TimelineReader) -> None:
    if instant.is_completed and reader.commit(instant).operation_type in {*SERVICES, "CLUSTER"}:
        raise UnsupportedError(
            f"{instant.requested_time} is a completed table service and not a write: it is not rolled back",
            instant=instant.requested_time,
            hint="restore the table to a savepoint from before it",
        )


def _keeps(savepoint: Instant, target: Instant) -> bool:
    """Whether a savepoint has a write in the state that it keeps: its own, or one that was requested before and was done."""
    if savepoint.requested_time == target.requested_time:
        return True
    was_done = (savepoint.completion_time or "") > (target.completion_time or "")
    return was_done and savepoint.requested_time > target.requested_time


def _refuse_dependents(target: Instant, timeline: Timeline) -> None:
    completion = target.completion_time or ""
    kept = next((i for i in timeline.of_action("savepoint") if _keeps(i, target)), None)
    if kept is not None:
        raise ConflictError(
            f"a savepoint, {kept.requested_time}, keeps {target.requested_time}",
            instant=target.requested_time,
            hint="drop the savepoint first",
        )
    for other in timeline.instants:
        is_later_write = other.is_write and (other.completion_time or "") > completion
        knows_it = other.requested_time > completion and other.action != "rollback"
        if is_later_write or knows_it:
            state = "completed after it" if other.is_completed else "is pending"
            raise ConflictError(
                f"{target.requested_time} is not rolled back, since {other} {state}",
                instant=other.requested_time,
                hint="roll back what came later first, the newest before the others",
            )
