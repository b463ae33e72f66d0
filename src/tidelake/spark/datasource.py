"""``spark.read.format("tidelake")``: a table as a Python data source, with Apache Hudi's option names.

Spark calls these methods in worker processes without a session, and gives Python sources neither the wanted columns nor
(by default) filters: for large tables ``open_table(path, spark).scan(...).to_spark()`` is the faster way, and the
options ``columns`` and ``filter`` narrow the read here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidelake.config import read_options
from tidelake.errors import InvalidError
from tidelake.filegroup import FileSlice
from tidelake.query import ScanPlan, ScanRequest, TableSource, plan_scan, read_slice
from tidelake.spark.bins import pack
from tidelake.spark.scan import spark_schema
from tidelake.storage import open_storage


class TidelakeDataSource(DataSource):
    """A table by its path."""

    @classmethod
    def name(cls) -> str:
        return "tidelake"

    def schema(self) -> StructType:
        return spark_schema(self._planned()[1].schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return TidelakeReader(*self._planned())

    def _planned(self) -> tuple[TableSource, ScanPlan]:
        options = dict(self.options)
        path = options.pop("path", None)
        if not path:
            raise InvalidError("format('tidelake') needs a path", hint="spark.read.format('tidelake').load(path)")
        wanted = read_options(options)
        source = TableSource.load(open_storage(path, wanted.storage_options))
        point = source.point(wanted.as_of, wanted.as_of_completion)
        # Only base files can be exact, so an event time says which view is meant.
        mode = wanted.mode if wanted.as_of_event_time is None else "read_optimized"
        request = ScanRequest(wanted.columns, wanted.filter, point, mode, wanted.as_of_event_time)
        return source, plan_scan(source, request)


@dataclass
class _Bin(InputPartition):
    """Slices that one task reads."""

    slices: tuple[FileSlice, ...]


class TidelakeReader(DataSourceReader):
    """Reads bins of slices as Arrow batches."""

    def __init__(self, source: TableSource, plan: ScanPlan) -> None:
        self._uri = source.storage.uri
        self._options = source.storage.options
        self._plan = plan

    def partitions(self) -> Sequence[InputPartition]:
        return [_Bin(slices) for slices in pack(self._plan.slices)] or [_Bin(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Bin)
        storage = open_storage(self._uri, self._options)
        for file_slice in partition.slices:
            yield from read_slice(storage, self._plan, file_slice)
