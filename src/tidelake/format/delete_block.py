"""Delete blocks: which keys go, and from which ordering value on.

Content: ``version:i32=3, length:i32``, then one Avro ``HoodieDeleteRecordList`` without a schema; the reader's own
schema decides, so the numbers of the union branches are part of the format. Each wrapper's value gets a field name
of its own here, so that Arrow turns the decoded list into columns in one step and the filled column tells the wrapper.
Versions 1 and 2 are Java-serialized objects, which only a JVM reads: refused by name.
"""

from __future__ import annotations

import io
import struct
from decimal import Decimal

import fastavro
import pyarrow as pa

from tidelake.errors import CorruptError, InvalidError, UnsupportedError
from tidelake.format.bytes_reader import BytesReader

_VERSION = 3
_HEAD_BYTES = 8
_SCALE = 15
_DECIMAL_BYTES = 16

WRAPPERS: tuple[tuple[str, object, pa.DataType], ...] = (
    ("boolean", "boolean", pa.bool_()),
    ("int", "int", pa.int32()),
    ("long", "long", pa.int64()),
    ("float", "float", pa.float32()),
    ("double", "double", pa.float64()),
    ("bytes", "bytes", pa.binary()),
    ("string", "string", pa.string()),
    ("date", "int", pa.int32()),
    ("decimal", "bytes", pa.decimal128(38, _SCALE)),
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
        for row in decoded["records"]:
            if row["ordering"] is not None:
                _read_decimals(row["ordering"])
        return pa.array(decoded["records"], type=DELETE_TYPE)
    except (EOFError, IndexError, ValueError, TypeError, OverflowError, pa.ArrowException) as error:
        raise CorruptError(f"a delete list cannot be decoded: {error}") from error


def _read_decimals(ordering: dict[str, object]) -> None:
    """Bytes to numbers, in place; here and not by fastavro, which takes minutes for a hostile one."""
    data = ordering.get("decimal")
    if isinstance(data, bytes):
        if len(data) > _DECIMAL_BYTES:
            raise CorruptError(f"a delete's decimal ordering value has {len(data)} bytes", value=len(data))
        number = int.from_bytes(data, "big", signed=True)
        ordering["decimal"] = Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -_SCALE))
    items = ordering.get("array")
    if isinstance(items, list):
        for item in items:
            if item is not None:
                _read_decimals(item)


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
        if isinstance(value, Decimal):
            value = _decimal_bytes(value)
        return (_named(name), {name: value})
    return None


def _decimal_bytes(value: Decimal) -> bytes:
    """The unscaled number, in the fewest bytes of two's complement, as Java's BigInteger writes it."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent < -_SCALE:
        raise InvalidError(f"the ordering value {value} has more than {_SCALE} decimals", value=str(value))
    number = int("".join(map(str, digits))) * 10 ** (exponent + _SCALE) * (-1 if sign else 1)
    bits = (number if number >= 0 else ~number).bit_length() + 1
    data: bytes = number.to_bytes(-(-bits // 8), "big", signed=True)
    return data
