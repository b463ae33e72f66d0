"""Writing: bulk loads and upserts in process and on Spark, beside plain parquet, plain Spark and Apache Hudi."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

import tidelake as tl
from bench.measure import Results, apache_hudi, timed
from bench.tables import SCHEMA, Batches, make_batches, new_table

INDEXES = ("SIMPLE", "BUCKET")


def in_process(results: Results, batches: Batches, work: Path) -> None:
    """Loads and upserts without a JVM, beside the same rows written as plain parquet, a file for each partition."""
    base = batches.table("base")
    results.compare(
        "bulk_insert in process / pyarrow writing the same partitions",
        lambda: new_table(work / "ours", "SIMPLE").bulk_insert(base),
        lambda: _plain(base, work / "plain"),
        1.3,
        repeats=3,
    )
    deltas = [batches.table(name) for name in batches.names]
    for index in INDEXES:
        new_table(work / "ours", index).bulk_insert(base)
        ours = [timed(lambda d=delta: tl.open_table(str(work / "ours")).upsert(d)) for delta in deltas]  # type: ignore[misc]
        floor = [timed(lambda d=delta: _plain(d, work / "plain")) for delta in deltas]  # type: ignore[misc]
        results.report(
            f"upsert in process, {index} / pyarrow writing the same partitions",
            statistics.median(ours),
            statistics.median(floor),
            2.0,
        )


def on_spark(results: Results, batches: Batches, work: Path) -> None:
    """The same on Spark, beside Spark's own partitioned write, and Apache Hudi with the same index."""
    spark = tl.session("bench", master="local[2]")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
    base = spark.read.parquet(str(batches.folder / "base"))

    def plain() -> None:
        base.write.partitionBy("part").mode("overwrite").parquet(str(work / "plain_spark"))

    results.compare(
        "bulk_insert on Spark / Spark's own partitioned write",
        lambda: new_table(work / "ours", "SIMPLE", spark).bulk_insert(base),
        plain,
        1.2,
        repeats=3,
    )
    for index, aim in (("BUCKET", 0.4), ("SIMPLE", 0.3)):
        new_table(work / "ours", index, spark).bulk_insert(base)
        frames = [spark.read.parquet(str(batches.folder / name)) for name in batches.names]
        table = tl.open_table(str(work / "ours"), spark=spark)
        ours = [timed(lambda f=frame, t=table: t.upsert(f)) for frame in frames]  # type: ignore[misc]
        theirs = apache_hudi("write", str(batches.folder), str(work / f"hudi_{index}"), index)
        if theirs is None:
            print("Apache Hudi on Spark: not measured here; `make interop` sets its environment up", flush=True)
            continue
        results.report(
            f"upsert on Spark, {index} / Apache Hudi on Spark, {index}",
            statistics.median(ours),
            statistics.median(theirs["upserts"]),
            aim,
        )
        print(f"  (Apache Hudi's bulk_insert with {index}: {theirs['bulk']:.1f} s)", flush=True)
    spark.stop()


def growth(results: Results, work: Path, rows: int) -> None:
    """An upsert of one size into a table, and into one ten times as large; each time into fresh file groups."""
    small = make_batches(work / "small", rows // 10, upserts=3, share=0.1)
    large = make_batches(work / "large", rows, upserts=3, share=0.01)
    for index, aim in (("BUCKET", 1.5), ("SIMPLE", 8.0)):
        medians = []
        for batches in (large, small):
            new_table(work / "ours", index).bulk_insert(batches.table("base"))
            deltas = [batches.table(name) for name in batches.names]
            medians.append(
                statistics.median(timed(lambda d=d: tl.open_table(str(work / "ours")).upsert(d)) for d in deltas)  # type: ignore[misc]
            )
        results.report(f"upsert of fixed size, {index}, ten times the table / the table", *medians, aim)


def writers(work: Path, commits: int = 20) -> None:
    """Commits per second of several processes, each in a partition of its own."""
    for count in (1, 2, 4):
        new_table(work / "shared", "SIMPLE")
        command = [sys.executable, "-m", "bench.writer", str(work / "shared"), str(commits)]
        started = time.perf_counter()
        running = [subprocess.Popen([*command, f"w{number}"], stdout=subprocess.PIPE) for number in range(count)]
        spans = [json.loads(process.communicate()[0]) for process in running]
        if any(process.returncode for process in running):
            raise RuntimeError(f"a writer failed after {time.perf_counter() - started:.0f} s")
        took = max(span["end"] for span in spans) - min(span["start"] for span in spans)
        done = len(tl.open_table(str(work / "shared")).timeline.completed_writes)
        assert done == count * commits, f"{done} commits of {count * commits}"
        print(f"{count} writers, disjoint partitions: {done / took:.1f} commits a second", flush=True)


def memory(work: Path, rows: int) -> None:
    """Peak memory of a task: a bulk load and an upsert of one partition, in processes of their own."""
    batches = make_batches(work / "memory", rows, upserts=1, parts=1, share=0.2)
    new_table(work / "ours", "SIMPLE")
    for name, operation in (("base", "bulk_insert"), ("upsert_0", "upsert")):
        command = [sys.executable, "-m", "bench.writer", str(work / "ours"), str(batches.folder / name), operation]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        print(
            f"memory, {operation} of {found['rows']:,} rows in one partition: grew {found['growth'] / 2**20:.0f} MiB, "
            f"the rows are {found['bytes'] / 2**20:.0f} MiB",
            flush=True,
        )


def _plain(table: object, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    frame = pl.from_arrow(table)  # type: ignore[arg-type]
    assert isinstance(frame, pl.DataFrame)

    def one(item: tuple[tuple[object, ...], pl.DataFrame]) -> None:
        path = folder / f"part={item[0][0]}"
        path.mkdir(parents=True)
        pq.write_table(item[1].to_arrow().cast(SCHEMA), path / "0.parquet", compression="zstd")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, frame.partition_by("part", as_dict=True).items()))
