"""The Table: a facade over a path. It holds no logic; each verb hands on to the module that knows."""

from __future__ import annotations

import os
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from tidelake._clock import Clock, SystemClock
from tidelake._progress import progress
from tidelake.config import (
    OptionValue,
    WriterOptions,
    checked_service_options,
    given_options,
    is_service_option,
    is_writer_option,
    refuse_other_rules,
    writer_options,
)
from tidelake.errors import InvalidError
from tidelake.filegroup import FileSlice
from tidelake.format.history import ArchivedInstant
from tidelake.observe import (
    CommitSummary,
    InstantSummary,
    TableSummary,
    commit_summaries,
    instant_summaries,
    summarise,
    summary_html,
)
from tidelake.query import PointInTime, ScanRequest, TableSource, table_schema
from tidelake.query.explain import Explanation, explain_value
from tidelake.schema import META_COLUMN_NAMES, ddl_to_arrow, spark_json_to_arrow
from tidelake.services.clean import begin_mark
from tidelake.services.clustering import cluster_inline
from tidelake.services.compaction import compact_inline
from tidelake.services.cursor import begin_cursors
from tidelake.storage import Storage, open_storage, path_text
from tidelake.table.freshness import EventTime, TableFreshness
from tidelake.table.handle import names_of, paths_of, positive
from tidelake.table.scan import Scan
from tidelake.timeline import Timeline
from tidelake.write import (
    SORTS,
    Commit,
    WriteRequest,
    create,
    delete_partitions,
    key_columns,
    redone,
    rows_with,
    to_arrow,
    undo,
    write,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

C = TypeVar("C", bound=Commit | None)


class Table(TableFreshness):
    """A table in the Apache Hudi 1.x format. Made by ``open_table``.

    Every write takes ``metadata`` (texts that its commit keeps), ``txn`` (an application's name and the number of its
    batch: a batch that was written before is recognised and not written again), ``watermark`` (the event time up
    to which the input is complete with this write) and ``on_conflict`` (``"fail"``, or ``"retry"`` to redo the write, within
    bounds, when another writer was first).
    """

    @property
    def timeline(self) -> Timeline:
        """The active timeline, as of now."""
        return self._refreshed().timeline

    @property
    def schema(self) -> pa.Schema:
        """The table's schema as of now, with meta columns."""
        return table_schema(self._refreshed()).schema

    def history(self) -> tuple[ArchivedInstant, ...]:
        """The archived instants, by requested time."""
        return self._refreshed().reader.load_history(("instantTime", "completionTime", "action"))

    def commits(self, limit: int | None = 10) -> tuple[CommitSummary, ...]:
        """The last completed writes of the active timeline and what each wrote, newest first; None for all."""
        source = self._refreshed()
        newest_first = source.timeline.completed_writes[::-1]
        return commit_summaries(source, newest_first[: positive(limit)])

    def instants(self, limit: int | None = 20, *, archived: bool = False) -> tuple[InstantSummary, ...]:
        """The last instants, completed or not, newest first; None for all. ``archived`` adds those of the history."""
        return instant_summaries(self._refreshed(), positive(limit), archived=archived)

    def files(self, *, latest: bool = True) -> list[FileSlice]:
        """The visible file slices: the latest of each file group, or all."""
        view = self._refreshed().view()
        return list(view.slices() if latest else view.all_slices())

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        as_of: PointInTime | None = None,
        as_of_completion: PointInTime | None = None,
        mode: str = "snapshot",
        as_of_event_time: EventTime | None = None,
    ) -> Scan:
        """Describe a read.

        ``filter`` is a SQL condition. ``as_of`` travels to a requested time, as Apache Hudi does; ``as_of_completion``
        to what a reader saw at that moment. ``mode="read_optimized"`` reads base files alone; with ``as_of_event_time``
        exactly the data before that event time, or ``NotExactError`` if base files do not hold just that.
        """
        if isinstance(columns, str):
            raise InvalidError("columns is a list of names, not a text", value=columns, hint=f"columns=[{columns!r}]")
        source = self._refreshed()
        point = source.point(as_of, as_of_completion)
        wanted = None if columns is None else names_of(columns, "columns")
        if filter is not None and not isinstance(filter, str):
            raise InvalidError(f"filter is a SQL condition, not {filter!r}", value=filter)
        return Scan(source, ScanRequest(wanted, filter, point, mode, as_of_event_time), self._spark)

    def insert(
        self,
        data: object,
        *,
        metadata: Mapping[str, str] | None = None,
        txn: tuple[str, int] | None = None,
        watermark: EventTime | None = None,
        on_conflict: str = "fail",
    ) -> Commit:
        """Add rows as they are: no look-up, no deduplication."""
        return self._write("insert", data, metadata, txn, watermark, on_conflict)

    def bulk_insert(
        self,
        data: object,
        *,
        sort: str | None = "partition",
        metadata: Mapping[str, str] | None = None,
        txn: tuple[str, int] | None = None,
        watermark: EventTime | None = None,
        on_conflict: str = "fail",
    ) -> Commit:
        """Add many rows, without a look-up.

        ``sort="partition"`` sorts by key within each partition, or, on Spark, within a task's piece of it;
        ``sort="global"`` by partition and key over the whole write, so that key ranges of files do not overlap;
        ``sort=None`` not at all: rows stay where they are, and each task writes files of its own.
        """
        if sort is not None and sort not in SORTS:
            raise InvalidError(f"sort is {sort!r}, known are {', '.join(SORTS)} and None", value=sort)
        return self._write("bulk_insert", data, metadata, txn, watermark, on_conflict, sort)

    def upsert(
        self,
        data: object,
        *,
        metadata: Mapping[str, str] | None = None,
        txn: tuple[str, int] | None = None,
        watermark: EventTime | None = None,
        on_conflict: str = "fail",
    ) -> Commit:
        """Update rows whose key the table has, by its merge rules, and insert the others."""
        return self._write("upsert", data, metadata, txn, watermark, on_conflict)

    def delete(
        self,
        keys: object = None,
        *,
        filter: str | None = None,
        unconditional: bool = False,
        metadata: Mapping[str, str] | None = None,
        txn: tuple[str, int] | None = None,
        watermark: EventTime | None = None,
        on_conflict: str = "fail",
    ) -> Commit | None:
        """Delete rows by their keys (data with the key columns, or a list of values of a single key) or by a condition.

        On an event-time table a delete carries the ordering value of the row it deletes, so that a newer version of the
        row wins against it; ``unconditional=True`` is Apache Hudi's SQL delete. None if there is nothing to delete.
        """
        if (keys is None) == (filter is None):
            raise InvalidError("delete takes keys or a filter, and one of them")
        request = self._request("delete_unconditional" if unconditional else "delete", metadata, txn, watermark)
        if _is_spark(keys) or (keys is None and self._spark is not None):
            return self._told(
                lambda: self._delete_on_spark(keys, filter, request) or self._said(request), request, on_conflict
            )

        def once() -> Commit | None:
            doomed, known = self._rows_to_delete(keys, filter)
            if doomed.num_rows == 0:
                return self._said(request)
            return write(self._source.storage, self._clock, doomed, replace(request, known=known))

        return self._told(once, request, on_conflict)

    def insert_overwrite(
        self,
        data: object,
        *,
        metadata: Mapping[str, str] | None = None,
        txn: tuple[str, int] | None = None,
        watermark: EventTime | None = None,
        on_conflict: str = "fail",
    ) -> Commit:
        """Replace the content of every partition that the data has rows for."""
        return self._write("insert_overwrite", data, metadata, txn, watermark, on_conflict)

    def insert_overwrite_table(
        self,
        data: object,
        *,
        metadata: Mapping[str, str] | None = None,
        txn: tuple[str, int] | None = None,
        watermark: EventTime | None = None,
        on_conflict: str = "fail",
    ) -> Commit:
        """Replace the content of the whole table."""
        return self._write("insert_overwrite_table", data, metadata, txn, watermark, on_conflict)

    def delete_partitions(
        self,
        partitions: Sequence[str],
        *,
        metadata: Mapping[str, str] | None = None,
        txn: tuple[str, int] | None = None,
        watermark: EventTime | None = None,
        on_conflict: str = "fail",
    ) -> Commit:
        """Empty these partitions, named by their paths (``day=2026-01-31``)."""
        paths = paths_of(partitions)
        request = self._request("delete_partitions", metadata, txn, watermark)
        return self._told(
            lambda: delete_partitions(self._source.storage, self._clock, paths, request), request, on_conflict
        )

    def rollback(self, instant: str) -> str:
        """Take a write back, named by its requested time; returns the rollback's own instant.

        A pending write goes whatever its heartbeat says: its writer, if it lives, gets ``ConflictError`` at its commit. A
        completed one goes only if it is the last and nothing was begun on top of it; else ``ConflictError`` names what was.
        """
        return undo(*self._parts, str(instant), self._lock())

    def explain_value(self, key: object, column: str) -> Explanation:
        """Why a record, named by its key, has the value that it has in a column: the winner, the losers, and why.

        It tells what files hold: of compacted versions only that they came at or before a commit.
        """
        return explain_value(self._refreshed(), key, column)

    def summary(self) -> TableSummary:
        """What the table is, how large, and what happened to it last."""
        return summarise(self._refreshed())

    def __repr__(self) -> str:
        config = self._source.config
        return f"<Table {config.name} at {self.path}: {config.table_type.value}, version {config.version}>"

    def _repr_html_(self) -> str:
        return summary_html(self.summary())

    def _write(
        self,
        operation: str,
        data: object,
        metadata: Mapping[str, str] | None,
        txn: tuple[str, int] | None,
        watermark: EventTime | None,
        on_conflict: str,
        sort: str | None = None,
    ) -> Commit:
        request = replace(self._request(operation, metadata, txn, watermark), sort=sort)
        storage, clock = self._source.storage, self._clock
        if _is_spark(data):
            from tidelake.spark.write import write_on_spark  # noqa: PLC0415 - an optional dependency

            return self._told(lambda: write_on_spark(storage, clock, data, request), request, on_conflict)
        rows = to_arrow(data)
        return self._told(lambda: write(storage, clock, rows, request), request, on_conflict)

    def _told(self, once: Callable[[], C], request: WriteRequest, on_conflict: str) -> C:
        """Run a write, again if it is to be, and tell how far it is."""
        with progress(f"{request.operation} of {self.name}"):
            done = redone(once, on_conflict, self._clock)
            call = self._service_call(None)
            compact_inline(call)
            cluster_inline(call)
            return done

    def _delete_on_spark(self, keys: object, condition: str | None, request: WriteRequest) -> Commit | None:
        from tidelake.spark.delete import delete_on_spark  # noqa: PLC0415 - an optional dependency

        rows = self.scan(columns=self._user_columns(), filter=condition)
        found = rows.to_spark(None if keys is None else keys.sparkSession)  # type: ignore[attr-defined]
        known = replace(request, known=self._source.timeline)
        return delete_on_spark(self._source.storage, self._clock, found, keys, known)

    def _user_columns(self) -> list[str]:
        return [field.name for field in self.schema if field.name not in META_COLUMN_NAMES]

    def _rows_to_delete(self, keys: object, condition: str | None) -> tuple[pa.Table, Timeline]:
        """The rows, and the timeline as of which they were found."""
        rows = self.scan(columns=self._user_columns(), filter=condition)
        known = self._source.timeline
        if keys is None:
            return rows.to_arrow(), known
        fields = list(self._source.config.record_key_fields)
        wanted = _listed(list(keys), fields[0]) if isinstance(keys, (list, tuple, set)) else to_arrow(keys)
        by = key_columns(self._source.config, wanted.column_names)
        typed = pa.table([_cast(wanted[name], rows.schema.field(name)) for name in by], names=by)
        found = (rows_with(batch, typed) for batch in rows.to_batches())
        return pa.Table.from_batches(found, schema=rows.schema), known


