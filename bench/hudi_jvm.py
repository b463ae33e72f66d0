"""Apache Hudi on Spark, in its own environment (PySpark 3.5 and the bundle). Prints seconds as JSON.

Run as ``<python with pyspark 3.5> bench/hudi_jvm.py JAR read TABLE REPEATS COLUMN...`` ``... JAR write INPUT TABLE INDEX`` or
``... JAR compact|plan TABLE``, where INPUT is a folder with ``base`` and ``upsert_<n>``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession


def _session(jar: str) -> SparkSession:
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jar)
        .config("spark.driver.memory", "3g")
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )


def read(spark: SparkSession, table: str, repeats: int, columns: list[str]) -> None:
    """Read the whole table into a sink that drops it, once cold and ``repeats`` times."""
    times = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        frame = spark.read.format("hudi").option("hoodie.metadata.enable", "false").load(table).select(*columns)
        frame.write.format("noop").mode("overwrite").save()
        times.append(time.perf_counter() - started)
    rows = spark.read.format("hudi").option("hoodie.metadata.enable", "false").load(table).count()
    print(json.dumps({"seconds": times[1:], "rows": rows}))


def write(spark: SparkSession, given: str, table: str, index: str) -> None:
    """Load a table in bulk, then upsert batch after batch; parallelism is that of the cores, no metadata table."""
    options = {
        "hoodie.table.name": "trips",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "uuid",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.index.type": index,
        "hoodie.bucket.index.num.buckets": "1",
        "hoodie.parquet.compression.codec": "zstd",
        "hoodie.bulkinsert.shuffle.parallelism": "2",
        "hoodie.insert.shuffle.parallelism": "2",
        "hoodie.upsert.shuffle.parallelism": "2",
        "hoodie.simple.index.parallelism": "2",
    }
    times = []
    for folder in ("base", *sorted(p.name for p in Path(given).glob("upsert_*"))):
        operation = "bulk_insert" if folder == "base" else "upsert"
        started = time.perf_counter()
        frame = spark.read.parquet(f"{given}/{folder}")
        writer = frame.write.format("hudi").options(**options).option("hoodie.datasource.write.operation", operation)
        writer.mode("overwrite" if folder == "base" else "append").save(table)
        times.append(time.perf_counter() - started)
    print(json.dumps({"bulk": times[0], "upserts": times[1:]}))


def compact(spark: SparkSession, table: str, *ops: str) -> None:
    """Plan a compaction and run it, or plan it alone."""
    options = "options => 'hoodie.metadata.enable=false,hoodie.compact.inline.max.delta.commits=1'"
    spark.conf.set("hoodie.metadata.enable", "false")
    spark.sql(f"CREATE TABLE compacted USING hudi LOCATION '{table}'")
    spark.table("compacted").schema  # noqa: B018 - the catalog is warm
    started = time.perf_counter()
    for op in ops:
        done = spark.sql(f"CALL run_compaction(op => '{op}', table => 'compacted', {options})").collect()
    print(json.dumps({"seconds": time.perf_counter() - started, "plans": len(done)}))


def main(jar: str, verb: str, *words: str) -> None:
    """Do what is asked."""
    spark = _session(jar)
    if verb == "read":
        read(spark, words[0], int(words[1]), list(words[2:]))
    elif verb == "compact":
        compact(spark, words[0], "schedule", "run")
    elif verb == "plan":
        compact(spark, words[0], "schedule")
    else:
        write(spark, *words)


if __name__ == "__main__":
    main(*sys.argv[1:])
