"""The read-optimised view as of an event time T: exactly the data before T, or a refusal.

Base files hold exactly the data before T iff none of them has an event at or after T, and no log on top of them one before
T. That is read from the files and the statistics of their commits, never from the plan of a compaction: another engine may
have carried it out in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelake._clock import utc_from_ms
from tidelake.errors import InvalidError, NotExactError
from tidelake.filegroup import BaseFile, FileSlice, LogFile
from tidelake.filegroup.event_times import EventRange
from tidelake.query import snapshot
from tidelake.query.event_column import event_times_of
from tidelake.query.snapshot import ScanPlan, ScanRequest
from tidelake.query.source import TableSource
from tidelake.timeline import as_epoch_ms

_NAMED = 5
"""How many files of a side an error names."""


def plan_scan(source: TableSource, request: ScanRequest) -> ScanPlan:
    """Find the slices and decide how to read them; refused if they are not exact as of the event time asked for."""
    if request.as_of_event_time is None:
        return snapshot.plan_scan(source, request)
    if source.config.event_time_field is None:
        raise InvalidError("the table has no event-time field", table=source.storage.uri)
    time_ms = as_epoch_ms(request.as_of_event_time, source.zone)
    return snapshot.plan_scan(source, request, lambda slices: refuse_inexact(source, slices, time_ms))


def refuse_inexact(source: TableSource, slices: Sequence[FileSlice], time_ms: int) -> None:
    """Refuse slices whose base files do not hold exactly the data before a time."""
    ranges = event_times_of(source).of(slices)
    bases: list[BaseFile] = [s.base for s in slices if s.base is not None]
    logs: list[LogFile] = [log for s in slices for log in s.logs]
    after = [base for base in bases if ranges[base.path].may_be_from(time_ms)]
    before = [log for log in logs if ranges[log.path].may_be_before(time_ms)]
    if not after and not before:
        return
    said = []
    if after:
        said.append(f"{_count(after, 'base file')} events at or after it ({_named(after, ranges)})")
    if before:
        said.append(f"{_count(before, 'log')} events before it ({_named(before, ranges)})")
    raise NotExactError(
        f"base files do not hold exactly the data before {_time(time_ms)}: {'; '.join(said)}",
        value=time_ms,
        file=(after[0] if after else before[0]).path,
        table=source.storage.uri,
        hint=_hint(bases, logs, ranges, time_ms),
    )


def _hint(bases: Sequence[BaseFile], logs: Sequence[LogFile], ranges: Mapping[str, EventRange], time_ms: int) -> str:
    """Which times would do, if any."""
    in_bases = [ranges[base.path] for base in bases]
    in_logs = [ranges[log.path] for log in logs]
    latest = max((found.maximum for found in in_bases if found.maximum is not None), default=None)
    earliest = min((found.minimum for found in in_logs if found.minimum is not None), default=None)
    are_known = all(found.is_known for found in (*in_bases, *in_logs))
    if are_known and (latest is None or earliest is None or latest < earliest):
        since = "any time" if latest is None else f"times after {_time(latest)}"
        return f"they are exact as of {since}" + ("" if earliest is None else f", up to {_time(earliest)}")
    return f"compact an exact table at {_time(time_ms)}, with the strategy event_time"


def _named(files: Sequence[BaseFile | LogFile], ranges: Mapping[str, EventRange]) -> str:
    def one(file: BaseFile | LogFile) -> str:
        found = ranges[file.path]
        if not found.is_known:
            return f"{file.path}: not known, {found.reason}"
        is_base = isinstance(file, BaseFile)
        time = found.maximum if is_base else found.minimum
        return f"{file.path}: {'up to' if is_base else 'from'} {_time(time or 0)}"

    more = f", and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    return ", ".join(map(one, files[:_NAMED])) + more


def _count(files: Sequence[object], what: str) -> str:
    return f"{len(files)} {what} holds" if len(files) == 1 else f"{len(files)} {what}s hold"


def _time(time_ms: int) -> str:
    return f"{utc_from_ms(time_ms):%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"
