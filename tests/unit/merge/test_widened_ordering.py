"""Deletes of the time before an ordering column was widened: they compare as they did."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake.testing import ManualClock, MemoryStorage

WIDER = [
    (pa.int32(), pa.int64()),
    (pa.int32(), pa.float32()),
    (pa.int64(), pa.float64()),
    (pa.float32(), pa.float64()),
]
INDEXES = ("SIMPLE", "BUCKET")


class Widened:
    """A table whose ordering column becomes wider."""

    def __init__(self, index: str, fields: tuple[str, ...] = ("at",), **options: str) -> None:
        self.clock = ManualClock(seed=1)
        self.fields = fields
        self.index = index
        self.options = options
        self.table: tl.Table | None = None

    def rows(self, kind: pa.DataType, *entries: tuple[str, Any, bool]) -> pa.Table:
        columns = {
            "id": pa.array([entry[0] for entry in entries], pa.string()),
            "at": pa.array([entry[1] for entry in entries]).cast(kind),
            "also": pa.array([1] * len(entries), pa.int64()),
            "_hoodie_is_deleted": pa.array([entry[2] for entry in entries], pa.bool_()),
        }
        return pa.table(columns)

    def upsert(self, kind: pa.DataType, *entries: tuple[str, Any, bool]) -> None:
        rows = self.rows(kind, *entries)
        if self.table is None:
            self.table = tl.create_table(
                "memory",
                rows.schema,
                name="wider",
                record_key="id",
                ordering_fields=self.fields,
                options={"hoodie.index.type": self.index, **self.options},
                storage=MemoryStorage(clock=self.clock),
                clock=self.clock,
            )
        self.table.upsert(rows)

    @property
    def ids(self) -> set[str]:
        assert self.table is not None
        return set(self.table.scan(columns=["id"]).to_arrow().column("id").to_pylist())


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize(("narrow", "wide"), WIDER, ids=str)
@pytest.mark.parametrize("fields", [("at",), ("at", "also")], ids=str)
def test_older_delete_stays_older_when_the_ordering_column_is_widened(
    index: str, narrow: pa.DataType, wide: pa.DataType, fields: tuple[str, ...]
) -> None:
    world = Widened(index, fields)
    world.upsert(narrow, ("1", 5, False), ("2", 5, False), ("3", 5, False))
    world.upsert(narrow, ("1", 3, True), ("3", 7, True))
    assert world.ids == {"1", "2"}
    world.upsert(wide, ("2", 9, False))
    assert world.ids == {"1", "2"}
    world.upsert(wide, ("3", 6, False))
    assert world.ids == {"1", "2"}
    world.upsert(wide, ("3", 8, False))
    assert world.ids == {"1", "2", "3"}
    assert world.table is not None
    world.table.compact()
    assert world.ids == {"1", "2", "3"}


@pytest.mark.parametrize("index", INDEXES)
def test_delete_that_a_compaction_kept_hides_older_records_when_the_column_is_widened(index: str) -> None:
    world = Widened(index, **{"tombstone.retention": "7d"})
    world.upsert(pa.int32(), ("1", 5, False), ("2", 5, False))
    world.upsert(pa.int32(), ("1", 7, True))
    assert world.table is not None
    world.table.compact()
    world.upsert(pa.int64(), ("2", 2**40, False))
    world.upsert(pa.int64(), ("1", 6, False))
    assert world.ids == {"2"}
    world.table.compact()
    assert world.ids == {"2"}


def test_value_of_a_float_is_that_of_its_text_when_it_is_widened() -> None:
    """As rows are read: a delete at 0.1 ends a row at 0.1, also as a double."""
    world = Widened("BUCKET")
    world.upsert(pa.float32(), ("1", 0.05, False), ("2", 0.05, False))
    world.upsert(pa.float32(), ("1", 0.1, True))
    world.upsert(pa.float64(), ("2", 9.0, False), ("1", 0.1000000001, False))
    assert world.ids == {"1", "2"}


@pytest.mark.parametrize("power", [23, 30, 33, 36, 37])
@pytest.mark.parametrize("sign", [1, -1])
def test_delete_of_a_row_with_a_decimal_that_deletes_cannot_hold_is_refused(power: int, sign: int) -> None:
    """Of some that are too large, Arrow's cast makes other numbers, silently."""
    clock = ManualClock(seed=1)
    kind = pa.decimal128(38, 0)
    table = tl.create_table(
        "memory",
        pa.schema([("id", pa.string()), ("at", kind)]),
        name="large",
        record_key="id",
        ordering_fields="at",
        storage=MemoryStorage(clock=clock),
        clock=clock,
    )
    table.upsert(pa.table({"id": ["k"], "at": pa.array([Decimal(sign * 10**power)], kind)}))
    with pytest.raises(tl.InvalidError, match="delete cannot carry"):
        table.delete(["k"])
    assert table.scan().to_arrow().num_rows == 1
