"""Wide records stitched from six streams on Spark, equal to what Spark SQL computes from the messages alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import tidelake as tl
from model.deep import IS_DEEP

pytestmark = pytest.mark.spark
GROUPS, COLUMNS, COMMITS = 6, 200, 20
COMPACT_EVERY = 6


@dataclass(frozen=True)
class Size:
    """How many messages, of how many records, in how many file groups."""

    messages: int
    keys: int
    buckets: int


SIZE = Size(1_000_000, 50_000, 16) if IS_DEEP else Size(50_000, 2_500, 2)


def test_stitching_of_six_streams_equals_spark_sql(spark: SparkSession, tmp_path: Path) -> None:
    """Messages with one or two of six groups, each twice, shuffled over commits with compactions between."""
    folder = str(tmp_path / "messages")
    _messages(spark).write.partitionBy("commit").parquet(folder)
    messages = spark.read.parquet(folder)
    table = _table(spark, str(tmp_path / "table"), messages.schema)
    for number in range(COMMITS):
        table.upsert(messages.where(F.col("commit") == number).drop("commit"))
        if number % COMPACT_EVERY == COMPACT_EVERY - 1:
            assert table.compact() is not None
    ours = table.scan(columns=_names()).to_spark().select(*_names())
    wanted = _wanted(messages).select(*_names())
    assert ours.count() == SIZE.keys
    assert ours.exceptAll(wanted).isEmpty()
    assert wanted.exceptAll(ours).isEmpty()


def _group(column: int) -> int:
    return column % GROUPS


def _names() -> list[str]:
    return ["id", *(f"c{i}" for i in range(COLUMNS)), *(f"t{g}" for g in range(GROUPS))]


def _messages(spark: SparkSession) -> DataFrame:
    """Every message in two commits, or twice in one. No two of a record have one time in a group; values may be null."""
    number = F.col("n")

    def drawn(salt: int, below: int) -> Column:
        return F.pmod(F.xxhash64(number, F.lit(salt)), F.lit(below))

    first = spark.range(SIZE.messages).withColumnRenamed("id", "n")
    first = first.withColumns({"g1": drawn(1, GROUPS), "g2": drawn(2, GROUPS)})
    times = {}
    for group in range(GROUPS):
        time = drawn(10 + group, 1_000_000) * SIZE.messages + number
        typed = F.timestamp_micros(time) if group % 2 else time
        times[f"t{group}"] = F.when((F.col("g1") == group) | (F.col("g2") == group), typed)
    values = {f"c{i}": _value(i) for i in range(COLUMNS)}
    commits = F.explode(F.array(drawn(3, COMMITS), drawn(4, COMMITS))).alias("commit")
    record = F.pmod(number, F.lit(SIZE.keys)).alias("id")
    timed = first.withColumns(times).select(record, "n", *times, commits)
    return timed.withColumns(values).select(*_names(), "commit").repartition(2)


def _value(column: int) -> Column:
    mixed = F.col("n") * 31 + column
    kinds = (F.concat(F.lit("v"), mixed), mixed, mixed / 8)
    is_there = F.col(f"t{_group(column)}").isNotNull() & (F.pmod(mixed, F.lit(11)) != 0)
    return F.when(is_there, kinds[column % len(kinds)])


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
