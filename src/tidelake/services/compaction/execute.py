"""Compaction: schedule a plan, and carry it out. Each file group of a plan becomes a new base file of the same group.

Rows keep their commit times: a compaction delivers nothing to incremental readers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from tidelake._progress import current
from tidelake.config import COMPACT_INLINE, TableType
from tidelake.errors import InvalidError, MissingFileError, TidelakeError
from tidelake.filegroup import BaseFile, FileSlice, LogFile
from tidelake.filegroup.listing import list_partitions
from tidelake.format.avro_record import decode_record
from tidelake.format.commit_metadata import CommitMetadata, WriteStat
from tidelake.format.event_marks import ROWS_AFTER_KEY, SplitCounts, decode_event_marks
from tidelake.format.names import BaseFileName, parse_base_name, parse_log_name
from tidelake.format.plans import CompactionOperation, CompactionPlan
from tidelake.format.tombstone_marks import encode_tombstones
from tidelake.merge import Outcome as MergeOutcome
from tidelake.query import ScanPlan, TableSource, plan_slices, read_slice
from tidelake.schema.event_time import ms_to_stored, stored_numbers
from tidelake.services.compaction.event_plan import EventTimePlanner
from tidelake.services.compaction.exact import compact_exact, exact_job
from tidelake.services.compaction.plan import CompactionPlanner, encode_event_plan, encode_plan
from tidelake.services.compaction.thresholds import EventTimeConfig, finder_of
from tidelake.services.compaction.tombstones import kept_tombstones, tombstone_names
from tidelake.services.compaction.trigger import compaction_due, compaction_strategy, strategy_name
from tidelake.services.context import ServiceCall
from tidelake.services.execution import (
    Done,
    Executing,
    Token,
    again_if_schema_changed,
    by_partition,
    carry_out,
    refuse_late,
    refuse_new_schema,
    write_context,
)
from tidelake.services.kinds import COMPACTION
from tidelake.services.planner import Outcome
from tidelake.services.report import ServicePlan
from tidelake.services.schedule import run_oldest, run_waiting, schedule
from tidelake.storage import Storage
from tidelake.timeline.claim import Claim
from tidelake.write.base_stream import encode_base_stream
from tidelake.write.context import WriteContext
from tidelake.write.files import join, put_markers, write_log
from tidelake.write.rejects import Rejected, publish_rejects, rejected_together, stage_rejects
from tidelake.write.transaction import Commit

_LOG = logging.getLogger("tidelake.services")
_SYNC = b"tidelake-compact"


def schedule_compaction(call: ServiceCall, *, dry_run: bool = False) -> ServicePlan | None:
    """Publish a plan; None if there is nothing to compact. A dry run writes nothing."""
    source = call.source()
    _refuse_copy_on_write(source)
    return schedule(call, source, compaction_planner, _encoded, dry_run=dry_run)


def run_compaction(call: ServiceCall, instant: str | None = None) -> Commit | None:
    """Carry out a plan: the one of an instant, or the oldest one that nobody is at; None if there is none."""
    _refuse_copy_on_write(call.source())
    return run_oldest(call, COMPACTION, _execute) if instant is None else _execute(call, instant)


def compact(call: ServiceCall) -> Commit | None:
    """Carry out what waits, unless another is at it, then plan what else there is and carry that out.

    Returns the last commit; None if there was nothing to do.
    """
    _refuse_copy_on_write(call.source())
    done = run_waiting(call, COMPACTION, _execute)
    plan = schedule_compaction(call)
    return done if plan is None or plan.instant is None else _execute(call, plan.instant)


def _encoded(planner: CompactionPlanner, outcome: Outcome) -> bytes:
    strategy = strategy_name(planner.config)
    if isinstance(planner, EventTimePlanner) and planner.marks is not None:
        return encode_event_plan(outcome, strategy, planner.marks).encode(_SYNC)
    return encode_plan(outcome, strategy).encode(_SYNC)


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """What every task of a compaction knows; it travels to workers."""

    scan: ScanPlan
    context: WriteContext
    claim: Claim
    token: Token
    threshold_ms: int | None = None
    """Of a compaction by event time: rows at or after it are counted."""


@dataclass(frozen=True, slots=True)
class CompactedSlice:
    """What became of one file group."""

    stats: tuple[WriteStat, ...]
    rejected: Rejected
    tombstones: Mapping[str, str]
    """Logs of deletes that are kept, with the instant of the newest in each."""
    rows_after: int = 0
    """Rows of the base file at or after the threshold."""


def compact_slice(job: CompactionJob, storage: Storage, file_slice: FileSlice, attempt: int) -> CompactedSlice:
    """Fold the logs of one slice into a new base file: what every engine runs.

    Deletes that are to be kept are written before it, so that no base file outlives a crash without them.
    """
    context, partition, token = job.context, file_slice.partition_path, job.token.text(attempt)
    name = BaseFileName(file_slice.file_id, token, context.instant)
    path = join(partition, str(name))
    logs = tombstone_names(context, file_slice.file_id, token)
    files = [*((join(partition, str(log)), "CREATE") for log in logs), (path, "MERGE")]
    put_markers(storage, context.instant, job.token.marker_number(attempt), files)
    is_told = context.has_clocks or bool(logs)
    outcome = MergeOutcome()
    after = RowsAfter(context, job.threshold_ms)
    batches = after.counted(read_slice(storage, job.scan, file_slice, outcome=outcome if is_told else None))
    made = encode_base_stream(context, name, batches, job.scan.schema)
    nothing = job.scan.schema.empty_table()
    stats: list[WriteStat] = []
    born: dict[str, str] = {}
    for log, (instant, entries) in zip(logs, kept_tombstones(context, partition, outcome), strict=False):
        stats.append(write_log(storage, context, log, partition, nothing, entries))
        born[join(partition, str(log))] = instant
    rejected = stage_rejects(storage, context.config, context.instant, file_slice.file_id, outcome)
    stat = made.put(storage, partition)
    refuse_late(storage, job.claim, path, *born)
    base = file_slice.base
    compacted = replace(
        stat,
        prev_commit=file_slice.base_instant,
        prev_base_file=None if base is None else str(base.name),
        total_log_files_compacted=len(file_slice.logs),
        total_log_size_compacted=sum(log.size_bytes for log in file_slice.logs),
        total_log_blocks=len(file_slice.logs),
    )
    return CompactedSlice((compacted, *stats), rejected, born, after.count)


class RowsAfter:
    """Counts the rows at or after a threshold as they stream by; none is asked for where there is no threshold."""

    def __init__(self, context: WriteContext, threshold_ms: int | None) -> None:
        self._field = context.event_time_field
        self._unit = context.config.event_time_unit
        self._threshold_ms = threshold_ms
        self.count = 0

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches."""
        for batch in batches:
            if self._threshold_ms is not None and self._field is not None:
                column = batch.column(self._field)
                least = ms_to_stored(self._threshold_ms, column.type, self._unit)
                self.count += pc.sum(pc.greater_equal(stored_numbers(column), least)).as_py() or 0
            yield batch


