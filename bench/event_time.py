"""Compaction by event time: exact beside plain, and the day at midnight on Spark beside working it out of the raw events."""

from __future__ import annotations

import shutil
import statistics
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
from examples.daily_snapshot import COLUMNS, DAY_0, Size, make_table, raw_events, state_of
from pyspark.sql import functions as F

import tidelake as tl
from bench.measure import Results

REPEATS = 3
MIDNIGHT = datetime(2026, 1, 2, tzinfo=timezone.utc)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("value", pa.float64()),
        ("note", pa.string()),
        ("event_time", pa.timestamp("us", "UTC")),
        ("region", pa.string()),
    ]
)


def exact(results: Results, work: Path, rows: int) -> None:
    """A table of ``rows`` rows, a fifth of which have newer versions in logs, half of them of the day after."""
    times: dict[bool, float] = {}
    for is_exact in (False, True):
        path = work / f"exact_{is_exact}"
        table = _table(path, is_exact)
        table.upsert(_rows(np.arange(rows), MIDNIGHT - timedelta(hours=5)))
        _compact(path, MIDNIGHT - timedelta(hours=1))
        changed = np.arange(0, rows, 5)
        table.upsert(_rows(changed[::2], MIDNIGHT - timedelta(minutes=30)))
        table.upsert(_rows(changed[1::2], MIDNIGHT + timedelta(minutes=30)))
        times[is_exact] = statistics.median(_compact(_copy(path), MIDNIGHT) for _ in range(REPEATS))
    results.report("exact compaction by event time / plain", times[True], times[False], 1.4)


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
        spent = _timed(lambda: table.compact(strategy="event_time", threshold=midnight.isoformat()))
        print(f"  {size.days * size.batches_a_day} upserts in {loaded:.0f} s, compaction in {spent:.1f} s", flush=True)
        arrived = (F.col("batch") < size.days * size.batches_a_day) & (F.col("event_time") < F.lit(midnight))
        expected = state_of(raw, arrived)

        def ours() -> object:
            day = table.scan(mode="read_optimized", as_of_event_time=midnight.isoformat()).to_spark()
            return day.agg(F.sum("reading"), F.count("*")).first()

        def floor() -> object:
            return expected.agg(F.sum("reading"), F.count("*")).first()

        pairs = [(_timed(ours), _timed(floor)) for _ in range(REPEATS + 1)][1:]
        results.report(
            "the day at midnight, read-optimised / worked out of the raw events by Spark",
            statistics.median(a for a, _ in pairs),
            statistics.median(b for _, b in pairs),
            1.0,
        )
    finally:
        spark.stop()


def _table(path: Path, is_exact: bool) -> tl.Table:
    return tl.create_table(
        str(path),
        SCHEMA,
        record_key="id",
        partition_by=["region"],
        ordering_fields=["event_time"],
        event_time_field="event_time",
        options={
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "1",
            "hoodie.compaction.event.time.exact": "true" if is_exact else "false",
        },
    )


def _rows(ids: np.ndarray, when: datetime) -> pa.Table:
    begin = int(when.timestamp() * 1_000_000)
    columns = {
        "id": ids,
        "value": ids * 0.5,
        "note": pa.array([f"note {i % 997}" for i in ids.tolist()]),
        "event_time": pa.array(begin + ids % 1_000_000, pa.int64()).cast(SCHEMA.field("event_time").type),
        "region": pa.array([f"r{i % 8}" for i in ids.tolist()]),
    }
    return pa.table(columns, schema=SCHEMA)


def _compact(path: Path, threshold: datetime) -> float:
    table = tl.open_table(str(path))
    return _timed(lambda: table.compact(strategy="event_time", threshold=threshold.isoformat()))


def _copy(path: Path) -> Path:
    copy = path.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    return copy


def _timed(task: object) -> float:
    started = time.perf_counter()
    task()  # type: ignore[operator]
    return time.perf_counter() - started
