"""Apache Hudi as the tests see it: a subprocess that reads and writes tables (``hudi_server.py``)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = ROOT / "var" / "hudi-env"
JAR = Path(os.environ.get("HUDI_BUNDLE_JAR") or ENVIRONMENT / "hudi-spark3.5-bundle_2.12-1.2.0.jar")

PLAIN_WRITE = {
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.insert.shuffle.parallelism": "2",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.delete.shuffle.parallelism": "2",
}
"""Beside our writers: no metadata table; and no services that a test did not ask for."""
NO_METADATA = {"hoodie.metadata.enable": "false"}
COMPACTING = "options => 'hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false'"


class HudiError(AssertionError):
    """Apache Hudi refused or failed."""


class Hudi:
    """One Spark session with Apache Hudi, for all tests."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._files = 0
        self._tables = 0
        self.log = scratch / "hudi.log"
        self._process = subprocess.Popen(
            [
                str(ENVIRONMENT / "bin" / "python"),
                str(Path(__file__).with_name("hudi_server.py")),
                str(JAR),
                str(scratch),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log.open("wb"),
            text=True,
            encoding="utf-8",
            cwd=scratch,
            env={**{k: v for k, v in os.environ.items() if k not in ("SPARK_HOME", "PYSPARK_PYTHON")}, "TZ": "UTC"},
        )
        self._answer()

    def close(self) -> None:
        """End the session."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def read(self, path: Path, options: Mapping[str, str] = NO_METADATA) -> dict[str, Any]:
        """Spark's type of each column, and the rows in the golden encoding."""
        return self._ask(do="read", path=str(path), options=dict(options))

    def write(
        self, path: Path, rows: pa.Table, operation: str = "upsert", options: Mapping[str, str] | None = None
    ) -> None:
        """Write rows into a table that exists, by the options of the table and these."""
        self._files += 1
        parquet = self._scratch / f"rows-{self._files}.parquet"
        pq.write_table(rows, parquet)
        settings = {
            "hoodie.table.name": path.name,
            **PLAIN_WRITE,
            "hoodie.datasource.write.operation": operation,
            **(options or {}),
        }
        self._ask(do="write", path=str(path), parquet=str(parquet), options=settings)

    def sql(self, path: Path, statement: str, options: Mapping[str, str] | None = None) -> list[list[str | None]]:
        """Run a statement in which ``{t}`` is the table, registered anew: the catalog keeps the schema of its first day."""
        self._tables += 1
        name = f"t{self._tables}_{path.name}"
        self._ask(do="sql", statement=f"CREATE TABLE {name} USING hudi LOCATION '{path}'", conf=dict(NO_METADATA))
        conf = {**PLAIN_WRITE, **(options or {})}
        return self._ask(do="sql", statement=statement.replace("{t}", name), conf=conf)["rows"]

    def compact(self, path: Path) -> None:
        """Plan a compaction of everything and run it."""
        self.schedule_compaction(path)
        self.run_compaction(path)

    def schedule_compaction(self, path: Path) -> None:
        """Plan a compaction of everything."""
        planned = self.sql(path, f"CALL run_compaction(op => 'schedule', table => '{{t}}', {COMPACTING})")
        assert planned, "Apache Hudi found nothing to compact"

    def run_compaction(self, path: Path) -> None:
        """Carry out the plans that wait, or whose executor died."""
        self.sql(path, f"CALL run_compaction(op => 'run', table => '{{t}}', {COMPACTING})")

    def clean(self, path: Path, retained: int = 1) -> None:
        """Remove the file versions that the last ``retained`` commits do not need."""
        self.sql(path, f"CALL run_clean(table => '{{t}}', retain_commits => {retained})")

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request, ensure_ascii=False) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise HudiError(f"Apache Hudi's process ended:\n{self.log.read_text(errors='replace')[-2000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise HudiError(answer["error"])
        return answer
