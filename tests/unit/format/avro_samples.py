"""Random Avro schemas with values, and a plain second encoder, for the tests of the Avro codecs.

``write`` is the textbook encoder, one value at a time. It exists for what fastavro does not write: arrays in several
blocks, with sizes. fastavro reads its output, so both are checked.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import struct
import uuid
from decimal import Decimal
from typing import TypeAlias

import fastavro
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tidelake.format.avro_data import decode_records
from tidelake.format.avro_schema import parse_record

Values: TypeAlias = st.SearchStrategy[object]
Sample: TypeAlias = tuple[dict[str, object], list[dict[str, object]]]

UTC = dt.timezone.utc
_MILLI = 1000
_datetimes = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))


def _whole_millis(value: dt.datetime) -> dt.datetime:
    return value.replace(microsecond=value.microsecond // _MILLI * _MILLI)


def _text() -> Values:
    return st.text(st.characters(codec="utf-8"), max_size=20)


def _decimals(precision: int, scale: int) -> Values:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda digits: Decimal(digits).scaleb(-scale))


@st.composite
def _leaf(draw: st.DrawFn, name: str) -> tuple[object, Values]:
    precision = draw(st.integers(1, 27))  # more digits than Python's decimal context has would be rounded by fastavro
    scale = draw(st.integers(0, precision))
    decimal = {"logicalType": "decimal", "precision": precision, "scale": scale}
    size = draw(st.integers(1, 20))
    wide = draw(st.integers(12, 20))
    times = st.times()
    choices: list[tuple[object, Values]] = [
        ("null", st.none()),
        ("boolean", st.booleans()),
        ("int", st.integers(-(2**31), 2**31 - 1)),
        ("long", st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-100, 100))),
        ("float", st.floats(width=32, allow_nan=False)),
        ("double", st.floats(allow_nan=False)),
        ("bytes", st.binary(max_size=200)),
        ("string", _text()),
        ({"type": "string", "avro.java.string": "String"}, st.text("abc", min_size=60, max_size=130)),
        ({"type": "fixed", "name": name, "size": size}, st.binary(min_size=size, max_size=size)),
        ({"type": "enum", "name": name, "symbols": ["RED", "GREEN", "BLUE"]}, st.sampled_from(["RED", "BLUE"])),
        ({"type": "int", "logicalType": "date"}, st.dates()),
        (
            {"type": "int", "logicalType": "time-millis"},
            times.map(lambda t: t.replace(microsecond=t.microsecond // _MILLI * _MILLI)),
        ),
        ({"type": "long", "logicalType": "time-micros"}, times),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            _datetimes.map(lambda t: _whole_millis(t).replace(tzinfo=UTC)),
        ),
        ({"type": "long", "logicalType": "timestamp-micros"}, _datetimes.map(lambda t: t.replace(tzinfo=UTC))),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, _datetimes.map(_whole_millis)),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, _datetimes),
        ({"type": "string", "logicalType": "uuid"}, st.uuids()),
        ({"type": "bytes", **decimal}, _decimals(precision, scale)),
        ({"type": "fixed", "name": name, "size": wide, **decimal}, _decimals(precision, scale)),
    ]
    return draw(st.sampled_from(choices))


@st.composite
def _kind(draw: st.DrawFn, name: str, depth: int) -> tuple[object, Values]:
    form = draw(st.sampled_from(["leaf", "leaf", "leaf", "array", "map", "record"] if depth else ["leaf"]))
    if form == "leaf":
        schema, values = draw(_leaf(name))
    elif form == "array":
        items, inner = draw(_kind(f"{name}_a", depth - 1))
        schema, values = {"type": "array", "items": items}, st.lists(inner, max_size=4)
    elif form == "map":
        items, inner = draw(_kind(f"{name}_m", depth - 1))
        schema, values = {"type": "map", "values": items}, st.dictionaries(_text(), inner, max_size=3)
    else:
        schema, values = draw(_record(name, depth - 1, 3))
    order = draw(st.sampled_from(["plain", "null first", "null last"]))
    if order == "plain" or schema == "null":
        return schema, values
    return (["null", schema] if order == "null first" else [schema, "null"]), st.one_of(st.none(), values)


@st.composite
def _record(draw: st.DrawFn, name: str, depth: int, fields: int) -> tuple[object, Values]:
    parts = {f"f{i}": draw(_kind(f"{name}_{i}", depth)) for i in range(draw(st.integers(1, fields)))}
    schema = {"type": "record", "name": name, "fields": [{"name": n, "type": kind} for n, (kind, _) in parts.items()]}
    return schema, st.fixed_dictionaries({n: values for n, (_, values) in parts.items()})


@st.composite
def samples(draw: st.DrawFn, depth: int = 3, fields: int = 4) -> Sample:
    """A schema and rows for it: a handful, or so many copies of them that arrays are walked in rounds."""
    schema, values = draw(_record("r", depth, fields))
    rows = draw(st.lists(values, min_size=1, max_size=6))
    copies = draw(st.sampled_from([1, 1, 40]))
    return schema, rows * copies  # type: ignore[return-value]


def fastavro_bytes(schema: dict[str, object], rows: list[dict[str, object]]) -> list[bytes]:
    """Every row, encoded by fastavro."""
    parsed = fastavro.parse_schema(schema)
    encoded: list[bytes] = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        encoded.append(out.getvalue())
    return encoded


def fastavro_rows(schema: dict[str, object], encoded: list[bytes]) -> list[object]:
    """Every row, decoded by fastavro; uuids as they are stored."""
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema).replace('"uuid"', '"none"')))
    return [fastavro.schemaless_reader(io.BytesIO(data), parsed, None) for data in encoded]


def decode(schema: dict[str, object], encoded: list[bytes], columns: set[str] | None = None) -> pa.RecordBatch:
    """Rows decoded by us; the batch is checked to be valid Arrow data."""
    ends = np.cumsum([len(data) for data in encoded], dtype=np.int64)
    starts = ends - np.array([len(data) for data in encoded], np.int64)
    batch = decode_records(b"".join(encoded), starts, ends, parse_record(json.dumps(schema)), columns)
    batch.validate(full=True)
    return batch


def python(value: object) -> object:
    """A value to compare: uuids are text, as ``to_pylist`` gives them, and not-a-number equals itself."""
    match value:
        case float() if value != value:
            return "not a number"
        case uuid.UUID():
            return str(value)
        case dict():
            return {key: python(item) for key, item in value.items()}
        case list():
            return [python(item) for item in value]
        case _:
            return value


def write(schema: object, value: object, block: int | None) -> bytes:
    """The textbook encoding of a value; ``block`` items make a block of an array, with its size if negative."""
    if isinstance(schema, list):
        branch = next(i for i, kind in enumerate(schema) if (kind == "null") == (value is None))
        return _long(branch) + write(schema[branch], value, block)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        assert isinstance(schema, dict)
        assert isinstance(value, dict)
        return b"".join(write(field["type"], value[field["name"]], block) for field in schema["fields"])
    if kind == "array":
        assert isinstance(schema, dict)
        assert isinstance(value, list)
        return _blocks([write(schema["items"], item, block) for item in value], block)
    if kind == "map":
        assert isinstance(schema, dict)
        assert isinstance(value, dict)
        entries = [write("string", k, block) + write(schema["values"], v, block) for k, v in value.items()]
        return _blocks(entries, block)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def _blocks(items: list[bytes], block: int | None) -> bytes:
    step = abs(block) if block else max(1, len(items))
    out = b""
    for i in range(0, len(items), step):
        part = items[i : i + step]
        data = b"".join(part)
        out += (_long(-len(part)) + _long(len(data)) if block and block < 0 else _long(len(part))) + data
    return out + b"\0"


def _long(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    out = b""
    while raw >= 0x80:
        out += struct.pack("B", raw & 0x7F | 0x80)
        raw >>= 7
    return out + struct.pack("B", raw)
