"""Carrying out an exact event-time compaction: base files hold the data before the threshold, and nothing else.

Of each file group what is before the threshold becomes the new base file; the rest goes, version by version and with its
commit times, to one log of the new slice. That log is written before the base file, and markers before both: a base file
that outlives a crash never lacks what was left out of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import InternalError, UnsupportedError
from tidelake.filegroup import FileSlice
from tidelake.format.commit_metadata import WriteStat
from tidelake.format.event_marks import EventTimeMarks, SplitCounts
from tidelake.format.names import BaseFileName, LogFileName
from tidelake.merge import Deletes, GroupSplit, Leftover, Outcome, SplitMerge, read_logs
from tidelake.merge.ordering import typed_values
from tidelake.query import ScanPlan, read_base
from tidelake.schema import FILE_NAME
from tidelake.schema.event_time import ms_to_stored
from tidelake.services.execution import Token, refuse_late
from tidelake.storage import Storage
from tidelake.timeline.claim import Claim
from tidelake.write.base_stream import encode_base_stream
from tidelake.write.context import WriteContext
from tidelake.write.deletes import delete_entries
from tidelake.write.files import join, put_markers, write_log
from tidelake.write.rejects import Rejected, stage_rejects
from tidelake.write.rows import KEY, PATH


@dataclass(frozen=True, slots=True)
class ExactJob:
    """What every task of an exact compaction knows; it travels to workers."""

    scan: ScanPlan
    context: WriteContext
    claim: Claim
    token: Token
    thresholds: tuple[int, ...]
    """For each event-time column the least number that is not before the threshold."""


@dataclass(frozen=True, slots=True)
class ExactSlice:
    """What became of one file group."""

    stats: tuple[WriteStat, ...]
    counts: SplitCounts
    rejected: Rejected


def exact_job(scan: ScanPlan, context: WriteContext, claim: Claim, token: Token, marks: EventTimeMarks) -> ExactJob:
    """The job of a plan; refused if the table is not one whose records can be split at the plan's threshold."""
    spec = context.merge
    if ",".join(spec.ordering_fields) != marks.field or not context.config.is_exact:
        raise UnsupportedError(
            f"the plan {context.instant} splits at the event time {marks.field!r}, and the table is not exact by it",
            value=marks.field,
            table=context.config.name,
            instant=context.instant,
            hint="take the plan back with rollback(instant), and compact anew",
        )
    unit = context.config.event_time_unit
    thresholds = tuple(ms_to_stored(marks.threshold_ms, kind, unit) for kind in spec.ordering_types)
    return ExactJob(scan, context, claim, token, thresholds)


def compact_exact(job: ExactJob, storage: Storage, file_slice: FileSlice, attempt: int) -> ExactSlice:
    """Fold what is before the threshold into a new base file, and leave the rest in a log: what every engine runs."""
    partition, token = file_slice.partition_path, job.token.text(attempt)
    base_name = BaseFileName(file_slice.file_id, token, job.context.instant)
    log_name = LogFileName(file_slice.file_id, job.context.instant, 1, token)
    paths = join(partition, str(base_name)), join(partition, str(log_name))
    files = [(paths[1], "CREATE"), (paths[0], "MERGE")]
    put_markers(storage, job.context.instant, job.token.marker_number(attempt), files)
    outcome = Outcome()
    split = _split(job, storage, file_slice, outcome)
    made = encode_base_stream(job.context, base_name, split.merged(_base(job, storage, file_slice)), job.scan.schema)
    left = split.leftover()
    stats: list[WriteStat] = []
    if left.count:
        stats.append(_write_leftover(job, storage, log_name, partition, left))
    rejected = stage_rejects(storage, job.context.config, job.context.instant, file_slice.file_id, outcome)
    base = file_slice.base
    stat = replace(
        made.put(storage, partition),
        prev_commit=file_slice.base_instant,
        prev_base_file=None if base is None else str(base.name),
        total_log_files_compacted=len(file_slice.logs),
        total_log_size_compacted=sum(log.size_bytes for log in file_slice.logs),
        total_log_blocks=len(file_slice.logs),
    )
    refuse_late(storage, job.claim, *paths)
    return ExactSlice((stat, *stats), SplitCounts(left.count, split.superseded, split.without_time), rejected)


def _split(job: ExactJob, storage: Storage, file_slice: FileSlice, outcome: Outcome) -> SplitMerge | GroupSplit:
    spec = job.scan.merge
    if spec is None:
        raise InternalError("an exact compaction was planned without merge rules", instant=job.context.instant)
    records = read_logs(storage, file_slice.logs, spec, job.scan.log_context)
    if spec.clocks is not None:
        return GroupSplit(records, spec, job.thresholds, outcome)
    return SplitMerge(records, spec, job.thresholds[0])


def _base(job: ExactJob, storage: Storage, file_slice: FileSlice) -> Iterable[pa.RecordBatch]:
    base = file_slice.base
    if base is None:
        return ()
    stated = job.scan.commit_columns.get(base.name.instant, frozenset())
    return read_base(storage, base, job.scan.work_schema, stated=stated)


def _write_leftover(job: ExactJob, storage: Storage, name: LogFileName, partition: str, left: Leftover) -> WriteStat:
    rows = left.rows.select(job.scan.schema.names)
    place = rows.schema.get_field_index(FILE_NAME)
    file_ids = pa.repeat(pa.scalar(name.file_id, pa.string()), rows.num_rows)
    rows = rows.set_column(place, rows.schema.field(place), file_ids)
    last = _entries(job, left.last, partition)
    first = _entries(job, left.first, partition)
    with storage.batch() as puts:
        return write_log(puts, job.context, name, partition, rows, last, first=first)


def _entries(job: ExactJob, deletes: Deletes, partition: str) -> pa.StructArray:
    """Deletes with the event times that they had."""
    spec = job.context.merge
    paths = pa.repeat(pa.scalar(partition, pa.string()), len(deletes))
    columns = {KEY: deletes.keys, PATH: paths}
    for name, kind, times in zip(spec.ordering_fields, spec.ordering_types, deletes.times, strict=True):
        columns[name] = typed_values(pc.cast(times, pa.int64()), kind)
    return delete_entries(pa.table(columns), job.context)
