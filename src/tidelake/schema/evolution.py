"""Reading old data with a newer schema, and merging the schema of new data into a table's.

Apache Hudi's rule, and all of it: a reader takes the table's newest schema; columns are matched by name, at every
depth; what an old file lacks is null; a number may have become *wider*, int to long to float to double. Here also a
timestamp may have gone from milliseconds to microseconds, and Arrow's other layouts of the same values (large and view
strings, dictionaries, large lists, small integers, half floats, another time zone for the same instant) are taken for
what they hold. A whole number may have become text (Spark reports the column of a time-based partition so, and then
writes it so). Decimals of fewer digits, and nanoseconds that are whole microseconds, are taken as the type that a column
has, which they do not change. Everything else is refused with the column and both types: narrowing, and text from
floating numbers.

``conform`` copies nothing that has its type already. ``merge_schemas`` never makes a column narrower, and keeps the
order of the old columns. Long to float loses digits; that is Hudi's rule too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from tidelake.errors import CorruptError, InvalidError

_NUMBERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
"""From narrow to wide."""
_HELD_BY: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
}
"""The narrowest of these for a number that is none of them."""
_UNITS: Final = ("s", "ms", "us")


def conform(
    batch: pa.RecordBatch, target: pa.Schema, defaults: Mapping[str, pa.Scalar] | None = None
) -> pa.RecordBatch:
    """The batch with exactly the columns of ``target``, in its order and types; columns it does not name are dropped.

    ``defaults`` gives values for missing columns by their dotted path (``a``, ``a.b``); the others become null. A
    missing column that may not be null, and a change of type that would lose something, are an ``InvalidError``.
    """
    if batch.schema.equals(target):
        return batch
    given = defaults or {}
    arrays: list[pa.Array] = []
    for field in target:
        found = batch.schema.get_all_field_indices(field.name)
        if len(found) > 1:
            raise InvalidError(f"the column {field.name!r} stands more than once in the data")
        if found:
            arrays.append(_column(batch.column(found[0]), field, field.name, given))
        else:
            arrays.append(_missing(field, batch.num_rows, field.name, given))
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), batch.num_rows, [None]))
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def conform_stored(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """``conform`` for what a table's own files hold: what does not fit is damage, not a wrong call."""
    try:
        return conform(batch, target)
    except InvalidError as error:
        raise CorruptError(error.message, value=error.value) from None


def merge_schemas(old: pa.Schema, new: pa.Schema, *, keep_wider: bool = False) -> pa.Schema:
    """All columns of both: the old ones in their order, then the new ones. Types are those that hold both.

    A column that only one side has becomes nullable. A column that is narrower in ``new`` is refused.

    With ``keep_wider`` ``new`` describes data that ``conform`` will bring into the result: what holds it keeps its type,
    at every depth a column of ``old`` stays nullable or not, and its numbers do not become text.
    """
    fields = _merge_fields(list(old), list(new), "", keep_wider)
    return pa.schema(fields, metadata=old.metadata)


