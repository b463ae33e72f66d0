"""Keys of base rows among many of a log side: by hashes, and exactly as by texts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tidelake.merge.fold import FEW_KEYS
from tidelake.merge.key_lookup import HashTable, KeyLookup

MANY = FEW_KEYS + 5_000


@pytest.mark.parametrize("shift", [0, 40])
def test_hash_table_random_hashes_found_as_by_a_dict(shift: int) -> None:
    random = np.random.default_rng(7)
    top = np.uint64(0xFFFFFF) << np.uint64(40) if shift else np.uint64(0)
    # All ones above: many begin in the last slots, and go on in the first ones.
    hashes = np.unique(random.integers(0, 2**64, 50_000, dtype=np.uint64))
    if shift:
        hashes = np.concatenate([hashes, np.arange(20, dtype=np.uint64) | top])
    random.shuffle(hashes)
    table = HashTable.of(hashes)
    assert table is not None
    asked = np.concatenate([hashes[::3], random.integers(0, 2**64, 50_000, dtype=np.uint64), hashes[:10]])
    known = {int(value): place for place, value in enumerate(hashes)}
    assert table.find(asked).tolist() == [known.get(int(value), -1) for value in asked]


def test_hash_table_equal_hashes_refused() -> None:
    assert HashTable.of(np.array([5, 2**63, 5], dtype=np.uint64)) is None


def test_hash_table_hashes_that_crowd_refused() -> None:
    assert HashTable.of(np.arange(10_000, dtype=np.uint64)) is None


def test_hash_table_one_hash_and_none() -> None:
    assert HashTable.of(np.array([], dtype=np.uint64)) is None
    table = HashTable.of(np.array([2**64 - 1], dtype=np.uint64))
    assert table is not None
    assert table.find(np.array([1, 2**64 - 1], dtype=np.uint64)).tolist() == [-1, 0]


@pytest.mark.parametrize("has_table", [True, False])
def test_key_lookup_many_keys_each_given_out_once(has_table: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_table:
        monkeypatch.setattr(HashTable, "of", lambda _: None)
    logged = [f"k{number * 2}" for number in range(MANY)]
    lookup = KeyLookup(pl.Series("key", logged))
    known = {key: place for place, key in enumerate(logged)}
    given: set[str] = set()
    for start in range(0, 2 * MANY, 4_000):
        keys = [f"k{number}" for number in range(start, start + 4_000)] + [f"k{start}", "k0", "other"]
        expected = []
        for key in keys:
            expected.append(-1 if key in given else known.get(key, -1))
            given.add(key)
        assert lookup.find(pa.array(keys)).tolist() == expected


def test_key_lookup_null_keys_found_nowhere() -> None:
    lookup = KeyLookup(pl.Series("key", [str(number) for number in range(MANY)]))
    assert lookup.find(pa.array(["3", None, "x"])).tolist() == [3, -1, -1]
