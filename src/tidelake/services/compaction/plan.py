"""Planning a compaction: which file groups fold their logs into a new base file. Pure; published by ``schedule.py``.

The plan of an instant T holds, of each file group, exactly the logs that completed before T. It is made within the turn of
the head that publishes it, so no log can complete in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from tidelake._limits import MIB
from tidelake.filegroup import FileSlice
from tidelake.format.event_marks import EventTimeMarks
from tidelake.format.plans import CompactionOperation, CompactionPlan, EventTimeOperation, EventTimePlan
from tidelake.query import TableSource, table_schema
from tidelake.query.snapshot import is_base_only
from tidelake.services.kinds import COMPACTION, MARK, SOURCE
from tidelake.services.planner import Outcome, ServicePlanner
from tidelake.services.strategy import Candidate

PLAN_VERSION = 2


class CompactionPlanner(ServicePlanner):
    """A slice is work if it has logs that do not only keep deletes."""

    kind = COMPACTION

    def work_in(self, source: TableSource, slices: Sequence[FileSlice]) -> Sequence[Candidate]:
        """Those with logs."""
        if source.config.tombstone_seconds:
            kept = table_schema(source).tombstones
            slices = [file_slice for file_slice in slices if not is_base_only(file_slice, kept)]
        return [Candidate(file_slice, _reason(file_slice)) for file_slice in slices if file_slice.logs]


def encode_plan(outcome: Outcome, strategy: str) -> CompactionPlan:
    """The plan as the timeline keeps it."""
    extra = {MARK: "1", SOURCE: outcome.window.source, "tidelake.strategy": strategy}
    operations = tuple(_operation(candidate) for candidate in outcome.chosen)
    return CompactionPlan(operations, extra, PLAN_VERSION, None, False, tuple(outcome.left))


def encode_event_plan(outcome: Outcome, strategy: str, marks: EventTimeMarks) -> EventTimePlan:
    """The plan of a compaction by event time: it also says for which threshold, and which instant base files carry."""
    plain = encode_plan(outcome, strategy)
    operations = tuple(
        EventTimeOperation(**asdict(operation), next_base_instant_time=outcome.instant)
        for operation in plain.operations or ()
    )
    extra = {**(plain.extra_metadata or {}), **marks.encode()}
    return EventTimePlan(operations, extra, PLAN_VERSION, None, False, plain.missing_schedule_partitions)


def _operation(candidate: Candidate) -> CompactionOperation:
    file_slice = candidate.file_slice
    return CompactionOperation(
        base_instant_time=file_slice.base_instant,
        delta_file_paths=tuple(str(log.name) for log in file_slice.logs),
        data_file_path=None if file_slice.base is None else str(file_slice.base.name),
        file_id=file_slice.file_id,
        partition_path=file_slice.partition_path,
        metrics={
            "TOTAL_LOG_FILES": float(len(file_slice.logs)),
            "TOTAL_IO_READ_MB": float((candidate.base_bytes + candidate.log_bytes) // MIB),
            "TOTAL_LOG_FILES_SIZE": float(candidate.log_bytes),
            "TOTAL_IO_WRITE_MB": float(candidate.base_bytes // MIB),
            "TOTAL_IO_MB": float(candidate.io_bytes // MIB),
        },
    )


def _reason(file_slice: FileSlice) -> str:
    size = sum(log.size_bytes for log in file_slice.logs)
    base = "no base file" if file_slice.base is None else f"a base file of {file_slice.base.size_bytes:,} bytes"
    count = len(file_slice.logs)
    return f"{count} log{'s' if count > 1 else ''} of {size:,} bytes on {base}"
