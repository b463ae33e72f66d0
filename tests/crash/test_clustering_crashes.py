"""A crash or a wrong answer at every storage operation of a clustering, planned and carried out, then recovery.

A clustering changes no row, so readers must see the same ones at every moment. A writer that comes after the crash is not
held up where it does not touch the file groups of the plan; the next ``t.cluster()`` completes the plan, or finds that it
is done, and leaves nothing behind.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import tidelake as tl
from crash.crash_points import EXPIRED_S, MODES, Shape, World, check_files, faults
from model.deep import IS_DEEP
from model.one_thread import in_one_thread
from small_rows import rows
from tidelake.errors import ConflictError
from tidelake.services.clustering import StalePlanError
from tidelake.services.report import ServicePlan
from tidelake.storage import FaultyStorage, MemoryStorage, SimulatedCrash, Storage
from tidelake.testing import ManualClock
from tidelake.write.transaction import Commit, recover

SHAPES = [Shape("MERGE_ON_READ", "SIMPLE"), Shape("COPY_ON_WRITE", "SIMPLE")]
if IS_DEEP:
    SHAPES += [Shape("MERGE_ON_READ", "BUCKET"), Shape("COPY_ON_WRITE", "BUCKET")]
CASES = [(shape, action) for shape in SHAPES for action in ("cluster", "withdraw")]
if not IS_DEEP:
    CASES = CASES[:3]
STEPS = {"cluster": 1, "withdraw": 1} if IS_DEEP else {"cluster": 4, "withdraw": 16}


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_thread(monkeypatch)


def stored(storage: Storage) -> dict[int, tuple[Any, ...]]:
    """The rows that a reader sees now, with the commits that wrote them."""
    table = tl.open_table("memory", storage=storage)
    found = table.scan(columns=["id", "name", "ts", "_hoodie_commit_time", "_hoodie_commit_seqno"]).to_arrow()
    assert len(set(found.column("id").to_pylist())) == found.num_rows, "a key stands twice"
    return {row["id"]: tuple(row.values()) for row in found.to_pylist()}


@cache
def started(shape: Shape, action: str) -> World:
    clock = ManualClock(seed=1)
    world = World(MemoryStorage("crash", clock=clock), clock)
    table = shape.create(world.storage, clock)
    table.bulk_insert(rows((1, "a", 1), (2, "b", 1), (3, "c", 1)))
    table.bulk_insert(rows((4, "d", 1), (5, "a", 2)))
    table.upsert(rows((1, "n", 5), (6, "x", 1)))
    table.delete([2])
    if action == "withdraw":
        # A plan with a file group that an engine changed which does not look for plans.
        table.schedule_clustering(sort_by="name")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tidelake.write.conflicts._check_clustering", lambda *_: None)
            world.open().upsert(rows((3, "late", 9)))
    return world


def act(table: tl.Table) -> Commit | None:
    done = table.cluster(sort_by="name")
    assert not isinstance(done, ServicePlan)
    return done


@cache
def operations(shape: Shape, action: str) -> range:
    world = started(shape, action).copy()
    counted = FaultyStorage(world.storage, clock=world.clock)
    table = world.open(counted)
    opened = counted.operations
    assert act(table) is not None
    return range(opened + 1, counted.operations + 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("shape", "action"), CASES, ids=str)
def test_crash_at_every_operation_of_a_clustering_recovers(shape: Shape, action: str, mode: str) -> None:
    """Rows are the same at every moment, and the next clustering completes what was begun."""
    before = stored(started(shape, action).storage)
    seen = set()
    for at in operations(shape, action)[MODES.index(mode) * 2 % STEPS[action] :: STEPS[action]]:
        world = started(shape, action).copy()
        told = attempt(world, faults(mode, at))
        try:
            examine(world, before)
        except (AssertionError, tl.TidelakeError) as error:
            raise AssertionError(f"{shape}, {action}, {mode} at {at}, told {told}: {error}") from error
        seen.add(told)
    assert seen & {"dead", "ok"}


def attempt(world: World, wrong: Any) -> str:
    faulty = FaultyStorage(world.storage, wrong, clock=world.clock)
    try:
        act(world.open(faulty))
    except SimulatedCrash:
        return "dead"
    except tl.TidelakeError:
        return "error"
    return "ok"


def examine(world: World, before: dict[int, tuple[Any, ...]]) -> None:
    storage = world.storage
    assert stored(storage) == before, "a clustering changed rows"
    world.clock.advance(EXPIRED_S)
    world.open().insert(rows((100, "next", 1)))
    expected = stored(storage)
    assert {key: row for key, row in expected.items() if key != 100} == before, "a writer's recovery changed rows"
    watched = FaultyStorage(storage, clock=world.clock, on_operation=Watch(storage, expected))
    act(world.open(watched))
    assert stored(storage) == expected, "the next clustering changed rows"
    assert not world.open().timeline.pending, "something is pending"
    assert act(world.open()) is None, "there was more to do"
    world.open().upsert(rows((1, "last", 50), (3, "last", 50)))
    assert {row[1] for key, row in stored(storage).items() if key in (1, 3)} == {"last"}
    check_files(storage)
    assert recover(storage, world.open().config, world.clock) == []


class Watch:
    """A reader after every change of the timeline or of data."""

    def __init__(self, storage: Storage, expected: dict[int, tuple[Any, ...]]) -> None:
        self.storage = storage
        self.expected = expected
        self.changed = False

    def __call__(self, number: int, verb: str, path: str) -> None:
        if self.changed:
            assert stored(self.storage) == self.expected, f"rows changed before operation {number}"
        is_inner = path.startswith(".hoodie/") and not path.startswith(".hoodie/timeline/")
        self.changed = verb.startswith(("put", "delete")) and not is_inner


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_two_executors_of_one_plan_one_asleep_at_any_step(shape: Shape) -> None:
    """The one that slept ends with the other's commit or a typed error; rows are there once, and all files."""
    base = started(shape, "cluster").copy()
    instant = base.open().schedule_clustering(sort_by="name")
    assert instant is not None
    before = stored(base.storage)
    counted = FaultyStorage(base.copy().storage)
    tl.open_table("memory", storage=counted, clock=base.copy().clock).run_clustering(instant)
    told = set()
    for at in range(1, counted.operations + 1, 1 if IS_DEEP else 5):
        world = base.copy()
        sleeper = FaultyStorage(world.storage, clock=world.clock, on_operation=_Sleeper(world, instant, at))
        try:
            done = world.open(sleeper).run_clustering(instant)
            told.add("ok")
            assert done is not None
            assert done.requested_time == instant
        except (ConflictError, StalePlanError):
            told.add("refused")
        assert stored(world.storage) == before
        assert instant in world.open().timeline.by_time
        world.clock.advance(EXPIRED_S)
        world.open().upsert(rows((1, "last", 50)))
        check_files(world.storage, may_leave_condemned=True)
    assert "ok" in told


class _Sleeper:
    """Before one operation, hours pass, in which another carries the plan out."""

    def __init__(self, world: World, instant: str, at: int) -> None:
        self.world = world
        self.instant = instant
        self.at = at

    def __call__(self, number: int, verb: str, path: str) -> None:
        if number == self.at:
            self.world.clock.advance(EXPIRED_S)
            self.world.open().run_clustering(self.instant)
