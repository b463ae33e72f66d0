"""A scan: what to read, described once and fetched as whatever the caller works with.

Nothing is read until one of the ``to_...`` methods is called; a scan stands for the table as of the moment it was made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from tidelake._cached import cached
from tidelake.engine import Executor, LocalExecutor
from tidelake.errors import InvalidError, UnsupportedError
from tidelake.query import ScanPlan, ScanRequest, TableSource, plan_scan

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession


class Scan:
    """Rows of a table at a point in time."""

    def __init__(
        self,
        source: TableSource,
        request: ScanRequest,
        spark: SparkSession | None = None,
        executor: Executor | None = None,
    ) -> None:
        self._source = source
        self._request = request
        self._spark = spark
        self._executor = executor or LocalExecutor()

    @cached
    def plan(self) -> ScanPlan:
        """The slices that the scan reads, and how."""
        return plan_scan(self._source, self._request)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self.plan.schema

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of record batches; only a few slices are in memory at a time."""
        return pa.RecordBatchReader.from_batches(self.plan.schema, self._batches())

    def to_arrow(self) -> pa.Table:
        """The rows as a pyarrow table."""
        return pa.Table.from_batches(list(self._batches()), schema=self.plan.schema)

    def to_polars(self) -> pl.DataFrame:
        """The rows as a polars DataFrame."""
        # Loaded here because polars takes longer to load than many scans take to plan.
        import polars as pl  # noqa: PLC0415

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """The rows as a DuckDB relation."""
        try:
            import duckdb  # noqa: PLC0415 - an optional dependency
        except ModuleNotFoundError:
            raise UnsupportedError("duckdb is not installed", hint="pip install 'tidelake[duckdb]'") from None

        return (connection or duckdb.default_connection()).from_arrow(self.to_arrow())

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The rows as a Spark DataFrame, read by Spark's workers."""
        session = spark or self._spark
        if session is None:
            raise InvalidError(
                "the table was opened without a Spark session",
                hint="open_table(path, spark=spark), or to_spark(spark); tl.session('app') makes one",
            )
        from tidelake.spark.scan import scan_to_spark  # noqa: PLC0415 - an optional dependency

        return scan_to_spark(session, self._source.storage, self.plan)

    def count(self) -> int:
        """The number of rows."""
        return sum(batch.num_rows for batch in self._batches())

    def __repr__(self) -> str:
        return f"<Scan of {self._source.config.name}: {self._request}>"

    def _batches(self) -> Iterator[pa.RecordBatch]:
        return self._executor.read(self._source.storage, self.plan)
