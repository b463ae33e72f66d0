"""What plans and commits say of event time in their extra metadata: the threshold of a compaction, declared watermarks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_PREFIX = "tidelake.event.time."
WATERMARK_PREFIX = "tidelake.watermark."
"""Followed by an input's name: the event time, in epoch milliseconds, up to which that input said it is complete."""
DEFAULT_INPUT = "default"
"""The input of writers that have no name (``txn``)."""
ROWS_AFTER_KEY = f"{_PREFIX}rows_after_threshold"
"""In the commit of an event-time compaction: how many rows of its base files have an event time at or after T."""


@dataclass(frozen=True, slots=True)
class EventTimeMarks:
    """What an event-time compaction was planned for; in its plan, and in its commit."""

    threshold_ms: int
    """Data before T: events earlier than this, in epoch milliseconds."""
    policy: str
    barrier: str
    is_exact: bool
    field: str
    """The event-time column; several are parted by commas."""
    unit: str
    covers: bool
    """Whether every log with an event before T that had completed is in the plan."""
    reason: str = ""
    """Why it does not cover, if it does not."""

    def encode(self) -> dict[str, str]:
        """As extra metadata."""
        return {
            f"{_PREFIX}threshold": str(self.threshold_ms),
            f"{_PREFIX}policy": self.policy,
            f"{_PREFIX}barrier": self.barrier,
            f"{_PREFIX}exact": str(self.is_exact).lower(),
            f"{_PREFIX}field": self.field,
            f"{_PREFIX}unit": self.unit,
            f"{_PREFIX}covers": str(self.covers).lower(),
            **({f"{_PREFIX}reason": self.reason} if self.reason else {}),
        }


def decode_event_marks(extra: Mapping[str, str | None] | None) -> EventTimeMarks | None:
    """The marks of an event-time compaction; None if it is none of ours."""
    found = {key.removeprefix(_PREFIX): value or "" for key, value in (extra or {}).items() if key.startswith(_PREFIX)}
    threshold = found.get("threshold", "")
    if not threshold.removeprefix("-").isdigit():
        return None
    return EventTimeMarks(
        int(threshold),
        found.get("policy", ""),
        found.get("barrier", ""),
        found.get("exact") == "true",
        found.get("field", ""),
        found.get("unit", ""),
        found.get("covers") == "true",
        found.get("reason", ""),
    )


@dataclass(frozen=True, slots=True)
class SplitCounts:
    """What an exact compaction's commit says of its split."""

    left_over: int = 0
    """Records and deletes that were left in logs."""
    superseded: int = 0
    """Base rows at or after the threshold, which were left too: their versions before it are gone."""
    without_time: int = 0
    """Rows without an event time in the new base files."""

    def __add__(self, other: SplitCounts) -> SplitCounts:
        return SplitCounts(
            self.left_over + other.left_over,
            self.superseded + other.superseded,
            self.without_time + other.without_time,
        )

    def encode(self) -> dict[str, str]:
        """As extra metadata; the base files of an exact compaction hold no row at or after the threshold."""
        return {
            ROWS_AFTER_KEY: "0",
            f"{_PREFIX}left_over": str(self.left_over),
            f"{_PREFIX}superseded_before_T": str(self.superseded),
            f"{_PREFIX}without_event_time": str(self.without_time),
        }
