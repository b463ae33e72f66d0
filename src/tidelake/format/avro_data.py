"""Avro records in bulk: buffers of binary records, and the content of AVRO_DATA_BLOCKs, to and from Arrow batches.

An AVRO_DATA_BLOCK's content is an int32 version, an int32 count, and for each record an int32 length and the record in
the block's schema; integers are big-endian and nothing is compressed. Records are decoded and encoded column by column
(``avro_decode``, ``avro_encode``), never one by one.
"""

from __future__ import annotations

import struct
from array import array
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake import _limits
from tidelake.errors import CorruptError, InvalidError, UnsupportedError
from tidelake.format.avro_arrow import arrow_schema
from tidelake.format.avro_cursor import Cursors, Readable, Source
from tidelake.format.avro_decode import Decoder
from tidelake.format.avro_encode import encode_column, join, large_offsets
from tidelake.format.avro_schema import Record
from tidelake.format.avro_walk import skip

BLOCK_VERSION: Final = 3
"""The only version of AVRO_DATA_BLOCK content that Hudi 1.x writes."""

_HEADER: Final = struct.Struct(">ii")
_LENGTH: Final = struct.Struct(">i")
_PART_ROWS: Final = 16_384
_PART_BYTES: Final = 256 * _limits.MIB
"""Records are decoded in parts: few enough for the cursors to stay in the processor's cache and for memory to stay
a small multiple of the block, and as many as it takes to make the cost of numpy's calls not matter."""


def decode_records(
    data: Readable,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    record: Record,
    columns: set[str] | None = None,
) -> pa.RecordBatch:
    """Decode the records at ``data[starts[i]:ends[i]]``, which must be in order and must not overlap.

    ``columns`` names the top-level fields that are wanted; names that the record does not have are ignored, and the
    types of fields that are not wanted need not be readable. Every record must end exactly where ``ends`` says.
    """
    source = Source(data)
    at, end = np.array(starts, np.int64), np.array(ends, np.int64)
    if at.shape != end.shape or at.ndim != 1:
        raise InvalidError(f"{at.shape} starts of records do not match {end.shape} ends")
    bounds = np.concatenate([np.zeros(1, np.int64), np.stack([at, end], axis=1).reshape(-1), [source.size]])
    if (np.diff(bounds) < 0).any():
        raise CorruptError("the records of an Avro block overlap, or pass the end of their buffer")
    schema = arrow_schema(record, columns)
    decoder = Decoder(source)
    batches = [_decode_part(decoder, Cursors(source, at[i:j], end[i:j]), record, schema) for i, j in _parts(at, end)]
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def encode_records(batch: pa.RecordBatch, record: Record) -> tuple[pa.Buffer, npt.NDArray[np.int64]]:
    """Encode every row of ``batch``: a buffer, and the n + 1 offsets in it between which the records lie.

    The columns of the batch must be the fields of the record, in any order, with types that cast without loss.
    """
    return _data(_encode_rows(batch, record))


def split_avro_block(content: Readable) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The starts and ends of the records in the content of an AVRO_DATA_BLOCK."""
    view = np.frombuffer(content, np.uint8).data
    if len(view) < _HEADER.size:
        raise CorruptError(f"an Avro data block of {len(view)} bytes has no header")
    version, count = _HEADER.unpack_from(view)
    if version != BLOCK_VERSION:
        raise UnsupportedError(f"version {version} of Avro data blocks is not read, only {BLOCK_VERSION}")
    at, size = _HEADER.size, len(view)
    if not 0 <= count <= (size - at) // _LENGTH.size:
        raise CorruptError(f"an Avro data block of {size} bytes claims to hold {count} records")
    # A loop over plain integers: where a length stands is known only from the length before it.
    read = _LENGTH.unpack_from
    edges = array("q", [at])
    for _ in range(count):
        if at + _LENGTH.size > size:
            raise CorruptError(f"an Avro data block ends before record {len(edges)} of {count}")
        length = read(view, at)[0]
        at += _LENGTH.size + length
        if length < 0 or at > size:
            raise CorruptError(f"record {len(edges)} of an Avro data block claims {length} bytes, and passes its end")
        edges.append(at)
    if at != size:
        raise CorruptError(f"{size - at} bytes follow the last record of an Avro data block")
    ends = np.frombuffer(edges, np.int64)
    return ends[:-1] + _LENGTH.size, ends[1:]


def decode_avro_block(content: Readable, record: Record, columns: set[str] | None = None) -> pa.RecordBatch:
    """Decode the content of an AVRO_DATA_BLOCK whose SCHEMA header is ``record``."""
    starts, ends = split_avro_block(content)
    return decode_records(content, starts, ends, record, columns)


def encode_avro_block(batch: pa.RecordBatch, record: Record) -> bytes:
    """The content of an AVRO_DATA_BLOCK that holds the rows of ``batch``."""
    rows = _encode_rows(batch, record)
    lengths = np.diff(large_offsets(rows)).astype(">i4")
    prefixes = pa.Array.from_buffers(pa.binary(4), len(rows), [None, pa.py_buffer(lengths)]).cast(pa.large_binary())
    buffer, offsets = _data(join([prefixes, rows], len(rows)))
    size = _HEADER.size + int(offsets[-1])
    if size > _limits.LOG_BLOCK_BYTES:
        raise InvalidError(f"{len(rows)} records take {size} bytes, more than a log block may hold", hint="write fewer")
    return b"".join([_HEADER.pack(BLOCK_VERSION, len(rows)), memoryview(buffer)])


def _parts(at: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Ranges of records of at most ``_PART_ROWS`` each, that span about ``_PART_BYTES`` at most."""
    if at.size == 0:
        return [(0, 0)]
    cuts = np.searchsorted(at, np.arange(int(at[0]) + _PART_BYTES, int(end[-1]), _PART_BYTES))
    edges = sorted({*range(0, at.size, _PART_ROWS), *cuts.tolist(), at.size})
    return list(pairwise(edges))


def _decode_part(decoder: Decoder, cursors: Cursors, record: Record, schema: pa.Schema) -> pa.RecordBatch:
    wanted = set(schema.names)
    arrays: list[pa.Array] = []
    for field in record.fields:
        if field.name in wanted:
            arrays.append(decoder.column(field.type, cursors, field.name))
        else:
            skip(field.type, cursors, field.name)
    cursors.check(cursors.at == cursors.end, "the record is longer than its fields", record.name)
    if not arrays:
        rows = pa.StructArray.from_buffers(pa.struct([]), len(cursors), [None])
        return pa.RecordBatch.from_struct_array(rows)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _encode_rows(batch: pa.RecordBatch, record: Record) -> pa.Array:
    names = batch.schema.names
    fields = [field.name for field in record.fields]
    if sorted(names) != sorted(fields):
        differ = sorted(set(names) ^ set(fields)) or sorted({name for name in names if names.count(name) > 1})
        raise InvalidError(f"the columns of a batch are not the fields of {record.name}: {', '.join(differ)}")
    columns = [encode_column(field.type, batch.column(field.name), field.name) for field in record.fields]
    return join(columns, batch.num_rows)


def _data(rows: pa.Array) -> tuple[pa.Buffer, npt.NDArray[np.int64]]:
    """The bytes of a column and the offsets in them, from zero."""
    offsets = large_offsets(rows)
    data = rows.buffers()[2]
    first, last = int(offsets[0]), int(offsets[-1])
    return (pa.py_buffer(b"") if data is None else data.slice(first, last - first)), offsets - first
