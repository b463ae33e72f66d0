"""The threshold T of an event-time compaction: *data before T* are events earlier than T.

T follows from the instant of planning, the options and the timeline alone, so that a retry finds the same. A user's own rule
is a class with the method ``calc_event_time_threshold``, registered with ``tl.register_strategy``.

An event time far in the future is one machine's wrong clock, and would move T past data that is still to come. So times later
than an hour after now are counted, and do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timezone, tzinfo
from typing import Protocol, runtime_checkable
from zoneinfo import ZoneInfo

import pyarrow.compute as pc

from tidelake._cached import cached
from tidelake._clock import utc_from_ms
from tidelake.config import (
    EVENT_TIME_DELAY,
    EVENT_TIME_FLOOR,
    EVENT_TIME_IDLE,
    EVENT_TIME_LAG,
    EVENT_TIME_LATENESS,
    EVENT_TIME_POLICY,
    EVENT_TIME_THRESHOLD,
    EVENT_TIME_ZONE,
)
from tidelake.errors import InvalidError
from tidelake.filegroup import load_state
from tidelake.format.event_marks import WATERMARK_PREFIX
from tidelake.query import TableSource
from tidelake.services.strategy import (
    Composed,
    IncrementalPartitionAwareStrategy,
    ServiceConfig,
    ServiceStrategy,
    register_strategy,
)
from tidelake.timeline import as_instant, format_instant, parse_instant, parse_said, refuse_finer, timeline_zone

EVENT_TIME = "event_time"
"""The name of our strategy."""
FUTURE_MS = 3_600_000
"""Events later than this after now do not count."""


@dataclass(frozen=True)
class EventTimeConfig(ServiceConfig):
    """What a threshold may follow from: beside the table and the options, the events that its timeline has seen."""

    source: TableSource | None = field(default=None, repr=False)

    @property
    def zone(self) -> tzinfo | None:
        """The zone of the table's instants, and of T."""
        if self.table.timezone_is_utc:
            return timeline_zone(True)
        name = EVENT_TIME_ZONE.of(self.options)
        if not name:
            raise InvalidError(
                "the table's timeline has the zone LOCAL, in which event times cannot be compared with its instants",
                table=self.table.name,
                hint=f"say which zone that is with the option {EVENT_TIME_ZONE.key}",
            )
        return ZoneInfo(name)

    @property
    def users_zone(self) -> tzinfo | None:
        """The zone in which a user says times."""
        name = EVENT_TIME_ZONE.of(self.options)
        return ZoneInfo(name) if name else self.zone

    @cached
    def seen(self) -> EventsSeen:
        """The events that the timeline has seen."""
        if self.source is None:
            return EventsSeen((), ())
        return _events_seen(self.source)


@dataclass(frozen=True, slots=True)
class InputMark:
    """What one input declared last: that it is complete up to an event time."""

    name: str
    watermark_ms: int
    declared: str
    """When its last declaring commit completed."""


@dataclass(frozen=True, slots=True)
class EventsSeen:
    """The (least, greatest) event times of files, and what inputs declared."""

    ranges: tuple[tuple[int, int], ...]
    marks: tuple[InputMark, ...]

    def latest(self, limit_ms: int) -> int | None:
        """The greatest event time seen that is not after a limit; of a file that goes beyond it its least one counts."""
        found = [high if high <= limit_ms else low for low, high in self.ranges if low <= limit_ms]
        return max(found, default=None)

    def count_after(self, limit_ms: int) -> int:
        """How many files and watermarks have a time after a limit."""
        files = sum(1 for _, high in self.ranges if high > limit_ms)
        return files + sum(1 for mark in self.marks if mark.watermark_ms > limit_ms)


@runtime_checkable
class FindsThreshold(Protocol):
    """A strategy that compacts by event time."""

    def calc_event_time_threshold(self, compaction_instant: str, config: EventTimeConfig) -> str:
        """T as an instant time, in the zone of the table's timeline; empty if there is none yet."""
        ...


class EventTimeBasedCompactionStrategy(ServiceStrategy, IncrementalPartitionAwareStrategy):
    """The data before a threshold: file groups with a log that holds, or may hold, an event earlier than T."""

    def calc_event_time_threshold(self, compaction_instant: str, config: EventTimeConfig) -> str:
        """T by the policy that the options name; a function of the instant, the options and the timeline."""
        return POLICIES[EVENT_TIME_POLICY.of(config.options)](compaction_instant, config)


def finder_of(strategy: ServiceStrategy) -> FindsThreshold | None:
    """The part of a strategy that compacts by event time, if there is one."""
    parts = strategy.parts if isinstance(strategy, Composed) else (strategy,)
    found = [part for part in parts if isinstance(part, FindsThreshold)]
    if len(found) > 1:
        raise InvalidError("two strategies cannot both give the threshold", value=type(found[1]).__name__)
    return found[0] if found else None


def threshold_of(finder: FindsThreshold, instant: str, config: EventTimeConfig) -> str | None:
    """T as an instant time of full length; None if there is none yet."""
    text = finder.calc_event_time_threshold(instant, config)
    if not isinstance(text, str):
        raise InvalidError(
            f"the threshold of {type(finder).__name__} is {text!r}, and must be text", value=type(text).__name__
        )
    return _whole(text) if text else None


