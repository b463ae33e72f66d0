"""Event times: of a declared unit, plausible, and in milliseconds in the statistics of every file."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake.storage import MemoryStorage

UNIT = "hoodie.payload.event.time.unit"
NOON_S = 1_705_320_000
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
FIRST = int(datetime(1900, 1, 1, tzinfo=timezone.utc).timestamp())
END = int(datetime(2201, 1, 1, tzinfo=timezone.utc).timestamp())


def make(kind: pa.DataType, unit: str | None = None, **how: Any) -> tl.Table:
    options = {} if unit is None else {UNIT: unit}
    schema = pa.schema([("id", pa.int64()), ("at", kind)])
    return tl.create_table(
        "memory", schema, name="timed", event_time_field="at", options=options, storage=MemoryStorage(), **how
    )


def rows(*values: Any, kind: pa.DataType) -> pa.Table:
    return pa.table({"id": pa.array(range(len(values)), pa.int64()), "at": pa.array(values, kind)})


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("kind", [pa.int64(), pa.int32()])
def test_event_time_numbers_of_a_unit_are_milliseconds_in_statistics(
    unit: str, kind: pa.DataType, table_type: str
) -> None:
    """Whatever the unit, base files and logs say milliseconds, rounded down; null has no time."""
    if kind == pa.int32() and unit != "s":
        return
    table = make(kind, unit, table_type=table_type)
    per_second = PER_SECOND[unit]
    values = (NOON_S * per_second, -1, None)
    for _ in range(2):
        (stat,) = table.upsert(rows(*values, kind=kind)).stats
        assert stat.max_event_time == NOON_S * 1_000
        assert stat.min_event_time == {"s": -1_000, "ms": -1, "us": -1}[unit]


@pytest.mark.parametrize(("unit", "per_second"), list(PER_SECOND.items())[1:3])
def test_event_time_timestamps_are_milliseconds_in_statistics(unit: str, per_second: int) -> None:
    """A timestamp says its own unit, and is rounded down."""
    table = make(pa.timestamp(unit, "UTC"))
    (stat,) = table.upsert(rows(NOON_S * per_second, -1, kind=pa.timestamp(unit, "UTC"))).stats
    assert (stat.min_event_time, stat.max_event_time) == (-1, NOON_S * 1_000)
    days = make(pa.date32())
    (stat,) = days.upsert(rows(date(1970, 1, 2), date(1969, 12, 31), kind=pa.date32())).stats
    assert (stat.min_event_time, stat.max_event_time) == (-86_400_000, 86_400_000)


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_event_time_bounds_are_the_years_1900_to_2200(unit: str) -> None:
    """The first and the last moment are taken, those beside them are refused."""
    per_second = PER_SECOND[unit]
    table = make(pa.int64(), unit)
    table.upsert(rows(FIRST * per_second, END * per_second - 1, kind=pa.int64()))
    for value in (FIRST * per_second - 1, END * per_second, 2**63 - 1, -(2**63)):
        with pytest.raises(tl.InvalidError, match="'at' is outside the years 1900 to 2200"):
            table.upsert(rows(value, kind=pa.int64()))
    assert len(table.timeline.instants) == 1


@pytest.mark.parametrize("verb", ["insert", "bulk_insert", "upsert", "insert_overwrite", "insert_overwrite_table"])
@pytest.mark.parametrize(("declared", "given"), [("s", "ms"), ("s", "us"), ("ms", "us"), ("us", "ns"), ("ms", "ns")])
def test_event_time_of_another_unit_is_refused_with_keys_and_the_unit_it_seems_to_be(
    verb: str, declared: str, given: str
) -> None:
    """Column, count, up to five keys and the unit that the values look like are named; nothing is left pending."""
    table = make(pa.int64(), declared)
    good = rows(NOON_S * PER_SECOND[declared], kind=pa.int64())
    table.upsert(good)
    instants = table.timeline.instants
    bad = rows(None, *[NOON_S * PER_SECOND[given]] * 7, kind=pa.int64())
    with pytest.raises(tl.InvalidError) as caught:
        getattr(table, verb)(bad)
    message = str(caught.value)
    assert f"'at' is outside the years 1900 to 2200 in 7 rows ({NOON_S * PER_SECOND[given]})" in message
    assert "for the keys 1, 2, 3, 4, 5 " in message
    assert f"unit is {declared}; as {given}" in message
    assert "2024-01-15 12:00:00" in message
    assert table.timeline.instants == instants


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.timestamp("us", "UTC"), FIRST * 1_000_000 - 1),
        (pa.timestamp("ms"), END * 1_000),
        (pa.date32(), date(1899, 12, 31)),
        (pa.date32(), date(2201, 1, 1)),
    ],
)
def test_event_time_of_a_typed_column_out_of_range_is_refused(kind: pa.DataType, value: Any) -> None:
    """Timestamps and dates are checked too."""
    table = make(kind)
    with pytest.raises(tl.InvalidError, match=r"'at' is outside .* 1 rows .*for the keys 0"):
        table.upsert(rows(value, kind=kind))
    assert not table.timeline.instants


def test_event_time_unit_is_declared_when_the_table_is_made() -> None:
    """A number without a unit, a unit that is not known or has no column, and a unit for a timestamp are refused."""
    with pytest.raises(tl.InvalidError, match=r"'at'.*unit.*s, ms or us"):
        make(pa.int64())
    with pytest.raises(tl.UnsupportedError, match=r"event\.time\.unit=ns"):
        make(pa.int64(), "ns")
    with pytest.raises(tl.InvalidError, match=r"'at' has type .* its own unit"):
        make(pa.timestamp("us"), "us")
    with pytest.raises(tl.InvalidError, match="without an event_time_field"):
        tl.create_table("memory", "id bigint", name="t", options={UNIT: "s"}, storage=MemoryStorage())


def test_event_time_column_may_be_named_by_apache_hudis_option_and_is_kept() -> None:
    """The field and its unit are properties of the table, under the names that Hudi users know."""
    storage = MemoryStorage()
    options = {"hoodie.payload.event.time.field": "at", UNIT: "s"}
    tl.create_table("memory", "id bigint, at bigint", name="t", options=options, storage=storage)
    config = tl.open_table("memory", storage=storage).config
    assert (config.event_time_field, config.event_time_unit) == ("at", "s")
    with pytest.raises(tl.InvalidError, match="'at'"):
        tl.open_table("memory", storage=storage).upsert(rows(NOON_S * 1_000, kind=pa.int64()))


def test_event_time_delete_of_rows_that_another_writer_stored_out_of_range_is_taken() -> None:
    """What is wrong in the table already can be deleted."""
    storage = MemoryStorage()
    tl.create_table("memory", "id bigint, at bigint", name="t", storage=storage).upsert(rows(2**60, kind=pa.int64()))
    path = ".hoodie/hoodie.properties"
    storage.put(path, storage.get(path) + b"hoodie.payload.event.time.field=at\nhoodie.payload.event.time.unit=s\n")
    table = tl.open_table("memory", storage=storage)
    table.delete([0])
    assert table.scan().count() == 0


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_event_time_numbers_do_not_become_fractions(kind: pa.DataType) -> None:
    """Other columns are widened; of this one a fraction would be no time of its unit, and split at no threshold."""
    table = make(pa.int64(), "s")
    table.upsert(rows(NOON_S, kind=pa.int64()))
    with pytest.raises(tl.InvalidError, match="'at' is int64 and cannot become"):
        table.upsert(rows(NOON_S + 0.5, kind=kind))
    assert table.schema.field("at").type == pa.int64()
