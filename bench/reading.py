"""Reading: scans in process and on Spark, beside plain parquet, plain polars, plain Spark, hudi-rs and Apache Hudi."""

from __future__ import annotations

import io
import json
import statistics
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from hudi import HudiTable

import tidelake as tl
from bench.measure import Results, apache_hudi
from bench.tables import SCHEMA, Trips
from tidelake.format.log_block import read_blocks

COLUMNS = SCHEMA.names
TWO = ["status", "fare"]
KEY = "_hoodie_record_key"


def in_process(results: Results, trips: Trips) -> None:
    """Scans without a JVM."""
    files = trips.base_files()
    results.compare(
        "base only, to_arrow / pyarrow reading the same files",
        lambda: tl.open_table(str(trips.base_only)).scan().to_arrow(),
        lambda: pq.read_table(files, partitioning=None),
        1.2,
    )
    results.compare(
        "20 % in parquet logs, to_arrow / plain polars merging the same files",
        lambda: tl.open_table(str(trips.with_logs)).scan().to_arrow(),
        lambda: _plain_polars(trips),
        1.2,
    )
    results.compare(
        "20 % in Avro logs, to_arrow / plain polars merging parquet logs",
        lambda: tl.open_table(str(trips.with_avro_logs)).scan().to_arrow(),
        lambda: _plain_polars(trips),
        1.2,
    )
    for name, path in (("parquet", trips.with_logs), ("Avro", trips.with_avro_logs)):
        results.compare(
            f"20 % in {name} logs, to_arrow / hudi-rs reading the same table",
            lambda path=path: tl.open_table(str(path)).scan().to_arrow(),  # type: ignore[misc]
            lambda path=path: HudiTable(str(path)).read(),  # type: ignore[misc]
            0.4,
            repeats=3,
        )
    results.compare(
        "20 % in logs, two columns / all columns",
        lambda: tl.open_table(str(trips.with_logs)).scan(columns=TWO).to_arrow(),
        lambda: tl.open_table(str(trips.with_logs)).scan().to_arrow(),
        0.6,
    )


def on_spark(results: Results, trips: Trips) -> None:
    """Scans by Spark's workers: the ten columns of the table, into a sink that drops them."""
    spark = tl.session("tidelake-bench", master="local[2]", config={"spark.driver.memory": "3g"})
    files = trips.base_files()
    schema = spark.read.parquet(*files).schema

    def drop(frame: object) -> None:
        frame.write.format("noop").mode("overwrite").save()  # type: ignore[attr-defined]

    def ours(path: Path, columns: list[str]) -> None:
        drop(tl.open_table(str(path), spark=spark).scan(columns=columns).to_spark())

    def native(columns: list[str]) -> None:
        drop(spark.read.schema(schema).parquet(*files).select(*columns))

    results.compare(
        "base only, to_spark / spark.read.parquet", lambda: ours(trips.base_only, COLUMNS), lambda: native(COLUMNS), 1.1
    )
    results.compare(
        "20 % in parquet logs, to_spark / native scan of the base files",
        lambda: ours(trips.with_logs, COLUMNS),
        lambda: native(COLUMNS),
        1.3,
    )
    results.compare(
        "20 % in Avro logs, to_spark / native scan of the base files",
        lambda: ours(trips.with_avro_logs, COLUMNS),
        lambda: native(COLUMNS),
        1.3,
    )
    results.compare(
        "20 % in logs, two columns, to_spark / all columns, to_spark",
        lambda: ours(trips.with_logs, TWO),
        lambda: ours(trips.with_logs, COLUMNS),
        0.8,
    )
    for name, path in (("parquet", trips.with_logs), ("Avro", trips.with_avro_logs)):
        theirs = _apache_hudi(path)
        if theirs is None:
            print("Apache Hudi on Spark: not measured here; `make golden` sets its environment up", flush=True)
            break
        results.against(
            f"20 % in {name} logs, to_spark / Apache Hudi on Spark", lambda p=path: ours(p, COLUMNS), theirs, 0.4
        )  # type: ignore[misc]
    spark.stop()


def memory(trips: Trips, one_slice: Path) -> None:
    """Peak memory of merging one slice, beside the bound; allocators keep some 100 MiB, which small slices show."""
    for name, path in (("parquet", one_slice), ("parquet", trips.with_logs), ("Avro", trips.with_avro_logs)):
        done = subprocess.run(
            [sys.executable, "-m", "bench.memory", str(path)], capture_output=True, text=True, check=True
        )
        found = json.loads(done.stdout)
        bound = 3 * found["log_bytes"] + found["row_group_bytes"]
        verdict = "ok" if found["growth_bytes"] <= bound else "MISS"
        print(
            f"memory, one slice of {found['rows']:,} rows, {name} logs: grew {found['growth_bytes'] / 2**20:.0f} MiB; "
            f"3 x log ({found['log_bytes'] / 2**20:.0f} MiB) + row group ({found['row_group_bytes'] / 2**20:.0f} MiB) "
            f"= {bound / 2**20:.0f} MiB  {verdict}",
            flush=True,
        )


def _plain_polars(trips: Trips) -> pa.Table:
    """The same merge, written by hand for just these files."""
    merged = []
    for file in map(Path, trips.base_files()):
        base = pl.read_parquet(file, hive_partitioning=False)
        (log,) = (trips.with_logs / file.parent.name).glob(f".{file.name.split('_')[0]}_*.log.*")
        block = next(read_blocks(log.read_bytes()))
        rows = pl.read_parquet(io.BytesIO(bytes(block.content)))
        stored = base.select(KEY, pl.col("ts").alias("stored"))
        newer = pl.col("stored").is_null() | (pl.col("ts") >= pl.col("stored"))
        winners = rows.join(stored, on=KEY, how="left").filter(newer).drop("stored")
        merged.append(pl.concat([base.join(winners.select(KEY), on=KEY, how="anti"), winners]))
    return pl.concat(merged).to_arrow()


def _apache_hudi(path: Path) -> float | None:
    found = apache_hudi("read", str(path), "3", *COLUMNS)
    return None if found is None else statistics.median(found["seconds"])
