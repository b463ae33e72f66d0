"""Planning costs what changed, and loses nothing: the cases of the incremental services, with real tables."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import tidelake as tl
from model.one_thread import in_one_thread
from tidelake.query import TableSource
from tidelake.services.cursor import CURSOR_DIR
from tidelake.services.kinds import COMPACTION, pending_groups
from tidelake.services.report import ServicePlan
from tidelake.services.runs import runs_of
from tidelake.services.withdraw import withdraw
from tidelake.storage import FaultyStorage
from unit.services.hand_made import archive, foreign_plan, planned_groups, without_mark, work_left
from unit.services.service_tables import EXPIRED_S, World, rows_of

CURSOR = f"{CURSOR_DIR}/compaction"


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_thread(monkeypatch)


def rows(*keys: int, ts: int = 1) -> pa.Table:
    """A row for each key, in the partition of its tens."""
    return pa.table(
        {
            "id": pa.array(keys, pa.int64()),
            "name": [f"{key}@{ts}" for key in keys],
            "ts": pa.array([ts] * len(keys), pa.int64()),
            "day": [f"p{key // 10}" for key in keys],
        }
    )


def filled(partitions: int = 4) -> World:
    """One file group in each partition, without logs."""
    world = World()
    world.open().insert(rows(*range(0, partitions * 10, 10)))
    return world


def listings(storage: FaultyStorage) -> list[str]:
    """The partitions that were listed; the table's root stands for all of them."""
    return [o.path for o in storage.journal if o.verb.startswith("list") and not o.path.startswith(".hoodie")]


def counted(world: World) -> tuple[tl.Table, FaultyStorage]:
    storage = FaultyStorage(world.storage, clock=world.clock)
    return world.open(storage), storage


def dry(world: World) -> ServicePlan | None:
    found = world.open().compact(dry_run=True)
    assert found is None or isinstance(found, ServicePlan)
    return found


def test_planner_lists_only_the_partitions_that_changed() -> None:
    world = filled(30)
    world.open().upsert(rows(10, 20, ts=2))
    table, storage = counted(world)
    assert table.schedule_compaction() is not None
    assert sorted(set(listings(storage))) == ["day=p1", "day=p2"]


def test_planner_lists_nothing_for_empty_commits_and_makes_no_plan() -> None:
    world = filled()
    world.open().upsert(rows(10, ts=2))
    world.open().compact()
    files = len(world.open().timeline.names)
    for _ in range(3):
        world.open().upsert(rows())
        table, storage = counted(world)
        assert table.schedule_compaction() is None
        assert listings(storage) == []
    assert len(world.open().timeline.names) == files + 9, "a pass wrote on the timeline"


def test_planner_passes_after_the_last_service_was_archived_stay_flat() -> None:
    world = filled()
    world.open().upsert(rows(10, ts=2))
    world.open().compact()
    world.open().upsert(rows(20, ts=3))
    assert world.open().schedule_compaction(partitions=["day=p9"]) is None
    done = [i.requested_time for i in world.open().timeline.instants]
    world.open().upsert(rows())
    archive(world, done)
    costs = []
    for _ in range(100):
        table, storage = counted(world)
        assert table.schedule_compaction(partitions=["day=p9"]) is None
        assert listings(storage) == []
        costs.append(storage.operations)
    assert len(set(costs[1:])) == 1
    plan = dry(world)
    assert plan is not None
    assert (plan.partition_source, [op.partition_path for op in plan.operations]) == ("incremental", ["day=p2"])


def test_planner_target_io_takes_one_of_three_groups_and_the_rest_in_later_runs() -> None:
    world = World()
    for key in (1, 2, 3):
        world.open().insert(rows(key))
    world.open().insert(rows(10))
    world.open().upsert(rows(1, 2, 3, 10, ts=2))
    everything = {(s.partition_path, s.file_id) for s in world.open().files() if s.logs}
    tiny = {"hoodie.compaction.strategy": "first"}
    tl.register_strategy("first", First)
    taken: list[tuple[str, str]] = []
    for left in (["day=p0", "day=p1"], ["day=p0", "day=p1"], ["day=p1"], []):
        found = world.open().compact(dry_run=True, options=tiny)
        assert isinstance(found, ServicePlan)
        assert list(found.missing_partitions) == left
        taken += [(op.partition_path, op.file_id) for op in found.operations]
        world.open().compact(options=tiny)
    assert world.open().compact(options=tiny) is None
    assert set(taken) == everything
    assert len(taken) == 4
    assert work_left(world.open()) == {}


