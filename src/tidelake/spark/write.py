"""A write on Spark: rows are prepared and spread by one shuffle, and each task writes the files of its rows.

Rows are spread by partition path and a part of the key's hash, so that one hot partition is shared by many tasks and all
versions of a key meet in one; adaptive execution joins small pieces. A task runs the same functions as a write in process:
deduplicate, look up, write. On a table with a global index one more shuffle comes first, by key alone, and finds where each
row goes. What comes back to the driver are file statistics alone. Copy-on-write rewrites whole file
groups, so there a partition is one task's.

Files of failed or repeated attempts carry their own token; those that no statistic names are removed before the commit.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidelake import errors
from tidelake._clock import Clock, SystemClock
from tidelake.config import TableConfig, TableType
from tidelake.errors import TidelakeError
from tidelake.filegroup import FileSlice
from tidelake.filegroup.listing import list_partitions
from tidelake.format.commit_metadata import WriteStat
from tidelake.query import TableSource, table_schema
from tidelake.schema import META_COLUMN_NAMES, spark_json_to_arrow, without_meta
from tidelake.spark.scan import spark_schema
from tidelake.storage import Storage, open_storage
from tidelake.timeline import Timeline, TimelineReader
from tidelake.write.blanks import may_have_blanks
from tidelake.write.context import WriteContext
from tidelake.write.files import open_markers, put_markers
from tidelake.write.job import (
    DEDUPLICATED,
    REPLACING,
    WriteRequest,
    by_partition,
    chosen,
    context_of,
    finish,
    old_slices,
    start_of,
)
from tidelake.write.moves import route
from tidelake.write.partition import PartitionTask, PlannedFile, plan_partition, salts_of
from tidelake.write.prepare import deduplicate, evolved_schema, prepare, refuse_unfit
from tidelake.write.rows import GONE, KEY, PATH, PLACE, SALT
from tidelake.write.transaction import Commit, Transaction, in_transaction

SALTS = 64
"""Into how many pieces the rows of one partition may be spread."""
Slices = Mapping[str, tuple[FileSlice, ...]]
_TYPED = re.compile(r"tidelake\.errors\.(\w+): (.*)")


def write_on_spark(storage: Storage, clock: Clock, frame: DataFrame, request: WriteRequest) -> Commit:
    """Write a DataFrame by one of the operations; returns when its rows are true and durable."""
    source = TableSource.load(storage)
    data = frame.drop(*[name for name in META_COLUMN_NAMES if name in frame.columns])
    known = without_meta(table_schema(source).schema)
    schema = evolved_schema(known, spark_json_to_arrow(data.schema.json()))

    def run(transaction: Transaction) -> Commit:
        context = context_of(source.config, schema, transaction.instant, request)
        open_markers(storage, context.instant)
        is_global = source.config.is_global and request.operation == "upsert"
        slices = old_slices(storage, source, transaction, None) if is_global else None
        stats = _run(storage, context, data, transaction.start, request, slices)
        replaced = _replaced(storage, source, transaction, stats, request)
        return finish(storage, transaction, context, request, stats, replaced)

    try:
        return in_transaction(start_of(source, clock, request), run)
    except PySparkException as error:
        raise typed_error(error) from error


def typed_error(error: PySparkException) -> TidelakeError | PySparkException:
    """The typed error that a task raised, if it was one of ours."""
    found = _TYPED.search(str(error))
    kind = getattr(errors, found[1], None) if found else None
    if found is None or not isinstance(kind, type) or not issubclass(kind, TidelakeError):
        return error
    made: TidelakeError = kind(found[2])
    return made


def _run(
    storage: Storage,
    context: WriteContext,
    data: DataFrame,
    start: Timeline,
    request: WriteRequest,
    slices: Slices | None,
) -> tuple[WriteStat, ...]:
    """Run the tasks. ``slices`` are those of the whole table, for upserts that may move rows between partitions."""
    uri, options = storage.uri, storage.options
    helpers = [pa.field(KEY, pa.string()), pa.field(PATH, pa.string()), pa.field(SALT, pa.int64())]
    prepared_schema = pa.schema([*context.schema, *helpers])
    routes = [] if slices is None else [pa.field(PLACE, pa.int64()), pa.field(GONE, pa.bool_())]
    routed_schema = pa.schema([*prepared_schema, *routes])

    def make_ready(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                made = prepare(pa.Table.from_batches([batch]), context.schema, context.config)
                refuse_unfit(made, context.config)
                salt = salts_of(made, context)
                yield from made.append_column(SALT, pa.array(salt)).cast(prepared_schema).to_batches()

    def settle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches([b for b in batches if b.num_rows], prepared_schema).combine_chunks()
        if rows.num_rows == 0:
            return
        best = deduplicate(_with_coded_paths(rows), context.schema, context.config)
        if slices is not None:
            best = route(open_storage(uri, options), context, slices, best)
        yield from best.select(routed_schema.names).cast(routed_schema).to_batches()

    def write_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches([b for b in batches if b.num_rows], routed_schema)
        if rows.num_rows == 0:
            return
        reached = open_storage(uri, options)
        stats = list(_write_task(reached, context, start, request, rows.combine_chunks(), slices))
        yield pa.record_batch([pa.array([pickle.dumps(stats)], pa.binary())], names=["stats"])

    ready = data.mapInArrow(make_ready, spark_schema(prepared_schema))
    if context.config.is_global and request.operation in DEDUPLICATED:
        # All versions of a key meet, whatever their partitions.
        ready = ready.repartition(F.col(KEY)).mapInArrow(settle, spark_schema(routed_schema))
    written = _spread(ready, context, request).mapInArrow(write_files, "stats binary")
    # Statistics of files, not rows: a few hundred bytes for each file that was written.
    return tuple(stat for row in written.collect() for stat in pickle.loads(row["stats"]))


def _spread(ready: DataFrame, context: WriteContext, request: WriteRequest) -> DataFrame:
    """Rows as the tasks get them. Those of one bucket must meet, so there a bulk insert sorts within tasks at most."""
    if request.operation == "bulk_insert" and context.buckets is None:
        if request.sort is None:
            return ready
        if request.sort == "global":
            return ready.repartitionByRange(F.col(PATH), F.col(KEY))
    return ready.repartition(F.col(PATH), _salt(context, request.operation))


def _salt(context: WriteContext, operation: str) -> Column:
    """What spreads the rows of one partition over tasks; rows that must meet in one file have the same salt."""
    if context.buckets is not None:
        return F.col(SALT)
    if context.config.table_type is TableType.COPY_ON_WRITE and operation in ("insert", "upsert"):
        return F.lit(0)
    return F.pmod(F.hash(F.col(KEY)), F.lit(SALTS))


def _with_coded_paths(rows: pa.Table) -> pa.Table:
    encoded = rows.column(PATH).combine_chunks().dictionary_encode()
    return rows.set_column(rows.column_names.index(PATH), PATH, encoded)


def _write_task(
    storage: Storage,
    context: WriteContext,
    start: Timeline,
    request: WriteRequest,
    rows: pa.Table,
    whole: Slices | None,
) -> Iterator[WriteStat]:
    operation = request.operation
    task = TaskContext.get()
    attempt = task.taskAttemptId() if task is not None else 0
    token = f"{task.partitionId()}-{task.stageId()}-{attempt}" if task is not None else "0-0-0"
    rows = _with_coded_paths(rows)
    if operation in DEDUPLICATED and not context.config.is_global:
        rows = deduplicate(rows, context.schema, context.config)
    parts = by_partition(rows)
    replacing = operation in REPLACING
    reader = TimelineReader(storage, context.config)
    looks_up = not replacing and (operation != "bulk_insert" or context.buckets is not None)
    slices = whole or {}
    if looks_up and whole is None:
        slices = _slices(storage, context.config, start, reader, [path for path, _ in parts])
    commits = reader.commits(start.completed_writes) if looks_up else {}
    kind = "overwrite" if replacing else operation
    planned: list[PlannedFile] = []
    for path, here in parts:
        old = slices.get(path, ())
        made = PartitionTask(path, old, kind, token, SystemClock().new_id(), may_have_blanks(old, commits))
        planned += plan_partition(storage, context, made, chosen(rows, here, request))
    put_markers(storage, context.instant, attempt, [(file.path, file.kind) for file in planned])
    for file in planned:
        yield file.write()


def _slices(
    storage: Storage, config: TableConfig, start: Timeline, reader: TimelineReader, partitions: list[str]
) -> dict[str, tuple[FileSlice, ...]]:
    """The latest slices of a task's partitions, as of the write's start."""
    view = TableSource(storage, config, start, reader).view()
    return {listed.path: tuple(view.latest_of(listed)) for listed in list_partitions(storage, partitions)}


def _replaced(
    storage: Storage, source: TableSource, transaction: Transaction, stats: tuple[WriteStat, ...], request: WriteRequest
) -> dict[str, tuple[str, ...]]:
    if request.operation not in REPLACING:
        return {}
    partitions = None
    if request.operation == "insert_overwrite":
        partitions = sorted({stat.partition_path or "" for stat in stats})
    found = old_slices(storage, source, transaction, partitions)
    return {path: tuple(s.file_id for s in slices) for path, slices in found.items() if slices}
