"""Delete blocks: which keys go, and from which ordering value on.

Content: ``version:i32=3, length:i32``, then one Avro ``HoodieDeleteRecordList`` without a schema; the reader's own
schema decides, so the numbers of the union branches are part of the format. Each wrapper's value gets a field name
of its own here, so that Arrow turns the decoded list into columns in one step and the filled column tells the wrapper.
Versions 1 and 2 are Java-serialized objects, which only a JVM reads: refused by name.
"""

from __future__ import annotations

import io
import struct

import fastavro
import pyarrow as pa

from tidelake.errors import CorruptError, UnsupportedError
from tidelake.format.bytes_reader import BytesReader

_VERSION = 3
_HEAD_BYTES = 8
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}

WRAPPERS: tuple[tuple[str, object, pa.DataType], ...] = (
    ("boolean", "boolean", pa.bool_()),
    ("int", "int", pa.int32()),
    ("long", "long", pa.int64()),
    ("float", "float", pa.float32()),
    ("double", "double", pa.float64()),
    ("bytes", "bytes", pa.binary()),
    ("string", "string", pa.string()),
    ("date", "int", pa.int32()),
    ("decimal", _DECIMAL, pa.decimal128(38, 15)),
    ("time_micros", "long", pa.int64()),
    ("timestamp_micros", "long", pa.int64()),
)
"""Union branches 1 to 11 of an ordering value, with the field names used here."""


def _wrapper(name: str, kind: object, prefix: str = "") -> dict[str, object]:
    return {"type": "record", "name": f"{prefix}{name}_wrapper", "fields": [{"name": name, "type": kind}]}


def _named(name: str, prefix: str = "") -> str:
    return f"{prefix}{name}_wrapper"


_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "deletes",
        "fields": [
            {
                "name": "records",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "delete",
                        "fields": [
                            {"name": "key", "type": ["null", "string"]},
                            {"name": "partition", "type": ["null", "string"]},
                            {
                                "name": "ordering",
                                "type": [
                                    "null",
                                    *(_wrapper(name, kind) for name, kind, _ in WRAPPERS),
                                    {
                                        "type": "record",
                                        "name": "array_wrapper",
                                        "fields": [
                                            {
                                                "name": "array",
                                                "type": [
                                                    "null",
                                                    {
                                                        "type": "array",
                                                        "items": [
                                                            "null",
                                                            *(_named(name) for name, _, _ in WRAPPERS),
                                                            _wrapper("local_date", "int"),
                                                        ],
                                                    },
                                                ],
                                            }
                                        ],
                                    },
                                ],
                            },
                        ],
                    },
                },
            }
        ],
    }
)

_VALUE_TYPE = pa.struct([(name, arrow) for name, _, arrow in WRAPPERS])
_ITEM_TYPE = pa.struct([*_VALUE_TYPE, pa.field("local_date", pa.int32())])
DELETE_TYPE = pa.struct(
    [
        ("key", pa.string()),
        ("partition", pa.string()),
        ("ordering", pa.struct([*_VALUE_TYPE, pa.field("array", pa.list_(_ITEM_TYPE))])),
    ]
)
"""One delete: the wrapper that is not null holds the ordering value; none, if the delete has no ordering."""


def decode_deletes(content: bytes | memoryview) -> pa.StructArray:
    """The deletes of a block, as an array of ``DELETE_TYPE``."""
    reader = BytesReader(content)
    version = reader.int32("the delete block version")
    if version in (1, 2):
        raise UnsupportedError(f"delete blocks of version {version} hold Java objects and are read only by a JVM")
    if version != _VERSION:
        raise UnsupportedError(f"delete blocks of version {version} are not read", value=version)
    payload = bytes(reader.take(reader.int32("the delete list length"), "the delete list"))
    if reader.remaining:
        raise CorruptError(f"{reader.remaining} bytes follow the delete list")
    stream = io.BytesIO(payload)
    try:
        decoded = fastavro.schemaless_reader(stream, _SCHEMA, None)
        if stream.tell() != len(payload) or not isinstance(decoded, dict):
            raise CorruptError("the delete list ends before its block does")
        return pa.array(decoded["records"], type=DELETE_TYPE)
    except (EOFError, IndexError, ValueError, TypeError, OverflowError, pa.ArrowException) as error:
        raise CorruptError(f"a delete list cannot be decoded: {error}") from error


def encode_deletes(deletes: pa.StructArray) -> bytes:
    """The content of a version 3 delete block."""
    records = [
        {"key": row["key"], "partition": row["partition"], "ordering": _tagged(row["ordering"])}
        for row in deletes.to_pylist()
    ]
    payload = io.BytesIO()
    fastavro.schemaless_writer(payload, _SCHEMA, {"records": records})
    data = payload.getvalue()
    return struct.pack(">ii", _VERSION, len(data)) + data


def _tagged(ordering: dict[str, object] | None) -> object:
    """The value as fastavro's ``(branch name, record)``, which fixes the union branch."""
    if ordering is None:
        return None
    for name, value in ordering.items():
        if value is None:
            continue
        if name == "array":
            assert isinstance(value, list)
            return ("array_wrapper", {"array": [_tagged(item) for item in value]})
        return (_named(name), {name: value})
    return None
