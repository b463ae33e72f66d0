"""Finding the keys of base rows among those of a log side, batch by batch and whole arrays at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.index import Hashes, key_hashes
from tidelake.merge.arrays import Places
from tidelake.merge.fold import FEW_KEYS

_MOST_ROUNDS = 100
"""Of half a table's slots that are taken, a good hash leaves no run as long as this among billions of keys."""


class KeyLookup:
    """Finds keys of base rows among the keys of the log side.

    Many keys are found by a 64-bit hash and then compared, since a table of texts would be made anew for each batch. Few
    keys are looked up as texts, and so are all if their hashes tell too little.
    """

    def __init__(self, keys: pl.Series) -> None:
        self._keys = pc.cast(keys.to_arrow(), pa.string())
        self._table = HashTable.of(key_hashes(self._keys)) if len(keys) > FEW_KEYS else None
        self._met = np.zeros(len(keys), dtype=np.bool_)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def is_distinct(self) -> bool:
        """Whether no key stands twice."""
        return self._table is not None or len(self._keys.unique()) == len(self._keys)

    def find(self, keys: pa.Array) -> Places:
        """For each key its place on the log side, -1 where it has none; each place is given out once."""
        places = self._text_places(keys) if self._table is None else self._hash_places(keys, self._table)
        rows = np.flatnonzero(places >= 0)
        found = places[rows]
        first = np.empty(len(self._keys), dtype=np.int64)
        first[found[::-1]] = rows[::-1]
        again = (first[found] != rows) | self._met[found]
        if again.any():
            places[rows[again]] = -1
        self._met[found] = True
        return places

    def _hash_places(self, keys: pa.Array, table: HashTable) -> Places:
        places = table.find(key_hashes(keys))
        rows = np.flatnonzero(places >= 0)
        same = pc.equal(keys.take(pa.array(rows)), self._keys.take(pa.array(places[rows])))
        places[rows[~np.asarray(pc.fill_null(same, False))]] = -1
        return places

    def _text_places(self, keys: pa.Array) -> Places:
        return np.asarray(pc.fill_null(pc.index_in(keys, value_set=self._keys), -1)).astype(np.int64)


class HashTable:
    """The places of distinct hashes, made once and asked for each batch.

    A hash's highest bits are its slot; if that is taken, the next one is tried. All hashes try at once, round by round.
    """

    def __init__(self, hashes: Hashes, slots: npt.NDArray[np.int32]) -> None:
        self._hashes = hashes
        self._slots = slots

    @staticmethod
    def of(hashes: Hashes) -> HashTable | None:
        """None if there are none, two are equal, or too many crowd into the same slots."""
        if len(hashes) == 0:
            return None
        bits = (2 * len(hashes) - 1).bit_length()
        slots = np.full(1 << bits, -1, dtype=np.int32)
        table = HashTable(hashes, slots)
        left = np.arange(len(hashes), dtype=np.int32)
        slot = table._first(hashes)
        for _ in range(_MOST_ROUNDS):
            is_free = slots[slot] < 0
            slots[slot[is_free]] = left[is_free]
            holder = slots[slot]
            lost = holder != left
            if (hashes[holder[lost]] == hashes[left[lost]]).any():
                return None
            left, slot = left[lost], table._next(slot[lost])
            if len(left) == 0:
                return table
        return None

    def find(self, hashes: Hashes) -> Places:
        """For each hash its place, -1 where it has none."""
        slot = self._first(hashes)
        places = self._slots[slot].astype(np.int64)
        left = np.flatnonzero((places >= 0) & (self._hashes[places] != hashes))
        while len(left):
            slot[left] = self._next(slot[left])
            here = self._slots[slot[left]]
            places[left] = here
            left = left[(here >= 0) & (self._hashes[here] != hashes[left])]
        return places

    def _first(self, hashes: Hashes) -> Places:
        bits = (len(self._slots) - 1).bit_length()
        return (hashes >> np.uint64(64 - bits)).astype(np.int64)

    def _next(self, slot: Places) -> Places:
        return (slot + 1) & (len(self._slots) - 1)
