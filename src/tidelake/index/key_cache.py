"""The keys of base files, kept in memory between look-ups: base files never change, and a stream of writes asks again.

What is kept is bounded by its bytes. A stream of writes asks for the same files in turn, and by and by for others: were the
one to go that was asked for longest ago, nothing would be found as soon as not all fit. So who comes late rarely takes a
place, and then anybody's. Look-ups are exact: a sorted hash finds the candidate, and the key itself is compared.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidelake import _limits

Hashes = npt.NDArray[np.uint64]
_ADMITTED_OF = 4
"""Of so many files for which others have to go, one is kept."""


@dataclass(frozen=True, slots=True)
class FileKeys:
    """The keys of one base file, by their hashes."""

    keys: pa.Array
    hashes: Hashes
    """Sorted."""
    order: npt.NDArray[np.int32]
    """At which row the key of each hash is."""
    is_distinct: bool

    @staticmethod
    def of(keys: pa.Array, hashes: Hashes | None = None) -> FileKeys:
        hashes = key_hashes(keys) if hashes is None else hashes
        order = np.argsort(hashes)
        hashes = hashes[order]
        return FileKeys(keys, hashes, order.astype(np.int32), not bool((hashes[1:] == hashes[:-1]).any()))

    def present(self, wanted: WantedKeys) -> npt.NDArray[np.int64]:
        """The rows of the wanted keys that the file has."""
        if not self.is_distinct:  # a key stands twice, or two keys have one hash
            return np.flatnonzero(np.asarray(pc.is_in(wanted.keys, value_set=self.keys)))
        if len(self.hashes) == 0 or len(wanted.hashes) == 0:
            return np.empty(0, dtype=np.int64)
        # The fewer are looked for among the more.
        if wanted.is_distinct and len(self.hashes) < len(wanted.hashes):
            mine, theirs = _meeting(self.hashes, wanted.hashes)
        else:
            theirs, mine = _meeting(wanted.hashes, self.hashes)
        if len(mine) == 0:
            return mine
        rows = wanted.order[theirs]
        same = pc.equal(wanted.keys.take(pa.array(rows)), self.keys.take(pa.array(self.order[mine])))
        found: npt.NDArray[np.int64] = rows[np.asarray(same)]
        return found

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        return int(self.keys.nbytes + self.hashes.nbytes + self.order.nbytes)


@dataclass(frozen=True, slots=True)
class WantedKeys:
    """Keys to be looked for in some files."""

    keys: pa.Array
    hashes: Hashes
    """Sorted: so those of a file are gone through once, from one end to the other."""
    order: npt.NDArray[np.int64]
    is_distinct: bool

    @staticmethod
    def of(keys: pa.Array, hashes: Hashes | None = None) -> WantedKeys:
        hashes = key_hashes(keys) if hashes is None else hashes
        order = np.argsort(hashes)
        hashes = hashes[order]
        return WantedKeys(keys, hashes, order, not bool((hashes[1:] == hashes[:-1]).any()))


def _meeting(fewer: Hashes, more: Hashes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where equal hashes are in both; those of ``more`` are distinct."""
    at = np.minimum(np.searchsorted(more, fewer), len(more) - 1)
    here = np.flatnonzero(more[at] == fewer)
    return here, at[here]


def key_hashes(keys: pa.Array) -> Hashes:
    """A hash of each key, the same within this process."""
    return pl.Series("key", keys, dtype=pl.String).hash().to_numpy()


class KeyCache:
    """The keys of some of the base files that were asked for. For any number of threads."""

    def __init__(self, bound_bytes: int) -> None:
        self._bound_bytes = bound_bytes
        self._files: dict[tuple[str, str, int], FileKeys] = {}
        self._names: list[tuple[str, str, int]] = []
        self._bytes = 0
        self._guard = threading.Lock()
        self._state = 1

    def get(self, file: tuple[str, str, int]) -> FileKeys | None:
        """What is kept of a file (its table, path and size)."""
        return self._files.get(file)

    def put(self, file: tuple[str, str, int], keys: FileKeys) -> None:
        """Keep a file's keys, if there is room or it is its turn; never if they alone are more than may be kept."""
        size = keys.size_bytes
        with self._guard:
            is_full = self._bytes + size > self._bound_bytes
            if file in self._files or size > self._bound_bytes or (is_full and self._drawn(_ADMITTED_OF)):
                return
            self._make_room(self._bound_bytes - size)
            self._files[file] = keys
            self._names.append(file)
            self._bytes += size

    def limit(self, bound_bytes: int) -> None:
        """Keep no more than this from now on."""
        with self._guard:
            self._bound_bytes = min(self._bound_bytes, bound_bytes)
            self._make_room(self._bound_bytes)

    def _make_room(self, bytes_left: int) -> None:
        while self._bytes > bytes_left:
            at = self._drawn(len(self._names))
            self._names[at], self._names[-1] = self._names[-1], self._names[at]
            self._bytes -= self._files.pop(self._names.pop()).size_bytes

    def _drawn(self, below: int) -> int:
        """A number from a simple generator: all that counts is that it follows no pattern of the files."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self._state >> 33) % below


KEPT = KeyCache(_limits.KEY_CACHE_BYTES)
"""This process's."""
