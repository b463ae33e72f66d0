"""Event times: checked when rows come in, and normalised to milliseconds for statistics.

The unit of an integer column is declared when the table is made, never guessed. A time outside the years 1900 to 2200 is
taken for one of another unit and refused before anything is visible: statistics with a wrong unit would mislead whoever
asks what is complete.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.config import EVENT_TIME_UNITS, TableConfig
from tidelake.errors import InvalidError
from tidelake.write.rows import KEY, in_one

SAMPLES = 5
_FIRST_S, _END_S = -2_208_988_800, 7_289_654_400
"""The years 1900 to 2200."""
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_S = 86_400


def check_event_time(schema: pa.Schema, field: str, unit: str | None) -> None:
    """Refuse an event-time column whose values are no times, or do not say of which unit they are."""
    kind = schema.field(field).type
    if pa.types.is_integer(kind):
        if unit is None:
            raise InvalidError(
                f"the event-time column {field!r} is a number of no stated unit",
                value=field,
                hint="give the option hoodie.payload.event.time.unit: s, ms or us",
            )
    elif not (pa.types.is_timestamp(kind) or pa.types.is_date32(kind)):
        raise InvalidError(f"the event-time column {field!r} has type {kind}, no time", value=str(kind))
    elif unit is not None:
        raise InvalidError(f"the event-time column {field!r} has type {kind}, which has its own unit", value=unit)


def refuse_implausible_times(rows: pa.Table, config: TableConfig) -> None:
    """Refuse rows whose event time is before 1900 or after 2200, naming some of their keys."""
    field = config.event_time_field
    if field is None or rows.num_rows == 0:
        return
    column = in_one(rows.column(field))
    if pa.types.is_date32(column.type):
        values, low, end = pc.cast(pc.cast(column, pa.int32()), pa.int64()), _FIRST_S // _DAY_S, _END_S // _DAY_S
    else:
        values, per_second = pc.cast(column, pa.int64()), _PER_SECOND[_unit(column.type, config)]
        low, end = _FIRST_S * per_second, _END_S * per_second
    bad = pc.fill_null(pc.or_(pc.less(values, low), pc.greater_equal(values, end)), False)
    at = np.flatnonzero(np.asarray(bad))
    if len(at) == 0:
        return
    keys = rows.column(KEY).take(pa.array(at[:SAMPLES])).to_pylist()
    value = int(values[int(at[0])].as_py())
    raise InvalidError(
        f"the event-time column {field!r} is outside the years 1900 to 2200 in {len(at)} rows ({value}), for the keys "
        f"{', '.join(keys)}",
        value=field,
        table=config.name,
        hint=_hint(column.type, config, value),
    )


def event_time_bounds_ms(column: pa.ChunkedArray, config: TableConfig) -> tuple[int | None, int | None]:
    """The least and greatest event time, as milliseconds since the epoch, rounded down; None where all are null."""
    found = pc.min_max(column)
    if not found["min"].is_valid:
        return None, None
    low, high = (_number(found[side]) for side in ("min", "max"))
    if pa.types.is_date32(column.type):
        return low * _DAY_S * 1_000, high * _DAY_S * 1_000
    per_second = _PER_SECOND[_unit(column.type, config)]
    return low * 1_000 // per_second, high * 1_000 // per_second


def _number(time: pa.Scalar) -> int:
    return int(time.as_py() if pa.types.is_integer(time.type) else time.value)


def _unit(kind: pa.DataType, config: TableConfig) -> str:
    if pa.types.is_timestamp(kind):
        return str(kind.unit)
    # Numbers of tables that were made before units were declared are milliseconds.
    return config.event_time_unit or "ms"


def _hint(kind: pa.DataType, config: TableConfig, value: int) -> str | None:
    """Of which other unit the value would be a time."""
    if not pa.types.is_integer(kind):
        return None
    declared = _unit(kind, config)
    for unit, per_second in _PER_SECOND.items():
        if (
            unit != declared
            and _FIRST_S * per_second <= value < _END_S * per_second
            and abs(value) > per_second * _DAY_S
        ):
            when = datetime(1970, 1, 1) + timedelta(seconds=value // per_second)
            known = "" if unit in EVENT_TIME_UNITS else ", which no column of numbers may have"
            return f"the table's unit is {declared}; as {unit}{known} the value would be {when:%Y-%m-%d %H:%M:%S}"
    return f"the table's unit is {declared}"
