"""Who may carry out a plan: two executors, an executor and a rollback, and writers between their storage operations.

An executor falls asleep before one of its storage operations; another one takes the plan over when the heartbeat has
expired. Whatever the sleeper does when it wakes, or if it never does, no row is lost, doubled or changed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from crash.crash_points import check_files
from model.deep import IS_DEEP
from small_rows import rows
from tidelake.storage import Fault, FaultKind, FaultyStorage, Operation, SimulatedCrash
from tidelake.testing import ManualClock
from tidelake.timeline.claim import CLAIM_DIR
from tidelake.timeline.transitions import HEARTBEAT_DIR
from tidelake.write import Commit
from unit.services.hand_made import work_left
from unit.services.service_tables import BUCKET, EXPIRED_S, GLOBAL, World, rows_of
from unit.write.interleave import Scheduler, make_deterministic

Act = Callable[[tl.Table], object]
STEP = 1 if IS_DEEP else 4
SAMPLES = 500 if IS_DEEP else 45


@pytest.fixture(autouse=True)
def deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    make_deterministic(monkeypatch)


def planned(options: dict[str, str] | None = None, *, is_planned: bool = True) -> tuple[World, str]:
    """A table with logs in two partitions and a deleted key; and the plan of its compaction, if asked for."""
    world = World(options)
    table = world.open()
    table.upsert(rows((1, "one", 1), (2, "two", 1), (3, "three", 1), (5, "five", 1)))
    table.upsert(rows((1, "one", 2), (2, "two", 2)))
    table.delete([5])
    return world, (table.schedule_compaction() or "") if is_planned else ""


def copy_of(world: World) -> World:
    made = object.__new__(World)
    made.clock = ManualClock(seed=7)
    made.clock.advance((world.clock.now_ms() - made.clock.now_ms()) / 1000)
    made.storage = world.storage.copy("memory", clock=made.clock)
    return made


def check_ended(world: World, expected: list[tuple[Any, ...]], *, may_leave_condemned: bool = False) -> None:
    """The rows are as they were; after what is left of the work has been done, too, and nothing is left of its making."""
    assert world.rows == expected
    world.clock.advance(EXPIRED_S)
    world.open().compact()
    table = world.open()
    assert world.rows == expected
    assert rows_of(table, "read_optimized") == expected
    assert work_left(table) == {}
    assert table.audit_services().is_clean
    assert not table.timeline.pending
    check_files(world.storage, may_leave_condemned=may_leave_condemned)


def numbers(world: World, act: Act) -> range:
    """The numbers of an action's storage operations."""
    made = journal(world, act)
    return range(made[0].number, made[-1].number + 1)


def journal(world: World, act: Act) -> list[Operation]:
    """An action's storage operations."""
    again = copy_of(world)
    counted = FaultyStorage(again.storage, clock=again.clock)
    table = again.open(counted)
    opened = counted.operations
    act(table)
    return counted.journal[opened:]


def asleep(world: World, act: Act, at: int, others: Callable[[], object], *, dies: bool = False) -> object:
    """Run an action that sleeps before an operation while others act, and wakes, or dies; what it says, or its error."""
    slept: list[int] = []

    def before(number: int, verb: str, path: str) -> None:
        if number == at and not slept:
            slept.append(number)
            others()
            if dies:
                raise SimulatedCrash

    storage = FaultyStorage(world.storage, clock=world.clock, on_operation=before)
    try:
        return act(world.open(storage))
    except (tl.TidelakeError, SimulatedCrash) as error:
        return error


@pytest.mark.parametrize("dies", [False, True], ids=["wakes", "dies"])
def test_executor_asleep_anywhere_while_another_takes_over(dies: bool) -> None:
    start, plan = planned()
    expected = start.rows
    act: Act = lambda t: t.run_compaction(plan)  # noqa: E731
    for at in numbers(start, act)[::STEP]:
        world = copy_of(start)

        def other(world: World = world) -> None:
            world.clock.advance(EXPIRED_S)
            world.open().run_compaction(plan)
            assert world.open().timeline.by_time[plan].is_completed

        told = asleep(world, act, at, other, dies=dies)
        try:
            assert dies or not isinstance(told, tl.TidelakeError), told
            check_ended(world, expected)
        except (AssertionError, tl.TidelakeError) as error:
            raise AssertionError(f"asleep before operation {at}: {error}") from error


@pytest.mark.parametrize("dies", [False, True], ids=["wakes", "dies"])
def test_executor_asleep_anywhere_while_its_plan_is_rolled_back_and_run_again(dies: bool) -> None:
    start, plan = planned()
    expected = start.rows
    act: Act = lambda t: t.run_compaction(plan)  # noqa: E731
    for at in numbers(start, act)[1::STEP]:
        world = copy_of(start)

        def other(world: World = world, at: int = at) -> None:
            if not world.open().timeline.by_time.get(plan):
                world.open().rollback(plan)
            if at % 2:
                world.open().run_compaction(plan)

        asleep(world, act, at, other, dies=dies)
        try:
            check_ended(world, expected)
        except (AssertionError, tl.TidelakeError) as error:
            raise AssertionError(f"asleep before operation {at}: {error}") from error


