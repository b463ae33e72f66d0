"""Measuring: interleaved repetitions, medians, ratios, and a table of results."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Results:
    """Ratios of one run, printed as they come and collected for the report."""

    rows: list[tuple[str, float, float, float, float]] = field(default_factory=list)

    def compare(
        self, what: str, ours: Callable[[], object], floor: Callable[[], object], aim: float, repeats: int = 5
    ) -> float:
        """Run both in turns; print medians in seconds, their ratio, and the aim."""
        mine, theirs = timed_in_turns((ours, floor), repeats)
        return self._report(what, mine, theirs, aim)

    def against(self, what: str, ours: Callable[[], object], theirs_s: float, aim: float, repeats: int = 3) -> float:
        """As ``compare``, where the other one was measured in a process of its own, just before."""
        (mine,) = timed_in_turns((ours,), repeats)
        return self._report(what, mine, theirs_s, aim)

    def _report(self, what: str, mine: float, theirs: float, aim: float) -> float:
        ratio = mine / theirs
        self.rows.append((what, mine, theirs, ratio, aim))
        verdict = "ok" if ratio <= aim else "MISS"
        print(f"{what:<62} {mine:8.3f} s  {theirs:8.3f} s  {ratio:6.2f} x  (aim <= {aim:.2f})  {verdict}", flush=True)
        return ratio


def timed_in_turns(tasks: tuple[Callable[[], object], ...], repeats: int) -> list[float]:
    """The median time of each task; tasks take turns, after one round that is not counted."""
    times: list[list[float]] = [[] for _ in tasks]
    for round_number in range(repeats + 1):
        for task, found in zip(tasks, times, strict=True):
            gc.collect()
            started = time.perf_counter()
            task()
            if round_number:
                found.append(time.perf_counter() - started)
    return [statistics.median(found) for found in times]
