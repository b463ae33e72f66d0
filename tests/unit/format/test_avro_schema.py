"""Avro schemas: parsing, writing back, and refusing what is wrong or too large."""

from __future__ import annotations

import json
import time

import pytest

from tidelake import _limits
from tidelake.errors import CorruptError, LimitError, TidelakeError, UnsupportedError
from tidelake.format.avro_schema import (
    NULL,
    Array,
    Decimal,
    Enum,
    Field,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
    describe,
    nullable,
    parse_record,
    parse_schema,
    to_json,
)

STRING = Primitive("string")


def _record(*fields: object, name: str = "r", **more: object) -> dict[str, object]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def _field(name: str, kind: object, **more: object) -> dict[str, object]:
    return {"name": name, "type": kind, **more}


@pytest.mark.parametrize("kind", ["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
def test_parse_schema_primitive_gives_its_node(kind: str) -> None:
    """A primitive is parsed alike by name and as an object, and its extra properties are ignored."""
    assert parse_schema(json.dumps(kind)) == parse_schema(json.dumps({"type": kind, "avro.java.string": "String"}))
    assert describe(parse_schema(json.dumps(kind))) == kind


@pytest.mark.parametrize(
    ("kind", "logical"),
    [
        ("int", "date"),
        ("int", "time-millis"),
        ("long", "time-micros"),
        ("long", "timestamp-millis"),
        ("long", "timestamp-micros"),
        ("long", "local-timestamp-millis"),
        ("long", "local-timestamp-micros"),
        ("string", "uuid"),
    ],
)
def test_parse_schema_logical_type_is_kept(kind: str, logical: str) -> None:
    """A logical type on the primitive it belongs to is kept, and written back."""
    text = json.dumps({"type": kind, "logicalType": logical}, separators=(",", ":"))
    node = parse_schema(text)
    assert isinstance(node, Primitive)
    assert (node.kind, node.logical) == (kind, logical)
    assert to_json(node) == text


@pytest.mark.parametrize(("kind", "logical"), [("string", "date"), ("int", "timestamp-micros"), ("long", "duration")])
def test_parse_schema_logical_type_elsewhere_is_ignored(kind: str, logical: str) -> None:
    """A logical type that is unknown, or not defined for its primitive, leaves the primitive."""
    assert parse_schema(json.dumps({"type": kind, "logicalType": logical})) == Primitive(kind)  # type: ignore[arg-type]


def test_parse_schema_all_kinds_round_trip() -> None:
    """Every kind of node survives writing and parsing, with names, defaults, docs and namespaces."""
    schema = _record(
        _field("a", ["null", "string"], default=None, doc=""),
        _field("b", {"type": "fixed", "name": "fx", "size": 3}),
        _field("c", {"type": "fixed", "name": "d", "namespace": "x.y", "size": 5, "logicalType": "decimal",
                     "precision": 10, "scale": 2}),
        _field("e", {"type": "enum", "name": "color", "symbols": ["RED", "GREEN"]}, default="RED"),
        _field("f", {"type": "array", "items": {"type": "map", "values": "long"}}, default=[]),
        _field("g", _record(_field("again", "fx"), name="inner")),
        _field("h", {"type": "bytes", "logicalType": "decimal", "precision": 4}),
        namespace="x", doc="all of it",
    )  # fmt: skip
    node = parse_record(json.dumps(schema))
    assert node.name == "x.r"
    assert node.fields[0] == Field("a", Union((NULL, STRING)), "null", "")
    assert node.fields[1].type == Fixed("x.fx", 3)
    assert node.fields[2].type == Fixed("x.y.d", 5, Decimal(10, 2))
    assert node.fields[3] == Field("e", Enum("x.color", ("RED", "GREEN")), '"RED"')
    assert node.fields[4].type == Array(Map(Primitive("long")))
    assert node.fields[5].type == Record("x.inner", (Field("again", Fixed("x.fx", 3)),))
    assert node.fields[6].type == Primitive("bytes", Decimal(4, 0))
    assert parse_schema(to_json(node)) == node
    assert hash(parse_schema(to_json(node))) == hash(node)


def test_parse_schema_hudi_text_is_written_back_byte_for_byte() -> None:
    """A schema as Apache Hudi writes it is reproduced exactly."""
    text = (
        '{"type":"record","name":"t_record","namespace":"hoodie.t","fields":['
        '{"name":"_hoodie_commit_time","type":["null","string"],"doc":"","default":null},'
        '{"name":"d","type":["null",{"type":"fixed","name":"fixed","namespace":"hoodie.t.t_record.d","size":9,'
        '"logicalType":"decimal","precision":20,"scale":2}],"default":null},'
        '{"name":"s","type":["null",{"type":"record","name":"s","namespace":"hoodie.t.t_record","fields":['
        '{"name":"n","type":["null","int"],"default":null}]}],"default":null},'
        '{"name":"x","type":{"type":"fixed","name":"f","size":2}},{"name":"y","type":"f"}]}'
    )
    assert to_json(parse_schema(text)) == text


def test_parse_schema_name_without_namespace_is_found_from_inside_one() -> None:
    """A plain name that the enclosing namespace does not hold is looked up without a namespace, as in Java."""
    schema = _record(
        _field("a", {"type": "fixed", "name": "plain", "namespace": "", "size": 2}), _field("b", "plain"), namespace="n"
    )
    node = parse_record(json.dumps(schema))
    assert node.fields[0].type == node.fields[1].type == Fixed("plain", 2)
    assert parse_schema(to_json(node)) == node


def test_parse_schema_non_ascii_field_name_is_accepted() -> None:
    """Letters beyond ASCII are legal in names, because Avro's Java library takes them."""
    assert parse_record(json.dumps(_record(_field("größe", "int")))).fields[0].name == "größe"


def test_nullable_unions_are_split_into_type_and_null_index() -> None:
    """Null is found on either side; a union of one type is not nullable; a union of two types is not split."""
    assert nullable(Union((NULL, STRING))) == (STRING, 0)
    assert nullable(Union((STRING, NULL))) == (STRING, 1)
    assert nullable(Union((STRING,))) == (STRING, None)
    assert nullable(STRING) == (STRING, None)
    assert nullable(Union((NULL, STRING, Primitive("int")))) is None
    assert nullable(Union((NULL,))) is None


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "{",
        "strin",
        json.dumps("unknown"),
        json.dumps(17),
        json.dumps({"type": 3}),
        json.dumps({"name": "x"}),
        json.dumps([]),
        json.dumps(["null", "null"]),
        json.dumps(["null", ["int"]]),
        json.dumps(["int", {"type": "int", "logicalType": "date"}]),
        json.dumps({"type": "array"}),
        json.dumps({"type": "map"}),
        json.dumps({"type": "record", "name": "r"}),
        json.dumps(_record("x")),
        json.dumps(_record({"name": "x"})),
        json.dumps(_record(_field("a", "int"), _field("a", "long"))),
        json.dumps(_record(_field("1a", "int"))),
        json.dumps(_record(_field("a-b", "int"))),
        json.dumps(_record(_field("", "int"))),
        json.dumps(_record(_field("\ud800", "int"))),
        json.dumps(_record(name="a b")),
        json.dumps(_record(name="int")),
        json.dumps({"type": "record", "fields": []}),
        json.dumps({"type": "fixed", "name": "f", "size": -1}),
        json.dumps({"type": "fixed", "name": "f", "size": 0}),
        json.dumps({"type": "fixed", "name": "f", "size": "8"}),
        json.dumps({"type": "fixed", "name": "f", "size": True}),
        json.dumps({"type": "enum", "name": "e", "symbols": []}),
        json.dumps({"type": "enum", "name": "e", "symbols": ["A", "A"]}),
        json.dumps({"type": "enum", "name": "e", "symbols": ["A", 3]}),
        json.dumps({"type": "enum", "name": "e", "symbols": ["a b"]}),
        json.dumps({"type": "bytes", "logicalType": "decimal"}),
        json.dumps({"type": "bytes", "logicalType": "decimal", "precision": 0}),
        json.dumps({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 4}),
        json.dumps({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": -1}),
        json.dumps([{"type": "fixed", "name": "f", "size": 1}, {"type": "fixed", "name": "f", "size": 2}]),
        '{"type": "fixed", "name": "f", "size": ' + "9" * 5000 + "}",
        b"\xff\xfe",
    ],
)
def test_parse_schema_wrong_schema_is_corrupt(schema: str | bytes) -> None:
    """A schema that is not JSON, or breaks Avro's rules, is refused as corrupt and not as a limit."""
    with pytest.raises(CorruptError) as caught:
        parse_schema(schema)
    assert type(caught.value) is CorruptError


def test_parse_record_other_type_is_corrupt() -> None:
    """Where a record is needed, another type is refused."""
    with pytest.raises(CorruptError, match="must be a record"):
        parse_record('"string"')


def test_parse_schema_same_definition_twice_is_accepted() -> None:
    """A name that is defined again in the same way is the same type."""
    fixed = {"type": "fixed", "name": "f", "size": 4}
    node = parse_record(json.dumps(_record(_field("a", fixed), _field("b", fixed))))
    assert node.fields[0].type == node.fields[1].type


@pytest.mark.parametrize("inside", ["r", ["null", "r"], {"type": "array", "items": "r"}])
def test_parse_schema_recursive_type_is_unsupported(inside: object) -> None:
    """A type that contains itself is refused by name."""
    with pytest.raises(UnsupportedError, match=r"\br\b"):
        parse_schema(json.dumps(_record(_field("a", inside))))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"type":' * 100_000, '{"type":"array","items":' * 100_000])
def test_parse_schema_deep_json_is_a_limit(text: str) -> None:
    """JSON nested a hundred thousand deep is refused before anything recurses."""
    with pytest.raises(LimitError):
        parse_schema(text)


def test_parse_schema_brackets_in_strings_do_not_count() -> None:
    """Brackets, quotes and backslashes inside of strings are not nesting."""
    doc = '[{"\\' * 10_000
    node = parse_record(json.dumps(_record(_field("a", "int", doc=doc))))
    assert node.fields[0].doc == doc


@pytest.mark.parametrize("text", ['"' + '\\"' * 4_000_000, '"\\' * 2_000_000, '"' * 4_000_001, "\\" * 4_000_001])
def test_parse_schema_endless_string_is_refused_in_linear_time(text: str) -> None:
    """Strings that never end take no quadratic time."""
    started = time.process_time()
    with pytest.raises(CorruptError):
        parse_schema(text)
    assert time.process_time() - started < 30


def test_parse_schema_depth_at_and_beyond_the_bound() -> None:
    """As many types as the bound may nest; one more is a limit, also by way of references."""

    def nested(levels: int) -> object:
        node: object = "int"
        for _ in range(levels - 1):
            node = {"type": "array", "items": node}
        return node

    parse_schema(json.dumps(nested(_limits.AVRO_SCHEMA_DEPTH)))
    with pytest.raises(LimitError):
        parse_schema(json.dumps(nested(_limits.AVRO_SCHEMA_DEPTH + 1)))
    half = _limits.AVRO_SCHEMA_DEPTH // 2
    named = _record(_field("a", nested(half)), name="named")
    outer: object = "named"
    for _ in range(half):
        outer = {"type": "array", "items": outer}
    with pytest.raises(LimitError):
        parse_schema(json.dumps(_record(_field("x", named), _field("y", outer))))


def test_parse_schema_billion_laughs_is_a_limit() -> None:
    """Records that name each other ten times each are counted as what they expand to."""
    levels = 12
    record: dict[str, object] = _record(*[_field(f"f{i}", "int") for i in range(10)], name=f"r{levels}")
    for level in range(levels - 1, 0, -1):
        uses: list[object] = [_field("f0", record)]
        uses += [_field(f"f{i}", f"r{level + 1}") for i in range(1, 10)]
        record = _record(*uses, name=f"r{level}")
    started = time.process_time()
    with pytest.raises(LimitError, match="expands"):
        parse_schema(json.dumps(record))
    assert time.process_time() - started < 30


def test_parse_schema_sizes_beyond_their_bounds_are_limits() -> None:
    """Too long a text, too wide a union, too many fields and too large a fixed are refused as limits."""
    union = [{"type": "fixed", "name": f"f{i}", "size": 1} for i in range(_limits.AVRO_UNION_BRANCHES + 1)]
    wide = _record(*[_field(f"f{i}", "int") for i in range(_limits.AVRO_SCHEMA_NODES)])
    for text in (
        " " * (_limits.AVRO_SCHEMA_BYTES + 1),
        json.dumps(union),
        json.dumps(wide),
        json.dumps({"type": "fixed", "name": "f", "size": 2**31}),
        "[" + "[]," * 1_000_000 + "[]]",
    ):
        with pytest.raises(LimitError):
            parse_schema(text)
    parse_schema(json.dumps(union[:-1]))


def test_parse_schema_error_message_is_short_for_a_long_name() -> None:
    """A megabyte of name does not become a megabyte of message."""
    with pytest.raises(TidelakeError) as caught:
        parse_schema(json.dumps("x" * 1_000_000))
    assert len(str(caught.value)) < 1_000
