"""Incoming rows, made ready: the meta columns that storage keeps in front of every record."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import InvalidError
from tidelake.schema import META_COLUMN_NAMES, with_meta

KEY = "__tidelake_key"
PATH = "__tidelake_path"
SALT = "__tidelake_salt"
PLACE = "__tidelake_place"
HELPERS = (KEY, PATH, SALT, PLACE)
"""Columns that travel beside the user's while a write is under way."""


_RESERVED_PREFIXES = ("_hoodie_", "__tidelake")
_ALLOWED = ("_hoodie_is_deleted", "_hoodie_operation")


def refuse_reserved(names: Iterable[str]) -> None:
    """Refuse names of user columns that belong to the table format, or to us."""
    for name in names:
        if name in META_COLUMN_NAMES or (name.startswith(_RESERVED_PREFIXES) and name not in _ALLOWED):
            raise InvalidError(f"the column name {name!r} is reserved", value=name)


def stored_rows(rows: pa.Table, instant: str, file_name: str, task: int) -> pa.Table:
    """User rows with their helper columns, as the records that a file keeps."""
    count = rows.num_rows
    prefix = f"{instant}_{task}_"
    numbers = pc.cast(pa.array(np.arange(count)), pa.string())
    meta = [
        pa.repeat(pa.scalar(instant, pa.string()), count),
        pc.binary_join_element_wise(prefix, numbers, ""),
        rows.column(KEY),
        rows.column(PATH),
        pa.repeat(pa.scalar(file_name, pa.string()), count),
    ]
    user = rows.drop_columns([name for name in HELPERS if name in rows.column_names])
    schema = with_meta(user.schema.remove_metadata())
    named = dict(zip(META_COLUMN_NAMES, meta, strict=True))
    columns = [named.get(field.name, user.column(field.name) if field.name not in named else None) for field in schema]
    return pa.table(columns, schema=schema)
