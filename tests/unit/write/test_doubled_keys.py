"""Keys that inserts have doubled: a delete ends every row of its key, or says which it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake.testing import ManualClock, MemoryStorage

GLOBAL = {"hoodie.index.type": "GLOBAL_SIMPLE"}
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
TYPES = ("MERGE_ON_READ", "COPY_ON_WRITE")


def entries(*values: tuple[str, int]) -> pa.Table:
    return pa.table({"id": [key for key, _ in values], "v": pa.array([v for _, v in values], pa.int64())})


def make(path: Path, table_type: str = TYPES[0], **more: Any) -> tl.Table:
    return tl.create_table(str(path / "t"), "id string, v bigint", table_type=table_type, **more)


def rows_of(table: tl.Table) -> list[tuple[str, int]]:
    found = table.scan(columns=["id", "v"]).to_arrow().to_pylist()
    return sorted((row["id"], row["v"]) for row in found)


def in_two_groups(path: Path, table_type: str, **more: Any) -> tl.Table:
    table = make(path, table_type, **more)
    for v in (1, 2):
        table.bulk_insert(entries(("a", v), (f"b{v}", v)))
    return table


@pytest.mark.parametrize("options", [{}, GLOBAL], ids=["simple", "global"])
@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("by", [{"keys": ["a"]}, {"filter": "v = 2 AND id = 'a'"}, {"filter": "id = 'a'"}])
def test_delete_of_a_key_in_two_file_groups_leaves_neither(
    tmp_path: Path, table_type: str, options: dict[str, str], by: dict[str, Any]
) -> None:
    """A delete goes by key, as Apache Hudi's does, into every file group that has the key."""
    table = in_two_groups(tmp_path, table_type, options=options)
    assert table.delete(**by) is not None
    assert rows_of(table) == [("b1", 1), ("b2", 2)]


def test_delete_of_a_key_in_two_file_groups_leaves_a_newer_row(tmp_path: Path) -> None:
    """The delete carries the ordering value of the row it was found for: what is newer stays."""
    table = in_two_groups(tmp_path, TYPES[0], ordering_fields="v")
    table.delete(filter="v = 1 AND id = 'a'")
    assert rows_of(table) == [("a", 2), ("b1", 1), ("b2", 2)]
    table.delete(["a"])
    assert rows_of(table) == [("b1", 1), ("b2", 2)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("options", [{}, GLOBAL], ids=["simple", "global"])
@pytest.mark.parametrize("ordering", [(), ("v",)], ids=["commit", "event"])
@pytest.mark.parametrize("verb", ["insert", "bulk_insert"])
def test_key_that_was_deleted_and_inserted_again_stays_one_row(
    verb: str, ordering: Sequence[str], options: dict[str, str], seed: int
) -> None:
    """Its deleted row is still in a base file: updates go to the file group in which it lives, whichever comes first."""
    clock = ManualClock(seed=seed)
    storage = MemoryStorage(clock=clock)
    table = tl.create_table(
        "memory", "id string, v bigint", ordering_fields=ordering, options=options, storage=storage, clock=clock
    )
    table.upsert(entries(("a", 1), ("b", 1)))
    table.delete(["a"])
    getattr(table, verb)(entries(("a", 2)))
    for v in (3, 4):
        table.upsert(entries(("a", v)))
        assert rows_of(table) == [("a", v), ("b", 1)]
    table.compact()
    table.upsert(entries(("a", 5)))
    assert rows_of(table) == [("a", 5), ("b", 1)]
    table.delete(["a"])
    assert rows_of(table) == [("b", 1)]


@pytest.mark.parametrize("options", [{}, GLOBAL, BUCKET], ids=["simple", "global", "bucket"])
@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("by", [{"keys": ["a", "c"]}, {"filter": "v = 2"}])
def test_delete_of_a_key_twice_in_one_file_is_refused_with_the_key(
    tmp_path: Path, table_type: str, options: dict[str, str], by: dict[str, Any]
) -> None:
    """A log's delete meets the first row of its key alone, in every engine: nothing is written that says otherwise."""
    table = make(tmp_path, table_type, options=options)
    table.bulk_insert(entries(("a", 1), ("a", 2), ("c", 3)))
    before = rows_of(table)
    with pytest.raises(tl.InvalidError, match="'a'"):
        table.delete(**by)
    assert rows_of(table) == before
    assert table.delete(["c"]) is not None
    assert rows_of(table) == [("a", 1), ("a", 2)]


@pytest.mark.parametrize("small", ["0", "104857600"])
@pytest.mark.parametrize("ordering", [(), ("v",)])
def test_insert_adds_rows_as_they_are_however_small_the_files_are(
    tmp_path: Path, small: str, ordering: Sequence[str]
) -> None:
    """Copy-on-write fills small files with inserted rows, and does not merge them with what is there."""
    options = {"hoodie.parquet.small.file.limit": small}
    table = make(tmp_path, TYPES[1], ordering_fields=ordering, options=options)
    table.insert(entries(("a", 9)))
    table.insert(entries(("a", 2), ("a", 3), ("b", 4)))
    assert rows_of(table) == [("a", 2), ("a", 3), ("a", 9), ("b", 4)]


def test_null_part_of_a_key_has_a_bucket(tmp_path: Path) -> None:
    """To the hash a null is nothing, as to Java's lists."""
    table = tl.create_table(str(tmp_path / "t"), "a bigint, b string, v bigint", record_key=["a", "b"], options=BUCKET4)
    for v in (1, 2):
        nulls = pa.table({"a": [1, 1, 2], "b": pa.array([None, "x", None], pa.string()), "v": [v] * 3})
        table.upsert(nulls)
    assert table.scan(columns=["v"]).to_arrow()["v"].to_pylist() == [2, 2, 2]


BUCKET4 = {**BUCKET, "hoodie.bucket.index.num.buckets": "4"}


@pytest.mark.parametrize("options", [{}, BUCKET4], ids=["simple", "bucket"])
def test_delete_by_keys_finds_null_parts_and_the_null_partition(tmp_path: Path, options: dict[str, str]) -> None:
    """What an upsert takes for one key, a delete takes for one as well."""
    schema = "a bigint, b string, day string, v bigint"
    table = tl.create_table(str(tmp_path / "t"), schema, record_key=["a", "b"], partition_by="day", options=options)
    rows = pa.table(
        {
            "a": [1, 1, 2],
            "b": pa.array([None, "x", None], pa.string()),
            "day": pa.array([None, None, "d"], pa.string()),
            "v": [1, 2, 3],
        }
    )
    table.upsert(rows)
    assert table.delete(rows.slice(0, 1)) is not None
    assert sorted(table.scan(columns=["v"]).to_arrow()["v"].to_pylist()) == [2, 3]
    assert table.delete(rows.select(["a", "b"]).slice(2, 1)) is not None
    assert table.scan(columns=["v"]).to_arrow()["v"].to_pylist() == [2]


def test_batch_that_deletes_nothing_is_written_once_all_the_same(tmp_path: Path) -> None:
    """Its number is kept: when it comes again it does not delete what was inserted since."""
    table = make(tmp_path)
    table.upsert(entries(("a", 1)))
    first = table.delete(["z"], txn=("app", 5))
    assert first is not None
    assert not first.is_repeat
    table.upsert(entries(("z", 1)))
    again = table.delete(["z"], txn=("app", 5))
    assert again is not None
    assert again.is_repeat
    assert rows_of(table) == [("a", 1), ("z", 1)]
    assert table.delete(["nobody"]) is None
