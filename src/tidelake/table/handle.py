"""What every verb of a table starts from: where it is, its clock, its options, and the table as it is now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tidelake._clock import Clock
from tidelake.config import TableConfig, WriterOptions
from tidelake.errors import InvalidError
from tidelake.locking import Lock, make_lock
from tidelake.query import TableSource
from tidelake.storage import Storage
from tidelake.write import (
    FileOptions,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TableHandle:
    """A table that is open."""

    def __init__(
        self,
        source: TableSource,
        clock: Clock,
        spark: SparkSession | None = None,
        options: WriterOptions | None = None,
        service_options: Mapping[str, str] | None = None,
    ) -> None:
        self._source = source
        self._clock = clock
        self._spark = spark
        self._options = options or WriterOptions()
        self._service_options = dict(service_options or {})

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
    def _parts(self) -> tuple[Storage, TableConfig, Clock]:
        return self._source.storage, self._source.config, self._clock

    def _lock(self) -> Lock:
        return make_lock(self._options.lock, self._source.storage, self._clock)

    def _file_options(self) -> FileOptions:
        return FileOptions.of(self._source.config.properties)

    def _refreshed(self) -> TableSource:
        self._source = self._source.refresh()
        return self._source


def positive(limit: int | None) -> int | None:
    """A limit of a listing; None is none."""
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise InvalidError(f"the limit is {limit!r} and must be 1 or more", value=limit)
    return limit


def names_of(value: object, role: str, what: str = "columns") -> tuple[str, ...]:
    """One name, or several, or None for none; ``role`` is what the caller calls them, ``what`` they are names of."""
    if value is None:
        return ()
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise InvalidError(f"{role} is {value!r}, not a name or names of {what}", value=value)
    return names


def paths_of(partitions: object) -> list[str]:
    """Partitions by their paths, as a caller lists them."""
    if isinstance(partitions, str) or not isinstance(partitions, Iterable):
        raise InvalidError(f"partitions is a list of paths, not {partitions!r}", value=partitions)
    paths = list(partitions)
    for path in paths:
        if not isinstance(path, str):
            raise InvalidError(f"a partition is named by its path, not by {path!r}", value=path)
    return paths
