"""Completion and freshness of a table's two views, from its timeline and its live files.

| | completion | freshness |
|---|---|---|
| RT (snapshot) | least event time of the last completed write that brought events | greatest event time of it |
| RO (base files) | least event time in logs not compacted, less 1 ms; without such logs RT's | greatest in live base files |

On a copy-on-write table the two views are one. With several event times the least of all counts: each by the last write that
brought it (a write that does not tell them apart raises none), and RO is never ahead of RT. Event times more than an hour
ahead of the clock are wrong clocks: a file whose times are all so does not count, and of one that has some only its least time
does; they are counted. What is not known is None, with a reason: a log that cannot be read is never taken for no log.

``marks_of_commit`` is for commits: it runs inside the turn that makes the commit true, on the timeline just read. From what
the previous commit stored and the commit's own files it follows what a write changes; a commit that takes files away
(services, overwrites), or that follows another engine's or a rollback, starts from the live files.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake._clock import utc_from_ms
from tidelake.config import TableType
from tidelake.errors import CorruptError, TidelakeError, UnavailableError
from tidelake.filegroup.slices import BaseFile, data_file
from tidelake.format.avro_record import decode_record
from tidelake.format.commit_metadata import CommitMetadata, ReplaceCommitMetadata, WriteStat
from tidelake.format.event_marks import WATERMARK_PREFIX
from tidelake.format.freshness_marks import (
    INCOMING_MAX_KEY,
    INCOMING_MIN_KEY,
    FreshnessMarks,
    Memory,
    ViewTimes,
    decode_freshness_marks,
    decode_incoming,
    greatest,
    least,
)
from tidelake.format.names import COMPLETES_AS
from tidelake.query.event_column import event_times_of
from tidelake.query.high_marks import keep_high_marks, kept_high_marks
from tidelake.query.live_times import LiveTimes, live_times
from tidelake.query.source import TableSource
from tidelake.timeline import WRITE_ACTIONS, Instant

FUTURE_MS = 3_600_000
"""An event time further ahead of the clock than this is a wrong clock's."""
_LOG = logging.getLogger("tidelake.freshness")
_SERVICES = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})
_MOST_READ = 64
"""How many files without statistics a commit reads at most, inside its turn."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A write that brought events: its times, and the least and greatest of its event times."""

    requested_time: str
    completion_time: str
    times: ViewTimes
    future_files: int = 0
    reason: str = ""
    """Why its event times are not known, if they are not."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """What is known of a table's completion and freshness at one moment."""

    marks: FreshnessMarks
    at_ms: int
    last: Arrival | None = None
    live: LiveTimes | None = None
    """None for copy-on-write tables: base files are all there is."""
    future_files: int = 0
    """How many files have event times that are too far ahead, and do not count."""
    reasons: tuple[str, ...] = ()
    """Why values are not known."""

    @property
    def bound_ms(self) -> int:
        return self.at_ms + FUTURE_MS

    @property
    def watermark(self) -> int | None:
        """What all inputs that ever declared one have declared: the least of their watermarks."""
        return least(*self.marks.memory.declared.values())

    def holds(self, view: str, time_ms: int, partition: str | None = None) -> bool:
        """Whether a view holds all data before a time that has arrived, in the table or in one partition."""
        if view == "rt" or self.live is None:
            return True
        logs = self.live.files.filter(self.live.files["is_log"])
        if partition is not None:
            logs = logs.filter(pc.equal(logs["partition"], partition))
        if not pc.all(logs["is_known"], min_count=0).as_py():
            return False
        low = pc.min(logs["low"]).as_py()
        return low is None or low >= time_ms

    def is_complete(self, view: str, time_ms: int, partition: str | None = None) -> bool:
        """Whether a view holds all data before a time, as far as was declared or can be told."""
        literal = greatest(self.marks.rt.completion, (self.marks.ro if view == "ro" else self.marks.rt).completion)
        arrived = greatest(self.watermark, literal)
        return self.holds(view, time_ms, partition) and arrived is not None and arrived >= time_ms


@dataclass(frozen=True, slots=True)
class _Before:
    """What earlier commits stored."""

    marks: FreshnessMarks = field(default_factory=FreshnessMarks)
    newest: Instant | None = None
    is_newest_marked: bool = False
    """Whether it is the newest commit that stored the marks."""
    declared: Mapping[str, int] = field(default_factory=dict)
    clocks: Mapping[str, ViewTimes] = field(default_factory=dict)
    """Of several event times, what the last write of each brought."""


