"""Measuring: interleaved repetitions, medians, ratios, and a table of results."""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Results:
    """Ratios of one run, printed as they come and collected for the report."""

    rows: list[tuple[str, float, float, float, float]] = field(default_factory=list)

    def compare(
        self, what: str, ours: Callable[[], object], floor: Callable[[], object], aim: float, repeats: int = 5
    ) -> float:
        """Run both in turns; print medians in seconds, their ratio, and the aim."""
        mine, theirs = timed_in_turns((ours, floor), repeats)
        return self.report(what, mine, theirs, aim)

    def against(self, what: str, ours: Callable[[], object], theirs_s: float, aim: float, repeats: int = 3) -> float:
        """As ``compare``, where the other one was measured in a process of its own, just before."""
        (mine,) = timed_in_turns((ours,), repeats)
        return self.report(what, mine, theirs_s, aim)

    def report(self, what: str, mine: float, theirs: float, aim: float) -> float:
        """Print two times, their ratio, and the aim."""
        ratio = mine / theirs
        self.rows.append((what, mine, theirs, ratio, aim))
        verdict = "ok" if ratio <= aim else "MISS"
        print(f"{what:<62} {mine:8.3f} s  {theirs:8.3f} s  {ratio:6.2f} x  (aim <= {aim:.2f})  {verdict}", flush=True)
        return ratio


def timed(task: Callable[[], object]) -> float:
    """Seconds that a task takes."""
    started = time.perf_counter()
    task()
    return time.perf_counter() - started


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


def apache_hudi(*words: str) -> dict[str, Any] | None:
    """What Apache Hudi on Spark took, in a process and an environment of its own; None if that is not set up."""
    home = Path(os.environ.get("TIDELAKE_HUDI_ENV", "var/hudi-env"))
    jar = os.environ.get("HUDI_BUNDLE_JAR") or next((str(path) for path in home.glob("hudi-spark*.jar")), None)
    if not (home / "bin" / "python").exists() or jar is None:
        return None
    command = [str(home / "bin" / "python"), "bench/hudi_jvm.py", jar, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
