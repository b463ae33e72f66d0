"""Instants, times, and reading them from storage."""

from tidelake.timeline.instant import WRITE_ACTIONS, Instant, Timeline
from tidelake.timeline.load import TimelineReader, load_config, load_timeline
from tidelake.timeline.times import (
    InstantGenerator,
    as_epoch_ms,
    as_instant,
    format_instant,
    next_instant,
    parse_instant,
    parse_said,
    previous_instant,
    refuse_finer,
    timeline_zone,
)

__all__ = [
    "WRITE_ACTIONS",
    "Instant",
    "InstantGenerator",
    "Timeline",
    "TimelineReader",
    "as_epoch_ms",
    "as_instant",
    "format_instant",
    "load_config",
    "load_timeline",
    "next_instant",
    "parse_instant",
    "parse_said",
    "previous_instant",
    "refuse_finer",
    "timeline_zone",
]