def freshness(source: TableSource, now_ms: int) -> Freshness:
    """Completion and freshness as of the source's timeline, worked out anew.

    High-water marks that no commit of ours has stored (after another engine's commit) are kept, so that they are seen again.
    """
    before = _before(source, now_ms + FUTURE_MS)
    found = _whole(source, now_ms, before, None, None)
    if not _follows(source, before):
        with suppress(UnavailableError):  # who may only read does without
            keep_high_marks(source.storage, found.marks)
    return found


def marks_of_commit(source: TableSource, now_ms: int, instant: str, commit: CommitMetadata) -> dict[str, str]:
    """What a commit that is about to be published stores of completion and freshness; nothing without an event-time field."""
    if source.config.event_time_field is None:
        return {}
    before = _before(source, now_ms + FUTURE_MS)
    step = _step(source, now_ms, before, instant, commit)
    if step is None:
        try:
            step = _whole(source, now_ms, before, (instant, commit), _MOST_READ).marks
        except TidelakeError:
            # The commit is right whatever can be said of its event times; the next one looks again.
            step = replace(before.marks, rt=ViewTimes(), ro=ViewTimes())
            step = replace(step, memory=Memory(declared=_declared(before.declared, commit), clocks=before.clocks))
    _warn_of_late_data(source, before.marks.ro.completion, step.ro.completion)
    return replace(step, memory=replace(step.memory, first=source.timeline.first_active or "")).encode()


def _warn_of_late_data(source: TableSource, before: int | None, after: int | None) -> None:
    if before is not None and after is not None and after < before:
        words = (utc_from_ms(time_ms).isoformat(timespec="milliseconds") for time_ms in (before, after))
        _LOG.warning(
            "late data moves the completion of the read-optimised view of %s back from %s to %s",
            source.config.name,
            *words,
        )


def _step(
    source: TableSource, now_ms: int, before: _Before, instant: str, commit: CommitMetadata
) -> FreshnessMarks | None:
    """The next marks from those of the commit before, if they follow."""
    is_logged = source.config.table_type is TableType.MERGE_ON_READ
    if not _follows(source, before) or _takes_files(commit, is_logged):
        return None
    bound = now_ms + FUTURE_MS
    if any(time is not None and time > bound for stat in commit.stats for time in _times(stat)):
        return None
    own = _arrival(source, instant, "", commit, bound)
    if own.future_files:
        # What it brought may be ahead where its files are not: a delete leaves none of its event times in them.
        return None
    clocks = _clocks(source, before.clocks, [(own, commit)], bound)
    rt = _snapshot(source, before.marks.rt if own.times.completion is None else own.times, clocks)
    logs, bases = _split(commit)
    log_min = least(before.marks.memory.log_min, *(stat.min_event_time for stat in logs))
    base_max = greatest(before.marks.ro.freshness, *(_clipped(stat, bound).freshness for stat in bases))
    ro = ViewTimes(_held_back(source, rt, log_min), base_max) if is_logged else rt
    memory = Memory(log_min if is_logged else None, True, _declared(before.declared, commit), clocks)
    return _raised(FreshnessMarks(rt, ro, memory=memory), before.marks)


def _whole(
    source: TableSource,
    now_ms: int,
    before: _Before,
    pending: tuple[str, CommitMetadata] | None,
    most_read: int | None,
) -> Freshness:
    bound = now_ms + FUTURE_MS
    declared = before.declared if pending is None else _declared(before.declared, pending[1])
    high = before.marks
    if not _follows(source, before):
        kept = kept_high_marks(source.storage)
        high = replace(high, rt_hwm=high.rt_hwm.raised(kept.rt_hwm), ro_hwm=high.ro_hwm.raised(kept.ro_hwm))
    last, ahead = _last_arrival(source, bound, pending)
    reasons = [last.reason] if last is not None and last.reason else []
    clocks = before.clocks
    if pending is not None:
        own = _arrival(source, pending[0], "", pending[1], bound)
        clocks = _clocks(source, clocks, [(own, pending[1])], bound)
    rt = ViewTimes() if last is None or reasons else _snapshot(source, last.times, clocks)
    live: LiveTimes | None = None
    ro, log_min, is_known = rt, None, not reasons
    future = ahead
    if source.config.table_type is TableType.MERGE_ON_READ:
        live = live_times(source, most_read)
        if pending is not None:
            live = live.after(*pending)
        ro, log_min, future, unknown = _read_optimized(source, live, rt, bound)
        reasons += unknown
        is_known = not reasons
    if last is None and not reasons:
        reasons.append("no write has brought events yet")
    elif last is not None:
        reasons += [f"no write has brought an event of {name!r} yet" for name in _unseen(source, clocks)]
    memory = Memory(log_min, is_known and future == ahead == 0, declared, clocks)
    marks = _raised(FreshnessMarks(rt, ro, memory=memory), high)
    return Freshness(marks, now_ms, last, live, future, tuple(reasons))


