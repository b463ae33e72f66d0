"""Avro types as Arrow types, and an Arrow schema as the Avro schema that Apache Hudi would write for it.

Avro to Arrow, for what log blocks and commits declare:

=============================  ==========================  =====================================
Avro                           Arrow                       note
=============================  ==========================  =====================================
null, boolean                  null, bool
int, long, float, double       int32, int64, float, double
bytes, string, enum, uuid      binary, string              an enum is read as its symbol
int date                       date32
int time-millis                time32[ms]
long time-micros               time64[us]
long timestamp-millis          timestamp[ms, UTC]          micros alike
long local-timestamp-millis    timestamp[ms]               micros alike
bytes or fixed decimal(p, s)   decimal128(p, s)            p above 38 is refused
fixed                          fixed_size_binary           other logical types of fixed are ignored
array, map, record             list, map, struct
union of null and T            T, nullable                 a union of several types is refused
=============================  ==========================  =====================================

Arrow to Avro follows Hudi's naming, which other writers compare: the record is ``<table>_record`` in the namespace
``hoodie.<table>``; a nested record is named by its field, in the namespace made of the full name of the record around
it; the elements of a list or map take the name of the field that holds the container; a decimal is a ``fixed`` named
``fixed`` in the namespace of its field's path. A nullable field is ``["null", T]`` with the default null.

For the Arrow types of the table above the round trip is the identity. Arrow types that hold the same values (small
integers, large or view strings, dictionaries, other time zones) become the Avro type of the table.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from tidelake.errors import InvalidError, UnsupportedError
from tidelake.format.avro_schema import (
    NULL,
    Array,
    AvroNode,
    Decimal,
    Enum,
    Field,
    Fixed,
    Logical,
    Map,
    Primitive,
    PrimitiveKind,
    Record,
    Union,
    describe,
    is_legal_name,
    nullable,
    to_json,
)

META_COLUMN_NAMES: Final = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
"""The five columns that every record of a table starts with, in this order."""

DECIMAL_PRECISION: Final = 38
"""The widest decimal that Hudi, Spark and Arrow's decimal128 share."""

_PLAIN: Final[dict[PrimitiveKind, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Final[dict[Logical, pa.DataType]] = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}
_ILLEGAL_FIRST: Final = re.compile(r"\A[^A-Za-z_]")
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_]")


def arrow_schema(record: Record, columns: set[str] | None = None) -> pa.Schema:
    """The Arrow schema of a record, or of those of its fields that ``columns`` names."""
    return pa.schema([arrow_field(field) for field in record.fields if columns is None or field.name in columns])


def arrow_field(field: Field) -> pa.Field:
    """The Arrow field of a record's field; nullable where its Avro type is a union with null."""
    return _arrow_field(field.name, field.type, field.name)


def arrow_type(node: AvroNode, path: str = "value") -> pa.DataType:
    """The Arrow type of a node. ``path`` names it in messages."""
    match node:
        case Primitive(logical=Decimal() as decimal) | Fixed(logical=Decimal() as decimal):
            if decimal.precision > DECIMAL_PRECISION:
                raise UnsupportedError(
                    f"the field {path} is a decimal of {decimal.precision} digits; at most {DECIMAL_PRECISION} are read"
                )
            return pa.decimal128(decimal.precision, decimal.scale)
        case Primitive(kind=kind, logical=None):
            return _PLAIN[kind]
        case Primitive(logical=str() as logical):
            return _LOGICAL[logical]
        case Fixed(size=size):
            return pa.binary(size)
        case Enum():
            return pa.string()
        case Array(items=items):
            return pa.list_(_arrow_field("element", items, f"{path}.element"))
        case Map(values=values):
            return pa.map_(pa.string(), _arrow_field("value", values, f"{path}.value"))
        case Record(fields=fields):
            return pa.struct([_arrow_field(f.name, f.type, f"{path}.{f.name}") for f in fields])
        case _:
            split = nullable(node)
            if split is None:
                raise UnsupportedError(
                    f"the field {path} is a {describe(node)}: only unions of one type with null are read"
                )
            return arrow_type(split[0], path)


def avro_record(schema: pa.Schema, table_name: str, *, meta_columns: bool = False) -> Record:
    """The Avro record of an Arrow schema under Hudi's naming, with the five meta columns in front if asked for."""
    name = sanitize_name(table_name)
    full = f"hoodie.{name}.{name}_record"
    meta = tuple(Field(meta_name, Union((NULL, Primitive("string"))), "null", "") for meta_name in META_COLUMN_NAMES)
    if meta_columns:
        schema = pa.schema([field for field in schema if field.name not in META_COLUMN_NAMES])
    fields = _avro_fields(list(schema), full, "")
    return Record(full, meta + fields if meta_columns else fields)


