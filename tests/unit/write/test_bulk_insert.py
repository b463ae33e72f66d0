"""Bulk inserts sort as asked: within partitions, over the whole write, or not at all."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelake as tl
from tidelake.storage import MemoryStorage

KEYS = ["m", "c", "z", "a", "q", "b", "y", "k"]


def rows() -> pa.Table:
    return pa.table({"id": KEYS, "day": [f"d{i % 2}" for i in range(len(KEYS))]})


def written(sort: Any, **how: Any) -> dict[str, list[list[str]]]:
    """The keys of each base file, as stored, by partition."""
    storage = MemoryStorage()
    table = tl.create_table("memory", "id string, day string", name="t", partition_by="day", storage=storage, **how)
    table.bulk_insert(rows(), **({} if sort == "default" else {"sort": sort}))
    found: dict[str, list[list[str]]] = {}
    for file_slice in table.files():
        assert file_slice.base is not None
        keys = pq.read_table(io.BytesIO(storage.get(file_slice.base.path)), columns=["_hoodie_record_key"])
        found.setdefault(file_slice.partition_path, []).append(keys.column(0).to_pylist())
    return found


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize("sort", ["default", "partition", "global"])
def test_bulk_insert_sorted_files_have_their_keys_in_order(sort: str, table_type: str) -> None:
    """Within each partition keys stand in order."""
    assert written(sort, table_type=table_type) == {
        "day=d0": [sorted(KEYS[0::2])],
        "day=d1": [sorted(KEYS[1::2])],
    }


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_bulk_insert_unsorted_rows_stay_in_the_order_they_came(table_type: str) -> None:
    """Nothing is moved that need not be."""
    assert written(None, table_type=table_type) == {"day=d0": [KEYS[0::2]], "day=d1": [KEYS[1::2]]}


@pytest.mark.parametrize("sort", ["partition", "global", None])
def test_bulk_insert_into_buckets_keeps_each_key_in_its_bucket(sort: str | None) -> None:
    """With the BUCKET index the bucket decides, and the rows of a bucket are sorted or not."""
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    found = [keys for files in written(sort, options=options).values() for keys in files]
    assert sorted(key for keys in found for key in keys) == sorted(KEYS)
    if sort is not None:
        assert all(keys == sorted(keys) for keys in found)


@pytest.mark.parametrize("sort", ["", "GLOBAL_SORT", "none", 5, True])
def test_bulk_insert_unknown_sort_is_refused(sort: Any) -> None:
    """A word that is no way to sort is named, with those that are."""
    with pytest.raises(tl.InvalidError, match=r"sort is .*, known are partition, global and None"):
        written(sort)
