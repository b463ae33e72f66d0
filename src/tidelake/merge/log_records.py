"""The log side of a slice: every record and delete of its log files, in the order in which they apply.

``LogRecords`` holds the data rows as one Arrow table and, for every record and delete, an *entry*: key, ordering
values in comparable form, kind, and the row it stands for. Merging works on entries; rows are only taken at the end.

Checks that keep damage from passing for fewer rows or other values: a block's instant is its file's; a block has the
columns and types, at every depth, that its commit says (a partial block: some of them), and none that the table never
had; the blocks of a log compaction, and no others, name the instants they stand for, which are all there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelake import _limits
from tidelake.errors import CorruptError, LimitError, NotFoundError, TidelakeError, UnsupportedError
from tidelake.filegroup import LogFile, missing_file
from tidelake.format.avro_arrow import arrow_schema
from tidelake.format.avro_data import decode_avro_block
from tidelake.format.avro_schema import parse_record
from tidelake.format.delete_block import decode_deletes
from tidelake.format.log_block import BlockType, HeaderKey, LogBlock, read_blocks
from tidelake.merge.arrays import Mask, Places
from tidelake.merge.clock_values import clock_values, delete_clocks
from tidelake.merge.keys import record_keys
from tidelake.merge.ordering import column_at, comparable, comparable_type, delete_ordering
from tidelake.merge.spec import IS_DELETED, OPERATION, MergeSpec
from tidelake.schema import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    RECORD_KEY,
    column_paths,
    column_types,
    conform_stored,
    without_meta,
)
from tidelake.storage import Storage

DATA, DATA_DELETE, BLOCK_DELETE = 0, 1, 2
_ENTRY_COLUMNS = {
    "key": pa.string(),
    "row": pa.int64(),
    "kind": pa.int8(),
    "unconditional": pa.bool_(),
    "part": pa.int32(),
    "block": pa.int32(),
}
_INT_DEFAULT_TYPES = (pa.int8(), pa.int16(), pa.int32(), pa.date32())


@dataclass(frozen=True, slots=True)
class LogRecords:
    """The log side of a slice.

    ``entries`` has the columns ``key``, ``row`` (-1: none), ``kind``, ``unconditional``, ``part`` (index into
    ``partials``, -1: a whole record), ``block`` (index into ``born``) and ``o0``, ``o1``... Entry order is application
    order. With several event times an entry of a delete block has a row too, of its key and event times.
    """

    rows: pa.Table
    entries: pl.DataFrame
    partials: tuple[frozenset[str], ...]
    born: tuple[str, ...] = ()
    """Of each block the instant of its write; of deletes that a compaction kept, that of the delete."""
    kept: frozenset[int] = frozenset()
    """The blocks of deletes that a compaction kept: what they ended is ended in the base file, too."""

    @property
    def is_empty(self) -> bool:
        return self.entries.height == 0


@dataclass(frozen=True, slots=True)
class LogContext:
    """What reading logs must know of the table: the schema to read as, and what commits say of themselves.

    ``known_columns`` are paths (None: not checked); ``commit_columns`` are paths with types, by instant, of instants that
    are not archived.
    """

    schema: pa.Schema
    known_columns: frozenset[str] | None
    commit_columns: Mapping[str, frozenset[str]]
    log_compactions: frozenset[str]
    tombstones: Mapping[str, str] = field(default_factory=dict)
    """Logs of deletes that a compaction kept, by path, with the instant from which on these are kept."""


def read_logs(storage: Storage, logs: Iterable[LogFile], spec: MergeSpec, context: LogContext) -> LogRecords:
    """All records and deletes of these log files."""
    builder = _Builder(spec, context)
    # What a compaction kept comes first, though a write that began before it may have put its log before theirs.
    logs = sorted(logs, key=lambda log: log.path not in context.tombstones)
    for file, block in _in_effect(_blocks(storage, logs, context)):
        try:
            builder.add(block, context.tombstones.get(file.path))
        except TidelakeError as error:
            raise error.with_context(file=file.path, instant=file.name.instant, table=storage.uri) from None
    return builder.build()


def _blocks(storage: Storage, logs: Iterable[LogFile], context: LogContext) -> list[tuple[LogFile, LogBlock]]:
    found: list[tuple[LogFile, LogBlock]] = []
    earlier: set[str] = set()
    for file in logs:
        try:
            data = storage.get(file.path)
            for block in read_blocks(data, file.committed_bytes):
                if block.instant_time != file.name.instant:
                    raise CorruptError(
                        f"a log block says it is of instant {block.instant_time}", value=block.instant_time
                    )
                _check_compacted(block, context, earlier)
                found.append((file, block))
        except NotFoundError as error:
            raise missing_file(file, storage.uri) from error
        except TidelakeError as error:
            raise error.with_context(file=file.path, instant=file.name.instant, table=storage.uri) from None
        earlier.add(file.name.instant)
    return found


def _check_compacted(block: LogBlock, context: LogContext, earlier: set[str]) -> None:
    named = block.compacted_instants
    instant = block.instant_time
    if instant in context.commit_columns and bool(named) != (instant in context.log_compactions):
        kind = "a log compaction" if instant in context.log_compactions else "no log compaction"
        raise CorruptError(f"a log block names {len(named)} compacted instants, but its commit is {kind}")
    absent = named - earlier
    if absent:
        raise CorruptError(f"a log block stands for the instant {min(absent)}, of which no block is before it")


def _in_effect(found: list[tuple[LogFile, LogBlock]]) -> list[tuple[LogFile, LogBlock]]:
    """Log-compacted blocks take the place of the last block that they stand for; those blocks fall away."""
    lists = {block.instant_time: block.compacted_instants for _, block in found if block.compacted_instants}
    if not lists:
        return found
    covered = frozenset().union(*lists.values())
    kept = [(file, block) for file, block in found if block.instant_time not in covered]
    return sorted(kept, key=lambda item: _place(item[1].instant_time, lists))


def _place(instant: str, lists: Mapping[str, frozenset[str]]) -> str:
    originals = lists.get(instant)
    return max(_place(i, lists) for i in originals) if originals else instant


class _Builder:
    """Collects blocks into columns."""

    def __init__(self, spec: MergeSpec, context: LogContext) -> None:
        self._spec = spec
        self._context = context
        self._batches: list[pa.RecordBatch] = []
        self._entries: list[pa.RecordBatch] = []
        self._partials: list[frozenset[str]] = []
        self._born: list[str] = []
        self._kept: set[int] = set()
        self._rows = 0

    def add(self, block: LogBlock, kept_since: str | None) -> None:
        if kept_since is not None:
            self._kept.add(len(self._born))
        self._born.append(kept_since or block.instant_time)
        if block.type in (BlockType.AVRO_DATA, BlockType.PARQUET_DATA):
            self._add_data(block)
        elif block.type is BlockType.DELETE:
            self._add_deletes(block)
        else:
            raise UnsupportedError(f"{block.type.name} blocks in a log file are not read", value=block.type.name)

    def build(self) -> LogRecords:
        rows = pa.Table.from_batches(self._batches, self._context.schema)
        return LogRecords(rows, self._frame(), tuple(self._partials), tuple(self._born), frozenset(self._kept))

    def _frame(self) -> pl.DataFrame:
        table = pa.Table.from_batches(self._entries or [self._no_entries()])
        columns = zip(table.column_names, table.columns, strict=True)
        # Column by column: a whole table would be handed to threads, which is not worth it.
        return pl.DataFrame([pl.Series(name, column.combine_chunks()) for name, column in columns])

    def _add_data(self, block: LogBlock) -> None:
        wanted = set(self._context.schema.names)
        present = self._check_columns(block)
        if block.type is BlockType.AVRO_DATA:
            raw = decode_avro_block(block.content, parse_record(block.schema_text), wanted)
        else:
            raw = _decode_parquet(block.content, [name for name in self._context.schema.names if name in present])
        batch = conform_stored(raw, self._context.schema)
        if block.is_partial:
            self._partials.append(present)
        part = len(self._partials) - 1 if block.is_partial else -1
        self.add_rows(batch, part)

    def _check_columns(self, block: LogBlock) -> frozenset[str]:
        present, paths, types = _columns_of(block.schema_text)
        known = self._context.known_columns
        unknown = paths - known if known is not None else frozenset()
        if unknown:
            raise CorruptError(f"a log block has the column {min(unknown)!r}, which the table never had")
        stated = self._context.commit_columns.get(block.instant_time)
        if stated is None:
            return present
        if types - stated:
            raise CorruptError(f"a log block has the column {min(types - stated)!r}, which its commit does not have so")
        if not block.is_partial and stated - types:
            raise CorruptError(f"a log block lacks the column {min(stated - types)!r} of its commit")
        return present

    def add_rows(self, batch: pa.RecordBatch, part: int = -1) -> None:
        """Data rows, whole ones or those of a partial block."""
        spec = self._spec
        compared = comparable if spec.clocks is None else clock_values
        ordering = [
            compared(column_at(batch, name), kind)
            for name, kind in zip(spec.ordering_fields, spec.ordering_types, strict=True)
        ]
        deleted = deleted_rows(batch, spec)
        kind = np.where(deleted, DATA_DELETE, DATA).astype(np.int8)
        unconditional = deleted & _is_default(batch, spec)
        rows = np.arange(self._rows, self._rows + batch.num_rows, dtype=np.int64)
        self._append(record_keys(batch, spec), rows, kind, unconditional, part, ordering)
        self._batches.append(batch)
        self._rows += batch.num_rows

    def _add_deletes(self, block: LogBlock) -> None:
        deletes = decode_deletes(block.content)
        spec = self._spec
        count = len(deletes)
        if spec.clocks is not None:
            self._add_clocked(deletes, block)
            return
        ordering: list[pa.Array] = []
        unconditional = np.ones(count, dtype=np.bool_)
        if spec.is_event_time:
            wrappers = pc.struct_field(deletes, "ordering")
            ordering, unconditional = delete_ordering(wrappers, spec.ordering_types, self._written_types(block))
        rows = np.full(count, -1, dtype=np.int64)
        kind = np.full(count, BLOCK_DELETE, dtype=np.int8)
        self._append(pc.struct_field(deletes, "key"), rows, kind, unconditional, -1, ordering)

    def _written_types(self, block: LogBlock) -> tuple[pa.DataType, ...]:
        """The types that the ordering fields had when a block was written, as far as it says."""
        text = block.headers.get(HeaderKey.SCHEMA)
        was = {} if not text else _types_of(text)
        fields = zip(self._spec.ordering_fields, self._spec.ordering_types, strict=True)
        return tuple(was.get(name, kind) for name, kind in fields)

    def _add_clocked(self, deletes: pa.StructArray, block: LogBlock) -> None:
        """Deletes with several event times, which a merged row may take over: each gets a row of its own."""
        spec, schema, count, instant = self._spec, self._context.schema, len(deletes), block.instant_time
        keys = pc.struct_field(deletes, "key")
        clocks = delete_clocks(pc.struct_field(deletes, "ordering"), spec.ordering_types, self._written_types(block))
        numbers = pc.cast(pa.array(np.arange(count)), pa.string())
        known = {
            RECORD_KEY: keys,
            COMMIT_TIME: pa.repeat(pa.scalar(instant, pa.string()), count),
            COMMIT_SEQNO: pc.binary_join_element_wise(f"{instant}_delete_", numbers, ""),
            **dict(zip(spec.ordering_fields, clocks, strict=True)),
        }
        columns = [known[f.name] if f.name in known else pa.nulls(count, f.type) for f in schema]
        ordering = [clock_values(column, kind) for column, kind in zip(clocks, spec.ordering_types, strict=True)]
        unconditional = np.logical_and.reduce(
            [np.ones(count, dtype=np.bool_), *(np.asarray(c.is_null()) for c in clocks)]
        )
        rows = np.arange(self._rows, self._rows + count, dtype=np.int64)
        self._append(keys, rows, np.full(count, BLOCK_DELETE, dtype=np.int8), unconditional, -1, ordering)
        self._batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
        self._rows += count

    def _append(
        self,
        keys: pa.Array,
        rows: Places,
        kind: npt.NDArray[np.int8],
        unconditional: Mask,
        part: int,
        ordering: list[pa.Array],
    ) -> None:
        if keys.null_count:
            raise CorruptError("a log block has a record without a key")
        block = max(0, len(self._born) - 1)
        columns = [
            keys,
            pa.array(rows),
            pa.array(kind),
            pa.array(unconditional),
            pa.array(np.full(len(rows), part, dtype=np.int32)),
            pa.array(np.full(len(rows), block, dtype=np.int32)),
            *ordering,
        ]
        names = [*_ENTRY_COLUMNS, *(f"o{i}" for i in range(len(ordering)))]
        self._entries.append(pa.RecordBatch.from_arrays(columns, names=names))

    def _no_entries(self) -> pa.RecordBatch:
        kinds = [*_ENTRY_COLUMNS.values(), *(comparable_type(kind) for kind in self._spec.ordering_types)]
        names = [*_ENTRY_COLUMNS, *(f"o{i}" for i in range(len(self._spec.ordering_types)))]
        return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in kinds], names=names)


@lru_cache(maxsize=256)
def _columns_of(schema_text: str) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The columns of a block: the names of the top ones, and paths and types of all but the meta columns."""
    schema = arrow_schema(parse_record(schema_text))
    plain = without_meta(schema)
    return frozenset(schema.names), column_paths(plain), column_types(plain)


