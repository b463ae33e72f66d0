"""Rows that cannot be written are refused by name, before anything is visible, and nothing is left pending."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import tidelake as tl
from tidelake.storage import MemoryStorage
from tidelake.testing import ManualClock

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("n", pa.int64()),
        pa.field("must", pa.int32(), nullable=False),
        pa.field("ts", pa.int64()),
        pa.field("day", pa.string()),
    ]
)
VERBS = ("insert", "bulk_insert", "upsert", "insert_overwrite", "insert_overwrite_table")


def make(**how: Any) -> tl.Table:
    clock = ManualClock(seed=1)
    given = {"schema": SCHEMA, "name": "bad", "record_key": "id", "partition_by": "day", "ordering_fields": "ts", **how}
    return tl.create_table("memory", storage=MemoryStorage(clock=clock), clock=clock, **given)


def data(**columns: Any) -> pa.Table:
    """Two good rows, with some columns replaced (None: left out)."""
    good: dict[str, Any] = {
        "id": pa.array([1, 2], pa.int64()),
        "name": ["a", "b"],
        "n": pa.array([1, 2], pa.int64()),
        "must": pa.array([1, 2], pa.int32()),
        "ts": pa.array([1, 2], pa.int64()),
        "day": ["d1", "d2"],
    }
    return pa.table({name: value for name, value in {**good, **columns}.items() if value is not None})


def refused(table: tl.Table, rows: pa.Table, match: str, verbs: tuple[str, ...] = VERBS) -> None:
    """Every verb refuses these rows and leaves the table as it was."""
    before = table.scan().to_arrow().to_pylist()
    instants = table.timeline.instants
    for verb in verbs:
        with pytest.raises((tl.InvalidError, tl.UnsupportedError), match=match):
            getattr(table, verb)(rows)
        assert table.timeline.instants == instants, verb
        assert table.scan().to_arrow().to_pylist() == before


BAD: dict[str, tuple[pa.Table, str]] = {
    "null key": (data(id=pa.array([1, None], pa.int64())), "null or empty record key .id."),
    "null ordering": (data(ts=pa.array([None, 2], pa.int64())), "'ts' is null in 1 rows, for the keys 1"),
    "no ordering column": (data(ts=None), "'ts'"),
    "no key column": (data(id=None), "lacks the record key column .id."),
    "null in a required column": (data(must=pa.array([1, None], pa.int32())), "'must' holds 1 nulls"),
    "no required column": (data(must=None), "'must' is missing"),
    "narrowing": (data(n=["x", "y"]), "'n'"),
    "floats for longs' key": (data(id=pa.array([1.5, 2.5])), "'id'"),
    "text for numbers": (data(ts=["1", "2"]), "'ts'"),
    "added column without a type": (data(more=pa.nulls(2)), "'more' has no type"),
    "added column but for case": (data(NAME=["x", "y"]), "'name' and 'NAME'"),
    "added column of no Avro name": (data(**{"a b": ["x", "y"]}), "'a b'"),
    "reserved name": (data(_hoodie_thing=["x", "y"]), "_hoodie_thing"),
    "reserved helper": (data(__tidelake_key=["x", "y"]), "__tidelake_key"),
    "up": (data(day=["d1", ".."]), r"'day'.*'\.\.'.*for the keys 2"),
    "here": (data(day=["d1", "."]), r"'day'.*'\.'"),
    "slash": (data(day=["d1", "a/b"]), "'day'.*'a/b'.*for the keys 2"),
    "escape": (data(day=["d1", "../../etc"]), "'day'"),
    "absolute": (data(day=["d1", "/etc"]), "'day'"),
    "zero byte": (data(day=["d1", "a\0b"]), "'day'"),
    "the table's own folder": (data(day=["d1", ".hoodie"]), "'day'.*for the keys 2"),
    "empty text beside null": (data(day=["", None]), "'day'.*''.*for the keys 1"),
    "the name of null": (data(day=["__HIVE_DEFAULT_PARTITION__", "x"]), "'day'.*__HIVE_DEFAULT"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_of_every_kind_are_refused_by_every_verb(case: str) -> None:
    """A refusal names the column, and leaves rows and timeline as they were."""
    table = make()
    table.upsert(data())
    rows, match = BAD[case]
    refused(table, rows, match)


@pytest.mark.parametrize("hive", ["true", "false"])
@pytest.mark.parametrize("encoded", ["true", "false"])
@pytest.mark.parametrize("value", ["..", ".", ".hoodie", "a/../..", "/", "a\0b", "..\\..", "%2e%2e", "a=b", "é", " "])
def test_bad_partition_value_in_every_path_style_stays_in_its_own_folder(hive: str, encoded: str, value: str) -> None:
    """Whatever a partition value is, it is refused, or its rows lie in one folder below the table and come back."""
    options = {
        "hoodie.datasource.write.hive_style_partitioning": hive,
        "hoodie.datasource.write.partitionpath.urlencode": encoded,
    }
    table = make(options=options)
    table.upsert(data())
    rows = data(id=pa.array([7, 8], pa.int64()), day=[value, "d1"])
    try:
        table.upsert(rows)
    except tl.InvalidError as error:
        assert "'day'" in str(error)  # noqa: PT017 - either outcome is right
        assert not table.timeline.pending
        return
    found = table.scan().to_arrow().to_pylist()
    assert sorted((r["id"], r["day"]) for r in found) == [(1, "d1"), (2, "d2"), (7, value), (8, "d1")]
    assert table.scan(filter="id = 7").to_arrow()["day"].to_pylist() == [value]
    assert {r["_hoodie_partition_path"] for r in found if r["day"] == "d1"}.isdisjoint(
        {r["_hoodie_partition_path"] for r in found if r["day"] == value}
    )
    table.upsert(data(id=pa.array([7, 8], pa.int64()), day=[value, "d1"], name=["again", "again"]))
    assert table.scan().count() == 4


def test_bad_rows_empty_text_key_is_refused_with_its_row() -> None:
    """An empty key is no key."""
    table = make(schema="id string, name string", partition_by=(), ordering_fields=())
    rows = pa.table({"id": ["a", ""], "name": ["x", "y"]})
    refused(table, rows, "1 rows have a null or empty record key .id., the first at row 1")


def test_bad_rows_doubled_column_is_refused_by_name() -> None:
    """Two columns of one name are refused, never one of them taken."""
    table = make()
    rows = pa.Table.from_arrays([*data().columns, pa.array([5, 6])], names=[*data().column_names, "n"])
    refused(table, rows, "'n' stands more than once")


def test_bad_rows_of_no_known_kind_are_refused_by_type() -> None:
    """What is no table is refused with what would be taken."""
    table = make()
    for thing in ([{"id": 1}], {"id": [1]}, None, "rows", 5):
        with pytest.raises(tl.InvalidError, match=type(thing).__name__):
            table.upsert(thing)
    assert not table.timeline.instants


def test_bad_rows_nan_ordering_is_refused() -> None:
    """NaN compares with nothing and cannot order versions."""
    table = make(schema="id bigint, ts double", partition_by=())
    refused(table, pa.table({"id": pa.array([1], pa.int64()), "ts": [float("nan")]}), "'ts'")


def test_bad_rows_message_names_five_keys_at_most() -> None:
    """However many rows are bad, a message stays readable."""
    ids = pa.array(range(20), pa.int64())
    table = make(schema="id bigint, ts bigint, day string")
    for column, match in (("ts", "'ts' is null in 20 rows"), ("day", "'day' has the value '..'")):
        good = {"id": ids, "ts": pa.array([1] * 20, pa.int64()), "day": ["d"] * 20}
        bad = {"ts": pa.nulls(20, pa.int64()), "day": [".."] * 20}
        with pytest.raises(tl.InvalidError) as caught:
            table.upsert(pa.table({**good, column: bad[column]}))
        assert match in str(caught.value)
        assert "for the keys 0, 1, 2, 3, 4" in str(caught.value)
        assert "5" not in str(caught.value).partition("keys")[2]


def test_bad_rows_key_of_parts_that_another_key_could_have_is_refused() -> None:
    """Text that reads as the next part of a key, or as null or empty, would make two keys one."""
    table = make(schema="a string, b string, v string", record_key=["a", "b"], partition_by=(), ordering_fields=())

    def keys(a: list[Any], b: list[Any]) -> pa.Table:
        return pa.table({"a": pa.array(a, pa.string()), "b": pa.array(b, pa.string()), "v": ["x"] * len(a)})

    refused(table, keys(["1,b:2", "1"], ["3", "2,b:3"]), "'a' holds text in 1 rows .* keys a:1,b:2,b:3")
    refused(table, keys(["__null__", None], ["9", "9"]), "'a' holds text in 1 rows .* keys a:__null__,b:9")
    refused(table, keys(["1"], ["__empty__"]), "'b' holds text")
    table.upsert(keys(["1,c:2", "a:1,", None, ""], [",b:", "x", "y", "y"]))
    assert table.scan().count() == 4


def test_bad_rows_of_pandas_are_refused_by_column() -> None:
    """Objects of several types, and columns of one name, in a pandas frame."""
    table = make(schema="id bigint, v string", partition_by=(), ordering_fields=())
    for frame, match in (
        (pd.DataFrame({"id": [1, 2], "v": ["a", 1]}), "column v"),
        (pd.DataFrame([[1, "a", "b"]], columns=["id", "v", "v"]), "'v' stands more than once"),
        (pd.DataFrame({"id": [1], 5: ["a"]}), "'5'"),
        (pd.DataFrame({"id": ["one"], "v": ["a"]}), "'id'"),
    ):
        with pytest.raises(tl.InvalidError, match=match):
            table.upsert(frame)
    assert not table.timeline.instants


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize("log_format", ["parquet", "avro"])
def test_rows_of_a_required_column_are_stored_and_merged(table_type: str, log_format: str) -> None:
    """A column that may not be null stays so over inserts, updates, added columns and deletes."""
    table = make(table_type=table_type, options={"hoodie.logfile.data.block.format": log_format})
    table.upsert(data())
    table.upsert(data(must=pa.array([3, 4], pa.int32()), more=["x", None]))
    table.delete([2])
    assert table.scan(columns=["id", "must", "more"]).to_arrow().to_pylist() == [{"id": 1, "must": 3, "more": "x"}]
    refused(table, data(must=None), "'must' is missing")


def test_delete_bad_arguments_are_refused_by_name() -> None:
    """Keys of the wrong type or shape, both or neither of keys and filter: said, and nothing happens."""
    table = make()
    table.upsert(data())
    instants = table.timeline.instants
    for call, match in (
        (lambda: table.delete(), "keys or a filter"),
        (lambda: table.delete([1], filter="id = 1"), "keys or a filter"),
        (lambda: table.delete(pa.table({"name": ["a"]})), "'id'"),
        (lambda: table.delete(["not a number"]), "'id'"),
        (lambda: table.delete(filter="nothing = 1"), "nothing"),
        (lambda: table.delete_partitions("day=d1"), "list"),
        (lambda: table.delete_partitions([".."]), r"\.\."),
        (lambda: table.delete_partitions([".hoodie"]), ".hoodie"),
        (lambda: table.delete(["zz", 1]), "'id'.* 1"),
        (lambda: table.delete([True]), "'id'.*bool"),
        (lambda: table.delete([1, 2**63]), f"'id'.* {2**63}"),
        (lambda: table.delete([1, object()]), "'id'.*object"),
        (lambda: table.delete_partitions([1]), "partition.* 1"),
        (lambda: table.delete_partitions(5), "list of paths.* 5"),
        (lambda: table.compact(partitions=[1]), "partition.* 1"),
        (lambda: table.compact(partitions="day=d1"), "list of paths"),
        (lambda: table.upsert(data(), metadata={"schema": "x"}), "schema"),
    ):
        with pytest.raises(tl.InvalidError, match=match):
            call()
        assert not table.timeline.pending
    assert [i for i in table.timeline.instants if i.is_write] == list(instants)
    assert table.delete([99]) is None
    assert table.scan().count() == 2


BAD_METADATA: list[tuple[Any, str]] = [
    ({"a": 1}, "'a'.* 1"),
    ({"a": None}, "'a'.*None"),
    ({1: "a"}, "1.*'a'"),
    ({"a": "\ud800"}, "'a'.*ud800"),
    (["a"], "metadata.*'a'"),
]


@pytest.mark.parametrize(("metadata", "match"), BAD_METADATA)
def test_bad_metadata_of_a_write_is_refused_before_a_file_is_written(metadata: Any, match: str) -> None:
    """A commit keeps texts under texts; anything else is said, with its name, by every verb that takes metadata."""
    table = make()
    table.upsert(data())
    files = {info.path for info in table._source.storage.list_files()}
    calls = [lambda verb=verb: getattr(table, verb)(data(), metadata=metadata) for verb in VERBS]
    calls.append(lambda: table.delete([1], metadata=metadata))
    calls.append(lambda: table.delete_partitions(["day=d1"], metadata=metadata))
    for call in calls:
        with pytest.raises(tl.InvalidError, match=match):
            call()
    assert {info.path for info in table._source.storage.list_files()} == files


@pytest.mark.parametrize("days", [2**31 - 1, -(2**31), 11_248_738, -12_687_429])
def test_bad_date_that_has_no_text_is_refused_as_partition_and_as_key(days: int) -> None:
    """A date that Arrow cannot print makes neither a folder nor a key: the column and the rows' keys are said."""
    dates = pa.array([0, days], pa.int32()).cast(pa.date32())
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "at": dates})
    schema = "id bigint, at date"
    refused(make(schema=schema, partition_by="at", ordering_fields=()), rows, f"'at'.*{days}.*for the keys 2")
    refused(make(schema=schema, partition_by=(), ordering_fields=(), record_key="at"), rows, f"'at'.*{days}")


