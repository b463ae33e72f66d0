"""Running slice readers: the protocol, and the engine in this process.

What runs is a plain function on Arrow data, so every engine gives the same rows. The local engine reads slices side by
side on threads (parquet decoding and merging release the interpreter lock) and keeps a bounded number of them in
memory ahead of the consumer.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import pyarrow as pa

from tidelake.filegroup import FileSlice
from tidelake.query import ScanPlan, read_slice
from tidelake.storage import Storage


class Executor(Protocol):
    """Reads the slices of a plan."""

    def read(self, storage: Storage, plan: ScanPlan) -> Iterator[pa.RecordBatch]:
        """The rows of all slices."""
        ...


class LocalExecutor:
    """Threads of this process; no JVM."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or max(1, os.cpu_count() or 1)

    def read(self, storage: Storage, plan: ScanPlan) -> Iterator[pa.RecordBatch]:
        slices = sorted(plan.slices, key=lambda s: -s.size_bytes)
        if len(slices) <= 1 or self._threads == 1:
            for file_slice in slices:
                yield from read_slice(storage, plan, file_slice, use_threads=True)
            return

        def read_one(file_slice: FileSlice) -> list[pa.RecordBatch]:
            return list(read_slice(storage, plan, file_slice))

        yield from _in_order(slices, read_one, self._threads)


def _in_order(
    slices: Sequence[FileSlice], read_one: Callable[[FileSlice], list[pa.RecordBatch]], threads: int
) -> Iterator[pa.RecordBatch]:
    waiting = iter(slices)
    with ThreadPoolExecutor(threads) as pool:
        running: deque[Future[list[pa.RecordBatch]]] = deque()
        try:
            for file_slice in waiting:
                running.append(pool.submit(read_one, file_slice))
                if len(running) > threads:
                    yield from running.popleft().result()
            while running:
                yield from running.popleft().result()
        finally:
            for future in running:
                future.cancel()