def can_widen(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether values of the scalar type ``old`` are read as ``new`` without a change of meaning."""
    if old == new or pa.types.is_null(old):
        return True
    if _is_text(old) or _is_bytes(old):
        return (_is_text(old) and _is_text(new)) or (_is_bytes(old) and _is_bytes(new))
    if pa.types.is_timestamp(old) and pa.types.is_timestamp(new):
        finer = old.unit == new.unit or (
            old.unit in _UNITS and new.unit in _UNITS and _UNITS.index(old.unit) < _UNITS.index(new.unit)
        )
        return finer and (old.tz is None) == (new.tz is None)
    if pa.types.is_integer(old) and _is_text(new):
        return True
    number = _HELD_BY.get(old, old)
    if number in _NUMBERS and new in _NUMBERS:
        return _NUMBERS.index(number) <= _NUMBERS.index(new)
    return False


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with the types that a table holds, where another layout of them is given."""
    return pa.schema([field.with_type(_plain(field.type)) for field in schema], metadata=schema.metadata)


def _can_hold(kind: pa.DataType, data: pa.DataType) -> bool:
    """Whether a column takes values of another type; of nanoseconds those that lose nothing, which the cast sees to."""
    if can_widen(data, kind):
        return True
    if pa.types.is_decimal(data) and pa.types.is_decimal(kind):
        return bool(data.scale <= kind.scale and data.precision - data.scale <= kind.precision - kind.scale)
    if pa.types.is_timestamp(data) and pa.types.is_timestamp(kind):
        return data.unit == "ns" and (data.tz is None) == (kind.tz is None)
    return False


def _missing(field: pa.Field, rows: int, path: str, defaults: Mapping[str, pa.Scalar]) -> pa.Array:
    if path in defaults:
        try:
            return pa.repeat(defaults[path].cast(field.type), rows)
        except pa.ArrowException as error:
            raise InvalidError(f"the default of the column {path!r} is not {field.type}: {error}") from error
    if not field.nullable and rows:
        raise InvalidError(f"the column {path!r} is missing in the data, may not be null and has no default")
    return pa.nulls(rows, field.type)


def _column(array: pa.Array, field: pa.Field, path: str, defaults: Mapping[str, pa.Scalar]) -> pa.Array:
    """One column as ``field``: its type is conformed, and nulls are refused where they may not be."""
    if array.null_count and not field.nullable:
        raise InvalidError(f"the column {path!r} holds {array.null_count} nulls, but may not be null")
    return _array(array, field.type, path, defaults)


def _array(array: pa.Array, kind: pa.DataType, path: str, defaults: Mapping[str, pa.Scalar]) -> pa.Array:
    if array.type.equals(kind):
        return array
    if pa.types.is_dictionary(array.type):
        return _array(array.dictionary_decode(), kind, path, defaults)
    if pa.types.is_struct(array.type) and pa.types.is_struct(kind):
        return _struct(array, kind, path, defaults)
    if pa.types.is_map(array.type) and pa.types.is_map(kind):
        first, last, offsets = _bounds(array, path)
        keys = _column(array.keys.slice(first, last - first), kind.key_field, f"{path}.key", defaults)
        items = _column(array.items.slice(first, last - first), kind.item_field, f"{path}.value", defaults)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=_nulls(array))
    if pa.types.is_fixed_size_list(array.type) and pa.types.is_list(kind):
        return _array(array.cast(pa.list_(array.type.value_field)), kind, path, defaults)
    if (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)) and pa.types.is_list(kind):
        first, last, offsets = _bounds(array, path)
        values = _column(array.values.slice(first, last - first), kind.value_field, f"{path}.element", defaults)
        return pa.ListArray.from_arrays(offsets, values, type=kind, mask=_nulls(array))
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if pa.types.is_nested(array.type) or pa.types.is_nested(kind) or not _can_hold(kind, array.type):
        raise _refusal(path, array.type, kind, _hint(kind, array.type))
    if pa.types.is_float32(array.type) and pa.types.is_float64(kind):
        # By way of text, as Apache Hudi does: 0.1 stays 0.1 and does not become 0.10000000149011612.
        return array.cast(pa.string()).cast(kind)
    # Not safe: a long beyond 2**24 becomes the nearest float, as it does in Apache Hudi.
    try:
        return array.cast(kind, safe=not pa.types.is_floating(kind))
    except pa.ArrowInvalid as error:
        is_finer = pa.types.is_timestamp(array.type) and array.type.unit == "ns"
        raise InvalidError(
            f"the column {path!r} holds a value that {kind} cannot hold: {error}",
            value=path,
            hint="cast it to us, such as by .dt.floor('us') in pandas" if is_finer else None,
        ) from error


