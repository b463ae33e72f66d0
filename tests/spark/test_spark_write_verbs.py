"""Writes of Spark DataFrames: the same table as the same write in process leaves, and the same refusals."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake.errors import ConflictError, InvalidError
from tidelake.write import spread

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("must", pa.string(), nullable=False),
        pa.field("ts", pa.int64()),
        pa.field("day", pa.string()),
        pa.field("_hoodie_is_deleted", pa.bool_()),
    ]
)
KINDS = {
    "mor": {"table_type": "MERGE_ON_READ"},
    "cow": {"table_type": "COPY_ON_WRITE"},
    "mor_bucket": {"options": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"}},
    "cow_bucket": {
        "table_type": "COPY_ON_WRITE",
        "options": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"},
    },
}


def rows(*ids: int, must: str | None = "m", ts: int = 1, day: str | None = None, deleted: bool = False) -> pa.Table:
    """Rows by their ids, on two days."""
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "must": pa.array([must] * len(ids), pa.string()),
            "ts": pa.array([ts] * len(ids), pa.int64()),
            "day": [day or f"d{i % 2}" for i in ids],
            "_hoodie_is_deleted": [deleted] * len(ids),
        }
    )


def make(path: object, kind: str, **how: Any) -> tl.Table:
    given = {"record_key": "id", "partition_by": "day", "ordering_fields": "ts", **KINDS[kind], **how}
    return tl.create_table(str(path), SCHEMA, **given)


def contents(table: tl.Table) -> list[tuple[object, ...]]:
    found = table.scan(columns=["id", "must", "ts", "day"]).to_arrow()
    return sorted(tuple(row.values()) for row in found.to_pylist())


@pytest.mark.parametrize("kind", KINDS)
def test_writes_on_spark_leave_what_writes_in_process_leave(kind: str, tmp_path, spark) -> None:
    """One life of a table, on both engines: each step leaves the same rows, and no key twice."""
    ours, theirs = make(tmp_path / "spark", kind), make(tmp_path / "process", kind)
    steps = [
        ("insert", rows(*range(20))),
        ("upsert", pa.concat_tables([rows(*range(10, 40), must="late", ts=0), rows(*range(5, 15), must="new", ts=5)])),
        (
            "upsert",
            pa.concat_tables([rows(1, 3, 41, ts=9, must="a"), rows(1, 3, ts=8, must="b"), rows(2, ts=9, deleted=True)]),
        ),
        ("bulk_insert", rows(*range(100, 110))),
        ("delete", rows(4, 5, 6, 7777)),
        ("insert_overwrite", rows(201, 203, must="over")),
        ("upsert", rows(201, 205, 4, ts=7, must="again")),
    ]
    for verb, data in steps:
        getattr(ours, verb)(spark.createDataFrame(data))
        getattr(theirs, verb)(data)
        assert contents(ours) == contents(theirs), verb
    assert len(contents(ours)) == len({row[0] for row in contents(ours)})
    assert [i.action for i in ours.timeline.instants] == [i.action for i in theirs.timeline.instants]


@pytest.mark.parametrize("verb", ["bulk_insert", "upsert"])
def test_null_in_a_required_column_is_refused_with_its_keys(verb: str, tmp_path, spark) -> None:
    """As in process: the column and up to five keys are named, and nothing is left."""
    table = make(tmp_path / "t", "mor")
    table.insert(rows(1))
    bad = pa.concat_tables([rows(1, 2), rows(*range(10, 20, 2), 20, 22, must=None)])
    with pytest.raises(
        InvalidError, match=r"'must' holds 7 nulls, but may not be null, for the keys 10, 12, 14, 16, 18$"
    ):
        getattr(table, verb)(bad)
    with pytest.raises(InvalidError, match=r"'must' holds . nulls, but may not be null, for the keys 1"):
        getattr(table, verb)(spark.createDataFrame(bad))
    with pytest.raises(InvalidError, match=r"'must' is missing"):
        getattr(table, verb)(spark.createDataFrame(bad.drop_columns(["must"])))
    assert contents(table) == [(1, "m", 1, "d1")]
    assert not table.timeline.pending


STRICT = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.string())])
NESTED = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("s", STRICT),
        pa.field("l", pa.list_(pa.field("element", STRICT, nullable=False))),
        pa.field("m", pa.map_(pa.string(), pa.field("value", STRICT))),
        pa.field("price", pa.decimal128(10, 2)),
    ]
)
GOOD = """select 1L id, named_struct('x', 1, 'y', 'a') s, array(named_struct('x', 2, 'y', 'b')) l,
 map('k', named_struct('x', 3, 'y', 'c')) m, 1.25 price union all select 2L, null, null, null, 0.5"""
BAD = {
    "null field": ("select 7L id, named_struct('x', cast(null as int)) s", r"'s\.x' holds 1 nulls.* for the keys 7"),
    "no field": ("select 7L id, named_struct('y', 'a') s", r"'s\.x' holds 1 nulls.* for the keys 7"),
    "null in a list": ("select 7L id, array(cast(null as struct<x:int>)) l", r"'l\.element' holds 1 nulls.* keys 7"),
    "null in a map": ("select 7L id, map('k', named_struct('x', cast(null as int))) m", r"'m\.value\.x' holds 1 nulls"),
    "no type": ("select 7L id, named_struct('x', 1, 'nn', null) s", r"'s\.nn' has no type"),
    "case": ("select 7L id, named_struct('X', 1) s", r"'s\.x' and 's\.X' differ by case alone"),
    "wider decimal": ("select 7L id, cast(1 as decimal(12, 2)) price", "'price'.*cast the data to decimal128"),
}


@pytest.mark.parametrize("verb", ["bulk_insert", "upsert"])
@pytest.mark.parametrize("kind", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_nested_columns_and_decimals_on_spark_are_taken_and_refused_as_in_process(
    kind: str, verb: str, tmp_path, spark
) -> None:
    """What Spark makes of literals fits the table's types; a null that may not be is named by its path and keys."""
    table = tl.create_table(str(tmp_path / "t"), NESTED, record_key="id", table_type=kind)
    made = table.schema
    getattr(table, verb)(spark.sql(GOOD))
    table.upsert(spark.sql(GOOD))
    expected = [
        (1, {"x": 1, "y": "a"}, [{"x": 2, "y": "b"}], [("k", {"x": 3, "y": "c"})], Decimal("1.25")),
        (2, None, None, None, Decimal("0.50")),
    ]
    for query, match in BAD.values():
        with pytest.raises(InvalidError, match=match):
            getattr(table, verb)(spark.sql(query))
    assert table.schema == made
    found = table.scan(columns=NESTED.names).to_arrow().sort_by("id")
    assert [tuple(row.values()) for row in found.to_pylist()] == expected
    assert [row.price for row in table.scan().to_spark(spark).orderBy("id").collect()] == [row[-1] for row in expected]
    assert not table.timeline.pending


