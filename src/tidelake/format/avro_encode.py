"""Arrow columns to Avro binary values, without Python per row.

A column is encoded to a ``large_binary`` array with the bytes of each row's value. The bytes of a record are then the
bytes of its fields joined row by row, which Arrow does; those of an array are the bytes of its items between a count
and a zero, and the items of one row already lie side by side, so only the offsets change. Only numbers, decimals and
branch indexes are made here, with numpy.

Arrays and maps are written as one block with a positive count, as Avro's Java library writes them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import InvalidError
from tidelake.format.avro_arrow import arrow_type
from tidelake.format.avro_cursor import Bytes, Longs, Mask
from tidelake.format.avro_schema import (
    NULL,
    Array,
    AvroNode,
    Decimal,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
    nullable,
)

_BINARY: Final = pa.large_binary()
_EMPTY: Final = pa.scalar(b"", _BINARY)
_DECIMAL_BYTES: Final = 16


def encode_column(node: AvroNode, column: pa.Array, path: str) -> pa.Array:
    """The Avro bytes of every row of ``column``, as large_binary. The column is cast to the node's own type first."""
    return _encode(node, _conform(column, arrow_type(node, path), path), path)


def join(columns: list[pa.Array], rows: int) -> pa.Array:
    """Join the bytes of several columns row by row."""
    if not columns:
        return _constant(b"", rows)
    return columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, _EMPTY)


def large_offsets(column: pa.Array) -> Longs:
    """The n + 1 offsets of a large_binary column in its data."""
    if len(column) == 0:
        return np.zeros(1, np.int64)
    return np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]


def _conform(column: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except pa.ArrowException as error:
        raise InvalidError(f"the column {path!r} of {column.type} cannot be written as {kind}: {error}") from error


def _encode(node: AvroNode, column: pa.Array, path: str) -> pa.Array:
    if isinstance(node, Union):
        return _union(node, column, path)
    if column.null_count and node != NULL:
        raise InvalidError(f"the column {path!r} holds {column.null_count} nulls, but its Avro type has no null")
    match node:
        case Primitive(logical=Decimal()) | Fixed(logical=Decimal()):
            return _decimals(node, column, path)
        case Primitive():
            return _primitive(node, column)
        case Fixed():
            return column.cast(_BINARY)
        case Enum(symbols=symbols):
            chosen = pc.index_in(column, value_set=pa.array(symbols, pa.string()))
            if chosen.null_count:
                raise InvalidError(f"the column {path!r} holds a value that its Avro enum {node.name} does not have")
            return _varints(chosen.to_numpy().astype(np.int64))
        case Array(items=items):
            first, last, counts = _list_bounds(column)
            return _blocks(_encode(items, column.values.slice(first, last - first), f"{path}.element"), counts)
        case Map(values=value):
            first, last, counts = _list_bounds(column)
            keys = _text(column.keys.slice(first, last - first))
            values = _encode(value, column.items.slice(first, last - first), f"{path}.value")
            return _blocks(join([keys, values], last - first), counts)
        case Record(fields=fields):
            parts = column.flatten()
            made = [_encode(f.type, part, f"{path}.{f.name}") for f, part in zip(fields, parts, strict=True)]
            return join(made, len(column))


def _union(node: Union, column: pa.Array, path: str) -> pa.Array:
    split = nullable(node)
    assert split is not None, "arrow_type refuses other unions"
    inner, null = split
    some, none = _index(node.branches.index(inner)), _index(null or 0)
    if column.null_count == 0 or null is None:
        values = _encode(inner, column, path)
        return join([_constant(some, len(column)), values], len(column))
    valid: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    branches = np.where(valid, some[0], none[0]).astype(np.uint8)
    values = _spread(_encode(inner, column.drop_null(), path), valid)
    return join([_even(branches.reshape(-1, 1)), values], len(column))


def _index(branch: int) -> bytes:
    """A branch number as a varint: there are at most 64 branches, so one byte holds it."""
    return bytes([2 * branch])


def _primitive(node: Primitive, column: pa.Array) -> pa.Array:
    match node.kind:
        case "null":
            return _constant(b"", len(column))
        case "boolean":
            flags: Mask = column.to_numpy(zero_copy_only=False)
            return _even(flags.view(np.uint8).reshape(-1, 1))
        case "int":
            return _varints(column.view(pa.int32()).to_numpy().astype(np.int64))
        case "long":
            return _varints(column.view(pa.int64()).to_numpy())
        case "float" | "double":
            values = np.ascontiguousarray(column.to_numpy())
            return _even(values.view(np.uint8).reshape(-1, column.type.byte_width))
        case "bytes" | "string":
            return _text(column)


def _text(column: pa.Array) -> pa.Array:
    """Strings or bytes behind their lengths."""
    lengths = pc.binary_length(column).to_numpy().astype(np.int64)
    return join([_varints(lengths), column.cast(_BINARY)], len(column))


def _blocks(items: pa.Array, counts: Longs) -> pa.Array:
    """Arrays: one block of all items, and a zero. An empty array is the zero alone."""
    edges = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=edges[1:])
    offsets = large_offsets(items)[edges]
    rows = _binary(offsets, items.buffers()[2] if len(items) else None)
    full: Mask = counts > 0
    if full.all():
        return join([_varints(counts), rows, _constant(b"\0", counts.size)], counts.size)
    heads = _spread(_varints(counts[full]), full)
    return join([heads, rows, _constant(b"\0", counts.size)], counts.size)