def avro_json(schema: pa.Schema, table_name: str, *, meta_columns: bool = False) -> str:
    """``avro_record`` as JSON text: the ``schema`` of a commit, or with meta columns the SCHEMA of a log block."""
    return to_json(avro_record(schema, table_name, meta_columns=meta_columns))


def sanitize_name(table_name: str) -> str:
    """A table's name as a legal Avro name, masked with two underscores as Hudi does."""
    name = _ILLEGAL.sub("__", _ILLEGAL_FIRST.sub("__", table_name))
    if not name:
        raise InvalidError("a table needs a name")
    return name


def decimal_size(precision: int) -> int:
    """The fewest bytes whose two's complement holds every decimal of ``precision`` digits."""
    size = 1
    while 2 ** (8 * size - 1) <= 10**precision - 1:
        size += 1
    return size


def _arrow_field(name: str, node: AvroNode, path: str) -> pa.Field:
    split = nullable(node)
    is_nullable = node == NULL or (split is not None and split[1] is not None)
    return pa.field(name, arrow_type(node, path), nullable=is_nullable)


def _avro_fields(fields: list[pa.Field], record: str, path: str) -> tuple[Field, ...]:
    made: list[Field] = []
    names: set[str] = set()
    for field in fields:
        column = f"{path}{field.name}"
        if not is_legal_name(field.name):
            raise InvalidError(
                f"the column name {column!r} is not a legal Avro name",
                hint="use letters, digits and underscores, and no digit first",
            )
        if field.name in names:
            raise InvalidError(f"the column {column!r} stands twice in the schema")
        names.add(field.name)
        node = _avro_node(field.type, field.nullable, record, field.name, column)
        made.append(Field(field.name, node, "null" if isinstance(node, Union) or node == NULL else None))
    return tuple(made)


def _avro_node(kind: pa.DataType, is_nullable: bool, space: str, name: str, column: str) -> AvroNode:
    """The node of an Arrow type; a named type inside it is called ``name`` in the namespace ``space``."""
    node = _avro_nested(kind, space, name, column) or _avro_scalar(kind, space, name)
    if node is None:
        hint = "cast it to microseconds" if pa.types.is_timestamp(kind) or pa.types.is_time(kind) else None
        raise InvalidError(f"the column {column!r} has the Arrow type {kind}, which a table cannot hold", hint=hint)
    return Union((NULL, node)) if is_nullable and node != NULL else node


def _avro_nested(kind: pa.DataType, space: str, name: str, column: str) -> AvroNode | None:
    if pa.types.is_struct(kind):
        full = f"{space}.{name}"
        return Record(full, _avro_fields([kind.field(i) for i in range(kind.num_fields)], full, f"{column}."))
    if pa.types.is_map(kind):
        if not _is_text(kind.key_type):
            raise InvalidError(f"the column {column!r} is a map with keys of {kind.key_type}: keys must be strings")
        return Map(_avro_node(kind.item_type, kind.item_field.nullable, space, name, f"{column}.value"))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return Array(_avro_node(kind.value_type, kind.value_field.nullable, space, name, f"{column}.element"))
    if pa.types.is_dictionary(kind):
        return _avro_nested(kind.value_type, space, name, column) or _avro_scalar(kind.value_type, space, name)
    return None


def _avro_scalar(kind: pa.DataType, space: str, name: str) -> AvroNode | None:
    types = pa.types
    if _is_text(kind):
        return Primitive("string")
    if types.is_fixed_size_binary(kind):
        return Fixed(f"{space}.{name}.fixed", kind.byte_width)
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return Primitive("bytes")
    if types.is_decimal(kind):
        if kind.precision > DECIMAL_PRECISION or not 0 <= kind.scale <= kind.precision:
            return None
        decimal = Decimal(kind.precision, kind.scale)
        return Fixed(f"{space}.{name}.fixed", decimal_size(kind.precision), decimal)
    if types.is_int8(kind) or types.is_int16(kind) or types.is_uint8(kind) or types.is_uint16(kind):
        return Primitive("int")
    if types.is_uint32(kind):
        return Primitive("long")
    if types.is_float16(kind):
        return Primitive("float")
    if types.is_timestamp(kind) and kind.tz is not None:
        kind = pa.timestamp(kind.unit, "UTC")
    for logical, arrow in _LOGICAL.items():
        if kind == arrow:
            return Primitive(_STORED_AS[logical], logical)
    for plain, arrow in _PLAIN.items():
        if kind == arrow:
            return Primitive(plain)
    return None


_STORED_AS: Final[dict[Logical, PrimitiveKind]] = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "uuid": "string",
}


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