@pytest.mark.parametrize("engine", ["process", "spark"])
@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_insert_overwrite_of_deletes_alone_empties_the_partition(kind: str, engine: str, tmp_path, spark) -> None:
    """A partition whose rows are all deletes is replaced by nothing; partitions without rows are left alone."""
    table = make(tmp_path / "t", kind)
    table.insert(rows(1, 2, 3, 4))
    data = pa.concat_tables([rows(1, 99, deleted=True)])
    table.insert_overwrite(spark.createDataFrame(data) if engine == "spark" else data)
    assert contents(table) == [(2, "m", 1, "d0"), (4, "m", 1, "d0")]


@pytest.mark.parametrize("kind", KINDS)
def test_delete_on_spark_by_keys_and_by_condition(kind: str, tmp_path, spark) -> None:
    """Keys of a DataFrame of another integer type, with or without the partition; a condition on a bound table; nothing."""
    table = tl.open_table(make(tmp_path / "t", kind).path, spark=spark)
    table.insert(rows(*range(10)))
    keys = spark.createDataFrame(pa.table({"id": pa.array([1, 2, 2, 77], pa.int32()), "more": ["x"] * 4}))
    table.delete(keys)
    assert [row[0] for row in contents(table)] == [0, 3, 4, 5, 6, 7, 8, 9]
    table.delete(spark.createDataFrame(pa.table({"id": [3, 4], "day": ["d1", "d1"]})))
    assert [row[0] for row in contents(table)] == [0, 4, 5, 6, 7, 8, 9]
    table.delete(filter="id > 7")
    assert [row[0] for row in contents(table)] == [0, 4, 5, 6, 7]
    before = table.timeline.instants
    assert table.delete(keys) is None
    assert table.delete(filter="id > 1000") is None
    assert table.timeline.instants == before
    with pytest.raises(InvalidError, match="'id'"):
        table.delete(spark.createDataFrame(pa.table({"id": [4.5]})))
    with pytest.raises(InvalidError, match="lack the column 'id'"):
        table.delete(spark.createDataFrame(pa.table({"day": ["d0"]})))


@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_delete_on_spark_ends_every_row_of_a_doubled_key_or_names_it(kind: str, tmp_path, spark) -> None:
    """Keys that inserts have doubled are deleted in every file group, null parts of keys are found, doubles of one file refused."""
    schema = "a bigint, b string, v bigint"
    table = tl.create_table(str(tmp_path / "t"), schema, record_key=["a", "b"], table_type=KINDS[kind]["table_type"])
    for v in (1, 2):
        table.bulk_insert(pa.table({"a": [1, v + 1], "b": pa.array([None, "x"], pa.string()), "v": [v, v]}))
    on_spark = tl.open_table(table.path, spark=spark)
    on_spark.delete(spark.sql("SELECT 1L AS a, CAST(NULL AS STRING) AS b"))
    assert sorted(table.scan(columns=["a"]).to_arrow()["a"].to_pylist()) == [2, 3]
    table.bulk_insert(pa.table({"a": [5, 5], "b": ["y", "y"], "v": [1, 2]}))
    with pytest.raises(InvalidError, match="a:5,b:y"):
        on_spark.delete(filter="a = 5")


