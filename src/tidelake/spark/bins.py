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
    bins: list[list[FileSlice]] = [[] for _ in range(count)]
    heap = [(0, number) for number in range(count)]
    for file_slice in sorted(slices, key=lambda s: -s.size_bytes):
        filled, number = heapq.heappop(heap)
        bins[number].append(file_slice)
        heapq.heappush(heap, (filled + file_slice.size_bytes, number))
    return [tuple(packed) for packed in bins if packed]
