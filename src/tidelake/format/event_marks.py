"""What plans and commits say of event time in their extra metadata: the threshold of a compaction, declared watermarks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_PREFIX = "tidelake.event.time."
WATERMARK_PREFIX = "tidelake.watermark."
"""Followed by an input's name: the event time, in epoch milliseconds, up to which that input said it is complete."""
DEFAULT_INPUT = "default"
"""The input of writers that have no name (``txn``)."""


@dataclass(frozen=True, slots=True)
class EventTimeMarks:
    """What an event-time compaction was planned for; in its plan, and in its commit."""

    threshold_ms: int
    """Data before T: events earlier than this, in epoch milliseconds."""
    policy: str
    barrier: str
    is_exact: bool
    field: str
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
