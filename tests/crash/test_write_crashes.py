"""A crash or a wrong answer at every storage operation of every write and of its rollback, then recovery."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

import tidelake as tl
from crash.crash_points import (
    EXPIRED_S,
    MODES,
    OPERATIONS,
    SHAPES,
    AbortCase,
    Case,
    RollbackCase,
    Shape,
    World,
    attempt,
    examine,
    faults,
    rows,
    state,
)
from model.deep import IS_DEEP
from model.one_thread import in_one_thread
from tidelake.errors import NotATableError
from tidelake.storage import Fault, FaultyStorage, MemoryStorage, SimulatedCrash
from tidelake.testing import ManualClock

MOR, COW = "MERGE_ON_READ", "COPY_ON_WRITE"
SAMPLE = [
    Case(Shape(MOR, "SIMPLE"), "upsert"),
    Case(Shape(COW, "SIMPLE"), "insert_overwrite"),
    Case(Shape(MOR, "BUCKET"), "delete_keys"),
    Case(Shape(COW, "BUCKET"), "upsert"),
    RollbackCase(Shape(MOR, "SIMPLE"), "upsert"),
    AbortCase(Shape(COW, "SIMPLE"), "upsert"),
]
ALL = [
    *(Case(shape, operation) for shape in SHAPES for operation in OPERATIONS),
    *(RollbackCase(shape, operation) for shape in SHAPES for operation in OPERATIONS),
    *(AbortCase(shape, "upsert") for shape in SHAPES),
]
CASES = ALL if IS_DEEP else SAMPLE


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_thread(monkeypatch)


@pytest.fixture(scope="module", autouse=True)
def counts() -> Iterator[Counter[str]]:
    """How many points were tried; printed with ``-s``, for docs/reliability.md."""
    yield COUNTS
    print(f"\ncrash points: {dict(COUNTS)}, {sum(COUNTS.values())} in all")


COUNTS: Counter[str] = Counter()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_crash_at_every_operation_recovers_to_before_or_after(case: Case, mode: str) -> None:
    """Wherever it goes wrong, readers see all of a write or nothing, and the next writer goes on without a person."""
    seen = set()
    for at in case.numbers:
        last = case.numbers.stop - at if mode == "lost_then_dead" and IS_DEEP else 1
        for then in range(1, last + 1):
            COUNTS[mode] += 1
            world = case.begin()
            told = attempt(case, world, faults(mode, at, then))
            try:
                seen.add(examine(case, world, told))
            except (AssertionError, tl.TidelakeError) as error:
                raise AssertionError(f"{case}, {mode} at {at} then {then}, told {told}: {error}") from error
    assert True in seen or isinstance(case, AbortCase)
    assert False in seen or mode == "lost"


@pytest.mark.parametrize("case", [case for case in CASES if type(case) is Case], ids=str)
def test_second_crash_during_the_recovery_recovers_to_before_or_after(case: Case) -> None:
    """The next writer may die at any operation too: the one after it finds the table as whole."""
    step = 1 if IS_DEEP else 13
    for first in case.numbers[::step]:
        world = case.begin()
        attempt(case, world, [Fault(first, "crash_after")])
        world.clock.advance(EXPIRED_S)
        recovery = _From(case, world, first)
        for at in recovery.numbers[first % step :: step]:
            COUNTS["second"] += 1
            again = recovery.begin()
            told = attempt(recovery, again, [Fault(at, "crash_after")])
            try:
                examine(recovery, again, told)
            except (AssertionError, tl.TidelakeError) as error:
                raise AssertionError(f"{recovery}, second crash at {at}: {error}") from error


class _From(RollbackCase):
    """The recovery from a given state."""

    def __init__(self, case: Case, world: World, first: int) -> None:
        super().__init__(case.shape, case.operation)
        object.__setattr__(self, "world", world)
        object.__setattr__(self, "first", first)

    def __str__(self) -> str:
        return f"{super().__str__()}-after-{self.first}"

    def begin(self) -> World:
        return self.world.copy()

    __hash__ = object.__hash__


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_crash_of_create_table_leaves_a_table_or_nothing(shape: Shape, mode: str) -> None:
    """A creation that went wrong at any operation left the whole table or none, and the next one says which."""
    counted = FaultyStorage(MemoryStorage())
    shape.create(counted, ManualClock())
    for at in range(1, counted.operations + 1):
        COUNTS[mode] += 1
        clock = ManualClock()
        storage = MemoryStorage(clock=clock)
        told = "ok"
        try:
            shape.create(FaultyStorage(storage, faults(mode, at)), clock)
        except SimulatedCrash:
            told = "dead"
        except tl.TidelakeError:
            told = "error"
        try:
            tl.open_table("memory", storage=storage)
        except NotATableError:
            assert told != "ok"
            shape.create(storage, clock)
        else:
            with pytest.raises(tl.InvalidError, match="is a table already"):
                shape.create(storage, clock)
        tl.open_table("memory", storage=storage, clock=clock).upsert(rows((1, "a", 1)))
        assert state(storage) == {1: ("a", 1)}
