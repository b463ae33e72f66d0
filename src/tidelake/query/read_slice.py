"""Reading one slice: the function that every engine runs, in process or on a worker. Arrow batches out.

A slice without logs is a parquet scan: only wanted columns, only row groups whose statistics may match. A slice with
logs is merged as its base streams by; the filter is applied after merging, because a base row that does not match may
still be the one that wins.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tidelake.errors import CorruptError, InternalError, TidelakeError
from tidelake.filegroup import BaseFile, FileSlice
from tidelake.merge import merge_partial, merge_whole, read_logs
from tidelake.query.snapshot import ScanPlan
from tidelake.schema import conform
from tidelake.storage import Storage, open_input


def read_slice(
    storage: Storage, plan: ScanPlan, file_slice: FileSlice, *, use_threads: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of a slice, in the plan's output schema, filtered."""
    condition = plan.condition.to_arrow() if plan.condition is not None else None
    base = file_slice.base
    if not file_slice.logs:
        batches = read_base(storage, base, plan.work_schema, condition, use_threads) if base else iter(())
    else:
        batches = _merged(storage, plan, file_slice, use_threads)
    for batch in batches:
        if condition is not None:
            batch = batch.filter(condition)
        if batch.num_rows:
            yield _project(batch, plan.schema)


def read_base(
    storage: Storage,
    base: BaseFile,
    schema: pa.Schema,
    condition: pc.Expression | None = None,
    use_threads: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of a base file as the schema given, row group by row group."""
    try:
        with open_input(storage, base.path, base.size_bytes) as source:
            file = pq.ParquetFile(source)
            present = [name for name in schema.names if name in file.schema_arrow.names]
            for group in _row_groups(file, source, condition, schema):
                table = file.read_row_group(group, columns=present, use_threads=use_threads)
                for batch in table.combine_chunks().to_batches():
                    yield conform(batch, schema)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise CorruptError(
            f"a base file cannot be read: {error}", file=base.path, instant=base.name.instant, table=storage.uri
        ) from error
    except TidelakeError as error:
        raise error.with_context(file=base.path, instant=base.name.instant, table=storage.uri) from None


def _row_groups(
    file: pq.ParquetFile, source: pa.NativeFile, condition: pc.Expression | None, schema: pa.Schema
) -> list[int]:
    every = list(range(file.metadata.num_row_groups))
    if condition is None or len(every) == 0:
        return every
    fragment = ds.ParquetFileFormat().make_fragment(source)
    try:
        return [group.id for group in fragment.subset(filter=condition, schema=schema).row_groups]
    except pa.ArrowException:
        # Statistics that do not compare with the filter prune nothing; the rows are filtered anyway.
        return every


def _merged(
    storage: Storage, plan: ScanPlan, file_slice: FileSlice, use_threads: bool
) -> Iterator[pa.RecordBatch]:
    spec = plan.merge
    if spec is None:
        raise InternalError("a slice with logs was planned without merge rules", file=file_slice.logs[0].path)
    records = read_logs(storage, file_slice.logs, spec, plan.log_context)
    base = file_slice.base
    rows = read_base(storage, base, plan.work_schema, None, use_threads) if base else iter(())
    if records.is_empty:
        return rows
    combine = merge_partial if records.partials or spec.partial_mode is not None else merge_whole
    return combine(rows, records, spec)


def _project(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.names == schema.names:
        return batch
    return pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)
