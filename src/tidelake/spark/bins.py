"""Packing slices into tasks: few enough to start quickly, small enough to spread."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from tidelake._limits import MIB
from tidelake.filegroup import FileSlice

BIN_BYTES = 32 * MIB
LEAST_BINS = 16


def pack(slices: Sequence[FileSlice]) -> list[tuple[FileSlice, ...]]:
    """Slices in bins of about equal bytes; a slice is never split."""
    if not slices:
        return []
    total = sum(s.size_bytes for s in slices)
    count = min(len(slices), max(LEAST_BINS, -(-total // BIN_BYTES)))
    return [tuple(slices[number] for number in bin) for bin in balanced([s.size_bytes for s in slices], count)]


def balanced(sizes: Sequence[int], count: int) -> list[list[int]]:
    """The numbers of things of these sizes, in bins of about equal bytes."""
    bins: list[list[int]] = [[] for _ in range(min(count, len(sizes)))]
    heap = [(0, number) for number in range(len(bins))]
    for thing in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        filled, number = heapq.heappop(heap)
        bins[number].append(thing)
        heapq.heappush(heap, (filled + sizes[thing], number))
    return [packed for packed in bins if packed]