@pytest.mark.parametrize("dies", [False, True], ids=["wakes", "dies"])
def test_rollback_asleep_anywhere_while_the_plan_is_run(dies: bool) -> None:
    """The rollback of a dead executor; another one carries the plan out meanwhile, or is refused."""
    start, plan = planned()
    expected = start.rows
    run: Act = lambda t: t.run_compaction(plan)  # noqa: E731
    died = numbers(start, run)
    asleep(start, run, died[len(died) * 2 // 3], lambda: None, dies=True)
    start.clock.advance(EXPIRED_S)
    act: Act = lambda t: t.rollback(plan)  # noqa: E731
    for at in numbers(start, act)[::STEP]:
        world = copy_of(start)

        def other(world: World = world) -> None:
            with suppress(tl.ConflictError):
                world.open().run_compaction(plan)

        asleep(world, act, at, other, dies=dies)
        try:
            check_ended(world, expected)
        except (AssertionError, tl.TidelakeError) as error:
            raise AssertionError(f"asleep before operation {at}: {error}") from error


def test_executor_asleep_before_its_turn_while_another_takes_over_and_dies() -> None:
    """The sleeper has made its checks; whoever takes over must have a turn before it deletes the sleeper's files."""
    start, plan = planned()
    expected = start.rows
    run: Act = lambda t: t.run_compaction(plan)  # noqa: E731
    again = copy_of(start)
    counted = FaultyStorage(again.storage, clock=again.clock)
    run(again.open(counted))
    turn = next(o.number for o in reversed(counted.journal) if o.verb == "put_if_match" and o.path.endswith("/head"))
    for dies_at in range(1, counted.operations, STEP):
        world = copy_of(start)

        def other(world: World = world, dies_at: int = dies_at) -> None:
            world.clock.advance(EXPIRED_S)
            asleep(world, run, dies_at, lambda: None, dies=True)

        asleep(world, run, turn, other)
        try:
            check_ended(world, expected)
        except (AssertionError, tl.TidelakeError) as error:
            raise AssertionError(f"the other one died before operation {dies_at}: {error}") from error


def test_live_claim_refuses_a_second_executor() -> None:
    start, plan = planned()
    expected = start.rows
    refused = 0
    run: Act = lambda t: t.run_compaction(plan)  # noqa: E731
    for at in numbers(start, run)[::STEP]:
        world = copy_of(start)
        told: list[object] = []

        def other(world: World = world, told: list[object] = told) -> None:
            is_claimed = world.storage.exists(f"{CLAIM_DIR}/{plan}")
            is_done = plan in world.open().timeline.by_time
            try:
                told.append(world.open().run_compaction(plan))
            except tl.ConflictError as error:
                told.append(error)
            assert isinstance(told[0], tl.ConflictError) == (is_claimed and not is_done), told

        done = asleep(world, run, at, other)
        refused += isinstance(told[0], tl.ConflictError)
        assert isinstance(done, Commit), done
        check_ended(world, expected)
    assert refused


@pytest.mark.parametrize("dead_before", [False, True], ids=["first", "takes over"])
@pytest.mark.parametrize("kind", ["http_503", "lost_answer"])
@pytest.mark.parametrize("service", ["compaction", "clustering"])
def test_executor_whose_storage_fails_once_holds_no_claim(service: str, kind: FaultKind, dead_before: bool) -> None:
    """Wherever a storage operation fails, the next run carries the plan out at once: no claim waits for its heartbeat."""
    start, plan = planned(is_planned=service == "compaction")
    if service == "clustering":
        plan = start.open().schedule_clustering(sort_by="name") or ""
    run: Act = lambda t: getattr(t, f"run_{service}")(plan)  # noqa: E731
    if dead_before:
        claimed = next(o.number for o in journal(start, run) if o.path == f"{HEARTBEAT_DIR}/{plan}")
        asleep(start, run, claimed, lambda: None, dies=True)
        start.clock.advance(EXPIRED_S)
    for at in numbers(start, run):
        world = copy_of(start)
        with suppress(tl.UnavailableError):
            run(world.open(FaultyStorage(world.storage, [Fault(at, kind)], clock=world.clock)))
        assert isinstance(run(world.open()), Commit), f"failed at operation {at}"


@pytest.mark.parametrize("damage", ["lost", "empty", "garbage", "heartbeat"])
def test_lost_or_damaged_claim_of_a_sleeper_lets_another_in(damage: str) -> None:
    start, plan = planned()
    expected = start.rows
    run: Act = lambda t: t.run_compaction(plan)  # noqa: E731
    for at in numbers(start, run)[2 :: STEP + 1]:
        world = copy_of(start)

        def other(world: World = world) -> None:
            path = f"{CLAIM_DIR}/{plan}"
            if world.storage.exists(path):
                if damage == "lost":
                    world.storage.delete(path)
                elif damage == "heartbeat":
                    world.storage.delete(f"{HEARTBEAT_DIR}/{plan}")
                    world.clock.advance(EXPIRED_S)
                else:
                    world.storage.put(path, b"" if damage == "empty" else b'{"number":"x"')
            world.open().run_compaction(plan)

        asleep(world, run, at, other)
        try:
            check_ended(world, expected)
        except (AssertionError, tl.TidelakeError) as error:
            raise AssertionError(f"asleep before operation {at}: {error}") from error


def wider(*entries: tuple[int, str, int]) -> pa.Table:
    table = rows(*entries)
    return table.append_column("more", pa.array(["m"] * table.num_rows))


def moved(*entries: tuple[int, str, int]) -> pa.Table:
    table = rows(*entries)
    return table.set_column(3, "day", pa.array(["d9"] * table.num_rows))


def execute(table: tl.Table) -> object:
    return table.run_compaction()


def upsert(table: tl.Table) -> object:
    return table.upsert(rows((1, "new", 9), (5, "back", 9), (7, "seven", 1)))


PAIRS: dict[str, tuple[dict[str, str], bool, list[Act]]] = {
    "two executors": ({}, True, [execute, execute]),
    "two compactions": ({}, False, [lambda t: t.compact(), lambda t: t.compact()]),
    "two planners": ({}, False, [lambda t: t.schedule_compaction(), lambda t: t.schedule_compaction()]),
    "planner and upsert": ({}, False, [lambda t: t.schedule_compaction(), upsert]),
    "executor and upsert": ({}, True, [execute, upsert]),
    "executor and bucket upsert": (BUCKET, True, [execute, upsert]),
    "executor and move": (GLOBAL, True, [execute, lambda t: t.upsert(moved((1, "moved", 9), (5, "back", 9)))]),
    "executor and delete": ({}, True, [execute, lambda t: t.delete([1, 3])]),
    "executor and new column": ({}, True, [execute, lambda t: t.upsert(wider((1, "wide", 9), (2, "wide", 9)))]),
    "compaction and overwrite": (
        {},
        False,
        [lambda t: t.compact(), lambda t: t.insert_overwrite(rows((1, "over", 9)))],
    ),
    "executor and rollback": ({}, True, [execute, lambda t: _rollback(t)]),
}


def _rollback(table: tl.Table) -> object:
    plans = [i for i in table.timeline.pending if i.pending_action == "compaction"]
    return table.rollback(plans[0].requested_time) if plans else None


def values(world: World) -> list[tuple[Any, ...]]:
    found = world.open().scan().to_arrow().to_pylist()
    names = ("id", "name", "ts", "day", "more")
    return sorted(tuple(str(row.get(name)) for name in names) for row in found)


@pytest.mark.parametrize("name", PAIRS)
def test_service_interleaved_with_another_changes_no_row(name: str) -> None:
    """However their storage operations mix, the rows are those of the write alone, if it was told ok, or as before."""
    options, is_planned, acts = PAIRS[name]
    start, _ = planned(options, is_planned=is_planned)
    serial = copy_of(start)
    acts[-1](serial.open())
    before, after = values(start), values(serial)
    first = random.SystemRandom().randrange(10**9)
    for seed in range(first, first + SAMPLES):
        world = copy_of(start)
        drawn = random.Random(seed)
        expiring = drawn.random() < 0.5

        def job(act: Act, world: World = world, drawn: random.Random = drawn, expiring: bool = expiring) -> Any:
            def tick(*_: object) -> None:
                if expiring and drawn.random() < 0.03:
                    world.clock.advance(EXPIRED_S)

            def run(faulty: FaultyStorage) -> object:
                return act(world.open(FaultyStorage(faulty, clock=world.clock, on_operation=tick)))

            return run

        switch = drawn.choice([0.05, 0.1, 0.3, 0.5])
        results = Scheduler(seed, switch).run([job(act) for act in acts], world.storage)
        try:
            for result in results:
                # The rollback of a plan that was carried out meanwhile is refused as not supported.
                if isinstance(result, BaseException) and not isinstance(result, tl.ConflictError | tl.UnsupportedError):
                    raise result
            is_written = not isinstance(results[-1], tl.TidelakeError)
            assert values(world) == (after if is_written else before), results
            check_ended(world, world.rows, may_leave_condemned=True)
        except (AssertionError, tl.TidelakeError) as error:
            raise AssertionError(f"seed {seed}, {results}: {error}") from error


def test_fresh_claim_beside_an_old_heartbeat_is_alive() -> None:
    """An executor that has just claimed a plan, whose heartbeat is still that of a dead one, is left alone."""
    world, plan = planned()
    world.storage.put(f"{HEARTBEAT_DIR}/{plan}", b"")
    world.clock.advance(EXPIRED_S)
    told: list[str] = []

    def others(number: int, verb: str, path: str) -> None:
        if verb == "put" and path == f"{HEARTBEAT_DIR}/{plan}" and not told:
            with pytest.raises(tl.ConflictError, match="being carried out"):
                world.open().run_compaction(plan)
            told.append(path)

    assert world.open(FaultyStorage(world.storage, clock=world.clock, on_operation=others)).run_compaction(plan)
    assert told
