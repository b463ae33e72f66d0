"""Compaction by both engines, on one table: each carries out the other's plans, also after the other's executor died."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import tidelake as tl
from interop.jvm.both import Both, make, rows
from interop.jvm.hudi_client import Hudi, HudiError
from interop.jvm.test_dead_writers import EXPIRED_S, expire
from tidelake.format.names import parse_base_name
from tidelake.storage import LocalStorage
from tidelake.testing import Fault, FaultyStorage, SimulatedCrash
from unit.services.hand_made import work_left

pytestmark = pytest.mark.hudi_jvm


def die_compacting(both: Both, scratch: Path) -> str:
    """Crash an executor of ours when all of its files are written, just before it completes; the plan's instant."""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(both.path, scratch)
    counted = FaultyStorage(LocalStorage(scratch))
    tl.open_table(str(scratch), storage=counted).run_compaction()
    turn = [o.number for o in counted.journal if o.verb == "put_if_match" and o.path.endswith("/head")][-1]
    faulty = FaultyStorage(LocalStorage(both.path), [Fault(turn, "crash_before")])
    with pytest.raises(SimulatedCrash):
        tl.open_table(str(both.path), storage=faulty).run_compaction()
    (pending,) = both.ours.timeline.pending
    assert files_of(both, pending.requested_time)
    expire(both.path, pending.requested_time)
    return pending.requested_time


def files_of(both: Both, instant: str) -> list[str]:
    parsed = ((path.name, parse_base_name(path.name)) for path in both.path.rglob("*.parquet"))
    return sorted(name for name, base in parsed if base is not None and base.instant == instant)


def check_compacted(both: Both, expected: dict[int, str]) -> None:
    """Nothing is pending or left to fold in, each file group has one file of the compaction, and both read the same."""
    assert not both.ours.timeline.pending
    assert work_left(both.ours) == {}
    last = max(i.requested_time for i in both.ours.timeline.completed_writes if i.pending_action == "compaction")
    names = files_of(both, last)
    assert len(names) == len({name.partition("_")[0] for name in names})
    assert both.state() == expected
    both.check(incremental=False)


@pytest.mark.parametrize("index", ["SIMPLE", "BUCKET"])
def test_compaction_plans_are_carried_out_by_either_engine(hudi: Hudi, tmp_path: Path, index: str) -> None:
    options = {"hoodie.index.type": index}
    if index == "BUCKET":
        options["hoodie.bucket.index.num.buckets"] = "2"
    both = make(hudi, tmp_path / "t", options, partition_by="day", ordering_fields="ts")
    both.write_options.update(options)
    scratch = tmp_path / "scratch"
    model = {i: f"first {i}" for i in range(9)}
    both.ours.upsert(rows(*((i, name, 1) for i, name in model.items())))

    def changed(turn: int, *keys: int) -> object:
        model.update({key: f"turn {turn}.{key}" for key in keys})
        return rows(*((key, model[key], 10 * turn) for key in keys))

    # We compact; it reads the same and goes on writing.
    both.ours.upsert(changed(1, 0, 1, 2, 20))
    both.ours.delete([4])
    del model[4]
    assert both.ours.compact() is not None
    check_compacted(both, model)
    # It plans, we carry out; we plan, it carries out.
    both.theirs(changed(2, 1, 5, 21))
    both.hudi.schedule_compaction(both.path)
    both.ours.run_compaction()
    check_compacted(both, model)
    both.ours.upsert(changed(3, 2, 6))
    both.ours.schedule_compaction()
    both.theirs(changed(4, 2, 22))
    both.hudi.run_compaction(both.path)
    assert both.state() == model
    both.check(incremental=False)
    # Its plan was foreign and the last: we look at everything, and find what came after it was made.
    both.ours.compact()
    check_compacted(both, model)
    # Our executor dies: it takes what was done back, and carries the plan out.
    both.ours.upsert(changed(5, 0, 3))
    both.ours.schedule_compaction()
    plan = die_compacting(both, scratch)
    both.hudi.run_compaction(both.path)
    assert both.ours.timeline.by_time[plan].is_completed
    check_compacted(both, model)
    # Its plan, our executor dies, we take it back, it carries the plan out.
    both.theirs(changed(6, 0, 7, 8))
    both.hudi.schedule_compaction(both.path)
    plan = die_compacting(both, scratch)
    both.ours.rollback(plan)
    assert files_of(both, plan) == []
    both.hudi.run_compaction(both.path)
    check_compacted(both, model)
    # It has rolled an executor back before: we do, too, run the plan again, and both go on.
    both.ours.upsert(changed(7, 1, 2, 23))
    both.ours.schedule_compaction()
    plan = die_compacting(both, scratch)
    both.ours.rollback(plan)
    both.ours.run_compaction(plan)
    check_compacted(both, model)
    both.theirs(changed(8, 1, 24))
    both.hudi.compact(both.path)
    check_compacted(both, model)
    assert both.ours.audit_services().is_clean


def test_compaction_plan_of_ours_that_apache_hudi_rolls_back_is_run_again_by_us(hudi: Hudi, tmp_path: Path) -> None:
    """Our executor dies; Apache Hudi takes its files back, then fails to read a log, and gives up. We run the plan."""
    both = make(hudi, tmp_path / "t", {}, partition_by="day", ordering_fields="ts")
    both.ours.upsert(rows(*((key, f"first {key}", 1) for key in range(6))))
    both.ours.upsert(rows((0, "second 0", 2), (1, "second 1", 2)))
    expected = both.state()
    both.ours.schedule_compaction()
    plan = die_compacting(both, tmp_path / "scratch")
    made = files_of(both, plan)
    log = next(path for path in both.path.rglob(".*.log.*") if ".hoodie" not in path.parts)
    aside = tmp_path / "aside"
    log.rename(aside)
    with pytest.raises(HudiError):
        both.hudi.run_compaction(both.path)
    aside.rename(log)
    assert [pending.requested_time for pending in both.ours.timeline.pending] == [plan]
    assert not set(files_of(both, plan)) & set(made)
    assert both.state() == expected
    expire(both.path, plan)
    claim = both.path / ".hoodie" / ".tidelake" / "claims" / plan
    os.utime(claim, (claim.stat().st_mtime - EXPIRED_S,) * 2)
    both.ours.run_compaction(plan)
    check_compacted(both, expected)
    both.theirs(rows((0, "third 0", 3), (20, "new", 3)))
    expected |= {0: "third 0", 20: "new"}
    assert both.state() == expected
    both.check(incremental=False)