def compact_inline(call: ServiceCall) -> None:
    """After a write: compact if the table asks for it (``hoodie.compact.inline``) and it is due.

    The write is true whatever comes of it: what fails here is told in the log, and done by the next one.
    """
    if not COMPACT_INLINE.of(call.options):
        return
    source = call.source()
    config = call.config(source)
    if source.config.table_type is TableType.COPY_ON_WRITE or compaction_due(source, config) is None:
        return
    try:
        compact(call)
    except TidelakeError as error:
        _LOG.warning("the compaction after a write of %s failed: %s", source.config.name, error)


def compaction_planner(call: ServiceCall, source: TableSource) -> CompactionPlanner:
    """The planner that the table's and the call's options ask for."""
    config = call.config(source)
    strategy = compaction_strategy(config)
    finder = finder_of(strategy)
    timed = EventTimeConfig(config.table, config.options, config.now, source)
    if finder is None:
        return CompactionPlanner(timed, strategy)
    drawn = call.moves(source).generator.draw(source.timeline.greatest_time)
    return EventTimePlanner(timed, strategy, finder, drawn)


def _execute(call: ServiceCall, instant: str) -> Commit:
    done = again_if_schema_changed(
        lambda: carry_out(call, COMPACTION, instant, _partitions, partial(_work, call), refuse_new_schema)
    )
    publish_rejects(call.storage, call.source().config)
    return done


