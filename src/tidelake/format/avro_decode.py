"""Avro binary records to Arrow, field by field across all records at once.

The decoder keeps one cursor per record (``avro_cursor``) and reads the first field of every record, then the second,
and so on; each field becomes an Arrow array. Three tricks do the heavy work without Python per record:

* a string column is an Arrow view of the source whose every second value is a gap, and ``take`` copies the others;
* a nullable field is decoded for the records that have it, and ``take`` with null indexes spreads it out;
* the items of arrays and maps are located first (``avro_walk``) and then decoded as one column of their own.

What comes out is valid Arrow data: text is UTF-8, decimals fit their precision, times lie within a day.

The memory is bounded by the bytes read, with one exception: a null struct or fixed is one byte in Avro, but takes the
room of all its parts in Arrow. That room is counted and bounded by ``SPREAD_BYTES`` and ``SPREAD_FACTOR``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake import _limits
from tidelake.errors import CorruptError, LimitError
from tidelake.format.avro_arrow import arrow_type
from tidelake.format.avro_cursor import Bytes, Cursors, Longs, Mask, Source, corrupt
from tidelake.format.avro_schema import (
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
from tidelake.format.avro_walk import branch_indexes, locate_items, map_entry

SPREAD_BYTES: Final = 256 * _limits.MIB
SPREAD_FACTOR: Final = 64
"""Null structs and fixed values of b bytes of Avro may take SPREAD_BYTES + b * SPREAD_FACTOR bytes in Arrow."""

_DAY: Final = {"time-millis": 86_400_000, "time-micros": 86_400_000_000}
_DECIMAL_BYTES: Final = 16
_LEAST_DECIMAL: Final = np.array([0] * (_DECIMAL_BYTES - 1) + [0x80], dtype=np.uint8)


class Decoder:
    """Decodes columns of one source. Its state is how much room nulls may still take."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._room = SPREAD_BYTES + SPREAD_FACTOR * source.size

    def column(self, node: AvroNode, cursors: Cursors, path: str) -> pa.Array:
        """Read one value of ``node`` at every cursor."""
        if len(cursors) == 0:
            return pa.array([], arrow_type(node, path))
        match node:
            case Union():
                return self._union(node, cursors, path)
            case Primitive(logical=Decimal()) | Fixed(logical=Decimal()):
                return self._decimals(node, cursors, path)
            case Primitive():
                return self._primitive(node, cursors, path)
            case Fixed(size=size):
                return _array(pa.binary(size), self._source.rows(cursors.advance(size, path), size))
            case Enum(symbols=symbols):
                chosen = cursors.longs(path)
                cursors.check((chosen >= 0) & (chosen < len(symbols)), "an enum has no such symbol", path)
                return pa.array(symbols, pa.string()).take(pa.array(chosen))
            case Array(items=items):
                counts, inner = locate_items(items, cursors, path)
                values = self.column(items, inner, f"{path}.element")
                return pa.ListArray.from_arrays(_offsets(counts), values, type=arrow_type(node, path))
            case Map(values=value):
                counts, inner = locate_items(map_entry(node), cursors, path)
                keys = self._spans(inner, None, pa.string(), f"{path}.key")
                values = self.column(value, inner, f"{path}.value")
                return pa.MapArray.from_arrays(_offsets(counts), keys, values, type=arrow_type(node, path))
            case Record():
                return self._record(node, cursors, path)

    def _record(self, node: Record, cursors: Cursors, path: str) -> pa.Array:
        kind = arrow_type(node, path)
        if not node.fields:
            return pa.StructArray.from_buffers(kind, len(cursors), [None])
        arrays = [self.column(field.type, cursors, f"{path}.{field.name}") for field in node.fields]
        return pa.StructArray.from_arrays(arrays, fields=list(kind))

    def _union(self, node: Union, cursors: Cursors, path: str) -> pa.Array:
        kind = arrow_type(node, path)
        split = nullable(node)
        assert split is not None, "arrow_type refuses other unions"
        inner, null = split
        chosen = branch_indexes(cursors, len(node.branches), path)
        valid: Mask = chosen != (-1 if null is None else null)
        if valid.all():
            return self.column(inner, cursors, path)
        self._spend(inner, valid.size, path)
        rows = np.flatnonzero(valid)
        if rows.size == 0:
            return pa.nulls(valid.size, kind)
        part = cursors.subset(rows)
        if isinstance(inner, Primitive) and inner.logical is None and inner.kind in ("string", "bytes"):
            spread = self._spans(part, valid, kind, path)
        else:
            spread = self.column(inner, part, path).take(_ranks(valid, 1))
        cursors.at[rows] = part.at
        return spread

    def _primitive(self, node: Primitive, cursors: Cursors, path: str) -> pa.Array:
        kind = arrow_type(node, path)
        match node.kind:
            case "null":
                return pa.nulls(len(cursors))
            case "boolean":
                flags = self._source.bytes[cursors.advance(1, path)]
                cursors.check(flags <= 1, "a boolean is neither 0 nor 1", path)
                return pa.array(flags.view(np.bool_))
            case "int":
                ints = cursors.ints(path)
                _check_day(node, cursors, ints, path)
                return _array(kind, ints)
            case "long":
                longs = cursors.longs(path)
                _check_day(node, cursors, longs, path)
                return _array(kind, longs)
            case "float" | "double":
                return _array(kind, self._source.rows(cursors.advance(kind.byte_width, path), kind.byte_width))
            case "bytes" | "string":
                return self._spans(cursors, None, kind, path)

    def _spans(self, cursors: Cursors, valid: Mask | None, kind: pa.DataType, path: str) -> pa.Array:
        """Strings or bytes at the cursors. With ``valid``, they are spread over its true places, nulls between them."""
        lengths = cursors.lengths(path)
        starts = cursors.at
        cursors.at = starts + lengths
        if starts.size == 0:
            return pa.array([], kind)
        # Cursors are in the order of the source and never overlap, so starts and ends in turn are ascending offsets.
        offsets = np.empty(2 * starts.size, np.int32)
        offsets[0::2] = starts
        offsets[1::2] = cursors.at
        gapped = pa.Array.from_buffers(
            kind, offsets.size - 1, [None, pa.py_buffer(offsets), self._source.buffer], null_count=0
        )
        spans = gapped.take(pa.array(np.arange(0, offsets.size, 2)) if valid is None else _ranks(valid, 2))
        if pa.types.is_string(kind):
            _check_text(spans, path)
        return spans

    def _decimals(self, node: AvroNode, cursors: Cursors, path: str) -> pa.Array:
        kind = arrow_type(node, path)
        if isinstance(node, Fixed):
            digits = _from_fixed(self._source.rows(cursors.advance(node.size, path), node.size), cursors, path)
        else:
            lengths = cursors.lengths(path)
            starts = cursors.at
            cursors.at = starts + lengths
            cursors.check((lengths > 0) & (lengths <= _DECIMAL_BYTES), "a decimal has an impossible length", path)
            digits = _from_bytes(self._source, starts, lengths)
        array = _array(kind, digits)
        # The least number of 128 bits has no positive twin, and Arrow's own check lets it pass.
        cursors.check((digits != _LEAST_DECIMAL).any(axis=1), "a decimal has more digits than it may", path)
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise corrupt(f"a decimal has more than {kind.precision} digits", path, int(cursors.at[0])) from error
        return array

    def _spend(self, node: AvroNode, rows: int, path: str) -> None:
        self._room -= rows * _slot_bytes(node)
        if self._room < 0:
            raise LimitError(
                f"the nulls of the field {path!r} take more memory than {self._source.size} bytes may ask for"
            )


