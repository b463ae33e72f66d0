"""Columns that no table can have, refused by name when a table is made or a write would add them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from tidelake.errors import InvalidError
from tidelake.merge.spec import IS_DELETED, OPERATION


def refuse_bad_columns(fields: Iterable[pa.Field], beside: Iterable[str] = ()) -> None:
    """Refuse new columns that differ from another by case alone, or have a type that holds no values.

    ``beside`` are the columns that the table has already.
    """
    seen = {name.lower(): name for name in beside}
    for field in fields:
        twin = seen.setdefault(field.name.lower(), field.name)
        if twin != field.name:
            raise InvalidError(
                f"the columns {twin!r} and {field.name!r} differ by case alone, which Spark does not tell apart",
                value=field.name,
            )
        for path, kind in _types(field.name, field.type):
            if pa.types.is_null(kind):
                raise InvalidError(f"the column {path!r} has no type", value=path, hint="cast it")
            if pa.types.is_struct(kind) and kind.num_fields == 0:
                raise InvalidError(f"the column {path!r} is a struct without fields", value=path)
        if field.name == IS_DELETED and not pa.types.is_boolean(field.type):
            raise InvalidError(
                f"the column {IS_DELETED!r} marks deletes and is boolean, not {field.type}", value=IS_DELETED
            )
        if field.name == OPERATION and not pa.types.is_string(field.type):
            raise InvalidError(f"the column {OPERATION!r} is a string, not {field.type}", value=OPERATION)


def _types(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """A type and those inside it, each with its path."""
    yield path, kind
    if pa.types.is_struct(kind):
        for inner in kind:
            yield from _types(f"{path}.{inner.name}", inner.type)
    elif pa.types.is_map(kind):
        yield from _types(f"{path}.value", kind.item_type)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _types(f"{path}.element", kind.value_type)
