"""Event times in a form that compares: typed, whole columns at a time, and null stays null."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import InvalidError, UnsupportedError
from tidelake.merge.ordering import WRAPPERS_OF, comparable, timestamps_of, type_family, wrapper_field

_NARROWER = {"int64": ("int",), "float": ("int", "long"), "double": ("int", "long", "float")}
WIDEST = 2**62
_COMPARABLE = frozenset({"int32", "int64", "float", "double", "string", "date32", "time", "timestamp", "decimal"})


def refuse_incomparable(name: str, kind: pa.DataType) -> None:
    """Refuse a column whose type has no order that makes sense of a time."""
    try:
        family = type_family(kind)
    except UnsupportedError:
        family = "none"
    if family not in _COMPARABLE:
        raise InvalidError(f"the column {name!r} of type {kind} cannot be an event time", value=name)


def clock_values(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """A column of event times in comparable form."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if type_family(kind) in ("int32", "date32"):
        return pc.cast(pc.cast(array, pa.int32()), pa.int64())
    return comparable(array, kind)


def ranks(values: pa.Array, most: int) -> npt.NDArray[np.int64]:
    """The values as numbers from 1 on, less than ``most``, that compare as they do; 0 is null."""
    if pa.types.is_int64(values.type) and len(values) > values.null_count:
        bounds = pc.min_max(values)
        least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
        if least > -WIDEST and greatest - least < most - 1:
            if least < 1 or greatest >= most:
                values = pc.subtract(values, least - 1)
            return np.asarray(pc.fill_null(values, 0) if values.null_count else values)
    return pl.Series(values).rank("dense").fill_null(0).to_numpy().astype(np.int64)


def clock_default(column: str, text: str, kind: pa.DataType) -> pa.Scalar:
    """A column's declared default, of its type."""
    try:
        return pc.cast(pa.array([text]), kind)[0]
    except (pa.ArrowException, NotImplementedError) as error:
        raise InvalidError(f"the default {text!r} of the column {column!r} is no {kind}", value=column) from error


def delete_clocks(
    wrappers: pa.StructArray, kinds: tuple[pa.DataType, ...], written: tuple[pa.DataType, ...] | None = None
) -> list[pa.Array]:
    """The event times that the deletes of a block carry, of their columns' types; null where one has none.

    ``written`` are the types that the columns had when the block was written.
    """
    count = len(wrappers)
    lists = wrapper_field(wrappers, "array")
    fits = np.asarray(pc.fill_null(pc.equal(pc.list_value_length(lists), len(kinds)), False))
    items = lists.filter(pa.array(fits)).flatten()
    columns = []
    for position, (kind, was) in enumerate(zip(kinds, written or kinds, strict=True)):
        typed = _typed(items.take(pa.array(np.arange(position, len(items), len(kinds)))), kind, was)
        spread = np.full(count, -1, dtype=np.int64)
        spread[fits] = np.arange(len(typed))
        columns.append(typed.take(pa.array(spread, mask=spread < 0)))
    return columns


def _typed(items: pa.StructArray, kind: pa.DataType, was: pa.DataType) -> pa.Array:
    values = pa.nulls(len(items), kind)
    family = type_family(kind)
    # A column that was widened has deletes of its old type.
    for name in (*WRAPPERS_OF[family], *_NARROWER.get(family, ())):
        column = wrapper_field(items, name)
        if column.null_count == len(column):
            continue
        if name == "timestamp_micros":
            column = pc.cast(column, pa.timestamp("us", kind.tz))
        elif family == "timestamp":
            column = timestamps_of(column, kind, was)
        elif family == "time":
            column = pc.cast(column, pa.time64("us"))
        values = pc.coalesce(pc.cast(column, kind, safe=False), values)
    return values
