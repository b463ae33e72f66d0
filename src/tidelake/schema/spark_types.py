"""Spark's types as Arrow types, without Spark: the JSON of a ``StructType``, and DDL text.

Spark's names on the left, as JSON and DDL spell them, Arrow's on the right; the way back gives the first name::

    boolean                        bool              string, char(n), varchar(n)    string
    byte / tinyint                 int8              binary                         binary
    short / smallint               int16             date                           date32
    integer / int                  int32             timestamp, timestamp_ltz       timestamp[us, UTC]
    long / bigint                  int64             timestamp_ntz                  timestamp[us]
    float / real                   float             time(p), p up to 6             time64[us]
    double                         double            decimal(p,s), dec, numeric     decimal128(p, s)
    array<T>                       list              void                           null
    map<K, V>                      map               struct<a: T, ...>              struct

A comment travels as the Arrow field's metadata ``comment``. Intervals, variants, collations and user-defined types have
no place in a table and are refused by name. Input is bounded as Avro schemas are: in size, depth and number of types.
"""

from __future__ import annotations

import json
import re
from typing import Final

import pyarrow as pa

from tidelake import _limits
from tidelake.errors import CorruptError, InvalidError
from tidelake.format.avro_schema import load_json

_SIMPLE: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "time(6)": pa.time64("us"),
    "void": pa.null(),
}
_DDL_NAMES: Final = {
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
    "real": "float",
    "timestamp_ltz": "timestamp",
    "time": "time(6)",
    "null": "void",
}
_DECIMAL_PRECISION: Final = 38
_JSON_PARAMETERS: Final = re.compile(r"(decimal|char|varchar|time)\((\d{1,9})(?:, ?(\d{1,9}))?\)")
_TOKEN: Final = re.compile(
    r"""\s*(?: (?P<quoted>`(?:[^`]|``)+`) | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
             | (?P<word>\w+) | (?P<mark>[<>(),:]) | (?P<end>\Z) )""",
    re.VERBOSE | re.DOTALL,
)


def arrow_to_spark_json(schema: pa.Schema) -> str:
    """The schema as ``StructType.json()`` writes it."""
    return json.dumps(_dump_struct(list(schema), ""), separators=(",", ":"), sort_keys=True)


def spark_json_to_arrow(text: str | bytes) -> pa.Schema:
    """The schema of a ``StructType.json()``."""
    try:
        value = load_json(text, "the JSON of a Spark schema")
    except CorruptError as error:
        raise InvalidError(error.message) from error
    kind = _Loader().kind(value, "schema", 1)
    if not pa.types.is_struct(kind):
        raise InvalidError(f"a Spark schema must be a struct, not {kind}")
    return pa.schema(list(kind))


def ddl_to_arrow(text: str) -> pa.Schema:
    """The schema of a Spark DDL string: ``id bigint not null, tags array<string> comment 'x'`` or ``struct<...>``."""
    return _Ddl(text).schema()


def _dump_struct(fields: list[pa.Field], path: str) -> dict[str, object]:
    return {"type": "struct", "fields": [_dump_field(field, f"{path}{field.name}") for field in fields]}


def _dump_field(field: pa.Field, path: str) -> dict[str, object]:
    comment = (field.metadata or {}).get(b"comment")
    metadata = {} if comment is None else {"comment": comment.decode("utf-8")}
    return {"name": field.name, "type": _dump(field.type, path), "nullable": field.nullable, "metadata": metadata}


def _dump(kind: pa.DataType, path: str) -> object:
    types = pa.types
    if types.is_struct(kind):
        return _dump_struct(list(kind), f"{path}.")
    if types.is_map(kind):
        values = {"valueType": _dump(kind.item_type, f"{path}.value"), "valueContainsNull": kind.item_field.nullable}
        return {"type": "map", "keyType": _dump(kind.key_type, f"{path}.key"), **values}
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        element = _dump(kind.value_type, f"{path}.element")
        return {"type": "array", "elementType": element, "containsNull": kind.value_field.nullable}
    if types.is_dictionary(kind):
        return _dump(kind.value_type, path)
    if types.is_decimal(kind) and kind.precision <= _DECIMAL_PRECISION and 0 <= kind.scale <= kind.precision:
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_large_string(kind) or types.is_string_view(kind):
        return "string"
    if types.is_large_binary(kind) or types.is_binary_view(kind) or types.is_fixed_size_binary(kind):
        return "binary"
    if types.is_timestamp(kind) and kind.unit in ("s", "ms", "us"):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    for name, arrow in _SIMPLE.items():
        if kind == arrow:
            return name
    raise InvalidError(f"the column {path!r} has the Arrow type {kind}, for which Spark has none")


