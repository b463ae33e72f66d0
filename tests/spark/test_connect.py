"""A session of Spark Connect bound to a table: what runs on Spark runs there too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark
JOB = Path(__file__).with_name("connect_job.py")


def test_spark_connect_writes_reads_compacts_and_calls(tmp_path: Path) -> None:
    """Loads, upserts, deletes, scans, a compaction, a view and a CALL, with both indexes."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, str(JOB), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.strip().splitlines()[-1])
    rows = {"old": 40, "new": 50}
    assert told["session"] == "pyspark.sql.connect.session"
    for index in ("SIMPLE", "BUCKET"):
        assert told[index] == [rows, rows, len([n for n in range(10, 100) if n % 3 == 1]), 5]