def _list_bounds(column: pa.Array) -> tuple[int, int, Longs]:
    """The first and last position of a column's items among its values, and the count of each row."""
    offsets: npt.NDArray[np.int32] = column.offsets.to_numpy()
    return int(offsets[0]), int(offsets[-1]), np.diff(offsets).astype(np.int64)


def _varints(values: Longs) -> pa.Array:
    """Zigzag varints: all bytes of the widest one for every row, of which each row keeps its own."""
    raw = (values << 1 ^ values >> 63).view(np.uint64)
    width = np.ones(raw.size, np.int64)
    most = int(raw.max()) if raw.size else 0
    widest = max(1, (most.bit_length() + 6) // 7)
    for place in range(1, widest):
        width += raw >= np.uint64(1 << 7 * place)
    places = np.arange(widest)
    cells: Bytes = (raw[:, None] >> (places * 7).astype(np.uint64)).astype(np.uint8) & np.uint8(0x7F)
    cells |= np.where(places < width[:, None] - 1, 0x80, 0).astype(np.uint8)
    if widest == 1:
        return _even(cells)
    offsets = np.zeros(raw.size + 1, np.int64)
    np.cumsum(width, out=offsets[1:])
    return _binary(offsets, pa.py_buffer(cells[places < width[:, None]]))


def _decimals(node: AvroNode, column: pa.Array, path: str) -> pa.Array:
    """Decimals as big-endian two's complement, in the size of a fixed or in as few bytes as each needs."""
    data = column.buffers()[1]
    start = column.offset * _DECIMAL_BYTES
    digits: Bytes = np.frombuffer(data, np.uint8)[start : start + len(column) * _DECIMAL_BYTES]
    digits = digits.reshape(-1, _DECIMAL_BYTES)[:, ::-1]
    negative = digits[:, 0] >= 0x80
    sign: Bytes = np.where(negative, 0xFF, 0).astype(np.uint8)
    # A leading byte is needless if it only repeats the sign, and the byte after it has the same sign.
    needless = (digits[:, :-1] == sign[:, None]) & ((digits[:, 1:] >= 0x80) == negative[:, None])
    width = _DECIMAL_BYTES - np.cumprod(needless, axis=1).sum(axis=1)
    if isinstance(node, Fixed):
        if (width > node.size).any():
            raise InvalidError(f"the column {path!r} holds a decimal that does not fit {node.size} bytes")
        if node.size <= _DECIMAL_BYTES:
            return _even(digits[:, _DECIMAL_BYTES - node.size :])
        return _even(np.concatenate([np.repeat(sign[:, None], node.size - _DECIMAL_BYTES, axis=1), digits], axis=1))
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(width, out=offsets[1:])
    kept = np.arange(_DECIMAL_BYTES) >= _DECIMAL_BYTES - width[:, None]
    return _text(_binary(offsets, pa.py_buffer(digits[kept])))


def _binary(offsets: Longs, data: pa.Buffer | None) -> pa.Array:
    held = pa.py_buffer(b"") if data is None else data
    return pa.Array.from_buffers(_BINARY, offsets.size - 1, [None, pa.py_buffer(np.ascontiguousarray(offsets)), held])


def _even(cells: Bytes) -> pa.Array:
    """Rows of one width."""
    rows, width = cells.shape
    return _binary(np.arange(rows + 1, dtype=np.int64) * width, pa.py_buffer(np.ascontiguousarray(cells)))


def _constant(value: bytes, rows: int) -> pa.Array:
    return _binary(np.arange(rows + 1, dtype=np.int64) * len(value), pa.py_buffer(value * rows))


def _spread(values: pa.Array, valid: Mask) -> pa.Array:
    """Put the rows of ``values`` at the true places of ``valid``, and no bytes at the others."""
    offsets = large_offsets(values)[np.concatenate([np.zeros(1, np.int64), np.cumsum(valid)])]
    return _binary(offsets, values.buffers()[2] if len(values) else None)