def open_table(
    path: str | os.PathLike[str],
    spark: SparkSession | None = None,
    *,
    options: Mapping[str, OptionValue] | None = None,
    storage: Storage | None = None,
    storage_options: dict[str, str] | None = None,
    clock: Clock | None = None,
) -> Table:
    """Open a table that exists. With a Spark session bound, work runs on Spark; without one, in process, no JVM.

    ``options`` are those of a writer and of services, under Apache Hudi's names (``hoodie.write.lock.provider``,
    ``hoodie.compaction.target.io``).
    ``storage`` and ``clock`` are injected by tests; ``storage_options`` are credentials and endpoints of object stores.
    """
    ticking = clock or SystemClock()
    where, given = path_text(path), given_options(options)
    opened = storage if storage is not None else open_storage(where, storage_options, ticking)
    source = TableSource.load(opened)
    writing, service = _handle_options(refuse_other_rules(source.config.properties, given))
    return Table(source, ticking, spark, writing, service)


def create_table(
    path: str | os.PathLike[str],
    schema: object,
    name: str | None = None,
    record_key: str | Sequence[str] = "id",
    partition_by: str | Sequence[str] | Mapping[str, str] | None = None,
    table_type: str = "MERGE_ON_READ",
    ordering_fields: str | Sequence[str] | None = None,
    event_time_field: str | None = None,
    options: Mapping[str, OptionValue] | None = None,
    *,
    spark: SparkSession | None = None,
    storage: Storage | None = None,
    storage_options: dict[str, str] | None = None,
    clock: Clock | None = None,
) -> Table:
    """Make a table. ``schema`` is a pyarrow schema, a Spark StructType or DDL text (``"id bigint, name string"``).

    ``options`` are properties of the table, which it keeps, and options of writers and services, which the handle has.
    ``partition_by={"at": "yyyy/MM/dd"}`` makes partitions of a time by a date format, as Apache Hudi's timestamp key
    generator does.
    """
    partitions = names_of(partition_by, "partition_by")
    where, given = path_text(path), {**_time_format(partition_by), **given_options(options)}
    own = {key: value for key, value in given.items() if is_service_option(key) or is_writer_option(key)}
    _handle_options(own)  # what is wrong is said before there is a table
    ticking = clock or SystemClock()
    opened = storage if storage is not None else open_storage(where, storage_options, ticking)
    create(
        opened,
        _arrow_schema(schema),
        name=name or where.rstrip("/").rpartition("/")[2],
        record_key=names_of(record_key, "record_key"),
        partition_by=partitions,
        table_type=table_type,
        ordering_fields=names_of(ordering_fields, "ordering_fields"),
        event_time_field=event_time_field,
        options={key: value for key, value in given.items() if key not in own},
    )
    begin_cursors(opened)
    begin_mark(opened)
    return open_table(path, spark, options=own, storage=opened, clock=ticking)


