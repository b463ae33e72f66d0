"""Who wakes too late does no harm: rollbacks, withdrawals and savepoints that slept while others went on, and cleaned.

The clean after it all shows what else may stay hidden: what the table needs by then is only in the newest files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tidelake as tl
from model.deep import IS_DEEP
from small_rows import rows
from tidelake.errors import MissingFileError
from tidelake.storage import FaultyStorage
from unit.services.service_tables import EXPIRED_S, World
from unit.services.test_executors import Act, asleep, copy_of, numbers
from unit.write.interleave import make_deterministic

STEP = 1 if IS_DEEP else 3


@pytest.fixture(autouse=True)
def deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    make_deterministic(monkeypatch)


def planned(verb: str) -> tuple[World, str]:
    """A table with the plan of a compaction, whose executor died, or of a clustering."""
    world = World()
    world.open().upsert(rows((1, "one", 1), (2, "two", 1), (3, "three", 1)))
    if verb == "clustering":
        world.open().insert(rows((5, "five", 1), (4, "four", 1)))
        return world, world.open().schedule_clustering() or ""
    world.open().upsert(rows((1, "one", 2), (2, "two", 2)))
    plan = world.open().schedule_compaction() or ""
    run: Act = lambda t: t.run_compaction(plan)  # noqa: E731
    died = numbers(world, run)
    asleep(world, run, died[len(died) * 2 // 3], lambda: None, dies=True)
    world.clock.advance(EXPIRED_S)
    return world, plan


def go_on(world: World, run: Callable[[], object]) -> list[list[tuple[Any, ...]]]:
    """Carry a plan out, if that may be, write on top of it, and clean; the rows then, if it could be."""
    try:
        run()
    except (tl.ConflictError, tl.InvalidError):
        return []
    world.open().upsert(rows((1, "new", 9), (2, "new", 9)))
    world.open().clean("KEEP_LATEST_FILE_VERSIONS", 1)
    return [world.rows]


def test_rollback_that_slept_while_its_plan_was_run_again_leaves_it_alone() -> None:
    start, plan = planned("compaction")
    act: Act = lambda t: t.rollback(plan)  # noqa: E731
    completed = 0
    for at in numbers(start, act)[::STEP]:
        world = copy_of(start)
        seen: list[list[tuple[Any, ...]]] = []

        def other(world: World = world, seen: list[list[tuple[Any, ...]]] = seen) -> None:
            seen.extend(go_on(world, lambda: world.open().run_compaction(plan)))

        asleep(world, act, at, other)
        for expected in seen:
            completed += 1
            assert plan in world.open().timeline.by_time, at
            assert world.rows == expected, at
    assert completed


@pytest.mark.parametrize("dies", [False, True], ids=["wakes", "dies"])
def test_withdrawal_that_slept_while_the_plan_was_carried_out_takes_nothing(dies: bool) -> None:
    """Either the plan was carried out, and stays so, or it is gone for good, whoever ends its removal."""
    start, plan = planned("clustering")
    act: Act = lambda t: t.withdraw_clustering(plan)  # noqa: E731
    completed = 0
    for at in numbers(start, act)[::STEP]:
        world = copy_of(start)
        seen: list[list[tuple[Any, ...]]] = []

        def other(world: World = world, seen: list[list[tuple[Any, ...]]] = seen) -> None:
            world.clock.advance(EXPIRED_S)
            seen.extend(go_on(world, lambda: world.open().run_clustering(plan)))

        asleep(world, act, at, other, dies=dies)
        assert world.rows in (seen or [start.rows]), at
        completed += len(seen)
        before = world.rows
        world.clock.advance(EXPIRED_S)
        world.open().cluster()
        world.open().upsert(rows((2, "last", 99)))
        assert not world.open().timeline.pending, at
        assert [row[0] for row in world.rows] == [row[0] for row in before], at
    assert completed


def test_plan_whose_withdrawal_died_half_way_is_removed_by_its_next_executor() -> None:
    start, plan = planned("clustering")
    act: Act = lambda t: t.withdraw_clustering(plan)  # noqa: E731
    world = copy_of(start)
    counted = FaultyStorage(world.storage, clock=world.clock)
    act(world.open(counted))
    ends = [o.number for o in counted.journal if o.verb == "delete" and o.path.endswith(f"{plan}.clustering.requested")]
    asleep(start, act, ends[0], lambda: None, dies=True)
    assert plan in {i.requested_time for i in start.open().timeline.pending}
    start.clock.advance(EXPIRED_S)
    with pytest.raises(tl.ConflictError, match="withdrawn"):
        start.open().run_clustering(plan)
    assert not start.open().timeline.pending


@pytest.mark.parametrize("verb", ["get_with_version", "put_if_absent"])
def test_savepoint_that_was_dropped_before_its_maker_put_it_does_not_come_back(verb: str) -> None:
    """The maker sleeps after its turn; others end it, drop the savepoint and clean its files."""
    world = World()
    world.open().upsert(rows((1, "one", 1), (2, "two", 1)))
    commit = world.open().timeline.completed_writes[-1].requested_time
    turns: list[str] = []
    dropped: list[str] = []

    def others(number: int, called: str, path: str) -> None:
        if called == "put_if_match" and path.endswith("/head"):
            turns.append(path)
        elif called == verb and turns and not dropped:
            dropped.append(path)
            world.open().drop_savepoint(commit)
            world.open().upsert(rows((1, "two", 2), (2, "two", 2)))
            world.open().compact()
            world.open().clean("KEEP_LATEST_FILE_VERSIONS", 1)

    woken = FaultyStorage(world.storage, clock=world.clock, on_operation=others)
    with pytest.raises(MissingFileError):
        world.open(woken).savepoint(commit)
    assert dropped
    assert not world.open().savepoints()
    world.clock.advance(EXPIRED_S)
    world.open().upsert(rows((1, "three", 3)))
    assert not [name for name in world.open().timeline.names if name.action == "savepoint"]


def test_savepoint_whose_maker_was_taken_for_dead_stays() -> None:
    """Whoever took the maker for dead slept as well, and removes its inflight file when the savepoint is made."""
    world = World()
    world.open().upsert(rows((1, "one", 1), (2, "two", 1)))
    made: list[str] = []

    def others(number: int, called: str, path: str) -> None:
        if called == "delete" and path.endswith(".savepoint.inflight") and not made:
            made.append(world.open().savepoint().instant)

    make: Act = lambda t: t.savepoint()  # noqa: E731
    inflight = next(at for at in numbers(world, make) if _is_begun(world, at))
    asleep(world, make, inflight, lambda: None, dies=True)
    world.clock.advance(EXPIRED_S)
    world.open(FaultyStorage(world.storage, clock=world.clock, on_operation=others)).upsert(rows((1, "two", 2)))
    assert [s.instant for s in world.open().savepoints()] == made != []
    world.open().upsert(rows((1, "three", 3)))
    assert [s.instant for s in world.open().savepoints()] == made


def _is_begun(start: World, at: int) -> bool:
    """Whether a savepoint's inflight file is there before an operation of its maker."""
    world = copy_of(start)
    asleep(world, lambda t: t.savepoint(), at, lambda: None, dies=True)
    return any(i.action == "savepoint" for i in world.open().timeline.pending)


