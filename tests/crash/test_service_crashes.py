"""A crash or a wrong answer at every storage operation of a clean, a savepoint and a restore, then recovery.

After each, literally: readers saw the state before or the state after, also between any two operations of the recovery; the
same call again, or the next writer, brings the table to its end; nothing is pending or left over; the rows now, as of every
retained point and as of every savepoint are right; every file that they need is there, and of the others there is none more
than after a run without a crash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import pytest

import tidelake as tl
from crash.crash_points import EXPIRED_S, Rows, Shape, World, faults, rows, state
from model.deep import IS_DEEP
from model.one_thread import in_one_thread
from tidelake.errors import MissingFileError
from tidelake.storage import Fault, FaultyStorage, MemoryStorage, SimulatedCrash, Storage
from tidelake.testing import ManualClock

COW, MOR = Shape("COPY_ON_WRITE", "SIMPLE"), Shape("MERGE_ON_READ", "SIMPLE")
MODES = ("before", "after", "torn", "lost", "lost_then_dead") if IS_DEEP else ("after", "lost", "lost_then_dead")
"""A crash before an operation is one after the operation before it; and services put no data files that could tear."""
STEP = 4 if IS_DEEP else 29
COUNTS: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_thread(monkeypatch)


@pytest.fixture(scope="module", autouse=True)
def counts() -> Iterator[None]:
    yield
    print(f"\nservice crash points: {dict(COUNTS)}, {sum(COUNTS.values())} in all")


@cache
def history(shape: Shape) -> World:
    """A table with superseded slices, replaced groups, a savepoint in the middle, and a clean before it."""
    clock = ManualClock(seed=1)
    world = World(MemoryStorage("crash", clock=clock), clock)
    table = shape.create(world.storage, clock)

    def step(change: Callable[[], object]) -> None:
        clock.advance(60)
        change()

    for number in range(3):
        step(lambda number=number: table.upsert(rows((1, f"a{number}", number), (2, "b", number))))  # type: ignore[misc]
    step(lambda: table.clean(retain=1))
    step(lambda: table.upsert(rows((3, "c", 1), (4, "d", 1))))
    step(lambda: table.savepoint(comment="here"))
    step(lambda: table.insert_overwrite(rows((3, "over", 1))))
    if shape is MOR:
        step(table.compact)
    for number in range(3, 6):
        step(lambda number=number: table.upsert(rows((1, f"a{number}", number), (2, "b", number))))  # type: ignore[misc]
    if shape is MOR:
        step(table.compact)
        step(lambda: table.upsert(rows((1, "a9", 9))))
        step(table.schedule_compaction)
    return world


@cache
def dead_writer(shape: Shape) -> World:
    """The same with a writer that died before its turn; its heartbeat is fresh."""
    world = history(shape)
    trial = world.copy()
    counted = FaultyStorage(trial.storage, clock=trial.clock)
    trial.open(counted).upsert(rows((9, "dead", 1)))
    turn = next(o.number for o in counted.journal if o.verb == "put" and "/staged/" in o.path)
    made = world.copy()
    with pytest.raises(SimulatedCrash):
        made.open(FaultyStorage(made.storage, [Fault(turn, "crash_before")], clock=made.clock)).upsert(
            rows((9, "dead", 1))
        )
    return made


def kept(table: tl.Table) -> str:
    return next(iter(table.timeline.savepoints))


@dataclass(frozen=True)
class Case:
    """A service on a table."""

    name: str
    shape: Shape
    run: Callable[[tl.Table], object]
    with_dead_writer: bool = False

    def __str__(self) -> str:
        return f"{self.name}-{self.shape}"

    def begin(self) -> World:
        world = dead_writer(self.shape) if self.with_dead_writer else history(self.shape)
        return world.copy()

    def attempt(self, world: World, wrong: list[Fault]) -> str:
        try:
            self.run(world.open(FaultyStorage(world.storage, wrong, clock=world.clock)))
        except SimulatedCrash:
            return "dead"
        except tl.TidelakeError:
            return "error"
        return "ok"


ALL = [
    Case("clean", COW, lambda t: t.clean(retain=1)),
    Case("clean", MOR, lambda t: t.clean(retain=1)),
    Case("clean-versions", COW, lambda t: t.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1)),
    Case("savepoint", MOR, lambda t: t.savepoint()),
    Case("restore", COW, lambda t: t.restore(kept(t))),
    Case("restore", MOR, lambda t: t.restore(kept(t)), with_dead_writer=True),
]
CASES = ALL if IS_DEEP else [ALL[0], ALL[1], ALL[3], ALL[5]]


@dataclass(frozen=True)
class Measured:
    """What a run without a crash does."""

    before: Rows
    after: Rows
    files: frozenset[str]
    numbers: range
    travel: tuple[tuple[str, Rows], ...]


@cache
def measured(case: Case) -> Measured:
    world = case.begin()
    before = state(world.storage)
    counted = FaultyStorage(world.storage, clock=world.clock)
    table = world.open(counted)
    opened = counted.operations
    case.run(table)
    finish(world)
    numbers = range(opened + 1, counted.operations + 1)
    return Measured(before, state(world.storage), data_files(world.storage), numbers, travel(world))


def finish(world: World) -> None:
    """What dead writers left goes with the next writer's recovery."""
    world.clock.advance(EXPIRED_S)
    world.open().upsert(rows((100, "next", 1)))