def _parameterised(name: str, numbers: list[int], path: str) -> pa.DataType:
    """A type with numbers in parentheses."""
    match name, numbers:
        case (("decimal" | "dec" | "numeric"), ([] | [_] | [_, _])):
            precision, scale = (*numbers, 0)[:2] if numbers else (10, 0)
            if not (1 <= precision <= _DECIMAL_PRECISION and scale <= precision):
                raise InvalidError(f"the column {path!r} is an impossible decimal({precision},{scale})")
            return pa.decimal128(precision, scale)
        case (("char" | "character" | "varchar"), [length]) if length > 0:
            return pa.string()
        case "time", [precision] if precision <= 6:
            return pa.time64("us")
    shown = ",".join(map(str, numbers))
    raise InvalidError(f"the column {path!r} has the Spark type {name}({shown}), which a table cannot hold")


class _Loader:
    """Reads the JSON form. The JSON's own depth is bounded already; here the types are counted."""

    def __init__(self) -> None:
        self._kinds = 0

    def kind(self, value: object, path: str, depth: int) -> pa.DataType:
        """The Arrow type of a JSON type."""
        self._kinds += 1
        if self._kinds > _limits.AVRO_SCHEMA_NODES or depth > _limits.AVRO_SCHEMA_DEPTH:
            raise InvalidError(f"the Spark schema at {path!r} has too many types, or nests them too deep")
        if isinstance(value, str):
            match = _JSON_PARAMETERS.fullmatch(value)
            if match:
                return _parameterised(match[1], [int(number) for number in match.groups()[1:] if number], path)
            if value in _SIMPLE:
                return _SIMPLE[value]
        elif isinstance(value, dict):
            match value.get("type"):
                case "struct":
                    return self._struct(value.get("fields"), path, depth)
                case "array":
                    element = self.kind(value.get("elementType"), f"{path}.element", depth + 1)
                    return pa.list_(pa.field("element", element, _flag(value, "containsNull", path)))
                case "map":
                    key = self.kind(value.get("keyType"), f"{path}.key", depth + 1)
                    item = self.kind(value.get("valueType"), f"{path}.value", depth + 1)
                    return pa.map_(key, pa.field("value", item, _flag(value, "valueContainsNull", path)))
        raise InvalidError(f"the column {path!r} has the Spark type {repr(value)[:200]}, which a table cannot hold")

    def _struct(self, fields: object, path: str, depth: int) -> pa.DataType:
        if not isinstance(fields, list):
            raise InvalidError(f"the Spark struct {path!r} has no list of fields")
        made: list[pa.Field] = []
        for field in fields:
            name = field.get("name") if isinstance(field, dict) else None
            if not isinstance(field, dict) or not isinstance(name, str):
                raise InvalidError(f"a field of the Spark struct {path!r} has no name: {repr(field)[:200]}")
            inner = name if depth == 1 else f"{path}.{name}"
            kind = self.kind(field.get("type"), inner, depth + 1)
            metadata = field.get("metadata")
            comment = metadata.get("comment") if isinstance(metadata, dict) else None
            made.append(_field(name, kind, _flag(field, "nullable", inner), comment))
        return _struct_type(made, path)


def _flag(value: dict[str, object], key: str, path: str) -> bool:
    flag = value.get(key)
    if not isinstance(flag, bool):
        raise InvalidError(f"the column {path!r} of a Spark schema has no {key!r}")
    return flag


def _field(name: str, kind: pa.DataType, nullable: bool, comment: object) -> pa.Field:
    metadata = {"comment": comment} if isinstance(comment, str) else None
    return pa.field(name, kind, nullable=nullable, metadata=metadata)


def _struct_type(fields: list[pa.Field], path: str) -> pa.DataType:
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InvalidError(f"columns stand more than once in {path!r}: {', '.join(twice)}")
    return pa.struct(fields)


