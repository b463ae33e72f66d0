"""Avro schemas: JSON text to frozen nodes and back, with every bound checked before memory or stack is spent.

A schema is a tree of *nodes*: ``Primitive``, ``Fixed``, ``Enum``, ``Array``, ``Map``, ``Record`` and ``Union``. A name
that refers to an earlier type is resolved: the same node object stands in both places, so a node is in truth a directed
graph without cycles. The bounds count the *expanded* tree, as if every reference were written out, because that is
what a decoder walks: ten records of ten fields that each name the next one are ten thousand million nodes.

Invariants of a parsed node:

* depth, expanded node count and union width are within ``_limits``; nothing refers to itself (refused as unsupported);
* field names of a record, symbols of an enum and branches of a union are unique; names are legal;
* a logical type stands only where Avro allows it; unknown ones, and every other extra property, are ignored, as the
  Avro specification asks. A ``decimal`` with a senseless precision or scale is refused, not read as bytes.

Names may hold any letter, not only ASCII: Avro's Java library, which wrote the tables, allows it. ``Field.default`` is
JSON text, so that a node stays hashable; ``None`` means no default, ``"null"`` the default null.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tidelake import _limits
from tidelake.errors import CorruptError, InvalidError, LimitError, UnsupportedError

PrimitiveKind: TypeAlias = Literal["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
Logical: TypeAlias = Literal[
    "date",
    "time-millis",
    "time-micros",
    "timestamp-millis",
    "timestamp-micros",
    "local-timestamp-millis",
    "local-timestamp-micros",
    "uuid",
]


@dataclass(frozen=True, slots=True)
class Decimal:
    """The logical type decimal: ``precision`` digits, ``scale`` of them after the point."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parts; ``logical`` says what it means."""

    kind: PrimitiveKind
    logical: Logical | Decimal | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """Exactly ``size`` bytes. ``name`` is the full name, with its namespace."""

    name: str
    size: int
    logical: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Enum:
    """One of ``symbols``, stored as its index."""

    name: str
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """A list of ``items``."""

    items: AvroNode


@dataclass(frozen=True, slots=True)
class Map:
    """String keys to ``values``."""

    values: AvroNode


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record. ``default`` is JSON text, or None where there is no default."""

    name: str
    type: AvroNode
    default: str | None = None
    doc: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """Named fields in order. ``name`` is the full name, with its namespace."""

    name: str
    fields: tuple[Field, ...]
    doc: str | None = None


@dataclass(frozen=True, slots=True)
class Union:
    """One of ``branches``, stored as the index followed by the value."""

    branches: tuple[AvroNode, ...]


AvroNode: TypeAlias = Primitive | Fixed | Enum | Array | Map | Record | Union

NULL: Final = Primitive("null")

_PRIMITIVES: Final[dict[str, Primitive]] = {
    "null": NULL,
    "boolean": Primitive("boolean"),
    "int": Primitive("int"),
    "long": Primitive("long"),
    "float": Primitive("float"),
    "double": Primitive("double"),
    "bytes": Primitive("bytes"),
    "string": Primitive("string"),
}
_LOGICALS: Final[dict[tuple[str, str], Logical]] = {
    ("int", "date"): "date",
    ("int", "time-millis"): "time-millis",
    ("long", "time-micros"): "time-micros",
    ("long", "timestamp-millis"): "timestamp-millis",
    ("long", "timestamp-micros"): "timestamp-micros",
    ("long", "local-timestamp-millis"): "local-timestamp-millis",
    ("long", "local-timestamp-micros"): "local-timestamp-micros",
    ("string", "uuid"): "uuid",
}
_NAME: Final = re.compile(r"[^\W\d]\w*")
_JSON_DEPTH: Final = 4 * _limits.AVRO_SCHEMA_DEPTH
"""A record nested in a nullable field costs four brackets and two nodes."""
_JSON_BRACKETS: Final = 4 * _limits.AVRO_SCHEMA_NODES
_JSON_BRACKET: Final = re.compile(r"[\[\]{}]")


def parse_schema(text: str | bytes) -> AvroNode:
    """Parse the JSON text of a schema."""
    return _Parser().parse(load_json(text), "", 1)[0]


def parse_record(text: str | bytes) -> Record:
    """Parse a schema that must be a record, as every table's and log block's schema is."""
    node = parse_schema(text)
    if not isinstance(node, Record):
        raise CorruptError(f"the Avro schema of a table must be a record, but it is {describe(node)}")
    return node


def is_legal_name(name: str) -> bool:
    """Whether ``name`` may name a field, a symbol or a part of a type's full name."""
    return _NAME.fullmatch(name) is not None


