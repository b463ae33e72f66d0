"""Columns that no table can have, refused by name when a table is made or a write would add them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tidelake.errors import InvalidError
from tidelake.merge.spec import IS_DELETED, OPERATION


def refuse_bad_columns(fields: Iterable[pa.Field], known: Iterable[pa.Field] = ()) -> None:
    """Refuse new columns that differ from another by case alone, or have a type that holds no values, at any depth.

    ``known`` are the columns that the table has already: of these only what is new inside of them is looked at.
    """
    given, had = list(fields), list(known)
    _refuse_bad_fields(given, had, "")
    names = {field.name for field in had}
    for field in given:
        if field.name == IS_DELETED and field.name not in names and not pa.types.is_boolean(field.type):
            raise InvalidError(
                f"the column {IS_DELETED!r} marks deletes and is boolean, not {field.type}", value=IS_DELETED
            )
        if field.name == OPERATION and field.name not in names and not pa.types.is_string(field.type):
            raise InvalidError(f"the column {OPERATION!r} is a string, not {field.type}", value=OPERATION)


def _refuse_bad_fields(fields: Iterable[pa.Field], known: Iterable[pa.Field], prefix: str) -> None:
    had = {field.name: field.type for field in known}
    seen = {name.lower(): name for name in had}
    for field in fields:
        path = f"{prefix}{field.name}"
        twin = seen.setdefault(field.name.lower(), field.name)
        if twin != field.name and field.name not in had:
            raise InvalidError(
                f"the columns {prefix + twin!r} and {path!r} differ by case alone, which Spark does not tell apart",
                value=path,
            )
        _refuse_bad_type(field.type, had.get(field.name), path)


def _refuse_bad_type(kind: pa.DataType, had: pa.DataType | None, path: str) -> None:
    """Look at a type and those inside it; ``had`` is that of the table, which data of no type takes."""
    if pa.types.is_null(kind) and had is None:
        raise InvalidError(f"the column {path!r} has no type", value=path, hint="cast it")
    if pa.types.is_struct(kind):
        if kind.num_fields == 0 and had is None:
            raise InvalidError(f"the column {path!r} is a struct without fields", value=path)
        _refuse_bad_fields(kind, had if had is not None and pa.types.is_struct(had) else (), f"{path}.")
    elif pa.types.is_map(kind):
        inside = had.item_type if had is not None and pa.types.is_map(had) else None
        _refuse_bad_type(kind.item_type, inside, f"{path}.value")
    elif pa.types.is_list(kind):
        inside = had.value_type if had is not None and pa.types.is_list(had) else None
        _refuse_bad_type(kind.value_type, inside, f"{path}.element")
