"""Clustering: schedule a plan, and carry it out. The slices of a group become new file groups, which replace theirs.

Rows keep their keys and commit times: a clustering delivers nothing to incremental readers. Only where they are, and in
which order, changes.

While a plan is pending, a write that changes one of its file groups is refused at its commit (``write/conflicts.py``).
The clustering checks in turn, when it begins and within the turn of the head that completes it, that every slice is still
what the plan says. One that is not (a writer of Apache Hudi's that does not look, an overwrite) makes the plan worthless:
it is withdrawn, nothing of it was ever visible, and the next plan finds the work again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from tidelake._progress import current
from tidelake.config import (
    CLUSTER_INLINE,
    CLUSTERING_FILTER,
    CLUSTERING_FILTER_MODE,
    CLUSTERING_ORDER,
    CLUSTERING_SORT_COLUMNS,
    CLUSTERING_STRATEGY,
)
from tidelake.errors import ConflictError, InvalidError, TidelakeError
from tidelake.filegroup import FileSlice, PartitionCodec, TableView
from tidelake.filegroup.listing import list_partitions
from tidelake.format.avro_record import decode_record
from tidelake.format.commit_metadata import ReplaceCommitMetadata, WriteStat
from tidelake.format.names import BaseFileName, parse_base_name, parse_log_name
from tidelake.format.plans import ClusteringPlan, RequestedReplaceMetadata, SliceInfo
from tidelake.index import bucket_file_id, bucket_of
from tidelake.query import ScanPlan, TableSource, plan_slices, read_slice, table_schema
from tidelake.query.filters import parse_filter
from tidelake.query.prune import FilterConstraint
from tidelake.services.clustering.order import Numbers, check_columns, row_order
from tidelake.services.clustering.plan import ClusteringPlanner, Layout, encode_plan
from tidelake.services.clustering.strategies import HUDI_NAMES, InPartitions
from tidelake.services.clustering.trigger import clustering_due
from tidelake.services.context import ServiceCall
from tidelake.services.execution import (
    Done,
    Executing,
    Token,
    again_if_schema_changed,
    by_partition,
    carry_out,
    refuse_new_schema,
    write_context,
)
from tidelake.services.kinds import CLUSTERING
from tidelake.services.planner import Outcome
from tidelake.services.report import ServicePlan
from tidelake.services.schedule import run_oldest, run_waiting, schedule
from tidelake.services.strategy import Composed, make_strategy
from tidelake.services.withdraw import withdraw
from tidelake.storage import Storage
from tidelake.timeline import Timeline
from tidelake.timeline.claim import WithdrawnError
from tidelake.write.base_stream import write_base_stream
from tidelake.write.conflicts import Footprint, check_undone
from tidelake.write.context import WriteContext
from tidelake.write.files import join, put_markers
from tidelake.write.transaction import Commit

_LOG = logging.getLogger("tidelake.services")
_TAKEN_ROWS = 262_144
"""Sorted rows that are put together at a time."""
_LONGEST = 2**31 - 1
"""Bytes of a text column whose offsets have 32 bits."""


class StalePlanError(ConflictError):
    """A file group of a clustering plan was changed since: the plan is withdrawn."""


def schedule_clustering(call: ServiceCall, *, dry_run: bool = False) -> ServicePlan | None:
    """Publish a plan; None if there is nothing to cluster. A dry run writes nothing."""
    source = call.source()
    check_columns(table_schema(source).schema, clustering_planner(call, source).wanted.columns)

    def encoded(planner: ClusteringPlanner, outcome: Outcome) -> bytes:
        return encode_plan(call.storage, planner, outcome, _strategy_name(call, source))

    return schedule(call, source, clustering_planner, encoded, dry_run=dry_run)


def run_clustering(call: ServiceCall, instant: str | None = None) -> Commit | None:
    """Carry out a plan: the one of an instant, or the oldest one that nobody is at; None if there is none."""
    return run_oldest(call, CLUSTERING, _execute) if instant is None else _execute(call, instant)


def cluster(call: ServiceCall) -> Commit | None:
    """Carry out what waits, unless another is at it, then plan what else there is and carry that out.

    A plan that waits and whose file groups have changed is withdrawn, and its work planned anew. Returns the last commit;
    None if there was nothing to do.
    """
    done = run_waiting(call, CLUSTERING, _execute)
    plan = schedule_clustering(call)
    return done if plan is None or plan.instant is None else _execute(call, plan.instant)


@dataclass(frozen=True, slots=True)
class ClusteringJob:
    """What every task of a clustering knows; it travels to workers."""

    scan: ScanPlan
    context: WriteContext
    token: Token
    layout: Layout


@dataclass(frozen=True, slots=True)
class ClusteringTask:
    """Slices of one partition that become the file groups of these ids."""

    slices: tuple[FileSlice, ...]
    file_ids: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file_slice.size_bytes for file_slice in self.slices)


def cluster_slices(job: ClusteringJob, storage: Storage, task: ClusteringTask, attempt: int) -> tuple[WriteStat, ...]:
    """Rewrite some slices: what every engine runs. Without rows there are no files."""
    names = [BaseFileName(file_id, job.token.text(attempt), job.context.instant) for file_id in task.file_ids]
    partition = task.slices[0].partition_path
    markers = [(join(partition, str(name)), "CREATE") for name in names]
    put_markers(storage, job.context.instant, job.token.marker_number(attempt), markers)
    rows = (batch for file_slice in task.slices for batch in read_slice(storage, job.scan, file_slice))
    stats = []
    for name, part in zip(names, _parts(job, rows, len(names)), strict=False):
        stat = write_base_stream(storage, job.context, name, partition, part, job.scan.schema)
        stats.append(replace(stat, prev_commit="null", num_inserts=stat.num_writes))
    return tuple(stats)


def _parts(job: ClusteringJob, rows: Iterator[pa.RecordBatch], count: int) -> Iterator[Iterator[pa.RecordBatch]]:
    """The rows of each file. What is not sorted streams by; what is sorted is held whole."""
    if not job.layout.columns:
        first = next(rows, None)
        if first is not None:
            yield _chained(first, rows)
        return
    table = pa.Table.from_batches(rows, job.scan.schema)
    order = row_order(table, job.layout.columns, job.layout.order)
    # Taking from one chunk is cheap, from many it is not.
    table = _with_long_texts(table).combine_chunks()
    for numbers in np.array_split(order, min(count, max(1, len(order)))):
        if len(numbers):
            yield _taken(table, numbers, job.scan.schema)


def _chained(first: pa.RecordBatch, rest: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _taken(table: pa.Table, numbers: Numbers, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(numbers), _TAKEN_ROWS):
        taken = table.take(pa.array(numbers[start : start + _TAKEN_ROWS]))
        yield from taken.cast(schema).to_batches()


def _with_long_texts(table: pa.Table) -> pa.Table:
    """Text columns of more bytes than one chunk may have, as those that may."""
    long = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    fields = [
        field.with_type(long.get(field.type, field.type)) if column.nbytes > _LONGEST else field
        for field, column in zip(table.schema, table.columns, strict=True)
    ]
    return table.cast(pa.schema(fields))


def cluster_inline(call: ServiceCall) -> None:
    """After a write: cluster if its options ask for it (``hoodie.clustering.inline``) and it is due.

    The write is true whatever comes of it: what fails here is told in the log, and done by the next one.
    """
    if not CLUSTER_INLINE.of(call.options):
        return
    source = call.source()
    if clustering_due(source, call.config(source)) is None:
        return
    try:
        cluster(call)
    except TidelakeError as error:
        _LOG.warning("the clustering after a write of %s failed: %s", source.config.name, error)


def clustering_planner(call: ServiceCall, source: TableSource) -> ClusteringPlanner:
    """The planner that the table's and the call's options ask for."""
    config = call.config(source)
    strategy = make_strategy(_strategy_name(call, source), HUDI_NAMES)
    text = CLUSTERING_FILTER.of(config.options)
    if text:
        strategy = Composed((_partition_filter(source, text), strategy))
    return ClusteringPlanner(config, strategy)


def _partition_filter(source: TableSource, text: str) -> InPartitions:
    condition = parse_filter(text, table_schema(source).schema)
    fields = source.config.partition_fields
    constraint = FilterConstraint.of(condition, fields)
    if constraint is None or not condition.columns <= set(fields):
        raise InvalidError(
            "a clustering is limited by partition columns alone",
            value=text,
            table=source.storage.uri,
            hint=f"the table is partitioned by {', '.join(fields)}" if fields else "the table has no partitions",
        )
    return InPartitions(PartitionCodec.of(source.config), constraint)


def _strategy_name(call: ServiceCall, source: TableSource) -> str:
    options = call.config(source).options
    before = CLUSTERING_FILTER_MODE.of(options)
    name = CLUSTERING_STRATEGY.of(options)
    return f"{before}+{name}" if before else name


def _execute(call: ServiceCall, instant: str) -> Commit:
    try:
        return again_if_schema_changed(
            lambda: carry_out(call, CLUSTERING, instant, _partitions, partial(_work, call), _check)
        )
    except (StalePlanError, WithdrawnError) as refused:
        try:
            withdraw(call, CLUSTERING, instant)
        except ConflictError:
            raise refused from None  # others withdraw it
        raise


def _plan(data: bytes) -> ClusteringPlan:
    return decode_record(RequestedReplaceMetadata, data).clustering_plan or ClusteringPlan()


def _inputs(plan: bytes) -> list[tuple[SliceInfo, ...]]:
    return [group.slices or () for group in _plan(plan).input_groups or ()]


def _partitions(plan: bytes) -> Iterable[str]:
    return (part.partition_path or "" for group in _inputs(plan) for part in group)


def _work(call: ServiceCall, executing: Executing) -> Done:
    source = executing.source
    groups = _slices(source, executing.plan, executing.instant)
    layout = _layout(call, source, executing.plan)
    check_columns(table_schema(source).schema, layout.columns)
    context = write_context(call, executing)
    slices = [file_slice for group in groups for file_slice in group]
    job = ClusteringJob(plan_slices(source, slices).only(()), context, executing.token, layout)
    tasks = [task for group in groups for task in _tasks(call, layout, group, context.buckets is not None)]
    current().stage("cluster file groups", len(tasks))
    made = call.runner.run(call.storage, partial(cluster_slices, job), tasks, [task.size_bytes for task in tasks])
    stats = tuple(stat for of_task in made for stat in of_task)
    replaced: dict[str, tuple[str, ...]] = {}
    for file_slice in slices:
        path = file_slice.partition_path
        replaced[path] = (*replaced.get(path, ()), file_slice.file_id)
    current().stage("commit")
    extra = {"schema": context.schema_text}
    return Done(stats, ReplaceCommitMetadata(by_partition(stats), False, extra, 1, "CLUSTER", replaced))


def _layout(call: ServiceCall, source: TableSource, plan: bytes) -> Layout:
    """How the plan's files are to look: the order that it names, and what it leaves open as the options say."""
    strategy = _plan(plan).strategy
    params = (strategy.strategy_params if strategy else None) or {}
    config = call.config(source)
    options = {**config.options, **params}
    return replace(
        Layout.of(replace(config, options=options)),
        columns=CLUSTERING_SORT_COLUMNS.of(params),
        order=CLUSTERING_ORDER.of(options),
    )


