"""A write on Spark: rows are prepared and spread by one shuffle, and each task writes the files of its rows. A bulk insert
is spread first and prepared by the tasks that write, where nothing depends on it.

Rows are spread by partition path and a part of the key's hash, so that one hot partition is shared by many tasks and all
versions of a key meet in one; adaptive execution joins small pieces. A task runs the same functions as a write in process:
deduplicate, look up, write. What comes back to the driver are file statistics alone. Copy-on-write rewrites whole file
groups: there the first tasks only look up, and a second shuffle brings the rows of each file group to one task
(``write/spread.py``). On a table with a global index one more shuffle comes first, by key alone, and finds where each row
goes.

Files of failed or repeated attempts carry their own token; those that no statistic names are removed before the commit.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelake import _limits, errors
from tidelake._clock import Clock, SystemClock
from tidelake._progress import current, polled
from tidelake.config import TableConfig, TableType
from tidelake.errors import ConflictError, TidelakeError
from tidelake.filegroup import FileSlice
from tidelake.filegroup.listing import list_partitions
from tidelake.format.commit_metadata import WriteStat
from tidelake.index import KEPT
from tidelake.merge import Outcome, refuse_loose
from tidelake.query import TableSource, table_schema
from tidelake.schema import META_COLUMN_NAMES, spark_json_to_arrow
from tidelake.spark.scan import spark_schema
from tidelake.storage import Storage, open_storage
from tidelake.timeline import Timeline, TimelineReader, load_timeline
from tidelake.write.blanks import may_have_blanks
from tidelake.write.context import WriteContext
from tidelake.write.event_time import TimesBrought, brought_together, refuse_widened_times, times_brought
from tidelake.write.files import open_markers, put_markers
from tidelake.write.job import (
    REPLACING,
    WriteRequest,
    by_partition,
    chosen,
    context_of,
    deduplicates,
    finish,
    old_slices,
    refuse_blanks,
    start_of,
)
from tidelake.write.lookup import with_unsettled
from tidelake.write.missed import Missed
from tidelake.write.moves import route
from tidelake.write.partition import PartitionTask, PlannedFile, plan_partition, salts_of
from tidelake.write.prepare import deduplicate, evolved_schema, prepare, refuse_unfit
from tidelake.write.rejects import Rejected, rejected_together, stage_rejects
from tidelake.write.required import with_values_below_nulls
from tidelake.write.rows import GONE, KEY, PATH, PLACE, SALT, SEQUENCE, Chosen, sequence_numbers
from tidelake.write.settle import without_untimed
from tidelake.write.spread import SALTS, placed, tagged
from tidelake.write.transaction import Commit, Transaction, in_transaction

Slices = Mapping[str, tuple[FileSlice, ...]]
_SPREAD = {
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "true",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1b",
}
"""Few rows may rewrite many file groups: while a copy-on-write runs, small pieces are joined no further than to all cores."""
_BULK = {"spark.sql.adaptive.advisoryPartitionSizeInBytes": "32m"}
"""While a bulk insert runs: a partition of so much is one task's and one file, a larger one is shared by several."""
_SALT_BYTES = 16 * 1024 * 1024
"""An upsert of so much needs no second task for one partition; each more makes a file group more of new rows there."""
_UNKNOWN = 2**62
"""About what Spark says of rows whose size it does not know."""
_LOST = -2
"""What rows that only tell have as their ``PLACE``, less the number of the slice that they tell of."""
_TYPED = re.compile(r"tidelake\.errors\.(\w+): (.*)")


@dataclass(frozen=True, slots=True)
class TaskDone:
    """What a task did, or all of them together: files, the partitions that had rows, and what the commit must know."""

    stats: list[WriteStat]
    partitions: list[str]
    rejected: Rejected
    times: TimesBrought
    missed: list[Missed]