def _handle_options(given: Mapping[str, str]) -> tuple[WriterOptions, dict[str, str]]:
    """The options of a writer and of services, which a handle has; a wrong value is refused."""
    service = checked_service_options({key: value for key, value in given.items() if is_service_option(key)})
    return writer_options({key: value for key, value in given.items() if key not in service}), service


def _is_spark(data: object) -> bool:
    return type(data).__module__.startswith("pyspark.")


def _listed(keys: list[object], name: str) -> pa.Table:
    """Keys that a caller lists, as a column."""
    faults = (pa.ArrowException, OverflowError, UnicodeError)

    def is_refused(count: int) -> bool:
        try:
            pa.array(keys[:count])
        except faults:
            return True
        return False

    try:
        return pa.table({name: keys})
    except faults as error:
        odd = keys[bisect(range(1, len(keys)), False, key=is_refused)]
        raise InvalidError(f"the keys in {name!r} are of no one type, from {odd!r} on", value=odd) from error


def _cast(values: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if pa.types.is_boolean(values.type) != pa.types.is_boolean(field.type) and len(values):  # True is no 1
        raise InvalidError(f"the keys in {field.name!r} are {values.type}, not {field.type}", value=field.name)
    try:
        return values.cast(field.type)
    except pa.ArrowException as error:
        raise InvalidError(f"the keys in {field.name!r} are not {field.type}: {error}", value=field.name) from error


def _time_format(partition_by: str | Sequence[str] | Mapping[str, str] | None) -> dict[str, str]:
    if not isinstance(partition_by, Mapping):
        return {}
    if len(partition_by) != 1:
        raise InvalidError(
            "partition_by with a date format takes one column",
            value=", ".join(partition_by),
            hint="{'at': 'yyyy/MM/dd'}",
        )
    ((column, pattern),) = partition_by.items()
    if not isinstance(pattern, str):
        raise InvalidError(f"the date format of {column!r} is {pattern!r}, no text", value=pattern, hint="yyyy/MM/dd")
    return {"hoodie.keygen.timebased.output.dateformat": pattern}


def _arrow_schema(schema: object) -> pa.Schema:
    if isinstance(schema, pa.Schema):
        return schema.remove_metadata()
    if isinstance(schema, str):
        return ddl_to_arrow(schema)
    if type(schema).__module__.startswith("pyspark"):
        return spark_json_to_arrow(schema.json())  # type: ignore[attr-defined]
    raise InvalidError(f"a schema cannot be taken from a {type(schema).__name__}", value=type(schema).__name__)