@lru_cache(maxsize=256)
def _types_of(schema_text: str) -> Mapping[str, pa.DataType]:
    """The types of a block's columns."""
    return {field.name: field.type for field in arrow_schema(parse_record(schema_text))}


def _decode_parquet(content: bytes | memoryview, columns: list[str]) -> pa.RecordBatch:
    try:
        file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(content)))
        bound = _limits.LOG_BLOCK_ROWS_FREE + _limits.LOG_BLOCK_ROWS_PER_BYTE * len(content)
        if file.metadata.num_rows > bound:
            raise LimitError(f"a parquet log block of {len(content)} bytes claims {file.metadata.num_rows} rows")
        table = file.read(columns=columns, use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptError(f"a parquet log block cannot be read: {error}") from error
    missing = set(columns) - set(table.column_names)
    if missing:
        raise CorruptError(f"a parquet log block lacks the column {min(missing)!r} that its schema names")
    return _one_batch(table)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in table.schema], schema=table.schema)


def records_of(
    rows: pa.Table, spec: MergeSpec, *, are_deletes: bool = False, deletes: Mask | None = None
) -> LogRecords:
    """Stored rows that come from nowhere but memory, as the newer side of a merge; or their unconditional deletes.

    ``deletes`` says row by row which are deletes, ``are_deletes`` that all are.
    """
    builder = _Builder(spec, LogContext(rows.schema, frozenset(), {}, frozenset()))
    builder.add_rows(_one_batch(rows))
    made = replace(builder.build(), born=("",))
    if are_deletes:
        deletes = np.ones(rows.num_rows, dtype=np.bool_)
    if deletes is None:
        return made
    gone = made.entries.with_columns(
        pl.Series("kind", np.where(deletes, DATA_DELETE, made.entries["kind"].to_numpy()).astype(np.int8)),
        pl.Series("unconditional", deletes | made.entries["unconditional"].to_numpy()),
    )
    return LogRecords(made.rows, gone, made.partials, made.born)