def _clocks(
    source: TableSource,
    known: Mapping[str, ViewTimes],
    writes: Iterable[tuple[Arrival, CommitMetadata]],
    bound: int,
) -> dict[str, ViewTimes]:
    """What is known of each of several event times when these writes, the oldest first, have come; empty for one.

    A write that does not tell which of them it brought may have brought any of them: what is known is not raised by it.
    """
    fields = source.config.event_time_fields
    found = dict(known)
    for own, commit in writes if len(fields) > 1 else ():
        if own.times.completion is None:
            continue
        told = decode_incoming(commit.extra_metadata) if commit.is_ours(own.requested_time) else None
        for name in fields:
            times = own.times if told is None else told.get(name)
            if times is None or times.completion is None or times.completion > bound:
                continue
            high = times.freshness if times.freshness is not None and times.freshness <= bound else times.completion
            before = found.get(name) if told is None else None
            low = times.completion
            found[name] = (
                ViewTimes(low, high)
                if before is None
                else ViewTimes(least(before.completion, low), least(before.freshness, high))
            )
    return found


def _unseen(source: TableSource, clocks: Mapping[str, ViewTimes]) -> list[str]:
    """Those of several event times that no write has brought yet."""
    fields = source.config.event_time_fields
    return [name for name in fields if name not in clocks] if len(fields) > 1 else []


def _snapshot(source: TableSource, times: ViewTimes, clocks: Mapping[str, ViewTimes]) -> ViewTimes:
    """The values of the snapshot view: with several event times the least of each, if all are known."""
    if len(source.config.event_time_fields) < 2:
        return times
    if _unseen(source, clocks):
        return ViewTimes()
    return ViewTimes(
        least(*(each.completion for each in clocks.values())), least(*(each.freshness for each in clocks.values()))
    )


def _held_back(source: TableSource, rt: ViewTimes, log_min: int | None) -> int | None:
    """Completion of the read-optimised view, by the least event time in logs."""
    if log_min is None:
        return rt.completion
    if len(source.config.event_time_fields) < 2:
        return log_min - 1
    # The logs may hold nothing of an event time that is further back.
    return None if rt.completion is None else min(rt.completion, log_min - 1)


def _read_optimized(
    source: TableSource, live: LiveTimes, rt: ViewTimes, bound: int
) -> tuple[ViewTimes, int | None, int, list[str]]:
    """The values of the read-optimised view, the least event time in logs, files of the future, and what is not known."""
    is_log, is_known = live.mask("is_log"), live.mask("is_known")
    counted = clipped(live.files, bound)
    future = int(pc.sum(pc.greater(live.files["high"], bound)).as_py() or 0)
    log_min = pc.min(counted["low"].filter(pa.array(is_log))).as_py()
    base_max = pc.max(counted["high"].filter(pa.array(~is_log))).as_py()
    reasons = []
    completion = _held_back(source, rt, log_min)
    if (is_log & ~is_known).any():
        completion, log_min = None, None
        reasons.append(_unknown("log", "read-optimised completion", live, is_log & ~is_known))
    if (~is_log & ~is_known).any():
        base_max = None
        reasons.append(_unknown("base file", "read-optimised freshness", live, ~is_log & ~is_known))
    return ViewTimes(completion, base_max), log_min, future, reasons


def clipped(files: pa.Table, bound: int) -> pa.Table:
    """Files' ``low`` and ``high`` without event times of the future."""
    low = pc.if_else(pc.less_equal(files["low"], bound), files["low"], None)
    high = pc.if_else(pc.less_equal(files["high"], bound), files["high"], low)
    return pa.table({"low": low, "high": high})