def _tasks(call: ServiceCall, layout: Layout, group: Sequence[FileSlice], is_bucketed: bool) -> list[ClusteringTask]:
    """One for each file that can be written on its own."""
    if is_bucketed:
        return [ClusteringTask((s,), (_id_like(s.file_id, call.clock.new_id()),)) for s in group]
    sizes = [file_slice.size_bytes for file_slice in group]
    new_id = call.clock.new_id()
    if layout.columns:
        ids = tuple(f"{new_id}-{number}" for number in range(layout.output_count(sizes)))
        return [ClusteringTask(tuple(group), ids)]
    return [
        ClusteringTask(tuple(group[at] for at in numbers), (f"{new_id}-{number}",))
        for number, numbers in enumerate(layout.outputs(sizes))
    ]


def _id_like(file_id: str, new_id: str) -> str:
    """A new file id of the same bucket."""
    bucket = bucket_of(file_id)
    return f"{new_id}-0" if bucket is None else bucket_file_id(bucket, new_id)


def _slices(source: TableSource, plan: bytes, instant: str) -> list[list[FileSlice]]:
    """The slices of each group, as the table has them now; StalePlanError if they are not those of the plan."""
    groups = _inputs(plan)
    names = {_name(path) for group in groups for part in group for path in _paths(part)}
    parsed = (parse_base_name(name) or parse_log_name(name) for name in names)
    view = TableView(
        source.storage,
        source.config,
        source.timeline,
        source.reader,
        checked=frozenset(name.instant for name in parsed if name is not None),
    )
    partitions = sorted(set(_partitions(plan)))
    latest = {
        (s.partition_path, s.file_id): s
        for listed in list_partitions(source.storage, partitions)
        for s in view.latest_of(listed)
    }
    found = []
    for group in groups:
        slices = []
        for part in group:
            now = latest.get((part.partition_path or "", part.file_id or ""))
            if now is None or {str(file.name) for file in now.files} != {_name(path) for path in _paths(part)}:
                raise _stale(part.file_id, part.partition_path, instant)
            slices.append(now)
        found.append(slices)
    return found