def deleted_rows(batch: pa.RecordBatch | pa.Table, spec: MergeSpec) -> Mask:
    """Row by row, whether a data record is a delete."""
    deleted = np.zeros(batch.num_rows, dtype=np.bool_)
    if spec.has_is_deleted:
        deleted |= np.asarray(pc.fill_null(batch.column(IS_DELETED), False))
    if spec.has_operation:
        deleted |= np.asarray(pc.fill_null(pc.is_in(batch.column(OPERATION), pa.array(["D", "-U"])), False))
    if spec.delete_field is not None:
        text = pc.cast(column_at(batch, spec.delete_field), pa.string())
        deleted |= np.asarray(pc.fill_null(pc.equal(text, spec.delete_marker), False))
    return deleted


def _is_default(batch: pa.RecordBatch, spec: MergeSpec) -> Mask:
    """Where the ordering value is Hudi's default: null, or the integer 0 in an int column."""
    if len(spec.ordering_fields) != 1:
        return np.full(batch.num_rows, not spec.ordering_fields, dtype=np.bool_)
    column = column_at(batch, spec.ordering_fields[0])
    default = np.asarray(pc.is_null(column))
    if spec.ordering_types[0] in _INT_DEFAULT_TYPES:
        default = default | np.asarray(pc.fill_null(pc.equal(pc.cast(column, pa.int32()), 0), False))
    return default
