"""Wide records stitched from six streams on Spark, equal to what Spark SQL computes from the messages alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidelake as tl
from model.deep import IS_DEEP

pytestmark = pytest.mark.spark
GROUPS, COLUMNS = 6, 200
COMMITS = 20 if IS_DEEP else 10
COMPACT_EVERY = 4
CHUNK = 50_000


@dataclass(frozen=True)
class Size:
    """How many messages, of how many records, in how many file groups."""

    messages: int
    keys: int
    buckets: int


SIZE = Size(1_000_000, 50_000, 16) if IS_DEEP else Size(50_000, 2_500, 2)


def test_stitching_of_six_streams_equals_spark_sql(spark: SparkSession, tmp_path: Path) -> None:
    """Messages with one or two of six groups, each twice, shuffled over commits with compactions between."""
    _write_messages(tmp_path / "messages")
    messages = spark.read.parquet(str(tmp_path / "messages"))
    table = _table(spark, str(tmp_path / "table"), messages.schema)
    for number in range(COMMITS):
        table.upsert(messages.where(F.col("commit") == number).drop("commit"))
        if number % COMPACT_EVERY == COMPACT_EVERY - 1:
            assert table.compact() is not None
    ours = table.scan(columns=_names()).to_spark().select("id", F.struct(*_names()).alias("ours"))
    wanted = _wanted(messages).select("id", F.struct(*_names()).alias("wanted"))
    both = ours.join(wanted, "id", "full").select(F.col("ours").eqNullSafe(F.col("wanted")).alias("same"))
    assert both.groupBy("same").count().collect() == [(True, SIZE.keys)]


def _group(column: int) -> int:
    return column % GROUPS


def _names() -> list[str]:
    return ["id", *(f"c{i}" for i in range(COLUMNS)), *(f"t{g}" for g in range(GROUPS))]


def _write_messages(folder: Path) -> None:
    """Every message in two commits, or twice in one. No two of a record have one time in a group; values may be null."""
    random = np.random.default_rng(7)
    for first in range(0, SIZE.messages, CHUNK):
        number = np.arange(first, min(first + CHUNK, SIZE.messages))
        messages = pa.table(_columns(number, random))
        commits = random.integers(0, COMMITS, (2, len(number)))
        for commit in range(COMMITS):
            rows = random.permutation(np.nonzero(commits == commit)[1])
            path = folder / f"commit={commit}" / f"{first}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(messages.take(pa.array(rows)), path)


def _columns(number: np.ndarray, random: np.random.Generator) -> dict[str, pa.Array]:
    groups = random.integers(0, GROUPS, (2, len(number)))
    columns = {"id": pa.array(number % SIZE.keys)}
    for i in range(COLUMNS):
        mixed = number * 31 + i
        value = pa.array(mixed, mask=(groups != _group(i)).all(axis=0) | (mixed % 11 == 0))
        columns[f"c{i}"] = value.cast((pa.string(), pa.int64(), pa.float64())[i % 3])
    for group in range(GROUPS):
        time = random.integers(0, 1_000_000, len(number)) * SIZE.messages + number
        value = pa.array(time, mask=(groups != group).all(axis=0))
        columns[f"t{group}"] = value.cast(pa.timestamp("us", "UTC")) if group % 2 else value
    return columns


def _table(spark: SparkSession, folder: str, schema: Any) -> tl.Table:
    types = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema if field.name != "commit")
    groups = {
        f"fields.t{g}.sequence-group": ",".join(f"c{i}" for i in range(COLUMNS) if _group(i) == g)
        for g in range(GROUPS)
    }
    options = {
        "multiple.eventime.latest.verification.enable": "true",
        "hoodie.eventime.latest.verification.fields": ",".join(f"t{g}" for g in range(GROUPS)),
        "hoodie.eventime.latest.verification.mode": "per_group",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(SIZE.buckets),
        **groups,
    }
    return tl.create_table(folder, types, name="wide", record_key="id", options=options, spark=spark)


def _wanted(messages: DataFrame) -> DataFrame:
    """Of each group of columns the values of its newest message, nulls included."""
    newest = []
    for group in range(GROUPS):
        names = [f"t{group}", *(f"c{i}" for i in range(COLUMNS) if _group(i) == group)]
        newest.append(F.max_by(F.struct(*names), F.col(f"t{group}")).alias(f"g{group}"))
    found = messages.groupBy("id").agg(*newest)
    return found.select("id", *(f"g{group}.*" for group in range(GROUPS)))