def in_words(threshold_ms: int) -> str:
    """T for people."""
    return utc_from_ms(threshold_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fixed(instant: str, config: EventTimeConfig) -> str:
    text = EVENT_TIME_THRESHOLD.of(config.options).strip()
    if not text:
        raise InvalidError(
            "a compaction by event time needs its threshold",
            table=config.table.name,
            hint=f"give threshold=, or a policy other than FIXED with {EVENT_TIME_POLICY.key}",
        )
    if text.isascii() and text.isdigit():
        return _whole(text)  # in the zone of the timeline, as instants are
    refuse_finer(text)
    zone = config.users_zone
    return format_instant(parse_instant(as_instant(text, zone), zone), config.zone)


def _floor(instant: str, config: EventTimeConfig) -> str:
    late = utc_from_ms(parse_instant(instant, config.zone) - EVENT_TIME_DELAY.of(config.options))
    here = late.astimezone(config.users_zone)
    unit = EVENT_TIME_FLOOR.of(config.options)
    floored = here.replace(second=0, microsecond=0)
    if unit != "minute":
        floored = floored.replace(minute=0)
    if unit == "day":
        floored = floored.replace(hour=0, fold=0)
    return format_instant(round(floored.timestamp() * 1000), config.zone)


def _lag(instant: str, config: EventTimeConfig) -> str:
    latest = config.seen.latest(_limit_ms(instant, config))
    return "" if latest is None else format_instant(latest - EVENT_TIME_LAG.of(config.options), config.zone)


def _watermark(instant: str, config: EventTimeConfig) -> str:
    limit = _limit_ms(instant, config)
    marks = [mark for mark in config.seen.marks if mark.watermark_ms <= limit]
    if marks:
        idle_ms = EVENT_TIME_IDLE.of(config.options)
        now_ms = parse_instant(instant, config.zone)
        live = [mark for mark in marks if now_ms - parse_instant(mark.declared, config.zone) <= idle_ms]
        # Where all are idle none holds another back, and none has said more than it has.
        found: int | None = min(mark.watermark_ms for mark in live or marks)
    else:
        found = config.seen.latest(limit)
    return "" if found is None else format_instant(found - EVENT_TIME_LATENESS.of(config.options), config.zone)


POLICIES: dict[str, Callable[[str, EventTimeConfig], str]] = {
    "FIXED": _fixed,
    "FLOOR": _floor,
    "LAG": _lag,
    "WATERMARK": _watermark,
}


def _limit_ms(instant: str, config: EventTimeConfig) -> int:
    return parse_instant(instant, config.zone) + FUTURE_MS


def future_count(instant: str, config: EventTimeConfig) -> int:
    """How many files and watermarks of the timeline have times that do not count."""
    return config.seen.count_after(_limit_ms(instant, config))


def _whole(text: str) -> str:
    """Digits of an instant as all seventeen; a second stands for its beginning, as T does."""
    if not (text.isascii() and text.isdigit() and len(text) in (8, 14, 17)):
        raise InvalidError(f"the threshold {text!r} is no instant time (yyyyMMddHHmmssSSS)", value=text)
    whole = text.ljust(17, "0")
    parse_said(whole, timezone.utc)
    return whole


def _events_seen(source: TableSource) -> EventsSeen:
    """What the commits on the timeline say, and, of archived ones, what the table state keeps."""
    ranges: set[tuple[int, int]] = set()
    marks: dict[str, InputMark] = {}
    writes = source.timeline.completed_writes
    commits = source.reader.commits(writes)
    for instant in sorted(writes, key=lambda i: i.completion_time or ""):
        commit = commits[instant.requested_time]
        for stat in commit.stats:
            if stat.min_event_time is not None and stat.max_event_time is not None:
                ranges.add((stat.min_event_time, stat.max_event_time))
        for name, value in _declared(commit.extra_metadata or {}):
            before = marks.get(name)
            known = value if before is None else max(value, before.watermark_ms)
            marks[name] = InputMark(name, known, instant.completion_time or instant.requested_time)
    if source.reader.history:
        ranges |= _stored_ranges(source)
    return EventsSeen(tuple(sorted(ranges)), tuple(marks.values()))


def _declared(extra: dict[str, str]) -> Iterable[tuple[str, int]]:
    for key, text in extra.items():
        if key.startswith(WATERMARK_PREFIX) and text.removeprefix("-").isdigit():
            yield key.removeprefix(WATERMARK_PREFIX), int(text)


def _stored_ranges(source: TableSource) -> set[tuple[int, int]]:
    state = load_state(source.storage, source.config, source.timeline, source.reader)
    if state is None:
        return set()
    files = state.file_statistics().select(["min_event_ms", "max_event_ms"])
    files = files.filter(pc.and_(pc.is_valid(files["min_event_ms"]), pc.is_valid(files["max_event_ms"])))
    distinct = files.group_by(files.column_names).aggregate([])
    return set(zip(distinct["min_event_ms"].to_pylist(), distinct["max_event_ms"].to_pylist(), strict=True))


register_strategy(EVENT_TIME, EventTimeBasedCompactionStrategy)
