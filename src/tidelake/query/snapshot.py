"""Planning a scan: which slices to read, as which schema, merged how. A plan is data and travels to workers.

Modes: ``snapshot`` reads the latest slice of every file group with its logs; ``read_optimized`` reads base files alone.
Either may look at the table as of an earlier time; its rows then come in today's schema, later columns being null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import pyarrow as pa

from tidelake.errors import ColumnNotFoundError, InvalidError, TidelakeError
from tidelake.filegroup import FileSlice, ViewPoint
from tidelake.merge import LogContext, MergeSpec, merge_spec
from tidelake.query.filters import Filter, parse_filter
from tidelake.query.prune import FilterConstraint
from tidelake.query.source import TableSource
from tidelake.query.table_schema import TableSchema, table_schema
from tidelake.storage import Storage

MODES = ("snapshot", "read_optimized")
NOW = ViewPoint()
CheckSlices = Callable[[Sequence[FileSlice]], None]


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What a scan reads. ``work_schema`` has the columns that merging and filtering need beside the output's."""

    slices: tuple[FileSlice, ...]
    schema: pa.Schema
    work_schema: pa.Schema
    condition: Filter | None
    merge: MergeSpec | None
    known_columns: frozenset[str]
    commit_columns: dict[str, frozenset[str]]
    log_compactions: frozenset[str] = frozenset()
    evolved_instants: frozenset[str] = frozenset()
    active_instants: frozenset[str] = frozenset()
    tombstones: dict[str, str] = field(default_factory=dict)

    @property
    def log_context(self) -> LogContext:
        """What reading the logs of these slices must know."""
        return LogContext(
            self.work_schema, self.known_columns, self.commit_columns, self.log_compactions, self.tombstones
        )

    def is_plain(self, file_slice: FileSlice) -> bool:
        """Whether the slice's base file surely has the types of the table, so that any parquet reader may read it."""
        if file_slice.base is None or file_slice.logs:
            return False
        instant = file_slice.base.name.instant
        return instant not in self.evolved_instants and (not self.evolved_instants or instant in self.active_instants)

    def only(self, slices: Sequence[FileSlice]) -> ScanPlan:
        """The same plan for some of its slices."""
        return replace(self, slices=tuple(slices))


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What a user asks of a table."""

    columns: tuple[str, ...] | None = None
    filter: str | None = None
    point: ViewPoint = NOW
    mode: str = "snapshot"
    as_of_event_time: datetime | str | int | None = None
    """Read exactly the data before this time; only base files can hold that."""

    def __post_init__(self) -> None:
        if self.as_of_event_time is not None and self.mode != "read_optimized":
            raise InvalidError(
                "as_of_event_time goes with the read-optimised view alone",
                value=self.mode,
                hint="mode='read_optimized', or a filter on the event-time column",
            )
        if self.mode not in MODES:
            raise InvalidError(f"mode {self.mode!r} is unknown, known are {', '.join(MODES)}", value=self.mode)


def plan_scan(source: TableSource, request: ScanRequest, check: CheckSlices | None = None) -> ScanPlan:
    """Find the slices and decide how to read them; ``check`` may refuse the slices that were found."""
    try:
        return _planned(source, request, check)
    except TidelakeError as error:
        raise error.with_context(table=source.storage.uri) from None


def _planned(source: TableSource, request: ScanRequest, check: CheckSlices | None) -> ScanPlan:
    view = source.view(request.point)
    known = table_schema(source)
    condition = None if request.filter is None else parse_filter(request.filter, known.schema)
    output = output_schema(known.schema, request.columns, source.storage)
    constraint = FilterConstraint.of(condition, source.config.partition_fields)
    slices = tuple(view.slices(constraint))
    if check is not None:
        check(slices)
    if request.mode == "read_optimized":
        slices = tuple(replace(s, logs=()) for s in slices if s.base is not None)
    if known.tombstones:
        slices = tuple(replace(s, logs=()) if is_base_only(s, known.tombstones) else s for s in slices)
    spec = None
    if any(s.logs for s in slices):
        spec = merge_spec(source.config, known.schema)
    return _plan(slices, known, output, condition, spec)


def is_base_only(file_slice: FileSlice, tombstones: Mapping[str, str]) -> bool:
    """Whether the logs of a slice hold nothing but deletes that a compaction kept: its base file has no row of theirs."""
    return bool(file_slice.logs) and all(log.path in tombstones for log in file_slice.logs)


def plan_slices(source: TableSource, slices: Sequence[FileSlice]) -> ScanPlan:
    """How to read some slices whole, as services do."""
    known = table_schema(source)
    return _plan(tuple(slices), known, known.schema, None, merge_spec(source.config, known.schema))


def _plan(
    slices: tuple[FileSlice, ...],
    known: TableSchema,
    output: pa.Schema,
    condition: Filter | None,
    spec: MergeSpec | None,
) -> ScanPlan:
    needed = set(output.names)
    if condition is not None:
        needed |= condition.columns
    if spec is not None:
        needed |= set(spec.columns) if spec.merger is None else set(known.schema.names)
    work = pa.schema([field for field in known.schema if field.name in needed])
    used = {file.name.instant for s in slices for file in s.files}
    columns = {instant: names for instant, names in known.commit_columns.items() if instant in used}
    return ScanPlan(
        slices,
        output,
        work,
        condition,
        spec,
        known.known_columns,
        columns,
        known.log_compactions & used,
        known.evolved_instants,
        frozenset(known.commit_columns),
        {log.path: known.tombstones[log.path] for s in slices for log in s.logs if log.path in known.tombstones},
    )


def output_schema(schema: pa.Schema, columns: Sequence[str] | None, storage: Storage) -> pa.Schema:
    """The columns asked for, in the order asked for; all, if none are named."""
    if columns is None:
        return schema
    for name in columns:
        if name not in schema.names:
            raise ColumnNotFoundError(
                f"the table has no column {name!r}",
                value=name,
                table=storage.uri,
                hint=f"columns are {', '.join(schema.names)}",
            )
    return pa.schema([schema.field(name) for name in dict.fromkeys(columns)])
