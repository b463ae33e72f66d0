"""Compactions by event time with Apache Hudi: it reads them, carries them out, and goes on from instants in the past."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidelake as tl
from interop.jvm.both import Both, make, rows
from interop.jvm.hudi_client import COMPACTING, NO_METADATA, Hudi

pytestmark = pytest.mark.hudi_jvm
PREFIX = "hoodie.compaction.event.time."
OPTIONS = {"hoodie.payload.event.time.unit": "s", "hoodie.table.timeline.timezone": "UTC"}
HOW = {PREFIX + "backdate": "any", PREFIX + "late.delay": "0s"}


def schedule(both: Both, threshold_s: int) -> str:
    made = both.ours.schedule_compaction(
        strategy="event_time", threshold=f"1970-01-01T00:00:{threshold_s:02d}Z", options=HOW
    )
    assert made is not None
    assert made < both.ours.timeline.greatest_time, "it lies in the past"
    return made


@pytest.mark.parametrize("blocks", ["avro", "parquet"])
def test_event_time_plans_are_read_and_carried_out_by_apache_hudi(hudi: Hudi, tmp_path: Path, blocks: str) -> None:
    both = make(
        hudi,
        tmp_path / "t",
        {**OPTIONS, "hoodie.logfile.data.block.format": blocks},
        partition_by="day",
        ordering_fields="ts",
        event_time_field="ts",
    )
    both.ours.upsert(rows(*((i, f"first{i}", 1) for i in range(9))))
    both.ours.upsert(rows((0, "a3", 3), (1, "b3", 3), (2, "c3", 3)))
    both.ours.upsert(rows((0, "a8", 8), (1, "b8", 8)))
    expected = {**{i: f"first{i}" for i in range(9)}, 0: "a8", 1: "b8", 2: "c3"}
    # Pending, then done by us: the log of the later events lies on top of an instant in the past.
    first = schedule(both, 5)
    assert both.state() == expected
    both.check(incremental=False)
    both.ours.run_compaction(first)
    assert both.state() == expected
    both.check()
    # It upserts, on top of it and into new groups; we plan, and it carries the plan out.
    both.theirs(rows((0, "a9", 9), (3, "d4", 4), (10, "new", 4)))
    expected |= {0: "a9", 3: "d4", 10: "new"}
    both.ours.upsert(rows((3, "d12", 12)))
    expected[3] = "d12"
    second = schedule(both, 6)
    both.check(incremental=False)
    both.hudi.sql(
        both.path, f"CALL run_compaction(op => 'execute', table => '{{t}}', timestamp => {second}, {COMPACTING})"
    )
    assert both.ours.timeline.by_time[second].is_completed
    assert both.state() == expected
    both.check(incremental=False)
    # It compacts by itself, cleans, and reads ranges; both go on.
    both.theirs(rows((1, "b20", 20)))
    expected[1] = "b20"
    both.hudi.compact(both.path)
    both.hudi.clean(both.path)
    both.ours.upsert(rows((2, "c21", 21)))
    expected[2] = "c21"
    assert both.state() == expected
    both.check()
    assert tl.open_table(str(both.path)).audit_services().is_clean


def test_event_time_as_of_each_commit_that_does_not_straddle_the_barrier(hudi: Hudi, tmp_path: Path) -> None:
    both = make(hudi, tmp_path / "t", OPTIONS, partition_by="day", ordering_fields="ts", event_time_field="ts")
    for step in range(4):
        both.ours.upsert(rows(*((i, f"{step}.{i}", 1 + 3 * step) for i in range(3))))
    done = both.ours.run_compaction(schedule(both, 5))
    assert done is not None
    both.ours.upsert(rows((0, "last", 30)))
    for instant in both.ours.timeline.completed_writes:
        when = instant.requested_time
        theirs = both.hudi.read(both.path, {**NO_METADATA, "as.of.instant": when})
        ours = both.ours.scan(as_of=when, columns=["id", "name"]).to_arrow().to_pylist()
        assert {row["id"]: row["name"] for row in theirs["rows"]} == {row["id"]: row["name"] for row in ours}, when
