"""Completion and freshness as properties of a table in a real Hive metastore, read back by Spark SQL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tidelake as tl
from tidelake.storage import LocalStorage
from unit.observe.event_tables import EventWorld, at

pytestmark = pytest.mark.spark
JOB = Path(__file__).with_name("catalog_job.py")


def test_catalog_has_completion_and_freshness_as_properties(tmp_path: Path) -> None:
    """Synced, idempotently, into the metastore; values that changed are written, ours that are gone go, others stay."""
    (tmp_path / "events").mkdir()
    world = EventWorld(storage=LocalStorage(str(tmp_path / "events")))
    world.upsert((0, "07:00"), (1, "07:00"))
    world.upsert((0, "08:00"))
    stored = {key: str(value) for key, value in world.stored().items()}
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, str(JOB), str(tmp_path / "events"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert told["implementation"] == "hive"
    assert told["first"] == told["read"] == stored
    assert told["again"] == {}
    assert told["read_again"] == {key: str(value) for key, value in world.recomputed().items()}
    assert told["called"]["tidelake.ro.completion"] == str(at("08:00"))
    assert "tidelake.rt.completion" not in told["called"], "what did not change was not written"
    assert "tidelake.ro.old" not in told["read_again"]
    assert told["owner"] == "ours"
    assert told["made"] == told["read_again"], "a table that the catalog did not have was made there"
    assert told["made_again"] == {}


def test_catalog_without_a_session_says_how_to_have_one() -> None:
    """The catalog is Spark's."""
    with pytest.raises(tl.UnsupportedError, match="through Spark"):
        EventWorld().open().sync_catalog()