def write_on_spark(storage: Storage, clock: Clock, frame: DataFrame, request: WriteRequest) -> Commit:
    """Write a DataFrame by one of the operations; returns when its rows are true and durable."""
    current().stage("prepare")
    source = TableSource.load(storage)
    data = frame.drop(*[name for name in META_COLUMN_NAMES if name in frame.columns])
    known = table_schema(source).declared
    deletes = request.operation.startswith("delete")
    schema = known if deletes else evolved_schema(known, spark_json_to_arrow(data.schema.json()))
    refuse_loose(source.config, schema)
    refuse_widened_times(known, schema, source.config)

    refuse_blanks(source.config, request)

    def run(transaction: Transaction) -> Commit:
        context = context_of(source, schema, transaction, request)
        open_markers(storage, context.instant)
        is_global = source.config.is_global and request.operation == "upsert"
        slices = old_slices(storage, source, transaction, None) if is_global else None
        done = _run(storage, context, data, transaction.start, request, slices)
        paths = sorted({*done.partitions})
        replaced = _replaced(storage, source, transaction, paths, request)
        told = replace(request, incoming_times=done.times)
        stats = tuple(done.stats)
        return finish(storage, transaction, context, told, stats, paths, replaced, done.rejected, done.missed)

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
) -> TaskDone:
    """Write the files.

    ``slices`` are those of the whole table, for upserts that may move rows between partitions.
    """
    uri, options, operation = storage.uri, storage.options, request.operation
    is_tagged = _is_tagged(context, operation)
    helpers = [pa.field(KEY, pa.string()), pa.field(PATH, pa.string()), pa.field(SALT, pa.int64())]
    prepared_schema = pa.schema([*context.schema, *helpers])
    place, gone = pa.field(PLACE, pa.int64()), pa.field(GONE, pa.bool_())
    routed_schema = pa.schema([*prepared_schema, *([] if slices is None else [gone, place])])
    tagged_schema = pa.schema([*routed_schema, place]) if is_tagged and slices is None else routed_schema

    def make_ready(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                made = prepare(pa.Table.from_batches([batch]), context.schema, context.config)
                if not operation.startswith("delete"):
                    refuse_unfit(made, context.config)
                salt = salts_of(made, context)
                yield from made.append_column(SALT, pa.array(salt)).cast(prepared_schema).to_batches()

    def settle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = _gathered(batches, prepared_schema)
        if rows.num_rows:
            best = deduplicate(_with_coded_paths(rows), context.schema, context.config)
            if slices is not None:
                missed: list[Missed] = []
                routed = route(open_storage(uri, options), context, slices, best, missed)
                yield from _tellers(best, missed, slices, routed_schema).to_batches()
                best = routed
            yield from best.select(routed_schema.names).cast(routed_schema).to_batches()

    def look_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = _gathered(batches, routed_schema)
        if rows.num_rows:
            for made in _tag_task(open_storage(uri, options), context, start, operation, rows, slices):
                yield from made.select(tagged_schema.names).cast(tagged_schema).to_batches()

    def write_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = _gathered(batches, tagged_schema)
        if rows.num_rows:
            done = _write_task(open_storage(uri, options), context, start, request, rows, slices)
            yield pa.record_batch([pa.array([pickle.dumps(done)], pa.binary())], names=["done"])

    def write_straight(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return write_files(make_ready(batches))

    if _goes_straight(data, context, request):
        written = _spread_raw(data, context, request).mapInArrow(write_straight, "done binary")
        return _carried_out(data.sparkSession, written, _BULK)
    ready = data.mapInArrow(make_ready, spark_schema(prepared_schema))
    if context.config.is_global and deduplicates(operation, context.config):
        # All versions of a key meet, whatever their partitions.
        ready = ready.repartition(F.col(KEY)).mapInArrow(settle, spark_schema(routed_schema))
    if context.buckets is None:
        salts = SALTS if is_tagged else _salts(data)
        ready = ready.withColumn(SALT, F.pmod(F.hash(F.col(KEY)), F.lit(salts)).cast("long"))
    ready = _spread(ready, context, request)
    if is_tagged:
        ready = ready.mapInArrow(look_up, spark_schema(tagged_schema)).repartition(F.col(PATH), F.col(SALT))
    written = ready.mapInArrow(write_files, "done binary")
    return _carried_out(data.sparkSession, written, _SPREAD if is_tagged else {})


def _carried_out(spark: SparkSession, written: DataFrame, settings: Mapping[str, str]) -> TaskDone:
    current().stage("write files on Spark")
    with _settings(spark, settings), polled(tasks_of(spark)):
        # Statistics of files, not rows: a few hundred bytes for each file that was written.
        done: list[TaskDone] = [pickle.loads(row["done"]) for row in written.collect()]
    return TaskDone(
        [stat for task in done for stat in task.stats],
        [path for task in done for path in task.partitions],
        rejected_together(task.rejected for task in done),
        brought_together(task.times for task in done),
        [each for task in done for each in task.missed],
    )


def _goes_straight(data: DataFrame, context: WriteContext, request: WriteRequest) -> bool:
    """Whether rows find their tasks by the values they come with, and are made ready only there.

    So rows go through Python once. Nothing needs to meet but the rows of a partition, and a partition has one value.
    """
    config = context.config
    if request.operation != "bulk_insert" or request.sort == "global" or config.key_generator == "TIMESTAMP":
        return False
    return context.buckets in (None, 1) and {*config.partition_fields, *config.record_key_fields} <= {*data.columns}


def _spread_raw(data: DataFrame, context: WriteContext, request: WriteRequest) -> DataFrame:
    by = [F.col(field) for field in context.config.partition_fields]
    if context.buckets is None and request.sort is None:
        return data
    if context.buckets is None:
        if data.sparkSession.conf.get("spark.sql.adaptive.enabled") == "true":
            return data.hint("rebalance", *by)  # shares a large partition out among tasks, and leaves a small one whole
        by.append(F.pmod(F.hash(*context.config.record_key_fields), F.lit(SALTS)))
    return data.repartition(*by) if by else data.repartition(1)


def _salts(data: DataFrame) -> int:
    """Into how many pieces the rows of one partition are spread, by what Spark expects the rows to be.

    It expects rows of unknown size to be endless: then all cores may be needed.
    """
    try:
        told = int(data._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
        most = min(SALTS, data.sparkSession.sparkContext.defaultParallelism) if told >= _UNKNOWN else SALTS
    except (AttributeError, PySparkException):  # Spark Connect does not tell
        return SALTS
    return min(most, 1 + told // _SALT_BYTES)


def _spread(ready: DataFrame, context: WriteContext, request: WriteRequest) -> DataFrame:
    """Rows as the tasks get them. Those of one bucket must meet, so there a bulk insert sorts within tasks at most."""
    if request.operation == "bulk_insert" and context.buckets is None:
        if request.sort is None:
            return ready
        if request.sort == "global":
            return ready.repartitionByRange(F.col(PATH), F.col(KEY))
    return ready.repartition(F.col(PATH), F.col(SALT))


def _is_tagged(context: WriteContext, operation: str) -> bool:
    """Whether rows are looked up first and then sent to the task of their file group; buckets are known from the key."""
    is_rewriting = operation in ("insert", "upsert") or operation.startswith("delete")
    return is_rewriting and context.buckets is None and context.config.table_type is TableType.COPY_ON_WRITE


@contextmanager
def _settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """SQL settings for a while; those that the user made stay."""
    made = [key for key, value in wanted.items() if spark.conf.get(key, None) is None]
    for key in made:
        spark.conf.set(key, wanted[key])
    try:
        yield
    finally:
        for key in made:
            spark.conf.unset(key)


def tasks_of(spark: SparkSession) -> Callable[[], tuple[int, int] | None]:
    """How many tasks of the stages under way are done, and how many there are; nothing where Spark does not tell."""
    try:
        tracker = spark.sparkContext.statusTracker()
    except (PySparkException, AttributeError):  # Spark Connect has no context
        return lambda: None

    def look() -> tuple[int, int] | None:
        known = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        stages = [stage for stage in known if stage is not None]
        return (sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages)) if stages else None

    return look


def _gathered(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """The rows of a task, with which its work in a worker begins."""
    KEPT.limit(_limits.WORKER_KEY_CACHE_BYTES)
    rows = pa.Table.from_batches([b for b in batches if b.num_rows], schema).combine_chunks()
    return with_values_below_nulls(rows)  # Spark brings none


def _tag_task(
    storage: Storage,
    context: WriteContext,
    start: Timeline,
    operation: str,
    rows: pa.Table,
    whole: Slices | None,
) -> Iterator[pa.Table]:
    rows, tellers = _apart(rows)
    if tellers.num_rows:
        yield tellers
    rows = _with_coded_paths(rows)
    if deduplicates(operation, context.config) and not context.config.is_global:
        rows = deduplicate(rows, context.schema, context.config)
    parts = by_partition(rows)
    reader = TimelineReader(storage, context.config)
    slices = whole or _slices(storage, context.config, start, reader, [path for path, _ in parts])
    for path, here in parts:
        task = PartitionTask(path, slices.get(path, ()), operation, "", "")
        yield tagged(storage, context, task, Chosen(rows, here).taken())


def _write_task(
    storage: Storage,
    context: WriteContext,
    start: Timeline,
    request: WriteRequest,
    rows: pa.Table,
    whole: Slices | None,
) -> TaskDone:
    operation = request.operation
    token, attempt = _attempt()
    is_tagged = _is_tagged(context, operation)
    rows, tellers = _apart(rows)
    rows = _with_coded_paths(rows)
    outcome = Outcome()
    if not operation.startswith("delete"):
        rows = without_untimed(rows, context, outcome, token)
    # Of several event times all rows are kept, in an order that the way to this task has lost.
    if (
        deduplicates(operation, context.config)
        and not context.config.is_global
        and (context.has_clocks or not is_tagged)
    ):
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
    tasks = []
    for path, _ in parts:
        old = slices.get(path, ())
        tasks.append(PartitionTask(path, old, kind, token, SystemClock().new_id(), may_have_blanks(old, commits)))
    if is_tagged:
        tasks, rows = placed(context, tasks, [here for _, here in parts], rows)
    number = int(token.partition("-")[0])
    rows = rows.append_column(SEQUENCE, sequence_numbers(context.instant, number, np.arange(rows.num_rows)))
    planned: list[PlannedFile] = []
    missed = _told(tellers, slices)
    for task, (_, here) in zip(tasks, parts, strict=True):
        planned += plan_partition(storage, context, task, chosen(rows, here, sorts=request.sorts), outcome, missed)
    put_markers(storage, context.instant, attempt, [(file.path, file.kind) for file in planned])
    with storage.batch() as puts:
        stats = [file.write(puts) for file in planned]
    _refuse_late(storage, context, stats)
    rejected = stage_rejects(storage, context.config, context.instant, token, outcome)
    return TaskDone(stats, [path for path, _ in parts], rejected, times_brought(rows, context.config), missed)


def _tellers(rows: pa.Table, missed: Sequence[Missed], slices: Slices, schema: pa.Schema) -> pa.Table:
    """Rows that only tell in which file groups others lost, to the tasks that write files and from there to the driver.

    Each is a copy of any row, with the partition of its file group and a ``PLACE`` that no row has.
    """
    lost = [(part, file_id) for each in missed for part, file_id in each.looked]
    numbers = [next(n for n, s in enumerate(slices[part]) if s.file_id == file_id) for part, file_id in lost]
    told = rows.take(pa.array([0] * len(lost), pa.int64()))
    told = told.set_column(told.column_names.index(PATH), PATH, pa.array([part for part, _ in lost], pa.string()))
    told = told.append_column(GONE, pa.array([False] * len(lost), pa.bool_()))
    told = told.append_column(PLACE, pa.array([_LOST - number for number in numbers], pa.int64()))
    return told.select(schema.names).cast(schema)


def _apart(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows that are to be written, and those that only tell."""
    if PLACE not in rows.column_names:
        return rows, rows.slice(0, 0)
    tells = np.asarray(rows.column(PLACE)) <= _LOST
    return rows.filter(pa.array(~tells)), rows.filter(pa.array(tells))


def _told(tellers: pa.Table, slices: Slices) -> list[Missed]:
    if tellers.num_rows == 0:
        return []
    pairs = zip(tellers.column(PATH).to_pylist(), tellers.column(PLACE).to_pylist(), strict=True)
    return [lost for path, place in pairs for lost in Missed.lost(path, [slices[path][_LOST - place].file_id])]


def _with_coded_paths(rows: pa.Table) -> pa.Table:
    encoded = rows.column(PATH).combine_chunks().dictionary_encode()
    return rows.set_column(rows.column_names.index(PATH), PATH, encoded)


def _attempt() -> tuple[str, int]:
    """What the names of a task attempt's files carry, and its number: no two attempts write one file."""
    task = TaskContext.get()
    if task is None:
        return "0-0-0", 0
    attempt = task.taskAttemptId()
    return f"{task.partitionId()}-{task.stageId()}-{attempt}", attempt


def _refuse_late(storage: Storage, context: WriteContext, stats: list[WriteStat]) -> None:
    """A task whose write has ended (its double was quicker, or it was rolled back) removes what it made too late."""
    timeline = load_timeline(storage, context.config)
    if any(i.requested_time == context.instant for i in timeline.pending):
        return
    for stat in stats:
        storage.delete(stat.path or "")
    raise ConflictError("the write ended before this task did", instant=context.instant, table=storage.uri)


def _slices(
    storage: Storage, config: TableConfig, start: Timeline, reader: TimelineReader, partitions: list[str]
) -> dict[str, tuple[FileSlice, ...]]:
    """The latest slices of a task's partitions, as of the write's start, in an order that all tasks agree on."""
    view = TableSource(storage, config, start, reader).view()
    return {
        listed.path: with_unsettled(view, config, sorted(view.latest_of(listed), key=lambda s: s.file_id))
        for listed in list_partitions(storage, partitions)
    }


def _replaced(
    storage: Storage, source: TableSource, transaction: Transaction, partitions: list[str], request: WriteRequest
) -> dict[str, tuple[str, ...]]:
    """The file groups that the write retires: of a partition that had rows, even if all of them were deletes."""
    if request.operation not in REPLACING:
        return {}
    found = old_slices(storage, source, transaction, partitions if request.operation == "insert_overwrite" else None)
    return {path: tuple(s.file_id for s in slices) for path, slices in found.items() if slices}
