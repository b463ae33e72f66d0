"""The day as it was at midnight, at base-file speed: ``python -m examples.daily_snapshot``.

Readings of meters arrive every hour for three days, some of them hours late, and are upserted into an exact table. At each
midnight a compaction by event time folds the events before midnight, and no others, into the base files. The
read-optimised view is then the day as it was: compared with plain Spark over the raw events that had arrived. The
snapshot view goes on with everything.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import tidelake as tl

DAY_0 = datetime(2026, 1, 1, tzinfo=timezone.utc)
SCHEMA = "meter bigint, reading double, event_time timestamp, region string"
COLUMNS = ["meter", "reading", "event_time", "region"]


@dataclass(frozen=True)
class Size:
    """How much happens."""

    meters: int = 500
    events: int = 20_000
    days: int = 3
    batches_a_day: int = 24


def raw_events(spark: SparkSession, size: Size) -> DataFrame:
    """Every reading, with the batch in which it arrives: one in eight comes late, by up to five batches."""
    number = F.col("id")
    span_s = size.days * 86_400
    second = F.floor(number * span_s / size.events)
    due = F.floor(second * size.batches_a_day / 86_400)
    late = F.when(F.pmod(F.hash(number), F.lit(8)) == 0, F.pmod(F.xxhash64(number), F.lit(5)) + 1).otherwise(0)
    meter = F.pmod(F.xxhash64(number, F.lit(7)), F.lit(size.meters))
    return spark.range(size.events).select(
        meter.alias("meter"),
        (F.abs(F.hash(number)) % 10_000 / 100).alias("reading"),
        # No two events of a meter at one moment: which of them is the state would be anybody's guess.
        F.timestamp_micros(F.lit(int(DAY_0.timestamp()) * 1_000_000) + second * 1_000_000 + number % 1_000_000).alias(
            "event_time"
        ),
        F.concat(F.lit("r"), (meter % 3).cast("string")).alias("region"),
        (due + late).cast("int").alias("batch"),
    )


def state_of(events: DataFrame, condition: Column) -> DataFrame:
    """The last reading of each meter among these events: plain Spark, nothing of ours."""
    newest = F.max_by(F.struct(*COLUMNS), F.col("event_time")).alias("row")
    return events.filter(condition).groupBy("meter").agg(newest).select("row.*")


def differing(ours: DataFrame, expected: DataFrame) -> int:
    """In how many rows two results differ."""
    ours = ours.select(*COLUMNS)
    return ours.exceptAll(expected).count() + expected.exceptAll(ours).count()


def make_table(spark: SparkSession, folder: str, *, is_exact: bool = True) -> tl.Table:
    """An exact table: its read-optimised view holds the data before a time, and nothing else."""
    return tl.create_table(
        folder,
        SCHEMA,
        name="meters",
        record_key="meter",
        partition_by=["region"],
        ordering_fields=["event_time"],
        event_time_field="event_time",
        options={
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "2",
            "hoodie.compaction.event.time.exact": "true" if is_exact else "false",
        },
        spark=spark,
    )


def run(spark: SparkSession, folder: str, size: Size, say: Callable[[str], None] = print) -> bool:
    """Play the three days; whether every midnight was exact and the snapshot always whole."""
    events = raw_events(spark, size).persist()
    table = make_table(spark, folder)
    last = events.agg(F.max("batch")).first()
    right = True
    for batch in range((last[0] if last else 0) + 1):
        table.upsert(events.filter(F.col("batch") == batch).select(*COLUMNS))
        if (batch + 1) % size.batches_a_day or (batch + 1) // size.batches_a_day > size.days:
            continue
        midnight = DAY_0 + timedelta(days=(batch + 1) // size.batches_a_day)
        table.compact(strategy="event_time", threshold=midnight.isoformat())
        arrived = F.col("batch") <= batch
        day = table.scan(mode="read_optimized", as_of_event_time=midnight.isoformat()).to_spark()
        off = differing(day, state_of(events, arrived & (F.col("event_time") < F.lit(midnight))))
        whole = differing(table.scan().to_spark(), state_of(events, arrived))
        say(
            f"  {midnight:%Y-%m-%d %H:%M}: {day.count():,} meters as of midnight, {off} differ from the raw events before "
            f"it; the snapshot differs in {whole}"
        )
        right = right and not off and not whole
    return right and not differing(table.scan().to_spark(), state_of(events, F.lit(True)))


def main() -> int:
    spark = tl.session("tidelake-daily", "local[2]", {"spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "2"})
    try:
        with tempfile.TemporaryDirectory() as folder:
            right = run(spark, f"{folder}/meters", Size())
    finally:
        spark.stop()
    print("Every midnight is exact." if right else "SOMETHING IS WRONG: see above.")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
