"""Compactions by event time with Apache Hudi: a barrier in the past, pending and done, and all that it does afterwards."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from golden.support import rows_of
from interop.jvm.both import Both, make, rows
from interop.jvm.hudi_client import NO_METADATA, Hudi

pytestmark = pytest.mark.hudi_jvm
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
EVENT = {"hoodie.payload.event.time.unit": "s"}
LATER = {"hoodie.compaction.event.time.late.delay": "0s"}


def iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()


def schedule(both: Both, threshold_s: int) -> str:
    planned = both.ours.schedule_compaction(strategy="event_time", threshold=iso(threshold_s), options=LATER)
    assert planned is not None
    return planned


def optimised(both: Both) -> dict[int, str]:
    found = both.ours.scan(columns=["id", "name"], mode="read_optimized").to_arrow().to_pylist()
    return {row["id"]: row["name"] for row in found}


def check_times(both: Both, barriers: list[str]) -> None:
    """As of each write that no barrier lies within, both read the same."""
    seen = 0
    for write in both.ours.timeline.completed_writes:
        requested, completion = write.requested_time, write.completion_time or ""
        if any(requested < barrier <= completion for barrier in barriers):
            continue
        theirs = both.hudi.read(both.path, {**NO_METADATA, "as.of.instant": requested})
        assert rows_of(both.ours.scan(as_of=requested).to_arrow(), theirs["schema"]) == theirs["rows"], requested
        seen += 1
    assert seen > 3


@pytest.mark.parametrize("options", [{}, BUCKET], ids=["SIMPLE", "BUCKET"])
def test_event_time_compactions_are_read_and_continued_by_apache_hudi(
    hudi: Hudi, tmp_path: Path, options: dict[str, str]
) -> None:
    both = make(
        hudi, tmp_path / "t", {**options, **EVENT}, partition_by="day", ordering_fields="ts", event_time_field="ts"
    )
    both.write_options.update(options)
    both.ours.upsert(rows(*((key, f"first {key}", 10) for key in range(9))))
    both.ours.upsert(rows((0, "early", 20), (1, "early", 20)))
    both.ours.upsert(rows((2, "late", 60), (3, "late", 60)))
    both.ours.upsert(rows((0, "late", 70)))
    expected = both.state()
    # The barrier lies before the last two writes: their logs come on top of the new base files.
    planned = schedule(both, 50)
    assert planned < both.ours.timeline.completed_writes[-2].requested_time
    assert both.state() == expected
    both.check()
    # While the plan is pending, both write.
    both.ours.upsert(rows((4, "meanwhile", 80)))
    both.theirs(rows((5, "theirs", 81), (1, "theirs, too late", 19)))
    expected |= {4: "meanwhile", 5: "theirs"}
    assert both.state() == expected
    both.check()
    both.ours.run_compaction(planned)
    assert both.state() == expected
    assert {0: "early", 1: "early", 2: "first 2", 3: "first 3"}.items() <= optimised(both).items()
    both.check()
    check_times(both, [planned])
    # It goes on: upserts, plans and runs a compaction, cleans, reads incrementally.
    both.theirs(rows((0, "theirs again", 90), (20, "new", 90)))
    expected |= {0: "theirs again", 20: "new"}
    both.check()
    both.hudi.compact(both.path)
    assert both.state() == optimised(both) == expected
    both.check()
    # A plan of ours by event time is carried out by it.
    both.ours.upsert(rows((6, "old", 40), (7, "young", 95)))
    expected |= {6: "old", 7: "young"}
    second = schedule(both, 50)
    # First it plans what ours leaves out, and runs that; then it finds ours waiting.
    both.hudi.run_compaction(both.path)
    if any(pending.requested_time == second for pending in both.ours.timeline.pending):
        both.check()
        both.hudi.run_compaction(both.path)
    assert both.ours.timeline.by_time[second].is_completed
    assert both.state() == expected
    both.check()
    both.hudi.clean(both.path)
    assert both.state() == expected
    both.check(incremental=False)
    both.theirs(rows((8, "last", 99)))
    expected[8] = "last"
    assert both.state() == expected
    both.check(incremental=False)
    assert both.ours.compact() is not None
    assert both.state() == optimised(both) == expected
    both.check(incremental=False)
    assert both.ours.audit_services().is_clean


def test_event_time_previous_slice_outlives_apache_hudis_cleans_over_two_commits(hudi: Hudi, tmp_path: Path) -> None:
    """The cleaner retains five commits, and eight are later than T: readers of the previous slice keep their files."""
    retained = {"hoodie.clean.commits.retained": "5"}
    both = make(
        hudi, tmp_path / "t", {**BUCKET, **EVENT}, partition_by="day", ordering_fields="ts", event_time_field="ts"
    )
    both.write_options.update(BUCKET)
    both.ours.upsert(rows((0, "first", 10), (3, "first", 10)))
    both.ours.upsert(rows((0, "early", 20)))
    for turn in range(8):
        both.ours.upsert(rows((3, f"turn {turn}", 60 + turn)))
    before = {file.path for s in both.ours.files() for file in s.files}
    options = {**LATER, **retained, "hoodie.compaction.event.time.barrier": "COVERING"}
    assert both.ours.compact(strategy="event_time", threshold=iso(50), options=options) is not None
    for turn in range(2):
        both.theirs(rows((0, f"after {turn}", 80 + turn)))
        both.hudi.clean(both.path, retained=5)
        assert all((both.path / path).exists() for path in before)
        both.check(incremental=False)