def nullable(node: AvroNode) -> tuple[AvroNode, int | None] | None:
    """Split a union of one type with null into (the type, the index of null); None for a union of several types.

    What is not a union, and a union of a single type, is not nullable: its index of null is None.
    """
    if not isinstance(node, Union):
        return node, None
    values = [branch for branch in node.branches if branch != NULL]
    if len(values) != 1:
        return None
    return values[0], node.branches.index(NULL) if len(node.branches) == 2 else None


def describe(node: AvroNode) -> str:
    """A short name of a node's type, for messages."""
    match node:
        case Primitive(kind=kind, logical=None):
            return kind
        case Primitive(kind=kind, logical=Decimal(precision=p, scale=s)):
            return f"{kind} decimal({p},{s})"
        case Primitive(kind=kind, logical=logical):
            return f"{kind} {logical}"
        case Union(branches=branches):
            return f"union of {len(branches)} types"
        case Fixed() | Enum() | Record():
            return f"{type(node).__name__.lower()} {_clip(node.name)}"
        case _:
            return type(node).__name__.lower()


def to_json(node: AvroNode) -> str:
    """The schema as compact JSON: a named type is written out where it first stands, and by its name after."""
    return json.dumps(_dump(node, "", set()), separators=(",", ":"))


def load_json(text: str | bytes, what: str = "an Avro schema") -> object:
    """Parse the JSON of a schema, within the bounds on its size and nesting; ``what`` names it in messages."""
    if len(text) > _limits.AVRO_SCHEMA_BYTES:
        raise LimitError(f"{what} of {len(text)} bytes exceeds the bound of {_limits.AVRO_SCHEMA_BYTES}")
    try:
        plain = text if isinstance(text, str) else bytes(text).decode("utf-8")
        _check_brackets(plain, what)
        value: object = json.loads(plain)
    except ValueError as error:
        raise CorruptError(f"{what} is not JSON: {error}", value=_clip(repr(text[:200]))) from error
    return value


def _check_brackets(text: str, what: str) -> None:
    """Refuse JSON that is nested too deep: ``json.loads`` would recurse once for each level.

    Without its escapes, a quote always opens or closes a string. A backslash outside of strings breaks that rule, but
    there ``json.loads`` stops. No regular expression for strings: it would take quadratic time on hostile ones.
    """
    outside = "".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])
    depth = brackets = 0
    for match in _JSON_BRACKET.finditer(outside):
        if match.group() in "[{":
            depth += 1
            brackets += 1
            if depth > _JSON_DEPTH:
                raise LimitError(f"the JSON of {what} is nested deeper than {_JSON_DEPTH}")
            if brackets > _JSON_BRACKETS:
                raise LimitError(f"the JSON of {what} holds more than {_JSON_BRACKETS} objects and lists")
        else:
            depth -= 1


@dataclass(frozen=True, slots=True)
class _Known:
    """A named type that is complete: its node, its expanded node count and its height."""

    node: Fixed | Enum | Record
    nodes: int
    height: int


