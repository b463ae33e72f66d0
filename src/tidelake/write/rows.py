"""Incoming rows, made ready: the meta columns that storage keeps in front of every record."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import InvalidError
from tidelake.schema import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    META_COLUMN_NAMES,
    PARTITION_PATH,
    RECORD_KEY,
    with_meta,
)

KEY = "__tidelake_key"
PATH = "__tidelake_path"
SALT = "__tidelake_salt"
PLACE = "__tidelake_place"
GONE = "__tidelake_gone"
HELPERS = (KEY, PATH, SALT, PLACE, GONE)
"""Columns that travel beside the user's while a write is under way. Paths are few: their column is a dictionary."""


_RESERVED_PREFIXES = ("_hoodie_", "__tidelake")
_ALLOWED = ("_hoodie_is_deleted", "_hoodie_operation")


def refuse_reserved(names: Iterable[str]) -> None:
    """Refuse names of user columns that belong to the table format, or to us."""
    for name in names:
        if name in META_COLUMN_NAMES or (name.startswith(_RESERVED_PREFIXES) and name not in _ALLOWED):
            raise InvalidError(f"the column name {name!r} is reserved", value=name)


def stored_rows(rows: pa.Table, instant: str, partition_path: str, file_name: str, task: int) -> pa.Table:
    """User rows of one partition with their helper columns, as the records that a file keeps."""
    count = rows.num_rows
    numbers = pc.cast(pa.array(np.arange(count)), pa.string())
    meta = {
        COMMIT_TIME: pa.repeat(pa.scalar(instant, pa.string()), count),
        COMMIT_SEQNO: pc.binary_join_element_wise(f"{instant}_{task}_", numbers, ""),
        RECORD_KEY: rows.column(KEY),
        PARTITION_PATH: pa.repeat(pa.scalar(partition_path, pa.string()), count),
        FILE_NAME: pa.repeat(pa.scalar(file_name, pa.string()), count),
    }
    schema = with_meta(pa.schema([field for field in rows.schema if field.name not in HELPERS]))
    columns = [meta[field.name] if field.name in meta else rows.column(field.name) for field in schema]
    return pa.table(columns, schema=schema)


def key_order(keys: pa.Array, here: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The order of these rows by key.

    Keys are compared by the eight bytes after what all of them begin with; only where that does not tell, as texts.
    """
    if len(here) < 2:
        return np.arange(len(here))
    chosen = keys.take(pa.array(here)).cast(pa.large_binary())
    bounds = pc.min_max(chosen)
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    shared = next((i for i, (a, b) in enumerate(zip(least, most, strict=False)) if a != b), min(len(least), len(most)))
    heads = _eight_bytes(chosen, shared)
    order = np.argsort(heads)
    if (np.diff(heads[order]) == 0).any():
        return pl.Series("key", chosen).arg_sort().to_numpy()
    return order


def _eight_bytes(texts: pa.Array, skipped: int) -> npt.NDArray[np.uint64]:
    """Of each text the eight bytes after the first few, as a number that sorts like them; short texts end in zeros."""
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(texts.buffers()[2] or b"", dtype=np.uint8)
    starts = offsets[:-1] + skipped
    heads = np.zeros(len(texts), dtype=np.uint64)
    for step in range(8):
        at = starts + step
        inside = at < offsets[1:]
        letters = np.where(inside, data[np.minimum(at, len(data) - 1)], 0).astype(np.uint64)
        heads |= letters << np.uint64(8 * (7 - step))
    return heads