def _unknown(kind: str, what: str, live: LiveTimes, where: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> str:
    path, reason = next(iter(live.reasons.items()), ("", "no statistics"))
    return f"{what} is not known: {int(where.sum())} {kind}(s) without event times, such as {path}: {reason}"


def _last_arrival(
    source: TableSource, bound: int, pending: tuple[str, CommitMetadata] | None
) -> tuple[Arrival | None, int]:
    """The last write that brought events, by completion, and how many files of it and of later writes are ahead."""
    ahead = 0
    for found in _arrivals(source, bound, pending):
        ahead += found.future_files
        if found.times.completion is not None or found.reason:
            return found, ahead
    return None, ahead


def _arrivals(source: TableSource, bound: int, pending: tuple[str, CommitMetadata] | None) -> Iterator[Arrival]:
    """What writes brought, the last one first."""
    if pending is not None:
        yield _arrival(source, pending[0], "", pending[1], bound)
    for write in _writes(source):
        yield _arrival(source, write.requested_time, write.completion_time, write.commit, bound)


def _arrival(source: TableSource, requested: str, completion: str, commit: CommitMetadata, bound: int) -> Arrival:
    """What a write brought: nothing, if it is a service, or has no events that count. One without completion is our own."""
    if commit.operation_type in _SERVICES:
        return Arrival(requested, completion, ViewTimes())
    extra = commit.extra_metadata or {}
    if INCOMING_MIN_KEY in extra and INCOMING_MAX_KEY in extra and commit.is_ours(requested or ""):
        stats: list[WriteStat] = [
            WriteStat(min_event_time=int(extra[INCOMING_MIN_KEY]), max_event_time=int(extra[INCOMING_MAX_KEY]))
        ]
    else:
        stats = list(commit.stats)
        silent = [stat for stat in stats if stat.min_event_time is None and (stat.num_writes or stat.num_deletes)]
        if silent and completion:
            try:
                stats += _looked_up(source, silent)
            except CorruptError as error:
                return Arrival(
                    requested, completion, ViewTimes(), 0, f"what {requested} brought is not known: {error.message}"
                )
    future = sum(1 for stat in stats if stat.max_event_time is not None and stat.max_event_time > bound)
    counted = [_clipped(stat, bound) for stat in stats]
    low, high = least(*(t.completion for t in counted)), greatest(*(t.freshness for t in counted))
    return Arrival(requested, completion, ViewTimes(low, high), future)


def _looked_up(source: TableSource, silent: Iterable[WriteStat]) -> list[WriteStat]:
    """Statistics of another writer's files, from the files."""
    files = [file for stat in silent if (file := data_file(stat.path or "", stat.file_size_in_bytes or 0)) is not None]
    found = event_times_of(source).of_files(files)
    for path, told in found.items():
        if not told.is_known:
            raise CorruptError(told.reason, file=path)
    return [WriteStat(min_event_time=told.minimum, max_event_time=told.maximum) for told in found.values()]


def _clipped(stat: WriteStat, bound: int) -> ViewTimes:
    """A file's least and greatest event time, without times of the future."""
    low, high = _times(stat)
    if low is None or high is None or low > bound:
        return ViewTimes()
    return ViewTimes(low, high if high <= bound else low)


def _times(stat: WriteStat) -> tuple[int | None, int | None]:
    return stat.min_event_time, stat.max_event_time


def _split(commit: CommitMetadata) -> tuple[list[WriteStat], list[WriteStat]]:
    """Logs and base files of a commit."""
    logs: list[WriteStat] = []
    bases: list[WriteStat] = []
    for stat in commit.stats:
        file = data_file(stat.path or "", 0)
        if file is not None:
            (bases if isinstance(file, BaseFile) else logs).append(stat)
    return logs, bases


def _takes_files(commit: CommitMetadata, is_logged: bool) -> bool:
    """Whether files that were live are not any more, and count."""
    if not is_logged:
        return False
    if isinstance(commit, ReplaceCommitMetadata) or commit.operation_type in _SERVICES:
        return True
    return any(stat.prev_base_file for stat in _split(commit)[1])


def _follows(source: TableSource, before: _Before) -> bool:
    """Whether the marks of the newest commit are those of the timeline, but for what the clock does."""
    if before.newest is None:
        return not source.reader.history and not source.timeline.takers
    return before.is_newest_marked and before.marks.memory.is_settled and not _was_undone(source, before)


def _was_undone(source: TableSource, before: _Before) -> bool:
    """Whether something was taken back, or is being, since the newest commit; or another came, and is archived."""
    since = "" if before.newest is None else before.newest.completion_time or ""
    if any(taker.completion_time is None or taker.completion_time > since for taker in source.timeline.takers):
        return True
    return before.newest is not None and _is_archived_since(source, before.newest)


def _raised(marks: FreshnessMarks, before: FreshnessMarks) -> FreshnessMarks:
    return replace(marks, rt_hwm=before.rt_hwm.raised(marks.rt), ro_hwm=before.ro_hwm.raised(marks.ro))


def _before(source: TableSource, bound: int) -> _Before:
    """The newest marks, and the watermarks that were declared since."""
    passed: list[_Write] = []
    for write in _writes(source):
        marks = _marks(write.requested_time, write.commit)
        if marks is not None:
            return _since(source, marks, passed, bound)
        passed.append(write)
    return replace(_since(source, FreshnessMarks(), passed, bound), is_newest_marked=False)


def _since(
    source: TableSource,
    marks: FreshnessMarks,
    passed: list[_Write],
    bound: int,
) -> _Before:
    """Marks with what the commits since, the newest first, declared and brought."""
    declared = _declared(marks.memory.declared, *(write.commit for write in passed))
    clocks = marks.memory.clocks
    if passed and len(source.config.event_time_fields) > 1:
        arrivals = [
            (_arrival(source, write.requested_time, write.completion_time, write.commit, bound), write.commit)
            for write in reversed(passed)
        ]
        clocks = _clocks(source, clocks, arrivals, bound)
    newest = next(iter(_by_completion(source)), None)
    return _Before(marks, newest, not passed, declared, clocks)


def _declared(known: Mapping[str, int], *commits: CommitMetadata) -> dict[str, int]:
    """The watermark of each input; one that was declared earlier than before is not taken back."""
    found = dict(known)
    for commit in commits:
        for key, value in (commit.extra_metadata or {}).items():
            if key.startswith(WATERMARK_PREFIX) and value and value.removeprefix("-").isdigit():
                name = key.removeprefix(WATERMARK_PREFIX)
                found[name] = max(found.get(name, int(value)), int(value))
    return found


def _by_completion(source: TableSource) -> list[Instant]:
    return sorted(source.timeline.completed_writes, key=lambda i: i.completion_time or "", reverse=True)


@dataclass(frozen=True, slots=True)
class _Write:
    """A write that is done."""

    requested_time: str
    completion_time: str
    commit: CommitMetadata


def _writes(source: TableSource) -> Iterator[_Write]:
    """The writes that are done, the last completion first. The history is read only when it may be its turn."""
    active = _by_completion(source)
    if active and not _is_archived_since(source, active[0]):
        yield _active(source, active.pop(0))
    rest = (_active(source, instant) for instant in active)
    if active and any(
        (old.completion_time or "") > (active[-1].completion_time or "") for old in source.reader.history
    ):
        yield from heapq.merge(rest, _archived(source), key=lambda write: write.completion_time, reverse=True)
    else:
        yield from chain(rest, _archived(source))


def _active(source: TableSource, instant: Instant) -> _Write:
    return _Write(instant.requested_time, instant.completion_time or "", source.reader.commit(instant))


def _is_archived_since(source: TableSource, newest: Instant) -> bool:
    """Whether something archived completed after the newest write of the active timeline.

    The timeline is archived by the times of requests: a compaction that took long, or whose instant lies back, may be gone
    from it while writes that completed before are there.
    """
    marks = _marks(newest.requested_time, source.reader.commit(newest))
    if marks is not None and marks.memory.first and marks.memory.first == source.timeline.first_active:
        return False
    return any((old.completion_time or "") > (newest.completion_time or "") for old in source.reader.history)


def _marks(requested_time: str, commit: CommitMetadata) -> FreshnessMarks | None:
    """What a commit of ours stored."""
    return decode_freshness_marks(commit.extra_metadata) if commit.is_ours(requested_time) else None


def _archived(source: TableSource) -> Iterator[_Write]:
    """Archived writes, the last completion first."""
    if not source.reader.history:
        return
    found = source.reader.load_history(("instantTime", "completionTime", "action", "metadata"))
    for old in sorted(found, key=lambda each: each.completion_time or "", reverse=True):
        action = COMPLETES_AS.get(old.action, old.action)
        if action in WRITE_ACTIONS and old.metadata:
            kind = ReplaceCommitMetadata if action == "replacecommit" else CommitMetadata
            yield _Write(old.requested_time, old.completion_time or "", decode_record(kind, old.metadata))
