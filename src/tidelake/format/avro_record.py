"""Frozen dataclasses with an Avro shape: one declaration gives the schema, the encoder and the decoder.

A record class derives from :class:`AvroRecord` and declares each field with :func:`avro`, in the order that Apache
Hudi writes. Python names are the Avro names in snake case; a field may name its Avro name itself.
Decoding follows the *writer's* schema: fields that it lacks take their default, fields that we do not know are left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

from tidelake.errors import CorruptError
from tidelake.format.avro_container import decode_container, encode_container

NAMESPACE = "org.apache.hudi.avro.model"


@dataclass(frozen=True, slots=True)
class AvroType:
    """A type of the small language in which timeline records are declared."""

    kind: str
    inner: AvroType | type[AvroRecord] | None = None
    null_last: bool = False


STRING = AvroType("string")
LONG = AvroType("long")
INT = AvroType("int")
BOOLEAN = AvroType("boolean")
DOUBLE = AvroType("double")
BYTES = AvroType("bytes")


def nullable(inner: AvroType, *, null_last: bool = False) -> AvroType:
    """``[null, T]``, or ``[T, null]`` where Apache Hudi has it so."""
    return AvroType("nullable", inner, null_last)


def array_of(inner: AvroType) -> AvroType:
    """``array<T>``."""
    return AvroType("array", inner)


def map_of(inner: AvroType) -> AvroType:
    """``map<T>``, with text keys."""
    return AvroType("map", inner)


def record_of(inner: type[AvroRecord]) -> AvroType:
    """A nested record."""
    return AvroType("record", inner)


_NO_DEFAULT = object()


def avro(kind: AvroType, default: object = _NO_DEFAULT, *, name: str | None = None) -> Any:  # noqa: ANN401 - a field
    """A dataclass field with its Avro type; no default means that a writer schema must have the field."""
    metadata = {"avro": kind, "name": name, "default": default}
    if default is _NO_DEFAULT:
        return dataclasses.field(metadata=metadata)
    if isinstance(default, (dict, list)):
        return dataclasses.field(default_factory=type(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


class AvroRecord:
    """Base of the timeline's records."""

    avro_name: ClassVar[str]

    def encode(self, sync: bytes) -> bytes:
        """This record as a timeline file; ``sync`` is the container's 16-byte marker."""
        return encode_container(avro_schema(type(self)), to_plain(self), sync)


R = TypeVar("R", bound=AvroRecord)
T = TypeVar("T")


def decode_record(cls: type[R], data: bytes) -> R:
    """The record in a timeline file."""
    return from_plain(cls, decode_container(data))


def _per_class(make: Callable[[type[AvroRecord]], T]) -> Callable[[type[AvroRecord]], T]:
    """Make a thing once for each record class."""
    made: dict[type[AvroRecord], T] = {}

    def get(cls: type[AvroRecord]) -> T:
        if cls not in made:
            made[cls] = make(cls)
        return made[cls]

    return get


@_per_class
def _fields(cls: type[AvroRecord]) -> tuple[tuple[str, str, AvroType, object], ...]:
    declared = dataclasses.fields(cast(Any, cls))
    return tuple(
        (f.name, f.metadata["name"] or _camel(f.name), f.metadata["avro"], f.metadata["default"]) for f in declared
    )


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


@_per_class
def avro_schema(cls: type[AvroRecord]) -> dict[str, object]:
    """The Avro schema that we write for a record class."""
    return cast("dict[str, object]", _record_schema(cls, set()))


def _record_schema(cls: type[AvroRecord], seen: set[str]) -> object:
    if cls.avro_name in seen:
        return cls.avro_name
    seen.add(cls.avro_name)
    fields = []
    for _, name, kind, default in _fields(cls):
        field: dict[str, object] = {"name": name, "type": _type_schema(kind, seen)}
        if default is not _NO_DEFAULT:
            field["default"] = default
        fields.append(field)
    return {"type": "record", "name": cls.avro_name, "namespace": NAMESPACE, "fields": fields}


def _type_schema(kind: AvroType, seen: set[str]) -> object:
    if kind.inner is None:
        return kind.kind
    if kind.kind == "record":
        return _record_schema(cast("type[AvroRecord]", kind.inner), seen)
    inner = _type_schema(cast(AvroType, kind.inner), seen)
    if kind.kind == "nullable":
        return [inner, "null"] if kind.null_last else ["null", inner]
    return {"type": kind.kind, "items" if kind.kind == "array" else "values": inner}


def to_plain(record: AvroRecord) -> dict[str, object]:
    """The record as the dict that fastavro writes."""
    return {
        name: value if (value := getattr(record, python)) is None or convert is None else convert(value)
        for python, name, convert in _plain_fields(type(record))
    }


@_per_class
def _plain_fields(cls: type[AvroRecord]) -> list[tuple[str, str, Callable[[Any], object] | None]]:
    return [(python, name, _plain_of(kind)) for python, name, kind, _ in _fields(cls)]


def _plain_of(kind: AvroType) -> Callable[[Any], object] | None:
    """What makes a value plain; None if it is so already."""
    if kind.inner is None:
        return None
    if kind.kind == "record":
        return to_plain
    inner = _plain_of(cast(AvroType, kind.inner))
    if kind.kind == "nullable":
        return inner
    if kind.kind == "array":
        return lambda items: [item if item is None or inner is None else inner(item) for item in items]
    return lambda items: {k: v if v is None or inner is None else inner(v) for k, v in items.items()}


def from_plain(cls: type[R], plain: dict[str, object]) -> R:
    """The record from the dict that fastavro read."""
    return cast(R, _builder(cls)(plain))


@_per_class
def _builder(cls: type[AvroRecord]) -> Callable[[dict[str, object]], AvroRecord]:
    plan = [(python, name, _converter(kind), default) for python, name, kind, default in _fields(cls)]

    def build(plain: dict[str, object]) -> AvroRecord:
        if not isinstance(plain, dict):
            raise CorruptError(f"{cls.avro_name} is expected, a {type(plain).__name__} was read")
        values: dict[str, object] = {}
        for python, name, convert, default in plan:
            if name in plain:
                value = plain[name]
                values[python] = value if convert is None or value is None else convert(value)
            elif default is _NO_DEFAULT:
                raise CorruptError(f"{cls.avro_name} lacks the field {name}", value=name)
        return cls(**values)

    return build


def _converter(kind: AvroType) -> Callable[[Any], object] | None:
    if kind.inner is None:
        return _checker(kind.kind)
    if kind.kind == "record":
        return cast("Callable[[Any], object]", _builder(cast("type[AvroRecord]", kind.inner)))
    inner = _converter(cast(AvroType, kind.inner))
    if kind.kind == "nullable":
        return inner
    if kind.kind == "array":
        return lambda items: tuple(item if item is None or inner is None else inner(item) for item in items)
    return lambda items: {k: v if v is None or inner is None else inner(v) for k, v in items.items()}


_PYTHON = {"string": str, "long": int, "int": int, "boolean": bool, "double": (float, int), "bytes": bytes}


def _checker(kind: str) -> Callable[[Any], object]:
    expected = _PYTHON[kind]

    def check(value: object) -> object:
        if not isinstance(value, cast(Any, expected)):
            raise CorruptError(f"a {kind} is expected, {value!r} was read", value=value)
        return value

    return check