def test_savepoint_made_after_a_dropped_one_came_back_is_its_own() -> None:
    """The completed file of a dropped savepoint does not count again beside the inflight file of the next one."""
    world = World()
    world.open().upsert(rows((1, "one", 1), (2, "two", 1)))
    first = world.open().savepoint()
    path = f".hoodie/timeline/{first.instant}_{first.made_at}.savepoint"
    content = world.storage.get(path)
    world.open().drop_savepoint(first.instant)
    world.storage.put(path, content)
    assert world.open().savepoint(first.instant).made_at > first.made_at


def test_plan_that_was_restored_before_its_planner_put_it_does_not_come_back() -> None:
    """The planner sleeps after its turn; others end it, and restore to before what it names."""
    world = World()
    world.open().upsert(rows((1, "one", 1), (2, "two", 1)))
    commit = world.open().savepoint().instant
    world.open().upsert(rows((1, "two", 2), (2, "two", 2)))
    restored: list[str] = []

    def others(number: int, called: str, path: str) -> None:
        if called == "put_if_absent" and path.endswith(".compaction.requested") and not restored:
            restored.append(path)
            world.open().restore(commit)

    world.open(FaultyStorage(world.storage, clock=world.clock, on_operation=others)).schedule_compaction()
    assert world.storage.exists(restored[0])
    assert not world.open().timeline.pending
    world.open().upsert(rows((1, "three", 3)))
    assert not world.storage.exists(restored[0])
    assert world.open().compact() is not None
