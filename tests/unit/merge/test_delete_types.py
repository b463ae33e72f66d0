"""What a delete carries is compared as values of its column's type, also when that type was widened since."""

from __future__ import annotations

from datetime import time
from decimal import Decimal

import pyarrow as pa
import pytest

import tidelake as tl
from clock_tables import clock_options
from tidelake.storage import MemoryStorage

WIDENED = {
    "int to double": (pa.int32(), pa.float64(), 5, 4, 6),
    "long to float": (pa.int64(), pa.float32(), 5, 4, 6),
    "float to double": (pa.float32(), pa.float64(), 5, 4, 6),
    "ms to us": (pa.timestamp("ms"), pa.timestamp("us"), 5, 4_500, 5_001),
    "ms to us in UTC": (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), 5, 4_500, 5_001),
}


def schema_of(kind: pa.DataType) -> pa.Schema:
    return pa.schema(
        [("id", pa.string()), ("agent", pa.string()), ("a_ts", kind), ("plan", pa.string()), ("p_ts", kind)]
    )


def made(kind: pa.DataType, mode: str | None) -> tl.Table:
    options = {} if mode is None else clock_options(mode)
    return tl.create_table(
        "memory://typed",
        schema_of(kind),
        record_key="id",
        ordering_fields=() if mode else "a_ts",
        options={**options, "hoodie.index.type": "BUCKET", "tombstone.retention": "7d"},
        storage=MemoryStorage(),
    )


def put(table: tl.Table, kind: pa.DataType, key: str, at: object) -> None:
    times = pa.array([at], kind)
    table.upsert(pa.table([[key], ["x"], times, ["y"], times], schema=schema_of(kind)))


def keys(table: tl.Table) -> list[str]:
    return sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("kept", [False, True], ids=["logged", "kept by a compaction"])
@pytest.mark.parametrize("mode", ["all", "per_group"])
@pytest.mark.parametrize("case", WIDENED)
def test_a_delete_of_a_column_that_was_widened(case: str, mode: str, kept: bool) -> None:
    """It hides what is older, and nothing that is newer."""
    before, after, deleted, older, newer = WIDENED[case]
    table = made(before, mode)
    put(table, before, "gone", deleted)
    table.delete(["gone"])
    if kept:
        table.compact()
    put(table, after, "other", newer)
    assert keys(table) == ["other"]
    put(table, after, "gone", older)
    table.compact()
    assert keys(table) == ["other"]
    put(table, after, "gone", newer)
    assert keys(table) == ["gone", "other"]


@pytest.mark.parametrize("kept", [False, True], ids=["logged", "kept by a compaction"])
def test_a_delete_by_one_timestamp_that_was_widened(kept: bool) -> None:
    """The numbers of its delete are of the old unit: the row stays deleted."""
    table = made(pa.timestamp("ms"), None)
    put(table, pa.timestamp("ms"), "gone", 5)
    table.delete(["gone"])
    if kept:
        table.compact()
    put(table, pa.timestamp("us"), "other", 6_000)
    put(table, pa.timestamp("us"), "gone", 4_999)
    assert keys(table) == ["other"]
    put(table, pa.timestamp("us"), "gone", 5_001)
    assert keys(table) == ["gone", "other"]


@pytest.mark.parametrize("mode", [None, "all", "per_group"])
def test_times_of_the_day_in_milliseconds(mode: str | None) -> None:
    """A time of the day orders versions and deletes, whatever its unit."""
    kind = pa.time32("ms")
    table = made(kind, mode)
    put(table, kind, "k", time(2))
    put(table, kind, "k", time(1))
    assert table.scan(columns=["a_ts"]).to_arrow()["a_ts"].to_pylist() == [time(2)]
    table.delete(["k"])
    table.compact()
    put(table, kind, "k", time(1, 59))
    assert keys(table) == []
    put(table, kind, "k", time(2, 0, 0, 1_000))
    assert keys(table) == ["k"]


def test_a_decimal_that_a_delete_cannot_carry() -> None:
    """It is said when the delete is written, with the column's name."""
    kind = pa.decimal128(38, 10)
    table = made(kind, "all")
    put(table, kind, "k", Decimal("1e27"))
    with pytest.raises(tl.InvalidError, match="'a_ts'"):
        table.delete(["k"])
    assert keys(table) == ["k"]