def _struct(array: pa.Array, kind: pa.DataType, path: str, defaults: Mapping[str, pa.Scalar]) -> pa.Array:
    names = [field.name for field in array.type]
    given = array.flatten()  # null where the struct is
    parts: list[pa.Array] = []
    for field in kind:
        inner = f"{path}.{field.name}"
        if field.name not in names:
            # Where every struct is null, a missing part is null too, whatever the field says.
            empty = array.null_count == len(array)
            parts.append(pa.nulls(len(array), field.type) if empty else _missing(field, len(array), inner, defaults))
            continue
        part = given[names.index(field.name)]
        if not field.nullable and part.null_count > array.null_count:
            raise InvalidError(f"the column {inner!r} holds nulls, but may not be null")
        parts.append(_array(part, field.type, inner, defaults))
    if not parts:
        return pa.StructArray.from_buffers(kind, len(array), [None]) if not array.null_count else array.cast(kind)
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=_nulls(array))


def _bounds(array: pa.Array, path: str) -> tuple[int, int, pa.Array]:
    """The part of a list's values that it uses, and its offsets in that part."""
    offsets = array.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    if last - first >= 2**31:
        raise InvalidError(f"the column {path!r} holds {last - first} list items", hint="use smaller batches")
    return first, last, pa.array((offsets - first).astype(np.int32))


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _merge_fields(old: list[pa.Field], new: list[pa.Field], path: str, keep_wider: bool) -> list[pa.Field]:
    for side in (old, new):
        names = [field.name for field in side]
        twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
        if twice is not None:
            raise InvalidError(f"the column {path}{twice!r} stands more than once in a schema")
    added = {field.name: field for field in new}
    merged: list[pa.Field] = []
    for field in old:
        other = added.pop(field.name, None)
        if other is None:
            merged.append(field.with_nullable(field.nullable or not keep_wider))
        else:
            merged.append(_merge_field(field, other, f"{path}{field.name}", keep_wider))
    return merged + [field.with_nullable(True).with_type(_plain(field.type)) for field in added.values()]


def _merge_field(old: pa.Field, new: pa.Field, path: str, keep_wider: bool) -> pa.Field:
    kind = _merge_types(old.type, new.type, path, keep_wider)
    return old.with_type(kind).with_nullable(old.nullable or (new.nullable and not keep_wider))


def _merge_types(old: pa.DataType, new: pa.DataType, path: str, keep_wider: bool) -> pa.DataType:
    old, new = _plain(old), _plain(new)
    if old.equals(new) or pa.types.is_null(new):
        return old
    if pa.types.is_null(old):
        return new
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        return pa.struct(_merge_fields(list(old), list(new), f"{path}.", keep_wider))
    if pa.types.is_map(old) and pa.types.is_map(new) and old.key_type == new.key_type:
        return pa.map_(old.key_type, _merge_field(old.item_field, new.item_field, f"{path}.value", keep_wider))
    if pa.types.is_list(old) and pa.types.is_list(new):
        return pa.list_(_merge_field(old.value_field, new.value_field, f"{path}.element", keep_wider))
    if pa.types.is_nested(old) or pa.types.is_nested(new):
        raise _refusal(path, old, new, _hint(old, new))
    if can_widen(old, new) and not (keep_wider and _is_text(new) and not _is_text(old)):
        return new
    if keep_wider and _can_hold(old, new):
        return old
    raise _refusal(path, old, new, _hint(old, new))


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type that a table holds for an Arrow type that is only another layout of it."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if _is_text(kind):
        return pa.string()
    if _is_bytes(kind):
        return pa.binary()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), kind.item_field.with_type(_plain(kind.item_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    return kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def _refusal(path: str, old: pa.DataType, new: pa.DataType, hint: str) -> InvalidError:
    return InvalidError(f"the column {path!r} is {old} and cannot become {new}", value=path, hint=hint)


def _hint(kind: pa.DataType, data: pa.DataType) -> str:
    """What to do with data that a column does not take."""
    if pa.types.is_decimal(kind) and pa.types.is_decimal(data):
        return f"cast the data to {kind}"
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(data):
        if data.tz is None and kind.tz is not None:
            return 'give the times a zone, such as by .dt.tz_localize("UTC") in pandas, or declare the column timestamp_ntz'
        if data.tz is not None and kind.tz is None:
            return "take the zone off, such as by .dt.tz_localize(None) in pandas, or declare the column timestamp"
    return "only int to long to float to double, and timestamps to microseconds, are widened"
