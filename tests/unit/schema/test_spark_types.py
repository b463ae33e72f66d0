"""Spark's types without Spark: the JSON form and DDL text, against pyspark's own classes where they need no JVM."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from tidelake.errors import InvalidError
from tidelake.schema import arrow_to_spark_json, ddl_to_arrow, spark_json_to_arrow

ALL = pa.schema(
    [
        pa.field("flag", pa.bool_()),
        pa.field("b", pa.int8()),
        pa.field("sh", pa.int16()),
        pa.field("i", pa.int32(), nullable=False),
        pa.field("l", pa.int64()),
        pa.field("f", pa.float32()),
        pa.field("d", pa.float64()),
        pa.field("s", pa.string(), metadata={"comment": "it's"}),
        pa.field("bin", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("ts", pa.timestamp("us", "UTC")),
        pa.field("ntz", pa.timestamp("us")),
        pa.field("dec", pa.decimal128(10, 2)),
        pa.field("nothing", pa.null()),
        pa.field("tags", pa.list_(pa.field("element", pa.string(), nullable=False))),
        pa.field("m", pa.map_(pa.string(), pa.field("value", pa.list_(pa.field("element", pa.int64()))))),
        pa.field("st", pa.struct([pa.field("a b", pa.int32(), nullable=False), pa.field("c", pa.struct([]))])),
    ]
)


def test_spark_json_all_types_round_trip() -> None:
    """Arrow to Spark JSON to Arrow is the identity, with nullability and comments."""
    assert spark_json_to_arrow(arrow_to_spark_json(ALL)).equals(ALL, check_metadata=True)


def test_spark_json_is_what_pyspark_writes() -> None:
    """pyspark reads our JSON and writes the same, type for type."""
    types = pytest.importorskip("pyspark.sql.types")
    text = arrow_to_spark_json(ALL)
    spark = types.StructType.fromJson(json.loads(text))
    assert spark.json() == text
    assert spark["i"].dataType == types.IntegerType()
    assert spark["ts"].dataType == types.TimestampType()
    assert spark["ntz"].dataType == types.TimestampNTZType()
    assert spark["b"].dataType == types.ByteType()
    assert spark["tags"].dataType == types.ArrayType(types.StringType(), False)
    assert spark["m"].dataType == types.MapType(types.StringType(), types.ArrayType(types.LongType()))


def test_ddl_to_arrow_simple_string_of_pyspark_is_read() -> None:
    """pyspark's own short form of every type is DDL that we read to the same types."""
    types = pytest.importorskip("pyspark.sql.types")
    wanted = pa.schema([field for field in ALL if field.name != "st"])
    spark = types.StructType.fromJson(json.loads(arrow_to_spark_json(wanted)))
    read = ddl_to_arrow(spark.simpleString())
    assert [field.name for field in read] == wanted.names
    for field in read:
        expected = wanted.field(field.name).type
        assert field.type == (pa.list_(pa.string()) if field.name == "tags" else expected)
    assert ddl_to_arrow(spark.simpleString().removeprefix("struct<").removesuffix(">")) == read


def test_ddl_to_arrow_example_of_the_documentation_is_read() -> None:
    """Every construct in one text: nesting, nullability, comments, quoted names, upper case."""
    schema = ddl_to_arrow(
        "id bigint, name STRING NOT NULL, m map<string,int>, s struct<a:int,b:array<string>>, d decimal(10,2), "
        "ts timestamp, n timestamp_ntz not null comment 'it\\'s', `odd ``name` Struct<`x y`: TINYINT NOT NULL COMMENT \"c\">"
        ", c char(3), v varchar(20), num numeric(5), dec dec, t time(3), e struct<>, r real, sm smallint"
    )
    expected = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("name", pa.string(), nullable=False),
            pa.field("m", pa.map_(pa.string(), pa.int32())),
            pa.field("s", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
            pa.field("d", pa.decimal128(10, 2)),
            pa.field("ts", pa.timestamp("us", "UTC")),
            pa.field("n", pa.timestamp("us"), nullable=False, metadata={"comment": "it's"}),
            pa.field("odd `name", pa.struct([pa.field("x y", pa.int8(), nullable=False, metadata={"comment": "c"})])),
            pa.field("c", pa.string()),
            pa.field("v", pa.string()),
            pa.field("num", pa.decimal128(5, 0)),
            pa.field("dec", pa.decimal128(10, 0)),
            pa.field("t", pa.time64("us")),
            pa.field("e", pa.struct([])),
            pa.field("r", pa.float32()),
            pa.field("sm", pa.int16()),
        ]
    )
    assert schema == expected
    assert schema.field("n").metadata == {b"comment": b"it's"}
    assert schema.field("odd `name").type.field(0).metadata == {b"comment": b"c"}


