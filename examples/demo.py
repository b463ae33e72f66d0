"""``make demo``: a pipeline on local Spark, from events to a table, and the table read back.

Events of trips arrive in micro-batches: late, doubled and out of order. Each batch is upserted into a partitioned
merge-on-read table; the ordering field (event time) decides which event of a trip is its state. At the end the table is
read in process and on Spark, and compared with plain Spark over all raw events. Then records are stitched from two
streams with clocks of their own; a table is compacted at midnight, by event time, so that its read-optimised view is the
day; and a table that Apache Hudi itself wrote is read, and compared with the rows that Apache Hudi returned for it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidelake as tl
from examples import daily_snapshot
from examples.insurance import story
from tidelake.cli.main import main as tidelake_command

GOLDEN = Path(__file__).parent.parent / "tests" / "golden" / "tables"
FOREIGN = "mor_v9_compaction_after_writes"
TRIPS, EVENTS_PER_TRIP, BATCHES = 2_000, 4, 5
SCHEMA = "trip bigint, status string, fare double, event_time timestamp, day string"
COLUMNS = ["trip", "status", "fare", "event_time", "day"]


def say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def raw_events(spark: SparkSession) -> DataFrame:
    """Every event, with the micro-batch in which it arrives; one in ten arrives twice."""
    trip = F.col("id") % TRIPS
    step = (F.col("id") / TRIPS).cast("int")
    minutes = trip % 1440 + step * 7
    late = F.when(F.pmod(F.hash("id"), F.lit(4)) == 0, 2).otherwise(0)
    events = spark.range(TRIPS * EVENTS_PER_TRIP).select(
        trip.alias("trip"),
        F.element_at(F.array(*[F.lit(s) for s in ("requested", "accepted", "started", "finished")]), step + 1).alias(
            "status"
        ),
        F.round(F.abs(F.hash("id")) % 5000 / 100, 2).alias("fare"),
        F.timestamp_micros(F.lit(1_767_225_600_000_000) + minutes * 60_000_000).alias("event_time"),
        F.concat(F.lit("2026-01-0"), (trip % 3 + 1).cast("string")).alias("day"),
        F.least(step + late, F.lit(BATCHES - 1)).alias("batch"),
    )
    doubled = events.filter(F.pmod(F.hash("trip", "status"), F.lit(10)) == 0)
    return events.union(doubled.withColumn("batch", F.least(F.col("batch") + 1, F.lit(BATCHES - 1))))


def pipeline(spark: SparkSession, folder: str) -> bool:
    events = raw_events(spark).persist()
    table = tl.create_table(
        folder,
        SCHEMA,
        name="trips",
        record_key="trip",
        partition_by=["day"],
        ordering_fields=["event_time"],
        event_time_field="event_time",
        spark=spark,
    )
    say(f"{events.count():,} events of {TRIPS:,} trips arrive in {BATCHES} micro-batches: late, doubled, out of order.")
    for number in range(BATCHES):
        batch = events.filter(F.col("batch") == number).select(*COLUMNS)
        commit = table.upsert(batch)
        logs = sum(1 for stat in commit.stats if stat.log_version)
        print(
            f"  batch {number}: {commit.rows_written:5,} rows into {len(commit.stats)} files ({logs} logs)", flush=True
        )

    say("What happened, when (instants as bars from requested to completed), and the files:")
    tidelake_command(["timeline", folder])
    tidelake_command(["files", folder])

    say("What a compaction would do, and why:")
    print(table.compact(dry_run=True))
    compacted = table.compact()
    behind = table.scan().count() - table.scan(mode="read_optimized").count()
    print(f"  done: {len(compacted.stats)} file groups; the read-optimised view lacks {behind} rows")
    say("What the table no longer needs, once one version of each file is enough:")
    cleaned = table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1)
    print(f"  {len(cleaned.files)} files, {cleaned.size_bytes:,} bytes, are removed")
    for decision in table.run_services():
        print(f"  the service runner finds, afterwards: {decision}")

    say("Some rows, merged in this process without a JVM:")
    tidelake_command(["read", folder, "--filter", "trip < 5", "--limit", "5"])

    say("Against plain Spark over all raw events:")
    newest = F.max_by(F.struct(*COLUMNS), F.col("event_time")).alias("row")
    expected = events.groupBy("trip").agg(newest).select("row.*")
    on_spark = table.scan(columns=COLUMNS).to_spark()
    differing = on_spark.exceptAll(expected).count() + expected.exceptAll(on_spark).count()
    in_process = table.scan(columns=["trip"]).count()
    print(f"  {on_spark.count():,} trips on Spark, {in_process:,} in process, {differing} differ from the raw events")
    return differing == 0 and in_process == TRIPS


def several_clocks(spark: SparkSession, folder: str) -> bool:
    say(
        "Records from two streams, joined as their messages come: Mike, then John; Plan A, B, then C. The Smiths' Plan A is\n"
        "late, and 120 neighbours have every order of arrival. By one ordering field, and by both clocks:"
    )
    return story.run(spark, folder)


def midnight(spark: SparkSession, folder: str) -> bool:
    """A day and a morning of readings, compacted at the midnight between them."""
    day = daily_snapshot.DAY_0 + timedelta(days=1)
    say(f"Readings of meters, some of them hours late. The pipeline says that it has all before {day:%Y-%m-%d %H:%M}:")
    size = daily_snapshot.Size(meters=200, events=3_000, days=2, batches_a_day=4)
    events = daily_snapshot.raw_events(spark, size).persist()
    table = daily_snapshot.make_table(spark, folder)
    arrived = F.col("batch") < size.batches_a_day + 1
    for number in range(size.batches_a_day + 1):
        table.upsert(events.filter(F.col("batch") == number).select(*daily_snapshot.COLUMNS))
    table.declare_complete(day)
    print(table.compact(strategy="event_time", threshold=day.isoformat(), dry_run=True))
    table.compact(strategy="event_time", threshold=day.isoformat())
    table.wait_complete(day, view="ro", timeout_s=60)
    print(f"  complete to {day:%Y-%m-%d %H:%M}, at base-file speed:")
    tidelake_command(["freshness", folder])
    at_midnight = table.scan(mode="read_optimized", as_of_event_time=day.isoformat()).to_spark()
    before = daily_snapshot.state_of(events, arrived & (F.col("event_time") < F.lit(day)))
    off = daily_snapshot.differing(at_midnight, before)
    whole = daily_snapshot.differing(table.scan().to_spark(), daily_snapshot.state_of(events, arrived))
    print(f"  the read-optimised view differs from the raw events of the day in {off} rows; the snapshot in {whole}")
    return not off and not whole


def foreign_table(spark: SparkSession, folder: str) -> bool:
    say("A table that Apache Hudi wrote, with a compaction under way while others wrote:")
    with zipfile.ZipFile(GOLDEN / f"{FOREIGN}.zip") as archive:
        archive.extractall(folder)
    tidelake_command(["timeline", folder])
    rows = tl.open_table(folder, spark=spark).scan(columns=["id", "name"])
    ours = sorted((row["id"], row["name"]) for row in rows.to_arrow().to_pylist())
    on_spark = sorted((row["id"], row["name"]) for row in rows.to_spark().collect())
    expected = json.loads((GOLDEN / f"{FOREIGN}.expected.json").read_text())["reads"][0]["rows"]
    theirs = sorted((row["id"], row["name"]) for row in expected)
    equal = ours == on_spark == theirs
    print(
        f"  in process, on Spark, and by Apache Hudi itself: {'equal' if equal else 'NOT EQUAL'} ({len(theirs)} rows)"
    )
    return equal


def main() -> int:
    spark = tl.session("tidelake-demo", "local[2]", {"spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "4"})
    try:
        with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
            right = all(
                (
                    pipeline(spark, f"{ours}/trips"),
                    several_clocks(spark, f"{ours}/policies"),
                    midnight(spark, f"{ours}/meters"),
                    foreign_table(spark, theirs),
                )
            )
    finally:
        spark.stop()
    say("Everything is as it should be." if right else "SOMETHING IS WRONG: see above.")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
