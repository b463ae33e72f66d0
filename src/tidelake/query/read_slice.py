"""Reading one slice: the function that every engine runs, in process or on a worker. Arrow batches out.

A slice without logs is a parquet scan: only wanted columns, only row groups whose statistics may match. A slice with
logs is merged as its base streams by; the filter is applied after merging, because a base row that does not match may
still be the one that wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tidelake.errors import CorruptError, InternalError, NotFoundError, TidelakeError
from tidelake.filegroup import BaseFile, FileSlice, missing_file
from tidelake.merge import Outcome, merge_records, read_logs
from tidelake.query.snapshot import ScanPlan
from tidelake.schema import META_COLUMN_NAMES, column_paths, conform_stored, struct_paths
from tidelake.storage import Storage, open_input

BATCH_ROWS = 65_536
"""Rows that are decoded at a time: less than a row group, so that merging holds little beside the log side."""

WORTH_THREADS_BYTES = 1024 * 1024
"""The columns of a smaller file are decoded one after the other: handing them to threads takes longer."""


def read_slice(
    storage: Storage,
    plan: ScanPlan,
    file_slice: FileSlice,
    *,
    use_threads: bool = False,
    outcome: Outcome | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a slice, in the plan's output schema, filtered; ``outcome`` is told what merging leaves beside them."""
    condition = plan.condition.to_arrow() if plan.condition is not None else None
    if not file_slice.logs:
        prunes = plan.condition.for_statistics() if plan.condition is not None else None
        batches = _base_rows(storage, plan, file_slice, prunes, use_threads)
    else:
        batches = _merged(storage, plan, file_slice, use_threads, outcome)
    for batch in batches:
        if condition is not None:
            batch = batch.filter(condition)
        if batch.num_rows:
            yield _project(batch, plan.schema)


def _base_rows(
    storage: Storage, plan: ScanPlan, file_slice: FileSlice, condition: pc.Expression | None, use_threads: bool
) -> Iterator[pa.RecordBatch]:
    base = file_slice.base
    if base is None:
        return iter(())
    stated = plan.commit_columns.get(base.name.instant, frozenset())
    return read_base(storage, base, plan.work_schema, condition, use_threads, stated)


def read_base(
    storage: Storage,
    base: BaseFile,
    schema: pa.Schema,
    condition: pc.Expression | None = None,
    use_threads: bool = False,
    stated: frozenset[str] = frozenset(),
) -> Iterator[pa.RecordBatch]:
    """The rows of a base file as the schema given, batch by batch; ``stated`` are its commit's columns.

    ``condition`` prunes row groups by their statistics; it selects no rows.
    """
    try:
        with open_input(storage, base.path, base.size_bytes) as source:
            file = pq.ParquetFile(source)
            stored = file.schema_arrow
            _check_columns(stored, schema, stated)
            names = set(stored.names)
            present = [name for name in schema.names if name in names]
            groups = _row_groups(file, source, condition, schema)
            missing = sum(file.metadata.row_group(group).num_rows for group in groups)
            threads = use_threads and base.size_bytes >= WORTH_THREADS_BYTES
            for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=present, use_threads=threads):
                missing -= batch.num_rows
                yield conform_stored(batch, schema)
                del batch  # or it would be held while the next one is decoded
            if missing:
                raise CorruptError(f"a base file lacks {missing} of the rows that its footer claims")
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise CorruptError(
            f"a base file cannot be read: {error}", file=base.path, instant=base.name.instant, table=storage.uri
        ) from error
    except NotFoundError as error:
        raise missing_file(base, storage.uri) from error
    except TidelakeError as error:
        raise error.with_context(file=base.path, instant=base.name.instant, table=storage.uri) from None


def _check_columns(stored: pa.Schema, wanted: pa.Schema, stated: frozenset[str]) -> None:
    """A column that the file's own commit wrote, and every meta column of a table that has them, must be there.

    What is missing for a good reason (it was added later) is null; a damaged name must not pass for that.
    """
    names = set(stored.names)
    lost = set(wanted.names).intersection(META_COLUMN_NAMES) - names
    if struct_paths(stated) - names:  # or it has no parts of columns, and all of them
        lost |= struct_paths(stated) - column_paths(stored)
    if lost:
        raise CorruptError(f"a base file lacks the column {min(lost)!r} of its commit", value=min(lost))


def _row_groups(
    file: pq.ParquetFile, source: pa.NativeFile, condition: pc.Expression | None, schema: pa.Schema
) -> list[int]:
    every = list(range(file.metadata.num_row_groups))
    if condition is None or len(every) == 0 or not _statistics_count(file.schema_arrow, schema):
        return every
    fragment = ds.ParquetFileFormat().make_fragment(source)
    try:
        return [group.id for group in fragment.subset(filter=condition, schema=schema).row_groups]
    except pa.ArrowException:
        # Statistics that do not compare with the filter prune nothing; the rows are filtered anyway.
        return every


def _statistics_count(stored: Iterable[pa.Field], wanted: Iterable[pa.Field]) -> bool:
    """Whether the file's statistics bound the values as they are read.

    They do not where a value changes on the way: 0.1 as a float is not 0.1 as a double, and 9 < 10 but '9' > '10'.
    """
    kinds = {field.name: field.type for field in stored}
    for field in wanted:
        old, new = kinds.get(field.name, field.type), field.type
        if pa.types.is_struct(old) and pa.types.is_struct(new):
            if not _statistics_count(old, new):
                return False
        elif old != new and (pa.types.is_floating(new) or pa.types.is_string(new)):
            return False
    return True


def _merged(
    storage: Storage, plan: ScanPlan, file_slice: FileSlice, use_threads: bool, outcome: Outcome | None
) -> Iterator[pa.RecordBatch]:
    spec = plan.merge
    if spec is None:
        raise InternalError("a slice with logs was planned without merge rules", file=file_slice.logs[0].path)
    records = read_logs(storage, file_slice.logs, spec, plan.log_context)
    rows = _base_rows(storage, plan, file_slice, None, use_threads)
    if records.is_empty:
        return rows
    return merge_records(rows, records, spec, outcome)


def _project(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.names == schema.names:
        return batch
    return pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)
