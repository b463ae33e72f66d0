"""Options of compaction by event time: how the threshold T follows, and how far back its barrier P may lie."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from tidelake.config.options import Option, choice, duration_ms


def _zone(text: str) -> str:
    name = text.strip()
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise ValueError("it must be the name of a time zone, such as UTC or Europe/Oslo") from None
    return name


EVENT_TIME_POLICY: Option[str] = Option(
    "hoodie.compaction.event.time.policy",
    "service",
    "FIXED",
    "How the strategy event_time finds its threshold T: FIXED (as given), FLOOR (now less a delay, floored in a zone), LAG "
    "(the latest event seen less a lag) or WATERMARK (the least of the inputs' watermarks less the allowed lateness).",
    choice(fixed="FIXED", floor="FLOOR", lag="LAG", watermark="WATERMARK"),
)
EVENT_TIME_THRESHOLD: Option[str] = Option(
    "hoodie.compaction.event.time.threshold",
    "service",
    "",
    "FIXED: the threshold T, such as 2026-01-02T00:00:00Z; data before T means events earlier than it.",
    str,
)
EVENT_TIME_DELAY: Option[int] = Option(
    "hoodie.compaction.event.time.delay", "service", 0, "FLOOR: how far T stays behind the clock.", duration_ms
)
EVENT_TIME_FLOOR: Option[str] = Option(
    "hoodie.compaction.event.time.floor",
    "service",
    "hour",
    "FLOOR: to what T is floored: minute, hour or day.",
    choice(minute="minute", hour="hour", day="day"),
)
EVENT_TIME_ZONE: Option[str] = Option(
    "hoodie.compaction.event.time.zone",
    "service",
    "",
    "The time zone in which T is floored and a threshold without an offset stands, UTC by default; a table whose timeline "
    "has the zone LOCAL must say here which zone that is.",
    _zone,
)
EVENT_TIME_LAG: Option[int] = Option(
    "hoodie.compaction.event.time.lag", "service", 0, "LAG: how far T stays behind the latest event seen.", duration_ms
)
EVENT_TIME_LATENESS: Option[int] = Option(
    "hoodie.compaction.event.time.lateness",
    "service",
    0,
    "WATERMARK: how much later than its input's watermark an event may be.",
    duration_ms,
)
EVENT_TIME_IDLE: Option[int] = Option(
    "hoodie.compaction.event.time.idle.timeout",
    "service",
    3_600_000,
    "WATERMARK: after how long without a commit an input holds the others back no more.",
    duration_ms,
)
EVENT_TIME_BARRIER: Option[str] = Option(
    "hoodie.compaction.event.time.barrier",
    "service",
    "COVERING",
    "Which logs are compacted: COVERING (all up to the last one with an event before T) or AT_THRESHOLD (those that "
    "completed before T).",
    choice(covering="COVERING", at_threshold="AT_THRESHOLD"),
)
EVENT_TIME_LATE_DELAY: Option[int] = Option(
    "hoodie.compaction.event.time.late.delay",
    "service",
    600_000,
    "How long a log with late events waits for others after T was compacted.",
    duration_ms,
)
EVENT_TIME_BACKDATE: Option[str] = Option(
    "hoodie.compaction.event.time.backdate",
    "service",
    "bounded",
    "How far back the instant of a plan may lie: bounded (so that Apache Hudi's cleaner leaves readers time), or any, where "
    "only Tidelake cleans.",
    choice(bounded="bounded", any="any"),
)
EVENT_TIME_TARGET_LAG: Option[int] = Option(
    "hoodie.compaction.event.time.target.lag",
    "service",
    0,
    "How far the completion of the read-optimised view may stay behind the clock, such as 15m: the service runner compacts "
    "the file groups that hold it back further, and no others; 0 is no target.",
    duration_ms,
)

EVENT_TIME_OPTIONS: tuple[Option[str] | Option[int], ...] = (
    EVENT_TIME_POLICY,
    EVENT_TIME_THRESHOLD,
    EVENT_TIME_DELAY,
    EVENT_TIME_FLOOR,
    EVENT_TIME_ZONE,
    EVENT_TIME_LAG,
    EVENT_TIME_LATENESS,
    EVENT_TIME_IDLE,
    EVENT_TIME_BARRIER,
    EVENT_TIME_LATE_DELAY,
    EVENT_TIME_BACKDATE,
    EVENT_TIME_TARGET_LAG,
)
