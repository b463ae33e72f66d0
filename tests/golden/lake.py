"""Apache Hudi through Spark 3.5: the session, and one table that recipes write to."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

BASE_OPTIONS = {
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.bloom.index.filter.dynamic.max.entries": "100",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
}

COW = "COPY_ON_WRITE"
MOR = "MERGE_ON_READ"
STEP_LIMIT = 600


@dataclass(frozen=True)
class Instant:
    """A completed instant of the active timeline."""

    requested: str
    completed: str
    action: str


def open_session(jar: str, scratch: Path, memory: str = "3g", shuffle_partitions: int = 1) -> SparkSession:
    """Start a local Spark session with the Hudi bundle, in UTC."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    settings = {
        "spark.jars": jar,
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    builder = SparkSession.builder.master("local[2]").appName("golden")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@dataclass
class Table:
    """A Hudi table under construction; every step taken is noted in ``steps``."""

    spark: SparkSession
    name: str
    path: Path
    schema: str = ""
    options: dict[str, str] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    read_options: dict[str, str] = field(default_factory=lambda: {"hoodie.metadata.enable": "false"})
    known_wrong: dict[str, str] = field(default_factory=dict)
    registered: bool = False

    def configure(
        self,
        kind: str,
        version: int,
        schema: str,
        *,
        keys: str = "id",
        partition: str = "",
        ordering: str = "ts",
        extra: Mapping[str, str] | None = None,
    ) -> None:
        """Set the options that every later write uses."""
        self.schema = schema
        self.options = {
            **BASE_OPTIONS,
            "hoodie.table.name": self.name,
            "hoodie.datasource.write.table.type": kind,
            "hoodie.datasource.write.recordkey.field": keys,
            "hoodie.write.table.version": str(version),
            "hoodie.write.auto.upgrade": "false",
        }
        if partition:
            self.options["hoodie.datasource.write.partitionpath.field"] = partition
            self.options["hoodie.datasource.write.hive_style_partitioning"] = "true"
        if ordering:
            self.options["hoodie.table.ordering.fields"] = ordering
        self.options.update(extra or {})
        noted = {k: v for k, v in self.options.items() if k not in BASE_OPTIONS or BASE_OPTIONS[k] != v}
        self.steps.append("options " + ", ".join(f"{k}={v}" for k, v in noted.items()))

    def write(
        self,
        operation: str,
        rows: Sequence[tuple[Any, ...]],
        *,
        schema: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> str:
        """Write the rows by the DataFrame API and return the new instant's requested time."""
        frame = self.spark.createDataFrame(list(rows), schema or self.schema).coalesce(1)
        settings = {**self.options, "hoodie.datasource.write.operation": operation, **(options or {})}
        frame.write.format("hudi").options(**settings).mode("append").save(str(self.path))
        self._note(f"{operation} {rows!r}", options)
        return self.instants()[-1].requested

    def insert(self, rows: Sequence[tuple[Any, ...]], **more: Any) -> str:
        """Insert rows, into base files."""
        return self.write("insert", rows, **more)

    def upsert(self, rows: Sequence[tuple[Any, ...]], **more: Any) -> str:
        """Upsert rows: on merge-on-read, updates go to logs."""
        return self.write("upsert", rows, **more)

    def delete(self, rows: Sequence[tuple[Any, ...]], **more: Any) -> str:
        """Delete the rows' keys by the DataFrame operation."""
        return self.write("delete", rows, **more)

    def sql(self, statement: str, options: Mapping[str, str] | None = None) -> list[Any]:
        """Run SQL with ``{t}`` standing for the table, under the table's write options."""
        self._register()
        with self._settings(options or {}):
            rows: list[Any] = self.spark.sql(statement.replace("{t}", self.name)).collect()
        self._note(statement.replace("{t}", self.name), options)
        return rows

    def call(self, procedure: str, arguments: str = "", options: Mapping[str, str] | None = None) -> list[Any]:
        """Call a stored procedure of Hudi on this table, options given as the procedure takes them."""
        joined = ",".join(f"{k}={v}" for k, v in (options or {}).items())
        parts = ["table => '{t}'", *([arguments] if arguments else []), *([f"options => '{joined}'"] if joined else [])]
        return self.sql(f"CALL {procedure}({', '.join(parts)})")

    def instants(self) -> list[Instant]:
        """Return the completed instants of the active timeline by requested time."""
        found = []
        for entry in (self.path / ".hoodie" / "timeline").iterdir():
            stem, _, action = entry.name.partition(".")
            requested, _, completed = stem.partition("_")
            if completed and action.isalpha():
                found.append(Instant(requested, completed, action))
        return sorted(found, key=lambda instant: (instant.requested, instant.action))

    def uncommit(self, requested: str) -> None:
        """Remove an instant's completed file, so that its data files are left uncommitted."""
        for entry in (self.path / ".hoodie" / "timeline").glob(f"{requested}_*"):
            entry.unlink()
        self.steps.append(f"the completed file of {requested} is removed: its write is left inflight")

    @contextmanager
    def hadoop_setting(self, key: str, value: str) -> Iterator[None]:
        """Write with a setting of the Hadoop configuration, where Hudi looks for Parquet's own settings."""
        configuration = self.spark.sparkContext._jsc.hadoopConfiguration()
        configuration.set(key, value)
        self.steps.append(f"Hadoop configuration {key}={value}")
        try:
            yield
        finally:
            configuration.unset(key)

    def mark_wrong(self, read: str, reason: str) -> None:
        """Note that a read (``"snapshot"``, ``"every snapshot"`` or a requested time) is wrong in Hudi."""
        self.known_wrong[read] = reason

    def _register(self) -> None:
        if not self.registered:
            self.spark.sql(f"CREATE TABLE IF NOT EXISTS {self.name} USING hudi LOCATION '{self.path}'")
            self.registered = True

    @contextmanager
    def _settings(self, options: Mapping[str, str]) -> Iterator[None]:
        skipped = ("hoodie.table.name", "hoodie.table.ordering.fields")
        settings = {k: v for k, v in {**self.options, **options}.items() if k not in skipped}
        for key, value in settings.items():
            self.spark.conf.set(key, value)
        try:
            yield
        finally:
            for key in settings:
                self.spark.conf.unset(key)

    def _note(self, text: str, options: Mapping[str, str] | None) -> None:
        short = text if len(text) <= STEP_LIMIT else text[:STEP_LIMIT] + " ..."
        used = " with " + ", ".join(f"{k}={v}" for k, v in options.items()) if options else ""
        self.steps.append(short.replace(str(self.path), "<path>") + used)
