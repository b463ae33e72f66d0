"""Avro object container files with one record: how every timeline file is stored.

The container is parsed by hand, so that sizes and codecs are checked before anything is inflated; the record itself
is decoded by fastavro, with the writer schema embedded in the file, after that schema passed our guard (fastavro
overflows the stack on hostile schemas). Array and map items must take at least one byte each, so that a count cannot
claim more items than the file has bytes.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Mapping
from functools import lru_cache

import fastavro

from tidelake import _limits
from tidelake.errors import CorruptError, LimitError, UnsupportedError
from tidelake.format.avro_schema import Array, AvroNode, Fixed, Map, Primitive, Record, Union, parse_record
from tidelake.format.bytes_reader import BytesReader

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_FAILURES = (EOFError, IndexError, ValueError, TypeError, KeyError, OverflowError, UnicodeDecodeError, AttributeError)


def decode_container(data: bytes) -> dict[str, object]:
    """The only record of a container file, as a dict by field name."""
    schema_text, payload = _single_block(data)
    schema = _writer_schema(schema_text)
    stream = io.BytesIO(payload)
    try:
        record = fastavro.schemaless_reader(stream, schema, None)
    except _FAILURES as error:
        raise CorruptError(f"an Avro record cannot be decoded: {type(error).__name__} {error}") from error
    if not isinstance(record, dict):
        raise CorruptError(f"an Avro container holds a {type(record).__name__}, not a record")
    if stream.tell() != len(payload):
        raise CorruptError(f"an Avro record ends {len(payload) - stream.tell()} bytes before its block does")
    return record


def encode_container(schema: Mapping[str, object], record: Mapping[str, object], sync: bytes) -> bytes:
    """A container file with the one record, null codec, and the given 16-byte sync marker."""
    payload = io.BytesIO()
    fastavro.schemaless_writer(payload, _parsed(json.dumps(schema)), record)
    body = payload.getvalue()
    text = json.dumps(schema, separators=(",", ":")).encode("utf-8")
    out = io.BytesIO()
    out.write(_MAGIC)
    out.write(_varint(1) + _bytes(b"avro.schema") + _bytes(text) + _varint(0))
    out.write(sync)
    out.write(_varint(1) + _bytes(body))
    out.write(sync)
    return out.getvalue()


def _single_block(data: bytes) -> tuple[str, bytes]:
    if len(data) > _limits.TIMELINE_FILE_BYTES:
        raise LimitError(f"a timeline file of {len(data)} bytes is larger than {_limits.TIMELINE_FILE_BYTES}")
    reader = BytesReader(data)
    if reader.remaining < len(_MAGIC) or bytes(reader.take(len(_MAGIC), "the Avro magic")) != _MAGIC:
        raise CorruptError("not an Avro container file: it does not begin with Obj1")
    metadata = _header(reader)
    sync = bytes(reader.take(_SYNC_BYTES, "the Avro sync marker"))
    count = reader.varint("the number of records in an Avro block")
    if count != 1:
        raise CorruptError(f"a timeline file holds {count} records, not one", value=count)
    size = reader.varint("the size of an Avro block")
    payload = bytes(reader.take(size, "an Avro block"))
    if bytes(reader.take(_SYNC_BYTES, "the Avro sync marker")) != sync:
        raise CorruptError("an Avro block does not end with the file's sync marker")
    if reader.remaining:
        raise CorruptError(f"{reader.remaining} bytes follow the only block of an Avro container")
    if b"avro.schema" not in metadata:
        raise CorruptError("an Avro container has no avro.schema")
    try:
        schema_text = metadata[b"avro.schema"].decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptError("the schema of an Avro container is not UTF-8") from error
    return schema_text, _inflate(payload, metadata.get(b"avro.codec", b"null"))


def _header(reader: BytesReader) -> dict[bytes, bytes]:
    metadata: dict[bytes, bytes] = {}
    total = 0
    while True:
        count = reader.varint("the number of Avro header entries")
        if count == 0:
            return metadata
        if count < 0:
            reader.varint("the size of the Avro header")
            count = -count
        total += count
        if total > _limits.AVRO_HEADER_ENTRIES:
            raise LimitError(f"an Avro header claims {total} entries", value=total)
        for _ in range(count):
            key = bytes(reader.take(reader.varint("an Avro header key"), "an Avro header key", 1024))
            size = reader.varint("an Avro header value")
            metadata[key] = bytes(reader.take(size, "an Avro header value", _limits.AVRO_SCHEMA_BYTES))


def _inflate(payload: bytes, codec: bytes) -> bytes:
    if codec == b"null":
        return payload
    if codec != b"deflate":
        raise UnsupportedError(f"timeline files compressed with {codec!r} are not read")
    bound = min(_limits.TIMELINE_FILE_BYTES, max(_limits.MIB, len(payload) * _limits.TIMELINE_FILE_EXPANSION))
    try:
        _check_inflated(payload, bound)
        return zlib.decompressobj(-15).decompress(payload)
    except zlib.error as error:
        raise CorruptError(f"an Avro block cannot be inflated: {error}") from error


def _check_inflated(payload: bytes, bound: int) -> None:
    """Inflate a piece at a time and keep nothing, so that a bomb costs no memory; honest blocks are small."""
    inflater = zlib.decompressobj(-15)
    rest, size = payload, 0
    while rest and not inflater.eof:
        size += len(inflater.decompress(rest, _limits.MIB))
        rest = inflater.unconsumed_tail
        if size > bound:
            raise LimitError(f"an Avro block of {len(payload)} bytes inflates to more than {bound}")
    if not inflater.eof or inflater.unused_data:
        raise CorruptError("an Avro block does not end where its deflated data does")


@lru_cache(maxsize=128)
def _writer_schema(text: str) -> fastavro.types.Schema:
    _refuse_weightless_items(parse_record(text))
    return _parsed(text)


@lru_cache(maxsize=128)
def _parsed(text: str) -> fastavro.types.Schema:
    try:
        return fastavro.parse_schema(json.loads(text))
    except _FAILURES as error:
        raise CorruptError(f"an Avro schema is not valid: {error}") from error


def _refuse_weightless_items(node: AvroNode) -> None:
    pending: list[AvroNode] = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, Array):
            if _weightless(current.items):
                raise LimitError("an Avro array has items of no width, so its count is without bound")
            pending.append(current.items)
        elif isinstance(current, Map):
            pending.append(current.values)
        elif isinstance(current, Record):
            pending.extend(field.type for field in current.fields)
        elif isinstance(current, Union):
            pending.extend(current.branches)


def _weightless(node: AvroNode) -> bool:
    if isinstance(node, Primitive):
        return node.kind == "null"
    if isinstance(node, Fixed):
        return node.size == 0
    if isinstance(node, Record):
        return all(_weightless(field.type) for field in node.fields)
    return False


def _varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag >= 0x80:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _bytes(data: bytes) -> bytes:
    return _varint(len(data)) + data
