"""The event times of a file of which no statistic tells, from its event-time column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pyarrow as pa

from tidelake.errors import InternalError, InvalidError
from tidelake.filegroup import BaseFile, FileSlice, LogFile
from tidelake.filegroup.event_times import EventRange, EventTimes
from tidelake.merge import read_logs
from tidelake.merge.delete_times import delete_bounds_ms, joined_bounds
from tidelake.merge.log_records import BLOCK_DELETE
from tidelake.query.read_slice import read_base
from tidelake.query.snapshot import plan_slices
from tidelake.query.source import TableSource
from tidelake.schema.event_time import event_bounds_ms
from tidelake.timeline import parse_instant


def event_times_of(source: TableSource) -> EventTimes:
    """Who finds the event times of a table's files."""
    return EventTimes(
        source.storage, source.config, source.timeline, source.reader, lambda file: read_range(source, file)
    )


def read_range(source: TableSource, file: BaseFile | LogFile) -> EventRange:
    """The event times in a file, by reading its column; raises if it cannot be read."""
    return range_in(source, file, source.config.event_time_fields)


def range_in(source: TableSource, file: BaseFile | LogFile, names: Sequence[str]) -> EventRange:
    """The same of some event-time columns."""
    if not names:
        raise InvalidError("the table has no event-time field", table=source.storage.uri)
    unit = source.config.event_time_unit
    if isinstance(file, BaseFile):
        plan = plan_slices(source, (FileSlice("", file.name.file_id, file.name.instant, file, ()),))
        schema = pa.schema([plan.schema.field(name) for name in names])
        batches = read_base(source.storage, file, schema)
        low, high = joined_bounds(*(event_bounds_ms(column, unit) for batch in batches for column in batch.columns))
        return EventRange(low, high)
    plan = plan_slices(source, (FileSlice("", file.name.file_id, file.name.instant, None, (file,)),))
    spec = plan.merge
    if spec is None:
        raise InternalError("a log was planned without merge rules", file=file.path)
    needed = {*names, *spec.columns}
    context = replace(plan.log_context, schema=pa.schema([f for f in plan.schema if f.name in needed]))
    records = read_logs(source.storage, (file,), spec, context)
    # With several event times the entries of delete blocks have rows; those without any count with their commit.
    deletes = records.entries.filter((pl.col("row") < 0) | (pl.col("unconditional") & (pl.col("kind") == BLOCK_DELETE)))
    ordering = [deletes[f"o{place}"].to_arrow() for place in range(len(spec.ordering_fields))]
    commit_ms = parse_instant(file.name.instant, source.zone)
    low, high = joined_bounds(
        *(event_bounds_ms(records.rows.column(name), unit) for name in names),
        delete_bounds_ms(ordering, deletes["unconditional"].to_numpy(), spec, names, unit, commit_ms),
    )
    return EventRange(low, high)