def _paths(part: SliceInfo) -> list[str]:
    return [path for path in (part.data_file_path, *(part.delta_file_paths or ())) if path]


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _check(executing: Executing, timeline: Timeline) -> None:
    """No write since the work began has touched what the plan replaces, and none of what it read was taken back."""
    source = executing.source
    facts = CLUSTERING.facts(executing.plan)
    footprint = Footprint(frozenset(), is_bucketed=source.config.buckets is not None)
    groups = {footprint.group(*group) for group in facts.groups} if facts else set()
    check_undone(source.timeline, timeline, source.reader)
    for instant in timeline.completed_writes:
        if instant.requested_time in source.timeline.by_time:
            continue
        commit = source.reader.commit(instant)
        touched = [(stat.partition_path, stat.file_id) for stat in commit.stats]
        if isinstance(commit, ReplaceCommitMetadata):
            replaced = commit.partition_to_replace_file_ids or {}
            touched += [(path, file_id) for path, ids in replaced.items() for file_id in ids]
        for path, file_id in touched:
            if footprint.group(path, file_id) in groups:
                raise _stale(file_id, path, instant.requested_time)
    refuse_new_schema(executing, timeline)


def _stale(file_id: str | None, partition: str | None, instant: str) -> StalePlanError:
    return StalePlanError(
        f"the file group {file_id} of partition {partition!r} has changed since a clustering of it was planned",
        instant=instant,
        hint="nothing is lost: the plan is withdrawn, and t.cluster() makes a new one",
    )
