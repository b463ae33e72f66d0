"""Apache Hudi as a server: one Spark session that does what JSON lines on its standard input ask, one answer each.

Run by ``var/hudi-env/bin/python`` (PySpark 3.5), never by the tests' own interpreter::

    hudi_server.py JAR SCRATCH

Requests are objects with ``do``, answers objects with ``error`` or the result:

- ``read``: ``path``, ``options``; answers ``schema`` (Spark type names) and ``rows`` in the golden encoding.
- ``write``: ``parquet`` (rows to write), ``path``, ``options``.
- ``sql``: ``statement``, ``conf`` (settings for its time); answers ``rows``, each a list of texts.

Answers go to the standard output that the process was started with; whatever Spark and Java print goes to the errors.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "golden"))

from encoding import encode_rows
from expected import plain
from lake import open_session
from pyspark.sql import SparkSession


def read(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """Read a table with options."""
    frame = spark.read.format("hudi").options(**request["options"]).load(request["path"])
    rows = encode_rows(plain(row, frame.schema) for row in frame.collect())
    return {"schema": {f.name: f.dataType.simpleString() for f in frame.schema.fields}, "rows": rows}


def write(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """Write the rows of a parquet file."""
    frame = spark.read.parquet(request["parquet"])
    frame.write.format("hudi").options(**request["options"]).mode("append").save(request["path"])
    return {}


def sql(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """Run a statement under settings that end with it."""
    for key, value in request["conf"].items():
        spark.conf.set(key, value)
    try:
        rows = spark.sql(request["statement"]).collect()
    finally:
        for key in request["conf"]:
            spark.conf.unset(key)
    return {"rows": [[None if item is None else str(item) for item in row] for row in rows]}


VERBS = {"read": read, "write": write, "sql": sql}


def message(error: Exception) -> str:
    """The causes of an error, without the Java stack."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return "\n".join([lines[0], *(line for line in lines[1:] if line.startswith(("Caused by: ", ": ")))])


def main(jar: str, scratch: str) -> None:
    """Serve until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    spark = open_session(jar, Path(scratch), memory="2g", shuffle_partitions=2)
    print(json.dumps({"ready": spark.version}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = VERBS[request["do"]](spark, request)
        except Exception as error:
            answer = {"error": message(error)}
        print(json.dumps(answer, ensure_ascii=False), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
