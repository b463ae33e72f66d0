"""Event times of any type as milliseconds since the epoch, rounded down: what statistics and thresholds compare."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
DAY_S = 86_400


def time_unit(kind: pa.DataType, declared: str | None) -> str:
    """The unit of an event-time column's numbers."""
    if pa.types.is_timestamp(kind):
        return str(kind.unit)
    # Numbers of tables that were made before units were declared are milliseconds.
    return declared or "ms"


def stored_to_ms(value: int, kind: pa.DataType, declared: str | None) -> int:
    """A stored number of an event-time column in milliseconds."""
    if pa.types.is_date32(kind):
        return value * DAY_S * 1_000
    return value * 1_000 // PER_SECOND[time_unit(kind, declared)]


def ms_to_stored(threshold_ms: int, kind: pa.DataType, declared: str | None) -> int:
    """The least stored number of an event-time column that is at or after a time in milliseconds."""
    if pa.types.is_date32(kind):
        return -(-threshold_ms // (DAY_S * 1_000))
    return -(-threshold_ms * PER_SECOND[time_unit(kind, declared)] // 1_000)


def stored_numbers(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """An event-time column as the numbers that are stored."""
    if pa.types.is_date32(column.type):
        column = pc.cast(column, pa.int32())
    return pc.cast(column, pa.int64())


def event_bounds_ms(column: pa.Array | pa.ChunkedArray, declared: str | None) -> tuple[int | None, int | None]:
    """The least and greatest event time of a column in milliseconds; None where all are null."""
    found = pc.min_max(column)
    if not found["min"].is_valid:
        return None, None
    low, high = (stored_to_ms(stored_number(found[side]), column.type, declared) for side in ("min", "max"))
    return low, high


def stored_number(value: pa.Scalar) -> int:
    """The number that is stored of one event time."""
    return int(value.as_py() if pa.types.is_integer(value.type) else value.value)
