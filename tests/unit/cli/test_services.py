"""``tidelake compact`` and ``tidelake services``."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tidelake as tl


@pytest.fixture
def table(tmp_path: Path) -> tl.Table:
    made = tl.create_table(str(tmp_path / "trips"), "id bigint, ts bigint, day string", partition_by="day")
    made.upsert(pa.table({"id": [1, 2], "ts": [1, 1], "day": ["a", "b"]}))
    made.upsert(pa.table({"id": [1, 2], "ts": [2, 2], "day": ["a", "b"]}))
    return made


def test_compact_plans_schedules_runs(tidelake, table):
    """A dry run shows the plan and changes nothing; a plan is published, run, and then there is nothing left."""
    ran = tidelake("compact", table.path, "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert "2 file groups" in ran.out
    assert "day=a" in ran.out
    assert not table.compactions()
    dry = tidelake("compact", table.path, "--dry-run", "--partition", "day=a", "--format", "json").json()
    assert [op["partition_path"] for op in dry["operations"]] == ["day=a"]
    assert list(dry["left"]) == ["day=b"]
    made = tidelake("compact", table.path, "--schedule", "--partition", "day=a", "--format", "json").json()["instant"]
    assert "requested" in tidelake("services", "show", table.path).out
    assert f"{made}: 1 file groups compacted" in tidelake("compact", table.path, "--run", made).out
    assert "1 file groups compacted" in tidelake("compact", table.path).out
    assert "nothing to compact" in tidelake("compact", table.path).out
    assert tidelake("compact", table.path, "--run", "20200101000000000").code == 1
    assert tidelake("compact", table.path, "--strategy", "nonsense").code == 1


def test_services_run_says_what_and_why(tidelake, table):
    """By policy: due after one commit, then not due any more."""
    due = ("--option", "hoodie.compact.inline.max.delta.commits=2")
    assert (
        "2 delta commits since the last compaction (due after 2)" in tidelake("services", "run", table.path, *due).out
    )
    ran = tidelake("services", "run", table.path, *due)
    assert "compaction: not due" in ran.out


def test_services_audit_tells_by_its_exit_code(tidelake, table):
    """Nothing lost is 0."""
    ran = tidelake("services", "audit", table.path)
    assert (ran.code, "nothing is lost" in ran.out) == (0, True)


def test_cluster_plans_schedules_runs(tidelake, table):
    """A dry run shows reasons and writes nothing; a plan is scheduled and run apart, or both at once."""
    ran = tidelake("cluster", table.path, "--dry-run", "--sort-by", "id", "--order", "hilbert")
    assert (ran.code, ran.err) == (0, "")
    assert "sorted by hilbert(id)" in ran.out
    assert not table.clusterings()
    one = ("--sort-by", "id", "--partition", "day=a")
    made = tidelake("cluster", table.path, "--schedule", *one, "--format", "json").json()["instant"]
    assert f"clustering {made} requested" in tidelake("services", "show", table.path).out
    assert f"{made}: 1 file groups clustered" in tidelake("cluster", table.path, "--run", made).out
    assert "file groups clustered" in tidelake("cluster", table.path, "--sort-by", "id", "--filter", "day <> 'a'").out
    assert "nothing to cluster" in tidelake("cluster", table.path, "--sort-by", "id").out
    assert tidelake("cluster", table.path, "--sort-by", "nope").code == 1
    assert tidelake("cluster", table.path, "--order", "spiral").code == 2


def test_compact_by_event_time(tidelake, tmp_path):
    """A dry run shows T, P and whether it covers; no plan comes with its reason."""
    path = str(tmp_path / "events")
    options = {"hoodie.payload.event.time.unit": "s", "hoodie.table.timeline.timezone": "UTC"}
    made = tl.create_table(path, "id bigint, ts bigint", ordering_fields="ts", event_time_field="ts", options=options)
    made.upsert(pa.table({"id": [1], "ts": [1_000_000_000]}))
    made.upsert(pa.table({"id": [1], "ts": [1_000_000_100]}))
    how = ("--strategy", "event_time", "--threshold")
    ran = tidelake("compact", path, *how, "2001-01-01T00:00:00Z")
    assert "nothing to compact" in ran.out
    assert "no log that is in no pending plan holds an event before 2001-01-01T00:00:00.000Z" in ran.out
    dry = tidelake("compact", path, *how, "2002-01-01T00:00:00Z", "--dry-run", "--format", "json").json()
    assert dry["event_time"]["covers"]
    assert dry["event_time"]["threshold"] == "2002-01-01T00:00:00.000Z"
    assert dry["event_time"]["instant"] in tidelake("compact", path, *how, "2002-01-01", "--schedule").out
    assert "1 file groups compacted" in tidelake("compact", path, *how, "2002-01-01").out
    assert tidelake("compact", path, *how, "soon").code == 1