def _partitions(plan: bytes) -> Iterable[str]:
    return (op.partition_path or "" for op in _operations(plan))


def _operations(plan: bytes) -> tuple[CompactionOperation, ...]:
    return decode_record(CompactionPlan, plan).operations or ()


def _work(call: ServiceCall, executing: Executing) -> Done:
    source = executing.source
    plan = decode_record(CompactionPlan, executing.plan)
    slices = _slices(source, plan.operations or ())
    marks = decode_event_marks(plan.extra_metadata)
    context = write_context(call, executing)
    scan = plan_slices(source, slices).only(())
    current().stage("compact file groups", len(slices))
    sizes = [file_slice.size_bytes for file_slice in slices]
    extra = {"schema": context.schema_text, **(marks.encode() if marks else {})}
    if marks is not None and marks.is_exact:
        exact = exact_job(scan, context, executing.claim, executing.token, marks)
        done = call.runner.run(call.storage, partial(compact_exact, exact), slices, sizes)
        stats = [stat for each in done for stat in each.stats]
        extra |= sum((each.counts for each in done), SplitCounts()).encode()
    else:
        threshold_ms = None if marks is None else marks.threshold_ms
        job = CompactionJob(scan, context, executing.claim, executing.token, threshold_ms)
        made = call.runner.run(call.storage, partial(compact_slice, job), slices, sizes)
        stats = [stat for each in made for stat in each.stats]
        extra |= {} if marks is None else {ROWS_AFTER_KEY: str(sum(each.rows_after for each in made))}
        extra |= rejected_together(each.rejected for each in made).metadata
        extra |= encode_tombstones({path: born for each in made for path, born in each.tombstones.items()})
    current().stage("commit")
    return Done(tuple(stats), CommitMetadata(by_partition(stats), True, extra, 1, "COMPACT"))


def _slices(source: TableSource, operations: tuple[CompactionOperation, ...]) -> list[FileSlice]:
    """The slices that a plan names, with the sizes that storage and their commits say."""
    partitions = sorted({op.partition_path or "" for op in operations})
    sizes = {
        info.path: info.size_bytes for listed in list_partitions(source.storage, partitions) for info in listed.files
    }
    logs = {
        parsed.instant for op in operations for name in op.delta_file_paths or () if (parsed := parse_log_name(name))
    }
    commits = source.reader.commits(tuple(i for i in source.timeline.completed_writes if i.requested_time in logs))
    wrote = {stat.path: stat.file_size_in_bytes for commit in commits.values() for stat in commit.stats}
    return [_slice(source, op, sizes, wrote) for op in operations]


def _slice(
    source: TableSource, op: CompactionOperation, sizes: dict[str, int], wrote: dict[str | None, int | None]
) -> FileSlice:
    partition = op.partition_path or ""

    def path_of(name: str) -> str:
        plain = name.rpartition("/")[2]
        path = f"{partition}/{plain}" if partition else plain
        if path not in sizes:
            raise MissingFileError(
                "a file that a compaction plan names is not on storage", file=path, table=source.storage.uri
            )
        return path

    base: BaseFile | None = None
    if op.data_file_path:
        path = path_of(op.data_file_path)
        parsed = parse_base_name(path.rpartition("/")[2])
        if parsed is None:
            raise InvalidError(f"a compaction plan names {path!r} as a base file", file=path, table=source.storage.uri)
        base = BaseFile(path, parsed, sizes[path])
    found: list[LogFile] = []
    for name in op.delta_file_paths or ():
        path = path_of(name)
        log = parse_log_name(path.rpartition("/")[2])
        if log is None:
            raise InvalidError(f"a compaction plan names {path!r} as a log", file=path, table=source.storage.uri)
        found.append(LogFile(path, log, sizes[path], wrote.get(path) or None))
    found.sort(key=lambda log: log.name.order)
    return FileSlice(partition, op.file_id or "", op.base_instant_time or "", base, tuple(found))


def _refuse_copy_on_write(source: TableSource) -> None:
    if source.config.table_type is TableType.COPY_ON_WRITE:
        raise InvalidError(
            "a copy-on-write table has no logs to compact", table=source.storage.uri, value=source.config.name
        )