def _slot_bytes(node: AvroNode) -> int:
    """About how many bytes a null of this type takes in Arrow."""
    match node:
        case Fixed(size=size):
            return size
        case Record(fields=fields):
            return 1 + sum(_slot_bytes(field.type) for field in fields)
        case Union():
            split = nullable(node)
            return 8 if split is None else _slot_bytes(split[0])
        case _:
            return 8


def _array(kind: pa.DataType, values: npt.NDArray[np.generic]) -> pa.Array:
    return pa.Array.from_buffers(
        kind, values.shape[0], [None, pa.py_buffer(np.ascontiguousarray(values))], null_count=0
    )


def _offsets(counts: Longs) -> pa.Array:
    offsets = np.zeros(counts.size + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.array(offsets)


def _ranks(valid: Mask, step: int) -> pa.Array:
    """Where the true places stand: 0, step, 2 * step ... at each of them, null at the others."""
    return pa.array((np.cumsum(valid) - 1) * step, mask=~valid)


def _check_day(node: Primitive, cursors: Cursors, values: npt.NDArray[np.signedinteger], path: str) -> None:
    if isinstance(node.logical, str) and node.logical in _DAY:
        cursors.check((values >= 0) & (values < _DAY[node.logical]), "a time lies outside of its day", path)


def _check_text(spans: pa.Array, path: str) -> None:
    data = spans.buffers()[2]
    # Pure ASCII, the common case, is found out much faster than UTF-8 is validated.
    if data is None or data.size == 0 or np.frombuffer(data, np.uint8).max() < 0x80:
        return
    try:
        spans.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptError(f"damaged Avro data: a string is not UTF-8, in field {path!r}") from error


def _from_fixed(raw: Bytes, cursors: Cursors, path: str) -> Bytes:
    """Big-endian two's complement of any width to Arrow's sixteen little-endian bytes."""
    size = raw.shape[1]
    sign: Bytes = np.where(raw[:, 0] >= 0x80, 0xFF, 0).astype(np.uint8)
    digits = np.repeat(sign[:, None], _DECIMAL_BYTES, axis=1)
    kept = min(size, _DECIMAL_BYTES)
    digits[:, :kept] = raw[:, ::-1][:, :kept]
    if size > _DECIMAL_BYTES:
        extra = raw[:, : size - _DECIMAL_BYTES]
        fits = (extra == sign[:, None]).all(axis=1) & ((digits[:, -1] >= 0x80) == (sign == 0xFF))
        cursors.check(fits, "a decimal is wider than 128 bits", path)
    return digits


def _from_bytes(source: Source, starts: Longs, lengths: Longs) -> Bytes:
    """As ``_from_fixed``, for values of one to sixteen bytes each."""
    sign: Bytes = np.where(source.bytes[starts] >= 0x80, 0xFF, 0).astype(np.uint8)
    digits = np.repeat(sign[:, None], _DECIMAL_BYTES, axis=1)
    last = starts + lengths - 1
    for place in range(int(lengths.max())):
        rows = np.flatnonzero(lengths > place)
        digits[rows, place] = source.bytes[last[rows] - place]
    return digits
