"""Incoming rows, made ready: the meta columns that storage keeps in front of every record."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

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
HASH = "__tidelake_hash"
SEQUENCE = "__tidelake_sequence"
BLOOM = "__tidelake_bloom"
HELPERS = (KEY, PATH, SALT, PLACE, GONE, HASH, SEQUENCE, BLOOM)
"""Columns that travel beside the user's while a write is under way. Paths are few: their column is a dictionary."""


_RESERVED_PREFIXES = ("_hoodie_", "__tidelake")
_ALLOWED = ("_hoodie_is_deleted", "_hoodie_operation")


def refuse_reserved(names: Iterable[str]) -> None:
    """Refuse names of user columns that belong to the table format, or to us."""
    for name in names:
        if name in META_COLUMN_NAMES or (name.startswith(_RESERVED_PREFIXES) and name not in _ALLOWED):
            raise InvalidError(f"the column name {name!r} is reserved", value=name)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Some rows of a table. Nothing is copied before they are taken, so that each file's rows use the same memory."""

    table: pa.Table
    numbers: npt.NDArray[np.int64]
    run: int | None = field(init=False)
    """Where the rows begin, if they are in a row."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", _run(self.numbers))

    def __len__(self) -> int:
        return len(self.numbers)

    def has(self, name: str) -> bool:
        """Whether the table has a column."""
        return bool(self.table.schema.get_field_index(name) >= 0)

    def column(self, name: str) -> pa.Array:
        """One column of the rows."""
        values = in_one(self.table.column(name))
        return values.take(pa.array(self.numbers)) if self.run is None else values.slice(self.run, len(self))

    def pick(self, at: npt.NDArray[np.int64]) -> Chosen:
        """Some of these rows."""
        return Chosen(self.table, self.numbers[at])

    def part(self, start: int, count: int) -> Chosen:
        """Some of these rows, in a row."""
        return Chosen(self.table, self.numbers[start : start + count])

    @property
    def row_bytes(self) -> float:
        """What a row takes in memory, on the average of the whole table; what only helps to write it does not count."""
        counted = [name for name in self.table.column_names if name not in HELPERS or name in (KEY, PATH)]
        return float(self.table.select(counted).nbytes) / max(1, int(self.table.num_rows))

    def taken(self, pool: ThreadPoolExecutor | None = None) -> pa.Table:
        """The rows as a table of their own: rows in a row as they are, others copied, columns side by side in a pool.

        A key that is a column's own values is copied once for both.
        """
        if self.run is not None:
            return self.table.slice(self.run, len(self))
        numbers = pa.array(self.numbers)
        columns = self.table.columns
        places = [(n,) if c.num_chunks != 1 else _memory(c.chunk(0)) for n, c in enumerate(columns)]
        distinct = dict(zip(places, columns, strict=True))
        each = (pool.map if pool else map)(lambda column: column.take(numbers), distinct.values())
        made = dict(zip(distinct, each, strict=True))
        return pa.table([made[place] for place in places], schema=self.table.schema)


def _run(numbers: npt.NDArray[np.int64]) -> int | None:
    if len(numbers) == 0:
        return 0
    first, last = int(numbers[0]), int(numbers[-1])
    is_run = last - first == len(numbers) - 1 and bool((np.diff(numbers) == 1).all())
    return first if is_run else None


def in_one(column: pa.ChunkedArray) -> pa.Array:
    """A column's values in one piece; they are copied only if they are in several."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _memory(column: pa.Array) -> tuple[object, ...]:
    """Where a column's values are: the same for two columns that are one."""
    buffers = (0 if buffer is None else buffer.address for buffer in column.buffers())
    return (column.type, column.offset, len(column), *buffers)


def stored_rows(
    rows: pa.Table, numbers: npt.NDArray[np.int64], instant: str, partition_path: str, files: str | pa.Array, task: int
) -> pa.Table:
    """User rows of one partition with their helper columns, as the records that a file keeps.

    ``numbers`` are those of the rows among all that the task has, and ``files`` names their files.
    """
    count = rows.num_rows
    meta = {
        COMMIT_TIME: pa.repeat(pa.scalar(instant, pa.string()), count),
        COMMIT_SEQNO: rows.column(SEQUENCE)
        if SEQUENCE in rows.column_names
        else sequence_numbers(instant, task, numbers),
        RECORD_KEY: rows.column(KEY),
        PARTITION_PATH: pa.repeat(pa.scalar(partition_path, pa.string()), count),
        FILE_NAME: pa.repeat(pa.scalar(files, pa.string()), count) if isinstance(files, str) else files,
    }
    schema = with_meta(pa.schema([field for field in rows.schema if field.name not in HELPERS]))
    columns = [meta[name] if name in meta else rows.column(name) for name in schema.names]
    return pa.table(columns, schema=schema)


def sequence_numbers(instant: str, task: int, numbers: npt.NDArray[np.int64]) -> pa.Array:
    """What tells the rows of a task from each other, and from those of all other tasks and writes."""
    return pc.binary_join_element_wise(f"{instant}_{task}_", pc.cast(pa.array(numbers), pa.string()), "")


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
