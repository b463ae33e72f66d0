"""Ordering values in a form that compares as Apache Hudi compares: whole columns at a time.

Every ordering value becomes an Arrow value whose natural order is the wanted one: integers, dates, timestamps and
booleans as int64; floating numbers as int64 with Java's total order (-0.0 before 0.0, NaN greatest); text and bytes by
bytes; decimals as they are. Null is Hudi's default value, the integer 0, where values are integers (also dates, which
are integers to Hudi's readers); elsewhere Hudi cannot compare the two, and here null is the smallest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import UnsupportedError
from tidelake.merge.arrays import Mask

WRAPPERS_OF: dict[str, tuple[str, ...]] = {
    "bool": ("boolean",),
    "int32": ("int",),
    "int64": ("long",),
    "float": ("float",),
    "double": ("double",),
    "binary": ("bytes",),
    "string": ("string",),
    "date32": ("date", "local_date", "int"),
    "time": ("time_micros", "long"),
    "timestamp": ("long", "timestamp_micros"),
    "decimal": ("decimal",),
}

_NUMBERS = frozenset({"int32", "int64", "float", "double"})


@cache
def type_family(kind: pa.DataType) -> str:
    """The name under which delete blocks know values of a type."""
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_decimal(kind):
        return "decimal"
    if pa.types.is_time(kind):
        return "time"
    for name, test in (
        ("bool", pa.types.is_boolean),
        ("int64", pa.types.is_int64),
        ("int32", pa.types.is_integer),
        ("float", pa.types.is_float32),
        ("double", pa.types.is_float64),
        ("date32", pa.types.is_date32),
        ("string", lambda t: pa.types.is_string(t) or pa.types.is_large_string(t)),
        ("binary", lambda t: pa.types.is_binary(t) or pa.types.is_fixed_size_binary(t)),
    ):
        if test(kind):
            return name
    raise UnsupportedError(f"values of type {kind} cannot be an ordering value", value=str(kind))


def comparable(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """A column of ordering values in comparable form."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    family = type_family(kind)
    if family in ("string", "binary", "decimal"):
        return array
    if family in ("float", "double"):
        return _total_order(pc.cast(array, pa.float64()))
    if family in ("int32", "date32"):
        return pc.cast(pc.fill_null(pc.cast(array, pa.int32()), 0), pa.int64())
    if pa.types.is_time32(kind):
        array = pc.cast(array, pa.int32())
    return pc.cast(array, pa.int64())


@cache
def comparable_type(kind: pa.DataType) -> pa.DataType:
    """The type of the comparable form."""
    return comparable(pa.array([], kind), kind).type


def typed_values(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values in comparable form as those of their column's type again."""
    if type_family(kind) in ("float", "double"):
        bits = np.asarray(pc.fill_null(column, 0))
        numbers = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits).view(np.float64)
        return pc.cast(pa.array(numbers, mask=np.asarray(column.is_null())), kind)
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = pc.cast(column, pa.int32())
    return pc.cast(column, kind)


def column_at(batch: pa.RecordBatch | pa.Table, path: str) -> pa.Array | pa.ChunkedArray:
    """A column by name; dots lead into structs."""
    head, *nested = path.split(".")
    column = batch.column(head)
    for part in nested:
        column = pc.struct_field(column, part)
    return column


def _total_order(array: pa.Array) -> pa.Array:
    valid = np.asarray(array.is_valid())
    numbers = np.asarray(pc.fill_null(array, 0.0)).copy()
    numbers[np.isnan(numbers)] = np.nan
    bits = numbers.view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    return pa.array(ordered, mask=~valid)


def delete_ordering(
    wrappers: pa.StructArray, kinds: tuple[pa.DataType, ...], written: tuple[pa.DataType, ...] | None = None
) -> tuple[list[pa.Array], Mask]:
    """The ordering values of a delete block in comparable form, and which of its deletes are unconditional.

    Unconditional is a delete without a value, with Hudi's default (int 0), or with a value of another class than the
    column's, which Apache Hudi does not compare. ``written`` are the columns' types as they were when the block was
    written: the numbers of a timestamp are of its unit then, and those of a column that was widened of its old class.
    """
    if len(kinds) != 1:
        return _tuple_ordering(wrappers, kinds, written or kinds)
    (kind,), (was,) = kinds, written or kinds
    values, unconditional = _field_ordering(lambda name: wrapper_field(wrappers, name), len(wrappers), kind, was)
    return [values], unconditional


