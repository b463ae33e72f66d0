"""Event times: checked when rows come in.

The unit of an integer column is declared when the table is made, never guessed. A time outside the years 1900 to 2200 is
taken for one of another unit and refused before anything is visible: statistics with a wrong unit would mislead whoever
asks what is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.config import EVENT_TIME_UNITS, TableConfig
from tidelake.errors import InvalidError
from tidelake.schema.event_time import DAY_S, PER_SECOND, event_bounds_ms, stored_numbers, time_unit
from tidelake.write.rows import KEY, in_one

SAMPLES = 5
_FIRST_S, _END_S = -2_208_988_800, 7_289_654_400
"""The years 1900 to 2200."""


TimesBrought = Mapping[str, tuple[int, int]]
"""The least and greatest of each event time, in milliseconds."""


def times_brought(rows: pa.Table, config: TableConfig) -> dict[str, tuple[int, int]]:
    """What rows bring of each event time, on a table that has several; statistics of files are of all together."""
    fields = config.event_time_fields if len(config.event_time_fields) > 1 else ()
    bounds = {name: event_bounds_ms(rows.column(name), config.event_time_unit) for name in fields}
    return {name: (low, high) for name, (low, high) in bounds.items() if low is not None and high is not None}


def brought_together(parts: Iterable[TimesBrought]) -> dict[str, tuple[int, int]]:
    """What the tasks of a write brought."""
    found: dict[str, tuple[int, int]] = {}
    for part in parts:
        for name, (low, high) in part.items():
            least, most = found.get(name, (low, high))
            found[name] = min(low, least), max(high, most)
    return found


def check_event_times(schema: pa.Schema, fields: Sequence[str], unit: str | None) -> None:
    """Refuse event-time columns whose values are no times, or do not say of which unit they are."""
    for field in fields:
        _check_event_time(
            schema, field, unit, has_numbers=any(pa.types.is_integer(schema.field(f).type) for f in fields)
        )


def _check_event_time(schema: pa.Schema, field: str, unit: str | None, *, has_numbers: bool) -> None:
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
    elif unit is not None and not has_numbers:
        raise InvalidError(f"the event-time column {field!r} has type {kind}, which has its own unit", value=unit)


def refuse_widened_times(known: pa.Schema, schema: pa.Schema, config: TableConfig) -> None:
    """Refuse a write whose rows would make an event-time column one of fractions, which is no time of a unit any more."""
    for field in config.event_time_fields:
        if field not in known.names or known.field(field).type == schema.field(field).type:
            continue
        kind = schema.field(field).type
        if pa.types.is_floating(kind):
            raise InvalidError(
                f"the event-time column {field!r} is {known.field(field).type} and cannot become {kind}",
                value=field,
                table=config.name,
                hint=f"cast the column to {known.field(field).type}",
            )


def refuse_implausible_times(rows: pa.Table, config: TableConfig) -> None:
    """Refuse rows whose event time is before 1900 or after 2200, naming some of their keys."""
    for field in config.event_time_fields if rows.num_rows else ():
        _refuse_implausible(rows, field, config)


def _refuse_implausible(rows: pa.Table, field: str, config: TableConfig) -> None:
    column = in_one(rows.column(field))
    values = stored_numbers(column)
    if pa.types.is_date32(column.type):
        low, end = _FIRST_S // DAY_S, _END_S // DAY_S
    else:
        per_second = PER_SECOND[time_unit(column.type, config.event_time_unit)]
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


def _hint(kind: pa.DataType, config: TableConfig, value: int) -> str | None:
    """Of which other unit the value would be a time."""
    if not pa.types.is_integer(kind):
        return None
    declared = time_unit(kind, config.event_time_unit)
    for unit, per_second in PER_SECOND.items():
        if (
            unit != declared
            and _FIRST_S * per_second <= value < _END_S * per_second
            and abs(value) > per_second * DAY_S
        ):
            when = datetime(1970, 1, 1) + timedelta(seconds=value // per_second)
            known = "" if unit in EVENT_TIME_UNITS else ", which no column of numbers may have"
            return f"the table's unit is {declared}; as {unit}{known} the value would be {when:%Y-%m-%d %H:%M:%S}"
    return f"the table's unit is {declared}"
