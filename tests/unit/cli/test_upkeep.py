"""``tidelake clean``, ``savepoint`` and ``restore``."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tidelake as tl


def upsert(table: tl.Table, ts: int) -> str:
    return table.upsert(pa.table({"id": [1, 2], "ts": [ts, ts], "day": ["a", "b"]})).requested_time


@pytest.fixture
def table(tmp_path: Path) -> tl.Table:
    made = tl.create_table(
        str(tmp_path / "trips"), "id bigint, ts bigint, day string", partition_by="day", table_type="COPY_ON_WRITE"
    )
    for ts in range(4):
        upsert(made, ts)
    return made


def test_clean_shows_and_removes(tidelake, table):
    """A dry run shows files and reasons; a clean removes them, and the next one has nothing to do."""
    ran = tidelake("clean", table.path, "--retain", "1", "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("would go: ") == 4
    assert ran.out.count("stays: ") == 2
    assert "4 files" in ran.out
    assert table.cleans() == ()
    done = tidelake("clean", table.path, "--retain", "1", "--format", "json").json()
    assert (len(done["files"]), done["policy"]) == (4, "KEEP_LATEST_COMMITS")
    assert [run.instant for run in table.cleans()] == [done["instant"]]
    assert "nothing to clean" in tidelake("clean", table.path, "--retain", "1").out
    assert tidelake("clean", table.path, "--policy", "KEEP_ALL").code == 2


def test_savepoint_and_restore_go_there_and_back(tidelake, table):
    """A savepoint is made, shown, restored to with --yes alone, and dropped."""
    made = tidelake("savepoint", table.path, "--comment", "here", "--format", "json").json()
    assert "here" in tidelake("savepoint", table.path, "--list").out
    assert "already" in tidelake("restore", table.path, made["instant"], "--yes").out
    later = upsert(table, 9)
    assert f"{later}.commit would be undone" in tidelake("restore", table.path, made["instant"], "--dry-run").out
    refused = tidelake("restore", table.path, made["instant"])
    assert (refused.code, "--yes" in refused.err) == (1, True)
    assert later in table.timeline.by_time
    assert f"{later}.commit is undone" in tidelake("restore", table.path, made["instant"], "--yes").out
    assert later not in table.timeline.by_time
    assert tidelake("savepoint", table.path, "--drop").code == 1
    assert tidelake("savepoint", table.path, "--drop", "--instant", made["instant"]).code == 0
    assert table.savepoints() == ()


def test_services_run_cleans_by_the_policy(tidelake, table):
    """The runner says what it cleaned; switched off, it does not."""
    option = ("--option", "hoodie.clean.commits.retained=1")
    off = tidelake("services", "run", table.path, *option, "--option", "hoodie.clean.automatic=false")
    assert "clean" not in off.out
    assert "4 files removed" in tidelake("services", "run", table.path, *option).out
    assert "nothing to clean" in tidelake("services", "run", table.path, *option).out
