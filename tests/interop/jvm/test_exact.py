"""Exact tables with Apache Hudi: it reads what an exact compaction leaves, writes on, compacts, and takes dead ones back."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidelake as tl
from exact_world import plan_exact
from interop.jvm.both import Both, make, rows
from interop.jvm.hudi_client import NO_METADATA, Hudi
from interop.jvm.test_compaction import die_compacting
from tidelake.errors import NotExactError
from tidelake.format.names import parse_log_name
from tidelake.storage import LocalStorage

pytestmark = pytest.mark.hudi_jvm
INDEX = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
BACKDATE = "hoodie.compaction.event.time.backdate"
EXACT = {
    **INDEX,
    "hoodie.payload.event.time.unit": "s",
    "hoodie.compaction.event.time.exact": "true",
}


def make_exact(hudi: Hudi, path: Path, blocks: str) -> Both:
    both = make(
        hudi,
        path,
        {**EXACT, "hoodie.logfile.data.block.format": blocks},
        partition_by="day",
        ordering_fields="ts",
        event_time_field="ts",
    )
    both.write_options.update(INDEX)
    return both


def plan(both: Both, threshold_s: int) -> str:
    planned = plan_exact(LocalStorage(both.path), None, threshold_s)
    assert planned is not None
    return planned


def optimised(both: Both, **point: int) -> dict[int, str]:
    found = both.ours.scan(columns=["id", "name"], mode="read_optimized", **point).to_arrow().to_pylist()
    assert len(found) == len({row["id"] for row in found})
    return {row["id"]: row["name"] for row in found}


def leftovers(both: Both, instant: str) -> list[str]:
    names = (path.name for path in both.path.rglob(".*.log.*"))
    return sorted(n for n in names if (log := parse_log_name(n)) is not None and log.instant == instant)


@pytest.mark.parametrize("blocks", ["avro", "parquet"])
def test_exact_compactions_are_read_and_continued_by_apache_hudi(hudi: Hudi, tmp_path: Path, blocks: str) -> None:
    both = make_exact(hudi, tmp_path / "t", blocks)
    # An empty base file and a log, in one commit; two versions of a key in one block.
    both.ours.upsert(rows((0, "a1", 1), (0, "a9", 9), (1, "b6", 6), (2, "c2", 2), (3, "d3", 3)))
    assert optimised(both) == {}
    both.check(incremental=False)
    # Ties of a row and a delete, both orders, after the threshold; a delete before it.
    both.ours.upsert(rows((4, "e7", 7), (5, "f7", 7)))
    both.ours.delete([4])
    both.ours.delete([5])
    both.ours.upsert(rows((5, "f7 again", 7)))
    both.ours.delete([3])
    expected = {0: "a9", 1: "b6", 2: "c2", 5: "f7 again"}
    assert both.state() == expected
    both.check(incremental=False)
    # Pending, then done: both read the same, and the snapshot does not change.
    first = plan(both, 5)
    both.check(incremental=False)
    both.ours.run_compaction(first)
    assert both.state() == expected
    assert optimised(both, as_of_event_time=5_000) == {0: "a1", 2: "c2"}
    assert leftovers(both, first)
    both.check(incremental=False)
    # What was left keeps its commit times: Apache Hudi's incremental query does not give it again.
    times = sorted(i.completion_time or "" for i in both.ours.timeline.completed_writes)
    both.check_incremental(times[-2], times[-1], NO_METADATA)
    both.check_incremental(times[0], times[-1], NO_METADATA)
    # It upserts into the same buckets: an update, a late one, an older one than a tombstone, a new key.
    both.theirs(rows((1, "b8", 8), (2, "c1 late", 1), (4, "e6 hidden", 6), (6, "g2", 2)))
    expected |= {1: "b8", 6: "g2"}
    assert both.state() == expected
    both.check(incremental=False)
    with pytest.raises(NotExactError):
        optimised(both, as_of_event_time=5_000)
    # We compact at a later time: the versions in between come out; its own logs are split, too.
    both.ours.run_compaction(plan(both, 7))
    assert both.state() == expected
    assert optimised(both, as_of_event_time=7_000) == {0: "a1", 1: "b6", 2: "c2", 4: "e6 hidden", 6: "g2"}
    both.check(incremental=False)
    # It carries an exact plan of ours out, as a plain one: nothing is left, the rows are right, and exactness is not claimed.
    both.ours.upsert(rows((2, "c4", 4)))
    expected[2] = "c4"
    plan(both, 7)
    both.hudi.run_compaction(both.path)
    assert both.state() == expected
    with pytest.raises(NotExactError, match="base file"):
        optimised(both, as_of_event_time=7_000)
    both.check(incremental=False)
    # An exact one takes what is after the threshold out of its base files again.
    both.ours.upsert(rows((0, "a2", 2), (1, "b10", 10), (2, "c11", 11)))
    expected |= {1: "b10", 2: "c11"}
    both.ours.run_compaction(plan(both, 8))
    assert both.state() == expected
    assert 2 in optimised(both, as_of_event_time=8_000)
    both.check(incremental=False)
    # It schedules and runs a compaction of its own, and both go on.
    both.theirs(rows((7, "h12", 12)))
    both.hudi.compact(both.path)
    both.ours.upsert(rows((7, "h13", 13)))
    expected[7] = "h13"
    assert both.state() == expected
    both.check(incremental=False)
    assert both.ours.audit_services().is_clean


def test_exact_compaction_at_a_past_instant_is_read_and_continued_by_apache_hudi(hudi: Hudi, tmp_path: Path) -> None:
    """The strategy's own plan: its instant lies before the last write, whose log stays on top of what is left over."""
    both = make_exact(hudi, tmp_path / "t", "parquet")
    both.ours.upsert(rows((0, "a1", 1), (0, "a9", 9), (1, "b6", 6), (2, "c2", 2)))
    both.ours.upsert(rows((2, "c4", 4), (3, "d3", 3)))
    both.ours.delete([3])
    last = both.ours.upsert(rows((0, "a9 again", 9), (1, "b10", 10), (4, "e11", 11)))
    expected = {0: "a9 again", 1: "b10", 2: "c4", 4: "e11"}
    planned = both.ours.schedule_compaction(threshold="1970-01-01T00:00:05Z", options={BACKDATE: "any"})
    assert planned is not None
    assert planned < last.requested_time
    both.check(incremental=False)
    both.ours.run_compaction(planned)
    assert leftovers(both, planned)
    assert both.state() == expected, "of equal times the later write wins"
    assert optimised(both, as_of_event_time=5_000) == {0: "a1", 2: "c4"}
    both.check(incremental=False)
    both.theirs(rows((1, "b5", 5), (2, "c12", 12), (5, "f2", 2)))
    expected |= {2: "c12", 5: "f2"}
    assert both.state() == expected
    both.check(incremental=False)
    both.hudi.compact(both.path)
    assert both.state() == optimised(both) == expected
    both.check(incremental=False)
    assert both.ours.audit_services().is_clean


def test_exact_compaction_whose_executor_died_is_taken_back_by_apache_hudi(hudi: Hudi, tmp_path: Path) -> None:
    """Our base files and leftover logs are there, the plan is not done: Apache Hudi removes both, and runs the plan."""
    both = make_exact(hudi, tmp_path / "t", "parquet")
    both.ours.upsert(rows((0, "a1", 1), (0, "a9", 9), (1, "b6", 6), (2, "c2", 2)))
    expected = both.state()
    plan(both, 5)
    died = die_compacting(both, tmp_path / "scratch")
    assert leftovers(both, died)
    both.check(incremental=False)
    both.hudi.run_compaction(both.path)
    assert both.ours.timeline.by_time[died].is_completed
    assert leftovers(both, died) == []
    assert both.state() == optimised(both) == expected
    both.check(incremental=False)
    assert tl.open_table(str(both.path)).audit_services().is_clean