@pytest.mark.parametrize("days", [11_248_737, -12_687_428])
def test_date_at_the_end_of_what_has_a_text_is_written(days: int) -> None:
    """The last dates that Arrow can print are partitions and keys like any other."""
    rows = pa.table({"id": pa.array([1], pa.int64()), "at": pa.array([days], pa.int32()).cast(pa.date32())})
    for how in ({"partition_by": "at"}, {"partition_by": (), "record_key": "at"}):
        table = make(schema="id bigint, at date", ordering_fields=(), **how)
        table.upsert(rows)
        assert table.scan(columns=["at"]).to_arrow()["at"].cast(pa.int32()).to_pylist() == [days]


def test_delete_rows_with_nested_columns_are_deleted() -> None:
    """Lists, maps and structs beside the key are no obstacle."""
    table = make(schema="id bigint, tags array<string>, s struct<a: int>", partition_by=(), ordering_fields=())
    kinds = [table.schema.field(name) for name in ("id", "tags", "s")]
    rows = [{"id": 1, "tags": ["x"], "s": {"a": 1}}, {"id": 2, "tags": [], "s": None}]
    table.upsert(pa.Table.from_pylist(rows, schema=pa.schema(kinds)))
    table.delete([1])
    assert table.scan(columns=["id"]).to_arrow()["id"].to_pylist() == [2]
