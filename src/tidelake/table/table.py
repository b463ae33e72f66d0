"""The Table: a facade over a path. It holds no logic; each verb hands on to the module that knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from tidelake._clock import Clock, SystemClock
from tidelake.config import TableConfig
from tidelake.errors import InvalidError
from tidelake.filegroup import FileSlice
from tidelake.format.history import ArchivedInstant
from tidelake.observe import TableSummary, summarise, summary_html
from tidelake.query import PointInTime, ScanRequest, TableSource, table_schema
from tidelake.storage import Storage, open_storage
from tidelake.table.scan import Scan
from tidelake.timeline import Timeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Table:
    """A table in the Apache Hudi 1.x format. Made by ``open_table``."""

    def __init__(self, source: TableSource, clock: Clock, spark: SparkSession | None = None) -> None:
        self._source = source
        self._clock = clock
        self._spark = spark

    @property
    def path(self) -> str:
        """Where the table is."""
        return self._source.storage.uri

    @property
    def name(self) -> str:
        """The table's own name."""
        return self._source.config.name

    @property
    def config(self) -> TableConfig:
        """The table's configuration, as typed values."""
        return self._source.config

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

    def files(self, *, latest: bool = True) -> list[FileSlice]:
        """The visible file slices: the latest of each file group, or all."""
        view = self._refreshed().view()
        return list(view.slices() if latest else view.all_slices())

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | None = None,  # noqa: A002 - the public name
        as_of: PointInTime | None = None,
        as_of_completion: PointInTime | None = None,
        mode: str = "snapshot",
    ) -> Scan:
        """Describe a read.

        ``filter`` is a SQL condition. ``as_of`` travels to a requested time, as Apache Hudi does; ``as_of_completion``
        to what a reader saw at that moment. ``mode="read_optimized"`` reads base files alone.
        """
        if isinstance(columns, str):
            raise InvalidError("columns is a list of names, not a text", value=columns, hint=f"columns=[{columns!r}]")
        source = self._refreshed()
        point = source.point(as_of, as_of_completion)
        wanted = None if columns is None else tuple(columns)
        return Scan(source, ScanRequest(wanted, filter, point, mode), self._spark)

    def summary(self) -> TableSummary:
        """What the table is, how large, and what happened to it last."""
        return summarise(self._refreshed())

    def __repr__(self) -> str:
        config = self._source.config
        return f"<Table {config.name} at {self.path}: {config.table_type.value}, version {config.version}>"

    def _repr_html_(self) -> str:
        return summary_html(self.summary())

    def _refreshed(self) -> TableSource:
        self._source = self._source.refresh()
        return self._source


def open_table(
    path: str,
    spark: SparkSession | None = None,
    *,
    storage: Storage | None = None,
    storage_options: dict[str, str] | None = None,
    clock: Clock | None = None,
) -> Table:
    """Open a table that exists. With a Spark session bound, work runs on Spark; without one, in process, no JVM.

    ``storage`` and ``clock`` are injected by tests; ``storage_options`` are credentials and endpoints of object stores.
    """
    ticking = clock or SystemClock()
    opened = storage if storage is not None else open_storage(str(path), storage_options, ticking)
    return Table(TableSource.load(opened), ticking, spark)
