"""Data of another type than the table's is taken where nothing is lost, and refused with what to do where something is."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidelake as tl
from tidelake.storage import MemoryStorage
from tidelake.testing import ManualClock

WHEN = dt.datetime(2026, 1, 31, 12, 0, 0, 123_456)
UTC = WHEN.replace(tzinfo=dt.timezone.utc)


def make(schema: Any, **how: Any) -> tl.Table:
    clock = ManualClock(seed=1)
    given = {"name": "types", "record_key": "id", **how}
    return tl.create_table("memory", schema, storage=MemoryStorage(clock=clock), clock=clock, **given)


def rows(values: list[Any], kind: pa.DataType) -> pa.Table:
    return pa.table({"id": pa.array(range(len(values)), pa.int64()), "v": pa.array(values, kind)})


def stored(table: tl.Table) -> list[Any]:
    found = table.scan(columns=["id", "v"]).to_arrow().sort_by("id")
    assert found.schema.field("v").type == table.schema.field("v").type
    return list(found["v"].to_pylist())


@pytest.mark.parametrize(
    "kind",
    [pa.decimal128(3, 2), pa.decimal128(5, 1), pa.decimal128(8, 0), pa.decimal32(4, 2), pa.decimal256(10, 2)],
)
@pytest.mark.parametrize("inside", [False, True])
def test_decimals_that_fit_become_those_of_the_table(kind: pa.DataType, inside: bool) -> None:
    """Fewer digits before the point and no more after it lose nothing, also inside of a struct."""
    table = make("id bigint, v struct<d: decimal(10, 2)>" if inside else "id bigint, v decimal(10, 2)")
    before = table.schema
    value = Decimal(-7) if kind.scale == 0 else Decimal("-7.5")
    wrapped, whole = ({"d": value}, pa.struct([("d", kind)])) if inside else (value, kind)
    table.upsert(rows([wrapped, None], whole))
    assert stored(table) == [wrapped, None]
    assert table.schema == before


@pytest.mark.parametrize(
    "kind", [pa.decimal128(12, 2), pa.decimal128(10, 3), pa.decimal128(10, 1), pa.decimal128(9, 0)]
)
def test_decimals_that_may_not_fit_are_refused_with_what_to_cast_to(kind: pa.DataType) -> None:
    """A wider decimal does not widen the table, and the hint says what the data must be."""
    table = make("id bigint, v decimal(10, 2)")
    with pytest.raises(tl.InvalidError, match=r"'v' is decimal128\(10, 2\).*cast the data to decimal128\(10, 2\)"):
        table.upsert(rows([Decimal(1)], kind))
    assert not table.timeline.instants


@pytest.mark.parametrize(
    ("column", "zone"), [("timestamp", "UTC"), ("timestamp", "Asia/Tokyo"), ("timestamp_ntz", None)]
)
def test_nanoseconds_that_are_whole_microseconds_are_taken(column: str, zone: str | None) -> None:
    """What pandas makes of times is taken; the table keeps microseconds."""
    table = make(f"id bigint, v {column}")
    before = table.schema
    when = UTC if zone else WHEN
    table.upsert(rows([when, None], pa.timestamp("ns", zone)))
    series = pd.Series([when], dtype="datetime64[ns, UTC]" if zone else "datetime64[ns]")
    table.upsert(pd.DataFrame({"id": [2], "v": series}))
    assert stored(table) == [when, None, when]
    assert table.schema == before


@pytest.mark.parametrize("how", [{}, {"event_time_field": "v"}, {"ordering_fields": "v"}])
def test_nanoseconds_that_are_lost_are_refused_with_what_to_do(how: dict[str, str]) -> None:
    """A time of finer steps than the table's is refused by column, and taken as an event time if it is whole."""
    table = make("id bigint, v timestamp", **how)
    whole = int(UTC.timestamp()) * 10**9
    with pytest.raises(tl.InvalidError, match=r"'v' holds a value that .* cannot hold.*cast it to us"):
        table.upsert(rows([whole, whole + 1], pa.timestamp("ns", "UTC")))
    assert not table.timeline.instants
    table.upsert(rows([whole, whole + 1_000], pa.timestamp("ns", "UTC")))
    assert stored(table)[1] - stored(table)[0] == dt.timedelta(microseconds=1)


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_times_without_a_zone_for_a_column_with_one_say_what_to_do(unit: str) -> None:
    """A zone is never guessed: the hint says how to give one, or to declare a column without; and the other way round."""
    with pytest.raises(tl.InvalidError, match=r"'v' .*tz_localize\(\"UTC\"\).*timestamp_ntz"):
        make("id bigint, v timestamp").upsert(rows([WHEN], pa.timestamp(unit)))
    with pytest.raises(tl.InvalidError, match=r"'v' .*tz_localize\(None\).*declare .* timestamp"):
        make("id bigint, v timestamp_ntz").upsert(rows([UTC], pa.timestamp(unit, "UTC")))


@pytest.mark.parametrize("column", [pa.float16(), pa.float32(), pa.float64(), None])
def test_half_floats_become_floats(column: pa.DataType | None) -> None:
    """A table keeps them as float; their values come back, whether the column was declared or is added by the data."""
    table = make(pa.schema([("id", pa.int64()), *([] if column is None else [("v", column)])]))
    table.upsert(rows([np.float16(0.5), None, np.float16(-2)], pa.float16()))
    assert stored(table) == [0.5, None, -2]
    assert table.schema.field("v").type == (pa.float64() if column == pa.float64() else pa.float32())


LAYOUTS = [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.large_string())]


@pytest.mark.parametrize("text", LAYOUTS, ids=str)
def test_columns_of_another_layout_are_keys_partitions_and_ordering_values(text: pa.DataType) -> None:
    """A table is made of the schema that polars gives, and is one of plain types."""
    schema = pa.schema([("id", text), ("day", text), ("ts", text), ("tags", pa.large_list(text))])
    table = make(schema, partition_by="day", ordering_fields="ts")
    plain = pa.schema([("id", pa.string()), ("day", pa.string()), ("ts", pa.string()), ("tags", pa.list_(pa.string()))])
    assert [table.schema.field(name).type for name in schema.names] == plain.types
    data = pa.table({"id": ["a", "b"], "day": ["d1", "d2"], "ts": ["1", "1"], "tags": [["x"], []]})
    table.upsert(pl.from_arrow(data))
    table.upsert(data.cast(plain))
    assert table.scan(columns=schema.names).to_arrow().sort_by("id").to_pylist() == data.to_pylist()


def test_data_without_the_key_column_says_so() -> None:
    """A key that pandas keeps as an index is missing, not null; the hint says how to bring it back."""
    table = make("id bigint, v string")
    frame = pd.DataFrame({"id": [1, 2], "v": ["a", "b"]}).set_index("id")
    with pytest.raises(tl.InvalidError, match=r"lacks the record key column 'id'.*columns are v.*reset_index"):
        table.upsert(frame)
    two = make("a bigint, b bigint, v string", record_key=["a", "b"])
    with pytest.raises(tl.InvalidError, match="lacks the record key column 'b'"):
        two.upsert(pa.table({"a": [1], "v": ["x"]}))
    assert not table.timeline.instants