class _Parser:
    """One parse: the names seen so far and the expanded node count. Heights are of the expanded tree too."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._open: set[str] = set()
        self._nodes = 0

    def parse(self, value: object, namespace: str, depth: int) -> tuple[AvroNode, int]:
        """The node of a JSON value, and its height."""
        self._check_depth(depth)
        if isinstance(value, str):
            return self._reference(value, namespace, depth)
        if isinstance(value, list):
            return self._union(value, namespace, depth)
        if not isinstance(value, dict):
            raise CorruptError(f"an Avro type must be a name, an object or a list, not {_clip(repr(value))}")
        kind = value.get("type")
        if isinstance(kind, (dict, list)):
            return self.parse(kind, namespace, depth + 1)
        if kind in ("record", "error", "enum", "fixed"):
            return self._define(str(kind), value, namespace, depth)
        if kind == "array":
            self._count(1)
            node, height = self.parse(_required(value, "items", "array"), namespace, depth + 1)
            return Array(node), height + 1
        if kind == "map":
            self._count(1)
            node, height = self.parse(_required(value, "values", "map"), namespace, depth + 1)
            return Map(node), height + 1
        if isinstance(kind, str) and kind in _PRIMITIVES:
            self._count(1)
            return _primitive(kind, value), 1
        if isinstance(kind, str):
            return self._reference(kind, namespace, depth)
        raise CorruptError(f"an Avro type has no usable 'type': {_clip(repr(value))}")

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        self._check_room(0)

    def _check_room(self, nodes: int) -> None:
        if self._nodes + nodes > _limits.AVRO_SCHEMA_NODES:
            raise LimitError(f"an Avro schema expands to more than {_limits.AVRO_SCHEMA_NODES} types")

    def _check_depth(self, depth: int) -> None:
        if depth > _limits.AVRO_SCHEMA_DEPTH:
            raise LimitError(f"an Avro schema is nested deeper than {_limits.AVRO_SCHEMA_DEPTH} types")

    def _reference(self, name: str, namespace: str, depth: int) -> tuple[AvroNode, int]:
        if name in _PRIMITIVES:
            self._count(1)
            return _PRIMITIVES[name], 1
        qualified = name if "." in name or not namespace else f"{namespace}.{name}"
        # As Avro's Java library does: a plain name that the namespace does not hold is looked up without one.
        for candidate in (qualified, name):
            if candidate in self._open:
                raise UnsupportedError(f"the Avro type {_clip(candidate)} contains itself: recursion is not read")
            known = self._known.get(candidate)
            if known is not None:
                self._count(known.nodes)
                self._check_depth(depth + known.height - 1)
                return known.node, known.height
        raise CorruptError(f"unknown Avro type {_clip(repr(name))}")

    def _union(self, value: list[object], namespace: str, depth: int) -> tuple[AvroNode, int]:
        if len(value) > _limits.AVRO_UNION_BRANCHES:
            raise LimitError(f"an Avro union of {len(value)} types exceeds the bound of {_limits.AVRO_UNION_BRANCHES}")
        if not value:
            raise CorruptError("an Avro union has no types")
        self._count(1)
        branches: list[AvroNode] = []
        tallest = 0
        for item in value:
            node, height = self.parse(item, namespace, depth + 1)
            branches.append(node)
            tallest = max(tallest, height)
        keys = [_branch_key(branch) for branch in branches]
        if "union" in keys:
            raise CorruptError("an Avro union stands directly inside a union")
        if len(set(keys)) < len(keys):
            raise CorruptError(f"an Avro union has the same type twice: {_clip(', '.join(keys))}")
        return Union(tuple(branches)), tallest + 1

    def _define(self, kind: str, value: dict[str, object], namespace: str, depth: int) -> tuple[AvroNode, int]:
        full, inner = _full_name(value, namespace)
        if full in self._open:
            raise CorruptError(f"the Avro type {_clip(full)} is defined again inside itself")
        before = self._nodes
        self._count(1)
        node: Fixed | Enum | Record
        height = 1
        if kind == "fixed":
            node = _fixed(full, value)
        elif kind == "enum":
            node = _enum(full, value)
        else:
            self._open.add(full)
            node, height = self._record(full, value, inner, depth)
            self._open.discard(full)
        earlier = self._known.get(full)
        if earlier is not None and earlier.node != node:
            raise CorruptError(f"the Avro type {_clip(full)} is defined twice, and differently")
        if earlier is None:
            self._known[full] = _Known(node, self._nodes - before, height)
        return node, height

    def _record(self, full: str, value: dict[str, object], namespace: str, depth: int) -> tuple[Record, int]:
        items = value.get("fields")
        if not isinstance(items, list):
            raise CorruptError(f"the Avro record {_clip(full)} has no list of fields")
        self._check_room(len(items))  # Each field is a type at least: too many of them are not looked at one by one.
        fields: list[Field] = []
        names: set[str] = set()
        tallest = 0
        for item in items:
            if not isinstance(item, dict) or "type" not in item:
                raise CorruptError(f"a field of the Avro record {_clip(full)} has no type: {_clip(repr(item))}")
            name = item.get("name")
            if not isinstance(name, str) or not is_legal_name(name):
                raise CorruptError(f"a field of the Avro record {_clip(full)} has the illegal name {_clip(repr(name))}")
            if name in names:
                raise CorruptError(f"the Avro record {_clip(full)} has the field {_clip(repr(name))} twice")
            names.add(name)
            node, height = self.parse(item["type"], namespace, depth + 1)
            tallest = max(tallest, height)
            default = json.dumps(item["default"], separators=(",", ":")) if "default" in item else None
            fields.append(Field(name, node, default, _text(item, "doc")))
        return Record(full, tuple(fields), _text(value, "doc")), tallest + 1


def _required(value: dict[str, object], key: str, kind: str) -> object:
    if key not in value:
        raise CorruptError(f"an Avro {kind} has no {key!r}")
    return value[key]


def _text(value: dict[str, object], key: str) -> str | None:
    text = value.get(key)
    return text if isinstance(text, str) else None


def _full_name(value: dict[str, object], namespace: str) -> tuple[str, str]:
    """The full name of a definition and the namespace that holds inside it."""
    name = value.get("name")
    space = value.get("namespace", namespace)
    if space is None:
        space = ""
    if not isinstance(name, str) or not isinstance(space, str):
        raise CorruptError(f"an Avro type has an illegal name: {_clip(repr(name))} in {_clip(repr(space))}")
    full = name if "." in name or not space else f"{space}.{name}"
    if not all(is_legal_name(part) for part in full.split(".")) or full in _PRIMITIVES:
        raise CorruptError(f"an Avro type has the illegal name {_clip(repr(full))}")
    return full, full.rpartition(".")[0]


def _primitive(kind: str, value: dict[str, object]) -> Primitive:
    plain = _PRIMITIVES[kind]
    logical = value.get("logicalType")
    if not isinstance(logical, str):
        return plain
    if kind == "bytes" and logical == "decimal":
        return Primitive("bytes", _decimal(value))
    known = _LOGICALS.get((kind, logical))
    return plain if known is None else Primitive(plain.kind, known)


def _decimal(value: dict[str, object]) -> Decimal:
    precision, scale = value.get("precision"), value.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or precision < 1 or not 0 <= scale <= precision:
        shown = _clip(f"({precision!r}, {scale!r})")
        raise CorruptError(f"an Avro decimal has the impossible precision and scale {shown}")
    return Decimal(precision, scale)


def _fixed(full: str, value: dict[str, object]) -> Fixed:
    size = value.get("size")
    if type(size) is not int or size < 1:
        raise CorruptError(f"the Avro fixed {_clip(full)} has the impossible size {_clip(repr(size))}")
    if size > _limits.LOG_BLOCK_BYTES:
        raise LimitError(f"the Avro fixed {_clip(full)} claims {_clip(str(size))} bytes, more than a log block holds")
    return Fixed(full, size, _decimal(value) if value.get("logicalType") == "decimal" else None)


def _enum(full: str, value: dict[str, object]) -> Enum:
    symbols = value.get("symbols")
    if not isinstance(symbols, list) or not symbols:
        raise CorruptError(f"the Avro enum {_clip(full)} has no symbols")
    if len(symbols) > _limits.AVRO_SCHEMA_NODES:
        raise LimitError(f"the Avro enum {_clip(full)} has {len(symbols)} symbols")
    names = tuple(symbol for symbol in symbols if isinstance(symbol, str) and is_legal_name(symbol))
    if len(names) < len(symbols) or len(set(names)) < len(names):
        raise CorruptError(f"the Avro enum {_clip(full)} has illegal or repeated symbols: {_clip(repr(symbols))}")
    return Enum(full, names)


def _branch_key(node: AvroNode) -> str:
    """Two branches of a union with the same key cannot be told apart."""
    if isinstance(node, Primitive):
        return node.kind
    if isinstance(node, (Fixed, Enum, Record)):
        return node.name
    return type(node).__name__.lower()


def _clip(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)"


def _dump(node: AvroNode, namespace: str, written: set[str]) -> object:
    match node:
        case Primitive(kind=kind, logical=None):
            return kind
        case Primitive(kind=kind, logical=logical):
            return {"type": kind, **_dump_logical(logical)}
        case Array(items=items):
            return {"type": "array", "items": _dump(items, namespace, written)}
        case Map(values=values):
            return {"type": "map", "values": _dump(values, namespace, written)}
        case Union(branches=branches):
            return [_dump(branch, namespace, written) for branch in branches]
        case Fixed() | Enum() | Record():
            return _dump_named(node, namespace, written)


def _dump_named(node: Fixed | Enum | Record, namespace: str, written: set[str]) -> object:
    space, _, name = node.name.rpartition(".")
    if node.name in written:
        if space == namespace:
            return name
        if "." not in node.name and namespace and f"{namespace}.{node.name}" in written:
            raise InvalidError(f"the Avro name {node.name!r} cannot be told from {namespace}.{node.name}")
        return node.name
    written.add(node.name)
    head: dict[str, object] = {"type": type(node).__name__.lower(), "name": name}
    if space != namespace:
        head["namespace"] = space
    match node:
        case Fixed(size=size, logical=logical):
            return {**head, "size": size, **_dump_logical(logical)}
        case Enum(symbols=symbols):
            return {**head, "symbols": list(symbols)}
        case Record(fields=fields, doc=doc):
            body = [_dump_field(field, space, written) for field in fields]
            return {**head, **({} if doc is None else {"doc": doc}), "fields": body}


def _dump_field(field: Field, namespace: str, written: set[str]) -> dict[str, object]:
    dumped: dict[str, object] = {"name": field.name, "type": _dump(field.type, namespace, written)}
    if field.doc is not None:
        dumped["doc"] = field.doc
    if field.default is not None:
        dumped["default"] = json.loads(field.default)
    return dumped


def _dump_logical(logical: Logical | Decimal | None) -> dict[str, object]:
    if isinstance(logical, Decimal):
        return {"logicalType": "decimal", "precision": logical.precision, "scale": logical.scale}
    return {} if logical is None else {"logicalType": logical}
