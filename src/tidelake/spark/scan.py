"""A scan plan on Spark: one DataFrame, of two parts.

Slices without logs whose files have the table's types are Spark's own parquet scan, with its column pruning and
pushdown. All other slices are read by the workers with the same function that reads them in process, and come back as
Arrow batches.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidelake.errors import UnsupportedError
from tidelake.filegroup import FileSlice
from tidelake.query import ScanPlan, read_slice
from tidelake.schema import arrow_to_spark_json
from tidelake.spark.bins import pack
from tidelake.storage import MemoryStorage, Storage, open_storage


def scan_to_spark(spark: SparkSession, storage: Storage, plan: ScanPlan) -> DataFrame:
    """The rows of a plan as a DataFrame."""
    if isinstance(storage, MemoryStorage):
        raise UnsupportedError("a table in memory is not seen by Spark's workers", hint="use .to_arrow()")
    native = [s for s in plan.slices if not s.logs and s.base is not None and plan.is_plain(s)]
    chosen = {id(s) for s in native}
    merged = [s for s in plan.slices if id(s) not in chosen]
    parts = []
    if native:
        parts.append(_native(spark, storage, plan, native))
    if merged:
        parts.append(_merged(spark, storage, plan, merged))
    if not parts:
        return spark.createDataFrame([], spark_schema(plan.schema))
    return reduce(DataFrame.union, parts)


def spark_schema(schema: pa.Schema) -> StructType:
    """An Arrow schema as Spark's."""
    return StructType.fromJson(json.loads(arrow_to_spark_json(schema)))


def _native(spark: SparkSession, storage: Storage, plan: ScanPlan, slices: list[FileSlice]) -> DataFrame:
    paths = [_unglobbed(storage.native_path(s.base.path)) for s in slices if s.base is not None]
    frame = spark.read.schema(spark_schema(plan.work_schema)).parquet(*paths)
    if plan.condition is not None:
        frame = frame.filter(plan.condition.to_spark())
    return frame.select(*(f"`{name}`" for name in plan.schema.names))


def _unglobbed(path: str) -> str:
    """Spark takes paths for patterns: what a pattern would interpret is escaped."""
    return "".join(f"\\{c}" if c in "*?[]{}\\^" else c for c in path)


def _merged(spark: SparkSession, storage: Storage, plan: ScanPlan, slices: list[FileSlice]) -> DataFrame:
    bins = pack(slices)
    shared = plan.only(())
    uri, options = storage.uri, storage.options

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reached = open_storage(uri, options)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for file_slice in bins[number]:
                    yield from read_slice(reached, shared, file_slice)

    tasks = spark.range(0, len(bins), 1, len(bins))
    mapper: Any = read
    return tasks.mapInArrow(mapper, spark_schema(plan.schema))