class _Ddl:
    """A recursive parser of DDL text, one token ahead."""

    def __init__(self, text: str) -> None:
        if len(text) > _limits.FILTER_CHARS * 10:
            raise InvalidError(f"a DDL text of {len(text)} characters is too long")
        self._text = text
        self._at = 0
        self._group = "end"
        self._token = ""
        self._next()

    def schema(self) -> pa.Schema:
        """The whole text."""
        if self._is_word("struct") and self._text[self._at :].lstrip().startswith("<"):
            kind = self._kind("schema", 1)
            fields = list(kind)
        else:
            fields = [] if self._group == "end" else self._fields("schema", 1)
        if self._group != "end":
            raise self._wrong("the end")
        return pa.schema(list(_struct_type(fields, "schema")))

    def _next(self) -> None:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match.lastgroup is None:
            raise InvalidError(f"the DDL cannot be read at position {self._at}: {self._text[self._at :][:40]!r}")
        self._group, self._token, self._at = match.lastgroup, match[match.lastgroup], match.end()

    def _wrong(self, expected: str) -> InvalidError:
        found = "the end" if self._group == "end" else repr(self._token[:40])
        return InvalidError(f"the DDL needs {expected} before position {self._at}, not {found}")

    def _is_word(self, *words: str) -> bool:
        return self._group == "word" and self._token.lower() in words

    def _skip(self, mark: str) -> bool:
        """Pass a mark if it is the next one."""
        found = self._group == "mark" and self._token == mark
        if found:
            self._next()
        return found

    def _expect(self, mark: str) -> None:
        if not self._skip(mark):
            raise self._wrong(repr(mark))

    def _fields(self, path: str, depth: int) -> list[pa.Field]:
        fields = [self._one_field(path, depth)]
        while self._skip(","):
            fields.append(self._one_field(path, depth))
        return fields

    def _one_field(self, path: str, depth: int) -> pa.Field:
        name = self._name()
        self._skip(":")
        inner = name if depth == 1 else f"{path}.{name}"
        kind = self._kind(inner, depth + 1)
        nullable, comment = True, None
        while self._is_word("not", "comment"):
            if self._is_word("not"):
                self._next()
                if not self._is_word("null"):
                    raise self._wrong("'null' after 'not'")
                self._next()
                nullable = False
            else:
                self._next()
                comment = self._literal()
        return _field(name, kind, nullable, comment)

    def _name(self) -> str:
        if self._group not in ("word", "quoted"):
            raise self._wrong("a column name")
        name = self._token[1:-1].replace("``", "`") if self._group == "quoted" else self._token
        self._next()
        return name

    def _literal(self) -> str:
        if self._group != "text":
            raise self._wrong("a text in quotes")
        literal = re.sub(r"\\(.)", _unescape, self._token[1:-1], flags=re.DOTALL)
        self._next()
        return literal

    def _kind(self, path: str, depth: int) -> pa.DataType:
        if depth > _limits.AVRO_SCHEMA_DEPTH:
            raise InvalidError(f"the DDL nests types deeper than {_limits.AVRO_SCHEMA_DEPTH}, at {path[:200]!r}")
        if self._group != "word":
            raise self._wrong(f"the type of {path[:200]!r}")
        name = self._token.lower()
        self._next()
        match name:
            case "struct":
                self._expect("<")
                fields = [] if self._group == "mark" and self._token == ">" else self._fields(path, depth)
                self._expect(">")
                return _struct_type(fields, path)
            case "array":
                self._expect("<")
                element = self._kind(f"{path}.element", depth + 1)
                self._expect(">")
                return pa.list_(pa.field("element", element))
            case "map":
                self._expect("<")
                key = self._kind(f"{path}.key", depth + 1)
                self._expect(",")
                item = self._kind(f"{path}.value", depth + 1)
                self._expect(">")
                return pa.map_(key, pa.field("value", item))
        return self._scalar(name, path)

    def _scalar(self, name: str, path: str) -> pa.DataType:
        if self._skip("("):
            numbers = [self._number()]
            while self._skip(","):
                numbers.append(self._number())
            self._expect(")")
            return _parameterised(name, numbers, path)
        if name in ("decimal", "dec", "numeric"):
            return _parameterised(name, [], path)
        kind = _SIMPLE.get(_DDL_NAMES.get(name, name))
        if kind is None:
            raise InvalidError(f"the column {path!r} has the Spark type {name!r}, which a table cannot hold")
        return kind

    def _number(self) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", self._token):
            raise self._wrong("a number")
        number = int(self._token)
        self._next()
        return number


def _unescape(match: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}.get(match[1], match[1])
