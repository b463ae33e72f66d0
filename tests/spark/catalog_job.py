"""Completion and freshness in a real Hive metastore (Spark's own, on Derby), in a Spark session of its own.

Run as a program: TABLE FOLDER. Prints what was synced and what Spark SQL reads back, as JSON.
"""

from __future__ import annotations

import json
import sys


def main(path: str, folder: str) -> None:
    import tidelake as tl

    config = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
        "spark.sql.shuffle.partitions": "1",
    }
    spark = tl.session("catalog", master="local[1]", config=config)
    tl.enable(spark)
    spark.sql("CREATE DATABASE lake")

    spark.sql(f"CREATE TABLE lake.synced (id bigint) USING parquet LOCATION '{folder}/elsewhere'")

    def properties() -> dict[str, str]:
        rows = spark.sql("SHOW TBLPROPERTIES lake.synced").collect()
        return {row["key"]: row["value"] for row in rows if row["key"].startswith("tidelake.r")}

    table = tl.open_table(path, spark)
    told = {"implementation": spark.conf.get("spark.sql.catalogImplementation")}
    told["first"] = table.sync_catalog("lake.synced")
    told["read"] = properties()
    told["again"] = table.sync_catalog("lake.synced")
    spark.sql("ALTER TABLE lake.synced SET TBLPROPERTIES ('owner.team' = 'ours', 'tidelake.ro.old' = '1')")
    table.declare_complete("2026-01-01T12:00:00Z")
    table.compact()
    rows = spark.sql(f"CALL sync_catalog(path => '{path}', name => 'lake.synced')").collect()
    told["called"] = {row["property"]: row["value"] for row in rows}
    told["read_again"] = properties()
    owner = spark.sql("SHOW TBLPROPERTIES lake.synced ('owner.team')").collect()
    told["owner"] = owner[0]["value"]
    told["made"] = table.sync_catalog("lake.events")
    told["made_again"] = table.sync_catalog("lake.events")
    print(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
