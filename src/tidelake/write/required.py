"""Columns that may not be null, at every depth: rows that leave them null are refused by path and key.

What lies in a struct, list or map that is null itself is not there, and does not count. Only Arrow's casts and its
parquet writer want a value there too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.errors import InvalidError
from tidelake.write.rows import KEY, in_one

SAMPLES = 5
Rows = npt.NDArray[np.int64]


def lenient(schema: pa.Schema, given: Collection[str]) -> pa.Schema:
    """The schema with nulls allowed everywhere in the columns that are given, so that they can be looked for later."""
    return pa.schema([_lenient(f) if f.name in given else f for f in schema], metadata=schema.metadata)


def refuse_null_required(rows: pa.Table, schema: pa.Schema) -> None:
    """Refuse rows with a null where the schema allows none, naming some of their keys."""
    for field in schema:
        if field.nullable and not _has_required(field.type):
            continue
        column = in_one(rows.column(field.name))
        for path, at in _nulls(column, field, field.name, np.arange(len(column))):
            keys = rows.column(KEY).take(pa.array(np.unique(at)[:SAMPLES])).to_pylist()
            raise InvalidError(
                f"the column {path!r} holds {len(at)} nulls, but may not be null, for the keys {', '.join(keys)}",
                value=path,
            )


def with_values_below_nulls(rows: pa.Table) -> pa.Table:
    """The rows as Arrow casts and writes them: the parts of a null struct that may not be null hold any value."""
    if not any(map(pa.types.is_nested, rows.schema.types)):
        return rows
    for number, field in enumerate(rows.schema):
        if _has_required(field.type):
            chunks = [_with_values(chunk) for chunk in rows.column(number).chunks]
            rows = rows.set_column(number, field, pa.chunked_array(chunks, field.type))
    return rows


def _with_values(array: pa.Array, *, keeps_nulls: bool = True) -> pa.Array:
    """The array with values below nulls; without ``keeps_nulls`` its own nulls become what lies in their memory."""
    kind, keeps_nulls = array.type, keeps_nulls or not array.null_count
    if keeps_nulls and not _has_required(kind):
        return array
    mask = array.is_null() if keeps_nulls and array.null_count else None
    if pa.types.is_struct(kind):
        parts = []
        for field, part in zip(kind, array.flatten(), strict=True):
            is_hidden = not field.nullable and part.null_count == array.null_count
            parts.append(_with_values(part, keeps_nulls=not is_hidden))
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        offsets = array.offsets.to_numpy()
        items = _with_values(_items(array))
        begins = pa.array(offsets - offsets[0])
        if pa.types.is_list(kind):
            return pa.ListArray.from_arrays(begins, items, type=kind, mask=mask)
        keys = array.keys.slice(offsets[0], offsets[-1] - offsets[0])
        return pa.MapArray.from_arrays(begins, keys, items, type=kind, mask=mask)
    return pa.Array.from_buffers(kind, len(array), [None, *array.buffers()[1:]], 0, array.offset)


def _items(array: pa.Array) -> pa.Array:
    """The elements of lists, or the values of maps."""
    offsets = array.offsets.to_numpy()
    whole = array.items if pa.types.is_map(array.type) else array.values
    return whole.slice(offsets[0], offsets[-1] - offsets[0])


def _nulls(array: pa.Array, field: pa.Field, path: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    """The paths where nulls are that may not be, each with the rows that have them; ``rows`` says whose each value is."""
    if array.null_count:
        is_null = np.asarray(array.is_null())
        if not field.nullable:
            yield path, rows[is_null]
        array, rows = array.drop_null(), rows[~is_null]
    kind = field.type
    if not _has_required(kind):
        return
    if pa.types.is_struct(kind):
        for number, inner in enumerate(kind):
            yield from _nulls(array.field(number), inner, f"{path}.{inner.name}", rows)
        return
    name = "value" if pa.types.is_map(kind) else "element"
    whose = np.repeat(rows, np.diff(array.offsets.to_numpy()))
    yield from _nulls(_items(array), _inner(kind)[0], f"{path}.{name}", whose)


def _inner(kind: pa.DataType) -> list[pa.Field]:
    """The fields inside a type that may be null or not; the keys of a map never are."""
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_map(kind):
        return [kind.item_field]
    return [kind.value_field] if pa.types.is_list(kind) else []


def _has_required(kind: pa.DataType) -> bool:
    return any(not field.nullable or _has_required(field.type) for field in _inner(kind))


def _lenient(field: pa.Field) -> pa.Field:
    kind = field.type
    if _has_required(kind):
        inner = [_lenient(each) for each in _inner(kind)]
        if pa.types.is_struct(kind):
            kind = pa.struct(inner)
        else:
            kind = pa.map_(kind.key_type, inner[0]) if pa.types.is_map(kind) else pa.list_(inner[0])
    return field.with_type(kind).with_nullable(True)
