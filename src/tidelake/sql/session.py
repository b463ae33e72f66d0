"""A Spark session that knows tables: CALL in ``spark.sql``, and views that see the newest commit.

A temporary view of Spark is a plan, and a plan of ours reads the files of one snapshot. So ``spark.sql`` and
``spark.table`` of an enabled session first make the views anew that are named in the statement and whose tables have
changed. A query therefore reads the newest commit with Spark's own column pruning, and a DataFrame that was made keeps
its snapshot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelake.errors import InvalidError
from tidelake.sql.call import Markers, parse_call
from tidelake.sql.procedures import run_call
from tidelake.table import Table, open_table
from tidelake.timeline import Instant

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ATTRIBUTE = "_tidelake"
_NAME = re.compile(r"\w+")


def enable(spark: SparkSession) -> SparkSession:
    """Let ``spark.sql`` of this session understand ``CALL``; all other statements go on unchanged.

    Enabling twice is enabling once. Sessions made from this one by ``newSession`` are not enabled.
    """
    _enabled(spark)
    return spark


def view(spark: SparkSession, name: str, path: str, *, storage_options: dict[str, str] | None = None) -> None:
    """Make or replace a temporary view of a table; ``CALL ...(table => name)`` knows the table by it, too.

    Each ``spark.sql`` and ``spark.table`` that names the view reads the newest commit. What reaches it otherwise (another
    view on top of it, ``spark.read.table``) sees the table as of the last such statement, or of ``view`` itself.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidError(f"{name!r} is no name of a view", value=name, hint="letters, digits and _")
    _enabled(spark).add(name, open_table(path, spark, storage_options=storage_options))


@dataclass(slots=True)
class _View:
    """A view: its table, what the view shows, and the commits of that moment."""

    table: Table
    frame: DataFrame
    seen: tuple[Instant, ...]


class _Enabled:
    """What an enabled session does before Spark, and its views. Names are without case; arguments have Spark's names."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._sql = spark.sql
        self._table = spark.table
        self._views: dict[str, _View] = {}

    def sql(self, sqlQuery: str, args: Markers = None, **kwargs: object) -> DataFrame:
        """``spark.sql`` with CALL."""
        call = parse_call(sqlQuery, args) if isinstance(sqlQuery, str) else None
        if call is None:
            self._refresh(sqlQuery)
            return self._sql(sqlQuery, args, **kwargs)
        if kwargs:
            raise InvalidError(
                "a CALL takes no formatted values",
                value=", ".join(kwargs),
                hint="use :name in the text, and args={...}",
            )
        made = run_call(call, self.find)
        return self._spark.createDataFrame(made)

    def table(self, tableName: str) -> DataFrame:
        """``spark.table`` with views that are up to date."""
        self._refresh(tableName)
        return self._table(tableName)

    def add(self, name: str, table: Table) -> None:
        """Make a view."""
        seen = table.timeline.completed_writes
        frame = table.scan().to_spark()
        frame.createOrReplaceTempView(name)
        self._views[name.lower()] = _View(table, frame, seen)

    def find(self, name: str | None, path: str | None) -> Table:
        """The table that a CALL speaks of."""
        if (name is None) == (path is None):
            raise InvalidError("a CALL names its table by table or by path, one of them", value=path)
        if path is not None:
            return open_table(path, self._spark)
        assert name is not None
        known = self._views.get(name.lower())
        if known is not None and self._is_ours(name, known):
            return known.table
        if "/" not in name:
            raise InvalidError(
                f"there is no view {name!r} of a table",
                value=name,
                hint="make it by tl.view(spark, name, path), or give path => '/data/trips'",
            )
        return open_table(name, self._spark)

    def _refresh(self, text: object) -> None:
        if not self._views or not isinstance(text, str):
            return
        words = {word.lower() for word in _NAME.findall(text)}
        for name in words & self._views.keys():
            known = self._views[name]
            if known.table.timeline.completed_writes == known.seen:
                continue
            if self._is_ours(name, known):
                self.add(name, known.table)
            else:
                del self._views[name]

    def _is_ours(self, name: str, known: _View) -> bool:
        """Whether the view is still there and was not replaced by another of the same name."""
        return bool(self._spark.catalog.tableExists(name)) and self._table(name).sameSemantics(known.frame)


def _enabled(spark: SparkSession) -> _Enabled:
    found = vars(spark).get(_ATTRIBUTE)
    if found is None:
        found = _Enabled(spark)
        setattr(spark, _ATTRIBUTE, found)
        spark.sql = found.sql
        spark.table = found.table
    assert isinstance(found, _Enabled)
    return found
