"""Avro types as Arrow types, and Arrow schemas under Apache Hudi's Avro conventions."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from tidelake.errors import InvalidError, UnsupportedError
from tidelake.format.avro_arrow import (
    META_COLUMN_NAMES,
    arrow_schema,
    avro_json,
    avro_record,
    decimal_size,
    sanitize_name,
)
from tidelake.format.avro_schema import parse_record, parse_schema, to_json

ALL_TYPES = pa.schema(
    [
        pa.field("n", pa.null()),
        pa.field("flag", pa.bool_()),
        pa.field("i", pa.int32(), nullable=False),
        pa.field("l", pa.int64()),
        pa.field("f", pa.float32()),
        pa.field("d", pa.float64()),
        pa.field("s", pa.string(), nullable=False),
        pa.field("b", pa.binary()),
        pa.field("fx", pa.binary(7)),
        pa.field("day", pa.date32()),
        pa.field("tm", pa.time32("ms")),
        pa.field("tu", pa.time64("us")),
        pa.field("tsm", pa.timestamp("ms", "UTC")),
        pa.field("tsu", pa.timestamp("us", "UTC")),
        pa.field("lm", pa.timestamp("ms")),
        pa.field("lu", pa.timestamp("us")),
        pa.field("dec", pa.decimal128(15, 2)),
        pa.field("tags", pa.list_(pa.field("element", pa.string(), nullable=False))),
        pa.field("props", pa.map_(pa.string(), pa.field("value", pa.decimal128(38, 10)))),
        pa.field(
            "deep",
            pa.struct(
                [
                    pa.field("x", pa.list_(pa.field("element", pa.struct([pa.field("y", pa.decimal128(3, 1))])))),
                    pa.field("z", pa.struct([pa.field("w", pa.int64(), nullable=False)]), nullable=False),
                ]
            ),
        ),
    ]
)


def test_avro_record_all_types_round_trip_to_the_same_arrow_schema() -> None:
    """Arrow to Avro to text to Avro to Arrow is the identity for every supported type."""
    record = avro_record(ALL_TYPES, "trips")
    assert parse_record(to_json(record)) == record
    assert arrow_schema(parse_record(to_json(record))).equals(ALL_TYPES, check_metadata=True)


def test_avro_json_hudi_conventions_are_followed_byte_for_byte() -> None:
    """Names, namespaces, sizes, the nullable form and the meta fields are those of a schema that Hudi wrote."""
    schema = pa.schema(
        [
            ("key", pa.string()),
            ("amount", pa.decimal128(20, 2)),
            ("nested", pa.struct([("n", pa.int32()), ("inner", pa.struct([("d", pa.decimal128(10, 5))]))])),
            ("props", pa.map_(pa.string(), pa.struct([("n", pa.int32())]))),
            ("items", pa.list_(pa.struct([("n", pa.int32())]))),
        ]
    )
    space = "hoodie.t.t_record"
    n_field = {"name": "n", "type": ["null", "int"], "default": None}

    def optional(name: str, kind: object) -> dict[str, object]:
        return {"name": name, "type": ["null", kind], "default": None}

    def fixed(path: str, size: int, precision: int, scale: int) -> dict[str, object]:
        logical = {"logicalType": "decimal", "precision": precision, "scale": scale}
        return {"type": "fixed", "name": "fixed", "namespace": f"{space}.{path}", "size": size, **logical}

    def struct(name: str, namespace: str, *fields: object) -> dict[str, object]:
        return {"type": "record", "name": name, "namespace": namespace, "fields": list(fields)}

    inner = struct("inner", f"{space}.nested", optional("d", fixed("nested.inner.d", 5, 10, 5)))
    meta = [{"name": n, "type": ["null", "string"], "doc": "", "default": None} for n in META_COLUMN_NAMES]
    fields = [
        optional("key", "string"),
        optional("amount", fixed("amount", 9, 20, 2)),
        optional("nested", struct("nested", space, n_field, optional("inner", inner))),
        optional("props", {"type": "map", "values": ["null", struct("props", space, n_field)]}),
        optional("items", {"type": "array", "items": ["null", struct("items", space, n_field)]}),
    ]
    plain = struct("t_record", "hoodie.t", *fields)
    assert avro_json(schema, "t") == json.dumps(plain, separators=(",", ":"))
    with_meta = struct("t_record", "hoodie.t", *meta, *fields)
    assert avro_json(schema, "t", meta_columns=True) == json.dumps(with_meta, separators=(",", ":"))


def test_avro_record_meta_columns_already_there_stay_five() -> None:
    """A schema that has the meta columns does not get them twice."""
    schema = pa.schema([(name, pa.string()) for name in META_COLUMN_NAMES] + [("a", pa.int32())])
    record = avro_record(schema, "t", meta_columns=True)
    assert [field.name for field in record.fields] == [*META_COLUMN_NAMES, "a"]


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (pa.int8(), pa.int32()),
        (pa.int16(), pa.int32()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.float16(), pa.float32()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.dictionary(pa.int32(), pa.string()), pa.string()),
        (pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.large_list(pa.int8()), pa.list_(pa.int32())),
        (pa.map_(pa.large_string(), pa.int8()), pa.map_(pa.string(), pa.int32())),
    ],
)
def test_avro_record_equivalent_arrow_type_is_stored_as_the_plain_one(given: pa.DataType, stored: pa.DataType) -> None:
    """Arrow types with the same values as a table's type become that type."""
    assert arrow_schema(avro_record(pa.schema([("a", given)]), "t")).field("a").type == stored