@pytest.mark.parametrize("text", ["", "  \n "])
def test_ddl_to_arrow_empty_text_is_no_columns(text: str) -> None:
    """No text is a schema of no columns, as in Spark."""
    assert ddl_to_arrow(text) == pa.schema([])


@pytest.mark.parametrize(
    "text",
    [
        "a", "a,", "a int,", "a int b int", "int", "a int, a string", "a-b int", "a array", "a array<int", "a array<>",
        "a map<string>", "a map<string,int", "a struct<x>", "a struct<x int", "a decimal(39,2)", "a decimal(5,6)",
        "a decimal(0)", "a decimal(x)", "a decimal(1,2,3)", "a decimal(-1)", "a varchar", "a varchar(0)", "a time(7)",
        "a interval", "a variant", "a unknown", "a int not", "a int not nul", "a int comment", "a int comment x",
        "a int comment 'x", "`a int", "`` int", "a int;", "a int)", "a struct<x:int,x:int>", "a int(3)", "(a int)",
        "a decimal(99999999999999999999)", "a int not null garbage", "a string collate utf8_lcase",
    ],
)  # fmt: skip
def test_ddl_to_arrow_wrong_text_is_invalid(text: str) -> None:
    """Text that is not DDL, or names a type that a table cannot hold, is refused."""
    with pytest.raises(InvalidError):
        ddl_to_arrow(text)


@pytest.mark.parametrize(
    "text", ["a " + "array<" * 100_000, "a " + "struct<a:" * 100_000, "a " + "map<string," * 100_000]
)
def test_ddl_to_arrow_deep_text_is_invalid(text: str) -> None:
    """Nesting without end is refused before it becomes a recursion error."""
    with pytest.raises(InvalidError, match=r"deep|long"):
        ddl_to_arrow(text)


@pytest.mark.parametrize(
    "value",
    [
        "string", 3, {"type": "struct"}, {"type": "struct", "fields": [3]}, {"type": "struct", "fields": [{"type": "long"}]},
        *(
            {"type": "struct", "fields": [{"name": "a", "type": kind, "nullable": True, "metadata": {}}]}
            for kind in (
                "interval day to second", "variant", "decimal(40,2)", "decimal", "time(9)", None, {"type": "udt"},
                {"type": "array", "elementType": "long"}, {"type": "map", "keyType": "string"},
            )
        ),
        {"type": "struct", "fields": [{"name": "a", "type": "long", "metadata": {}}]},
        {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True}] * 2},
    ],
)  # fmt: skip
def test_spark_json_wrong_schema_is_invalid(value: object) -> None:
    """JSON that is no struct, lacks parts or has types that a table cannot hold is refused."""
    with pytest.raises(InvalidError):
        spark_json_to_arrow(json.dumps(value))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, b"\xff"])
def test_spark_json_not_json_is_invalid(text: str | bytes) -> None:
    """What is not JSON, or nests without end, is refused."""
    with pytest.raises(InvalidError):
        spark_json_to_arrow(text)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.binary(4), "binary"),
        (pa.timestamp("ms", "UTC"), "timestamp"),
        (pa.timestamp("ms"), "timestamp_ntz"),
        (pa.time64("us"), "time(6)"),
    ],
)
def test_arrow_to_spark_json_other_layouts_are_named_by_their_values(kind: pa.DataType, name: str) -> None:
    """Arrow types that Spark has in one layout only get its name."""
    assert json.loads(arrow_to_spark_json(pa.schema([("a", kind)])))["fields"][0]["type"] == name


@pytest.mark.parametrize("kind", [pa.uint64(), pa.duration("us"), pa.timestamp("ns"), pa.decimal256(50, 2)])
def test_arrow_to_spark_json_type_unknown_to_spark_is_invalid_and_named(kind: pa.DataType) -> None:
    """An Arrow type that Spark does not have is refused with the column."""
    with pytest.raises(InvalidError, match=r"outer\.odd"):
        arrow_to_spark_json(pa.schema([("outer", pa.struct([("odd", kind)]))]))
