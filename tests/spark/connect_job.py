"""Writes, reads, a service and SQL over Spark Connect, whose client has no JVM at hand: a local server of its own.

Run as a program: FOLDER. Prints what was read back, as JSON.
"""

from __future__ import annotations

import json
import sys


def main(folder: str) -> None:
    from pyspark.sql import SparkSession

    import tidelake as tl

    tl.session("finds Java and Python", master="local[1]").stop()
    spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    told = {"session": type(spark).__module__}
    for index in ("SIMPLE", "BUCKET"):
        path = f"{folder}/{index}"
        schema = "id bigint, v string, ts bigint, day string"
        table = tl.create_table(
            path,
            schema,
            record_key="id",
            partition_by="day",
            ordering_fields="ts",
            options={"hoodie.index.type": index},
            spark=spark,
        )
        rows = spark.range(100).selectExpr("id", "'old' v", "1L ts", "cast(id % 3 as string) day")
        table.bulk_insert(rows)
        table.upsert(rows.where("id >= 50").selectExpr("id", "'new' v", "2L ts", "day"))
        table.upsert(rows.where("id >= 90").selectExpr("id", "'late' v", "0L ts", "day"))
        table.delete(rows.where("id < 10").select("id"))

        def counts(table: tl.Table = table) -> dict[str, int]:
            return {row["v"]: row["count"] for row in table.scan().to_spark().groupBy("v").count().collect()}

        told[index] = [counts()]
        table.compact()
        told[index].append(counts())
        tl.enable(spark)
        tl.view(spark, index, path)
        told[index].append(spark.sql(f"SELECT count(*) n FROM {index} WHERE day = '1'").collect()[0]["n"])
        told[index].append(len(spark.sql(f"CALL show_commits(path => '{path}')").collect()))
    print(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