def test_delete_on_spark_conflicts_with_a_change_since_the_rows_were_read(tmp_path, spark, monkeypatch) -> None:
    """The rows were found as of a moment: a change of them since is a conflict, not a lost update."""
    from tidelake.spark import delete

    table = make(tmp_path / "t", "mor", ordering_fields=())
    table.insert(rows(1, 2))
    real = delete.write_on_spark

    def late(*given: Any) -> Any:
        make_change = tl.open_table(table.path)
        make_change.upsert(rows(1, must="changed", ts=2))
        return real(*given)

    monkeypatch.setattr(delete, "write_on_spark", late)
    with pytest.raises(ConflictError):
        table.delete(spark.createDataFrame(pa.table({"id": [1]})))
    assert contents(table) == [(1, "changed", 2, "d1"), (2, "m", 1, "d0")]


def test_bulk_insert_into_buckets_that_are_there_makes_no_second_group(tmp_path, spark) -> None:
    """A bucket is one file group, whatever wrote to it."""
    table = make(tmp_path / "t", "mor_bucket")
    table.insert(rows(*range(12), day="d"))
    table.bulk_insert(spark.createDataFrame(rows(*range(100, 112), day="d")))
    groups = [s.file_id[:8] for s in table.files()]
    assert len(groups) == len(set(groups)) == 3


def test_copy_on_write_spreads_a_hot_partition_over_tasks(tmp_path, spark, monkeypatch) -> None:
    """Many file groups of one partition are rewritten by more than one task, each group by one, and small ones are filled."""
    table = make(tmp_path / "t", "cow")
    for start in range(0, 60, 10):
        table.bulk_insert(rows(*range(start, start + 10), day="hot"))
    groups = {s.file_id for s in table.files()}
    assert len(groups) == 6
    commit = table.upsert(spark.createDataFrame(rows(*range(0, 60, 5), *range(1000, 1010), day="hot", ts=2, must="n")))
    assert {stat.file_id for stat in commit.stats} == groups
    assert len(commit.stats) == 6
    tokens = {(stat.path or "").split("_")[1] for stat in commit.stats}
    assert len(tokens) == 2  # the session has two shuffle partitions
    assert len(contents(table)) == 70
    assert sum(must == "n" for _, must, _, _ in contents(table)) == 22
    # One new row, of whatever key, fills the first small group and makes no file of its own.
    for key in range(2000, 2004):
        assert {s.file_id for s in table.files()} == groups
        table.insert(spark.createDataFrame(rows(key, day="hot")))
    assert len(contents(table)) == 74


def test_copy_on_write_new_rows_beyond_one_file_are_spread(tmp_path, spark) -> None:
    """New rows that fill many files share as many slots; none of them is written twice, and small groups are filled once."""
    sizes = {"hoodie.parquet.max.file.size": "40000", "hoodie.parquet.small.file.limit": "30000"}
    table = make(tmp_path / "t", "cow", options=sizes)
    table.insert(rows(*range(5), day="hot"))
    commit = table.upsert(spark.createDataFrame(rows(*range(20_000), day="hot", ts=2)))
    assert len(contents(table)) == 20_000
    assert len({(stat.path or "").split("_")[1] for stat in commit.stats}) == 2
    assert len({stat.file_id for stat in commit.stats}) == len(commit.stats) > 4
    assert max(stat.file_size_in_bytes or 0 for stat in commit.stats) < 4 * 40_000
    assert len(commit.stats) // 2 <= spread.SALTS


@pytest.mark.parametrize("kind", ["mor", "cow", "one_bucket"])
def test_bulk_insert_of_awkward_partitions_makes_one_group_each(tmp_path, spark, kind: str) -> None:
    """Rows find their tasks by raw values: each partition has one, and one bucket has one base file."""
    shape = (
        {"options": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}}
        if kind == "one_bucket"
        else KINDS[kind]
    )
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("day", pa.string()), ("ts", pa.int64())])
    days = [None, "y", "x", "X", "é d", None, "y", "x"]
    data = pa.table({"id": range(80), "day": days * 10, "ts": [1] * 80}, schema=schema)
    table = tl.create_table(
        str(tmp_path / "t"), schema, record_key="id", partition_by="day", ordering_fields="ts", **shape
    )
    table.bulk_insert(spark.createDataFrame(data).repartition(4))
    found = table.scan().to_arrow()
    assert sorted(found.column("id").to_pylist()) == list(range(80))
    assert {(k, d or None) for k, d in zip(*(found.column(n).to_pylist() for n in ("id", "day")), strict=True)} == {
        (k, d or None) for k, d in enumerate(days * 10)
    }
    if kind == "one_bucket":
        assert (
            len({(s.partition_path, s.file_id) for s in table.files()})
            == len({s.partition_path for s in table.files()})
            == 5
        )
