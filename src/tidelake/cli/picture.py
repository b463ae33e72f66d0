"""The timeline as bars on a common scale. Pure: spans in, characters out.

Time in which some instant ran is drawn to scale. Time in which none did (an *idle gap*) takes one column at most, or a
night between two commits would squeeze both into one character. Instants that have not completed are open-ended: they
run to the right edge, and do not make the idle time under them count as busy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Span:
    """One instant: when it began and ended, in milliseconds; an end of None is still open."""

    start_ms: int
    end_ms: int | None


@dataclass(frozen=True, slots=True)
class Marks:
    """The characters of a picture."""

    bar: str
    open_end: str
    axis: str
    gap: str


UNICODE_MARKS = Marks("█", "▶", "─", "┊")
ASCII_MARKS = Marks("#", ">", "-", ":")


@dataclass(frozen=True, slots=True)
class Scale:
    """Moments to columns: piecewise linear between ``points``, which lie at ``columns``."""

    width: int
    points: tuple[int, ...]
    columns: tuple[float, ...]
    gaps: tuple[tuple[int, int], ...]
    busy_ms_per_column: float

    @property
    def longest_gap_ms(self) -> int:
        """The longest of the idle gaps that are drawn as one column."""
        return max((end - start for start, end in self.gaps), default=0)

    def column(self, moment_ms: int) -> float:
        """Where a moment lies, from 0 to ``width``."""
        index = bisect_right(self.points, moment_ms) - 1
        if index < 0:
            return 0.0
        if index >= len(self.points) - 1:
            return self.columns[-1]
        left, right = self.points[index], self.points[index + 1]
        share = (moment_ms - left) / (right - left)
        return self.columns[index] + share * (self.columns[index + 1] - self.columns[index])

    def bar(self, span: Span | None, marks: Marks) -> str:
        """The span's line: blanks, then its bar, at least one character."""
        if span is None:
            return ""
        # Both ends are rounded alike, so that bars of instants that did not overlap share no column.
        first = min(self.width - 1, int(self.column(span.start_ms) + 0.5))
        if span.end_ms is None:
            return " " * first + marks.bar * (self.width - 1 - first) + marks.open_end
        behind = min(self.width, max(first + 1, int(self.column(span.end_ms) + 0.5)))
        return " " * first + marks.bar * (behind - first)

    def axis(self, marks: Marks) -> str:
        """The head's line: the axis, with a mark where idle time was cut."""
        cells = [marks.axis] * self.width
        for start, end in self.gaps:
            middle = (self.column(start) + self.column(end)) / 2
            cells[min(self.width - 1, int(middle))] = marks.gap
        return "".join(cells)


def make_scale(spans: Sequence[Span], width: int) -> Scale:
    """The common scale of these spans."""
    points = sorted({s.start_ms for s in spans} | {s.end_ms for s in spans if s.end_ms is not None})
    steps = list(pairwise(points))
    busy = _busy(spans, steps)
    busy_ms = sum(end - start for (start, end), is_busy in zip(steps, busy, strict=True) if is_busy)
    idle_ms = sum(end - start for (start, end), is_busy in zip(steps, busy, strict=True) if not is_busy)
    # A gap weighs what one column of busy time weighs; if nothing was ever busy, gaps share the width.
    limit_ms = busy_ms / width if busy_ms else max(1.0, idle_ms / width)
    columns = [0.0]
    gaps: list[tuple[int, int]] = []
    for (start, end), is_busy in zip(steps, busy, strict=True):
        is_cut = not is_busy and end - start > limit_ms
        if is_cut:
            gaps.append((start, end))
        columns.append(columns[-1] + (limit_ms if is_cut else end - start))
    # What is open goes on after the last moment known: two columns are left for it.
    drawn = width - 2 if any(s.end_ms is None for s in spans) else width
    per_column = (columns[-1] or 1.0) / drawn
    return Scale(width, tuple(points), tuple(c / per_column for c in columns), tuple(gaps), per_column)


def _busy(spans: Sequence[Span], steps: Sequence[tuple[int, int]]) -> list[bool]:
    """Which steps between neighbouring points some completed span covers."""
    starts = sorted(s.start_ms for s in spans if s.end_ms is not None)
    ends = sorted(s.end_ms for s in spans if s.end_ms is not None)
    return [bisect_right(starts, start) > bisect_right(ends, start) for start, _ in steps]