def _field_ordering(
    wrapped: Callable[[str], pa.Array], count: int, kind: pa.DataType, was: pa.DataType
) -> tuple[pa.Array, Mask]:
    """The values of one ordering field, by the wrappers that they may be in."""
    unconditional = np.ones(count, dtype=np.bool_)
    values = pa.nulls(count, comparable_type(kind))
    own = WRAPPERS_OF[type_family(kind)]
    # A column that was widened since has deletes of the type that it had.
    older = WRAPPERS_OF[type_family(was)] if {type_family(kind), type_family(was)} <= _NUMBERS else ()
    for name in dict.fromkeys((*own, *older)):
        column = wrapped(name)
        if column.null_count == count:
            continue
        filled = np.asarray(column.is_valid())
        fresh = _as_comparable(column, name, kind, was) if name in own else comparable(_widened(column, kind), kind)
        values = pc.if_else(pa.array(filled), fresh, values) if column.null_count else fresh
        unconditional &= ~filled
    ints = wrapped("int")
    if ints.null_count < count:
        unconditional |= np.asarray(pc.fill_null(pc.equal(ints, 0), False))
    return values, unconditional


def _widened(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Numbers as rows of their age are read: a float by way of text, so that 0.1 stays 0.1."""
    if pa.types.is_float32(column.type) and pa.types.is_float64(kind):
        return pc.cast(pc.cast(column, pa.string()), kind)
    return pc.cast(column, kind, safe=False)


def _tuple_ordering(
    wrappers: pa.StructArray, kinds: tuple[pa.DataType, ...], written: tuple[pa.DataType, ...]
) -> tuple[list[pa.Array], Mask]:
    count = len(wrappers)
    lists = wrapper_field(wrappers, "array")
    fits = np.asarray(pc.fill_null(pc.equal(pc.list_value_length(lists), len(kinds)), False))
    if not fits.any():
        return [pa.nulls(count, comparable_type(kind)) for kind in kinds], ~fits
    unconditional = ~fits
    columns: list[pa.Array] = []
    whole = lists if fits.all() else pc.if_else(pa.array(fits), lists, pa.nulls(count, lists.type))
    items = whole.flatten()
    spread = np.full(count, -1, dtype=np.int64)
    spread[fits] = np.arange(fits.sum())
    for position, (kind, was) in enumerate(zip(kinds, written, strict=True)):
        at = pa.array(np.arange(position, len(items), len(kinds)))
        part, foreign = _field_ordering(partial(_taken_field, items, at), len(at), kind, was)
        columns.append(part if fits.all() else part.take(pa.array(spread, mask=spread < 0)))
        unconditional[fits] |= np.asarray(part.is_null()) & foreign
    return columns, unconditional


def wrapper_field(wrappers: pa.StructArray, name: str) -> pa.Array:
    """One of the wrappers that an ordering value of a delete may be in."""
    if wrappers.type.get_field_index(name) < 0:
        return pa.nulls(len(wrappers), pa.int32())
    return pc.struct_field(wrappers, name)


def _taken_field(wrappers: pa.StructArray, at: pa.Array, name: str) -> pa.Array:
    return wrapper_field(wrappers, name).take(at)


def _as_comparable(column: pa.Array, name: str, kind: pa.DataType, was: pa.DataType) -> pa.Array:
    if name == "long" and pa.types.is_timestamp(kind):
        return pc.cast(timestamps_of(column, kind, was), pa.int64())
    if name == "decimal":
        return pc.cast(column, kind, safe=False)
    if name in ("float", "double"):
        return comparable(column, column.type)
    if name in ("string", "bytes"):
        return column
    if name in ("timestamp_micros", "time_micros") and kind.unit == "ms":
        return pc.cast(pc.floor(pc.divide(pc.cast(column, pa.float64()), 1000.0)), pa.int64())
    return pc.cast(column, pa.int64())


def timestamps_of(column: pa.Array, kind: pa.DataType, was: pa.DataType) -> pa.Array:
    """Numbers that were timestamps of another type when they were written, as timestamps of this one."""
    unit = was.unit if pa.types.is_timestamp(was) else kind.unit
    return pc.cast(pc.cast(column, pa.timestamp(unit, kind.tz)), kind, safe=False)


def is_same_or_newer(new: list[pa.Array], old: list[pa.Array]) -> Mask:
    """Row by row, whether the new ordering tuple is at least the old one; null is the smallest."""
    count = len(new[0]) if new else 0
    verdict = np.ones(count, dtype=np.bool_)
    for fresh, stored in zip(reversed(new), reversed(old), strict=True):
        greater = np.asarray(pc.fill_null(pc.greater(fresh, stored), False))
        equal = np.asarray(pc.fill_null(pc.equal(fresh, stored), False))
        fresh_null, stored_null = np.asarray(pc.is_null(fresh)), np.asarray(pc.is_null(stored))
        greater = greater | (stored_null & ~fresh_null)
        equal = equal | (stored_null & fresh_null)
        verdict = greater | (equal & verdict)
    return verdict
