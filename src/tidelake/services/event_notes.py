"""What a pass of a compaction by event time says of itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EventTimeNotes:
    """T and P of a plan, or why there is none."""

    threshold: str
    """T, such as 2026-01-02T00:00:00.000Z; empty if there is none yet."""
    instant: str | None
    """P, the instant of the plan and of its base files."""
    policy: str
    barrier: str
    covers: bool
    """Whether all data before T that had arrived will be in base files."""
    reason: str = ""
    """Why it does not cover, or why there is no plan."""
    is_exact: bool = False
    ignored: int = 0
    """Files and watermarks with a time more than an hour after now, which did not count."""

    def __str__(self) -> str:
        head = f"data before {self.threshold or 'no threshold yet'} ({self.policy}, {self.barrier})"
        words = [head, "no plan" if self.instant is None else f"base files at {self.instant}"]
        if self.instant is not None:
            words.append("covers all that has arrived" if self.covers else "does not cover all that has arrived")
        words += [self.reason] if self.reason else []
        words += [f"{self.ignored} times more than an hour ahead were ignored"] if self.ignored else []
        return "; ".join(words)
