"""Running tasks of a service: the protocol, and the engine in this process. What runs is a plain function."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from tidelake._progress import current
from tidelake.storage import Storage

T = TypeVar("T")
R = TypeVar("R")

Work = Callable[[Storage, T, int], R]
"""Does one task; the number is that of the attempt, and no two attempts of a run share it."""


class TaskRunner(Protocol):
    """Runs the tasks of a service."""

    def run(self, storage: Storage, work: Work[T, R], tasks: Sequence[T], sizes: Sequence[int]) -> list[R]:
        """What each task gave, in their order; ``sizes`` are the bytes that each reads."""
        ...


class LocalRunner:
    """Threads of this process; no JVM."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or max(1, os.cpu_count() or 1)

    def run(self, storage: Storage, work: Work[T, R], tasks: Sequence[T], sizes: Sequence[int]) -> list[R]:
        """Side by side; the largest first, so that the last one to end is small."""
        shown = current()
        order = sorted(range(len(tasks)), key=lambda number: -sizes[number])
        with ThreadPoolExecutor(self._threads) as pool:
            done = list(pool.map(lambda number: shown.step(work(storage, tasks[number], number)), order))
        return [result for _, result in sorted(zip(order, done, strict=True), key=lambda pair: pair[0])]