@pytest.mark.parametrize(
    "kind",
    [pa.uint64(), pa.timestamp("ns"), pa.time64("ns"), pa.duration("us"), pa.map_(pa.int32(), pa.int32()), pa.date64(),
     pa.decimal256(40, 2), pa.decimal128(10, -2), pa.list_(pa.duration("s"))],
)  # fmt: skip
def test_avro_record_type_without_avro_form_is_invalid_and_named(kind: pa.DataType) -> None:
    """An Arrow type that a table cannot hold is refused with the column's name."""
    with pytest.raises(InvalidError, match="wrong"):
        avro_record(pa.schema([("outer", pa.struct([("wrong", kind)]))]), "t")


@pytest.mark.parametrize("name", ["a-b", "1a", "", "a b"])
def test_avro_record_illegal_column_name_is_invalid(name: str) -> None:
    """A column that Avro cannot name is refused."""
    with pytest.raises(InvalidError, match="legal"):
        avro_record(pa.schema([(name, pa.int32())]), "t")


def test_avro_record_repeated_column_is_invalid() -> None:
    """Two columns of one name are refused."""
    with pytest.raises(InvalidError, match="twice"):
        avro_record(pa.schema([("a", pa.int32()), ("a", pa.int64())]), "t")


def test_arrow_schema_enum_uuid_and_single_union_are_read_as_their_values() -> None:
    """Enums and uuids become strings; a union of one type is that type."""
    text = """{"type":"record","name":"r","fields":[
        {"name":"e","type":{"type":"enum","name":"e","symbols":["A","B"]}},
        {"name":"u","type":["null",{"type":"string","logicalType":"uuid"}]},
        {"name":"o","type":["long"]},
        {"name":"last","type":["int","null"]}]}"""
    expected = pa.schema(
        [
            pa.field("e", pa.string(), nullable=False),
            pa.field("u", pa.string()),
            pa.field("o", pa.int64(), nullable=False),
            pa.field("last", pa.int32()),
        ]
    )
    assert arrow_schema(parse_record(text)).equals(expected)


@pytest.mark.parametrize(
    "kind",
    ['["null","int","string"]', '["int","string"]', '["null"]', '{"type":"array","items":["int","string"]}',
     '{"type":"bytes","logicalType":"decimal","precision":39}'],
)  # fmt: skip
def test_arrow_schema_unreadable_type_is_unsupported_and_named(kind: str) -> None:
    """General unions and wide decimals are refused with the path of the field, unless the column is not wanted."""
    record = parse_record(
        '{"type":"record","name":"r","fields":[{"name":"ok","type":"int"},{"name":"outer","type":'
        '{"type":"record","name":"s","fields":[{"name":"odd","type":' + kind + "}]}}]}"
    )
    with pytest.raises(UnsupportedError, match=r"outer\.odd"):
        arrow_schema(record)
    assert arrow_schema(record, {"ok"}).names == ["ok"]


def test_decimal_size_every_precision_is_hudis() -> None:
    """The sizes of fixed decimals are the smallest that hold their digits."""
    sizes = [1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 6, 6, 6, 7, 7, 8, 8, 9, 9, 9, 10, 10, 11, 11, 11, 12, 12, 13, 13, 13]
    assert [decimal_size(p) for p in range(1, 39)] == [*sizes, 14, 14, 15, 15, 16, 16, 16]


@pytest.mark.parametrize(("name", "legal"), [("trips", "trips"), ("a-b.c", "a__b__c"), ("1st", "__st"), ("ü", "__")])
def test_sanitize_name_illegal_characters_become_two_underscores(name: str, legal: str) -> None:
    """Table names are masked as Hudi masks them."""
    assert sanitize_name(name) == legal
    assert parse_schema(avro_json(pa.schema([]), name))


def test_sanitize_name_empty_is_invalid() -> None:
    """A table without a name has no Avro record."""
    with pytest.raises(InvalidError):
        sanitize_name("")