def travel(world: World) -> tuple[tuple[str, Rows], ...]:
    """The states as of every point that can be read."""
    found = []
    for instant in world.open().timeline.completed_writes[-4:-1]:
        try:
            found.append((instant.requested_time, state(world.storage, as_of=instant.requested_time)))
        except MissingFileError:
            continue
    return tuple(found)


def data_files(storage: Storage) -> frozenset[str]:
    """The data files, without those of the writer that came last."""
    paths = [i.path for i in storage.list_files() if not i.path.startswith(".hoodie/")]
    last = tl.open_table("memory", storage=storage).timeline.completed_writes[-1].requested_time
    return frozenset(path for path in paths if last not in path)


class Watch:
    """A reader between any two storage operations that may change what is seen."""

    def __init__(self, storage: Storage, allowed: list[Rows]) -> None:
        self.storage = storage
        self.allowed = allowed
        self.changed = True

    def __call__(self, number: int, verb: str, path: str) -> None:
        if self.changed:
            assert state(self.storage) in self.allowed, f"P1: a part was seen before operation {number} ({verb} {path})"
        is_inner = path.startswith(".hoodie/") and not path.startswith(".hoodie/timeline/")
        self.changed = verb.startswith(("put", "delete")) and not is_inner


def examine(case: Case, world: World, told: str) -> None:
    """Check every promise after a service that went wrong. What follows is decided by the bytes: each world once."""
    seen = (case, told, world.fingerprint)
    if seen not in _EXAMINED:
        _examine(case, world, told)
        _EXAMINED.add(seen)


_EXAMINED: set[object] = set()


def _examine(case: Case, world: World, told: str) -> None:
    storage, whole = world.storage, measured(case)
    after = {key: value for key, value in whole.after.items() if key != 100}
    crashed = state(storage)
    assert crashed in (whole.before, after), "P1: readers saw a part"
    assert told != "ok" or crashed == after, "a service that returned is not done"
    world.clock.advance(EXPIRED_S)
    # A reader between any two operations is slow: in the sample it is there every fourth time.
    is_watched = IS_DEEP or len(_EXAMINED) % 4 == 0
    watch = Watch(storage, [whole.before, after]) if is_watched else None
    case.run(world.open(FaultyStorage(storage, clock=world.clock, on_operation=watch)))
    assert state(storage) == after, "P5: the service run again did not bring the table to its end"
    finish(world)
    table = world.open()
    assert state(storage) == whole.after
    assert {i.pending_action for i in table.timeline.pending} <= {"compaction"}, "P5: something is pending"
    assert data_files(storage) == whole.files, "P7: files are missing, or were left"
    assert [rows for _, rows in travel(world)] == [rows for _, rows in whole.travel], "P3: a retained point has changed"
    for folder in (".hoodie/.temp", ".hoodie/.heartbeat", ".hoodie/.tidelake/staged"):
        assert [info.path for info in storage.list_files(folder)] == [], "traces were left"
    for made in table.savepoints():
        assert all(storage.exists(path) for path in made.files), "P7: a file of a savepoint is gone"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_crash_at_every_operation_of_a_service_recovers(case: Case, mode: str) -> None:
    """Wherever it goes wrong, readers see before or after, and the same call again ends it."""
    for at in measured(case).numbers[:: 1 if IS_DEEP or mode == "after" else 4]:
        COUNTS[mode] += 1
        world = case.begin()
        told = case.attempt(world, faults(mode, at))
        try:
            examine(case, world, told)
        except (AssertionError, tl.TidelakeError) as error:
            raise AssertionError(f"{case}, {mode} at {at}, told {told}: {error}") from error


@pytest.mark.parametrize("case", CASES, ids=str)
def test_second_crash_while_a_service_is_recovered_recovers(case: Case) -> None:
    """Whoever finishes a service may die, too."""
    for first in measured(case).numbers[::STEP]:
        for second in range(1 + first % STEP, 80, STEP):
            COUNTS["second"] += 1
            world = case.begin()
            case.attempt(world, [Fault(first, "crash_after")])
            world.clock.advance(EXPIRED_S)
            told = case.attempt(world, [Fault(second, "crash_after")])
            try:
                examine(case, world, told)
            except (AssertionError, tl.TidelakeError) as error:
                raise AssertionError(f"{case}, crashes at {first} and {second}, told {told}: {error}") from error


@pytest.mark.parametrize("case", [c for c in CASES if c.name == "restore"], ids=str)
def test_crash_of_a_restore_is_finished_by_the_next_writer(case: Case) -> None:
    """A restore whose plan was published is true; a writer who knows nothing of it finishes it and goes on."""
    seen = set()
    for at in measured(case).numbers:
        COUNTS["next writer"] += 1
        world = case.begin()
        case.attempt(world, [Fault(at, "crash_after")])
        finish(world)
        found = state(world.storage)
        whole = measured(case)
        assert found in (whole.after, {**whole.before, 100: ("next", 1)}), at
        assert {i.pending_action for i in world.open().timeline.pending} <= {"compaction"}, at
        if found == whole.after:
            assert data_files(world.storage) == whole.files, at
        seen.add(found == whole.after)
    assert seen == {True, False}