class First(tl.ServiceStrategy, tl.IncrementalPartitionAwareStrategy):
    """One group a time."""

    def choose(self, config: object, candidates: object) -> object:  # type: ignore[override]
        return candidates[:1]  # type: ignore[index]


class Doubled(tl.ServiceStrategy, tl.IncrementalPartitionAwareStrategy):
    """A user's mistake: everything twice."""

    def filter_partition_paths(self, config: object, partitions: object) -> object:  # type: ignore[override]
        return [*partitions, *partitions], []  # type: ignore[misc]

    def choose(self, config: object, candidates: object) -> object:  # type: ignore[override]
        return [*candidates, *candidates]  # type: ignore[misc]


def test_planner_strategy_that_names_groups_twice_plans_each_once() -> None:
    tl.register_strategy("doubled", Doubled)
    world = filled()
    world.open().upsert(rows(10, 20, ts=2))
    found = world.open().compact(dry_run=True, strategy="doubled")
    assert isinstance(found, ServicePlan)
    assert [op.partition_path for op in found.operations] == ["day=p1", "day=p2"]


def test_planner_selected_partition_leaves_the_others_in_the_plan() -> None:
    world = filled()
    world.open().upsert(rows(0, 10, 20, ts=2))
    world.open().compact(partitions=["day=p1"])
    assert work_left(world.open()) == {"day=p0": 1, "day=p2": 1}
    world.open().upsert(rows(30, ts=2))
    plan = dry(world)
    assert plan is not None
    assert plan.partition_source == "incremental"
    assert [op.partition_path for op in plan.operations] == ["day=p0", "day=p2", "day=p3"]


@pytest.mark.parametrize("is_ours", [True, False])
def test_planner_rolled_back_service_leaves_the_window_of_before_it_and_its_plan(is_ours: bool) -> None:
    world = filled()
    world.open().upsert(rows(0, ts=2))
    world.open().compact()
    world.open().upsert(rows(10, ts=3))
    plan = world.open().schedule_compaction() if is_ours else foreign_plan(world)
    assert plan is not None
    _die_running(world, plan)
    world.open().rollback(plan)
    world.open().upsert(rows(20, ts=4))
    found = dry(world)
    assert found is not None
    assert [op.partition_path for op in found.operations] == ["day=p2"]
    assert "day=p1" in found.left
    before = rows_of(world.open())
    world.open().run_compaction(plan)
    world.open().compact()
    assert work_left(world.open()) == {}
    assert rows_of(world.open()) == before


def _die_running(world: World, plan: str) -> None:
    from tidelake.storage import SimulatedCrash

    def before(number: int, verb: str, path: str) -> None:
        if verb == "put" and path.startswith("day="):
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        world.open(FaultyStorage(world.storage, clock=world.clock, on_operation=before)).run_compaction(plan)
    world.clock.advance(EXPIRED_S)


def test_planner_group_omitted_by_a_foreign_plan_while_another_held_it_is_found() -> None:
    """C1 holds fg1; D goes to fg1; the foreign C2 omits fg1 and says nothing, completes; C1 completes: D is found."""
    world = filled()
    world.open().upsert(rows(0, ts=2))
    first = world.open().schedule_compaction()
    world.open().upsert(rows(0, 10, ts=3))
    second = foreign_plan(world)
    world.open().run_compaction(second)
    world.open().run_compaction(first)
    assert work_left(world.open()) == {"day=p0": 1}
    found = dry(world)
    assert found is not None
    assert found.partition_source == "full_fallback:foreign plan"
    assert [op.partition_path for op in found.operations] == ["day=p0"]


