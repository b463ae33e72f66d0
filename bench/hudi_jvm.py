"""Apache Hudi on Spark reading a table, in its own environment (PySpark 3.5 and the bundle). Prints seconds as JSON.

Run as ``<python with pyspark 3.5> bench/hudi_jvm.py JAR TABLE REPEATS COLUMN...``.
"""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import SparkSession


def main(jar: str, table: str, repeats: int, columns: list[str]) -> None:
    """Read the whole table into a sink that drops it, once cold and ``repeats`` times."""
    spark = (
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
    times = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        frame = spark.read.format("hudi").option("hoodie.metadata.enable", "false").load(table).select(*columns)
        frame.write.format("noop").mode("overwrite").save()
        times.append(time.perf_counter() - started)
    rows = spark.read.format("hudi").option("hoodie.metadata.enable", "false").load(table).count()
    print(json.dumps({"seconds": times[1:], "rows": rows}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
