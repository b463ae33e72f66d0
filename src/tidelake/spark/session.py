"""A Spark session that works after ``pip install`` alone: Java found, workers with this interpreter, UTC."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from tidelake.spark.java import find_java

_DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
}

_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""A session on this machine alone needs no other address."""


def session(
    app_name: str = "tidelake", master: str | None = None, config: Mapping[str, str] | None = None
) -> SparkSession:
    """A session on ``master`` (by default all local cores), with ``config`` on top of what tables need.

    A session that runs already is returned as it is, with the SQL settings applied.
    """
    if SparkSession.getActiveSession() is None:
        os.environ["JAVA_HOME"] = find_java().home
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    where = master or "local[*]"
    builder = SparkSession.builder.appName(app_name).master(where)
    local = _LOCAL if where.startswith("local") else {}
    for key, value in {**_DEFAULTS, **local, **(config or {})}.items():
        builder = builder.config(key, value)
    made: SparkSession = builder.getOrCreate()
    return made