def test_planner_two_foreign_plans_in_a_row_lose_nothing() -> None:
    world = filled()
    world.open().upsert(rows(0, 10, 20, ts=2))
    for left in (["day=p0"], ["day=p0", "day=p1"]):
        plan = foreign_plan(world, left)
        if plan is not None:
            world.open().run_compaction(plan)
    plan = world.open().schedule_compaction(partitions=["day=p1"])
    assert plan is None
    found = dry(world)
    assert found is not None
    assert [op.partition_path for op in found.operations] == ["day=p0"]


def test_planner_plan_without_our_mark_is_foreign_also_after_archiving() -> None:
    world = filled()
    world.open().upsert(rows(0, 10, ts=2))
    plan = world.open().schedule_compaction(partitions=["day=p0"])
    without_mark(world, str(plan))
    world.open().run_compaction(plan)
    done = [i.requested_time for i in world.open().timeline.instants]
    world.open().upsert(rows(20, ts=3))
    archive(world, done)
    found = dry(world)
    assert found is not None
    assert found.partition_source == "full_fallback:foreign plan"
    assert [op.partition_path for op in found.operations] == ["day=p1", "day=p2"]


def test_planner_lost_cursor_costs_time_and_no_partition() -> None:
    world = filled()
    world.open().upsert(rows(0, ts=2))
    world.open().compact()
    world.open().upsert(rows(10, 20, ts=3))
    assert world.open().schedule_compaction(partitions=["day=p9"]) is None
    assert json.loads(world.storage.get(CURSOR))["carry"] == ["day=p1", "day=p2"]
    kept = dry(world)
    world.storage.delete(CURSOR)
    lost = dry(world)
    assert kept is not None
    assert lost is not None
    assert kept.operations == lost.operations
    assert str(kept.window_start) > str(lost.window_start)


def test_planner_two_races_give_each_group_one_plan() -> None:
    """A planner asleep before each of its operations while another plans: the loser plans again, or finds nothing."""
    start, at = FaultyStorage(World().storage), 0
    while at <= start.operations:
        at += 3
        world = filled()
        world.open().upsert(rows(0, 10, ts=2))
        done: list[int] = []

        def others(
            number: int, verb: str, path: str, at: int = at, world: World = world, done: list[int] = done
        ) -> None:
            if number == at and not done:
                done.append(number)
                world.open().schedule_compaction(partitions=["day=p0"])

        start = FaultyStorage(world.storage, clock=world.clock, on_operation=others)
        world.open(start).schedule_compaction()
        groups = planned_groups(world)
        assert sorted(partition for partition, _ in groups) == ["day=p0", "day=p1"]
        assert len(groups) == len(set(groups))


def test_planner_takes_work_back_that_a_taken_back_overwrite_had_hidden() -> None:
    """The groups that an overwrite retired have logs; a plan passes them by; the overwrite is taken back."""
    world = filled()
    world.open().upsert(rows(0, 10, ts=2))
    over = world.open().insert_overwrite(rows(11, ts=3))
    world.open().schedule_compaction(partitions=["day=p9"])
    world.open().rollback(over.requested_time)
    found = dry(world)
    assert found is not None
    assert [op.partition_path for op in found.operations] == ["day=p0", "day=p1"]


def test_planner_takes_work_back_that_a_restored_overwrite_had_hidden() -> None:
    """The same by a restore: the cursor has passed the commits whose groups are back."""
    world = filled()
    last = world.open().upsert(rows(0, 10, ts=2))
    world.open().savepoint(last.requested_time)
    world.open().insert_overwrite(rows(1, 11, ts=3))
    assert world.open().schedule_compaction() is None
    world.open().restore(last.requested_time)
    found = dry(world)
    assert found is not None
    assert [op.partition_path for op in found.operations] == ["day=p0", "day=p1"]
    assert found.partition_source.startswith("full_fallback:")


def test_a_plan_that_is_withdrawn_after_the_timeline_was_read_holds_nothing() -> None:
    """Its file is gone: what a pass, or a list of plans, then finds is a plan less."""
    world = filled()
    world.open().upsert(rows(0, 10, ts=2))
    planned = world.open().schedule_compaction()
    assert planned is not None
    read_before = TableSource.load(world.storage)
    withdraw(world.open()._service_call(None), COMPACTION, planned)
    assert pending_groups(world.storage, read_before.config.timeline_dir, read_before.timeline.pending) == {}
    assert runs_of(read_before, COMPACTION) == ()
