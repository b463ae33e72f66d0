"""The day at midnight, read from base files on Spark, beside working it out of the raw events."""

from __future__ import annotations

import statistics
import time
from datetime import timedelta
from pathlib import Path

from examples.daily_snapshot import COLUMNS, DAY_0, Size, make_table, raw_events, state_of
from pyspark.sql import functions as F

import tidelake as tl
from bench.measure import Results, timed

REPEATS = 3


def daily(results: Results, work: Path, events: int) -> None:
    """Three days of hourly upserts with late events on Spark, compacted at the last midnight."""
    spark = tl.session("bench", master="local[2]")
    try:
        size = Size(meters=50_000, events=events)
        raw = raw_events(spark, size)
        path = work / "daily"
        table = make_table(spark, str(path))
        raw.write.parquet(str(work / "raw"))
        raw = spark.read.parquet(str(work / "raw"))
        started = time.perf_counter()
        for batch in range(size.days * size.batches_a_day):
            table.upsert(raw.filter(F.col("batch") == batch).select(*COLUMNS))
        loaded = time.perf_counter() - started
        midnight = DAY_0 + timedelta(days=size.days)
        spent = timed(lambda: table.compact(strategy="event_time", threshold=midnight.isoformat()))
        print(f"  {size.days * size.batches_a_day} upserts in {loaded:.0f} s, compaction in {spent:.1f} s", flush=True)
        arrived = (F.col("batch") < size.days * size.batches_a_day) & (F.col("event_time") < F.lit(midnight))
        expected = state_of(raw, arrived)

        def ours() -> object:
            day = table.scan(mode="read_optimized", as_of_event_time=midnight.isoformat()).to_spark()
            return day.agg(F.sum("reading"), F.count("*")).first()

        def floor() -> object:
            return expected.agg(F.sum("reading"), F.count("*")).first()

        pairs = [(timed(ours), timed(floor)) for _ in range(REPEATS + 1)][1:]
        results.report(
            "the day at midnight, read-optimised / worked out of the raw events by Spark",
            statistics.median(a for a, _ in pairs),
            statistics.median(b for _, b in pairs),
            1.0,
        )
    finally:
        spark.stop()
