"""A writer sleeps between any two of its storage operations until it is taken for dead and rolled back, then goes on.

It may fail without a visible effect, or succeed if nobody passed it; it may also die after it woke up. Readers look
between all of its operations after it woke up, and the next writer clears what is left.
"""

from __future__ import annotations

import pytest

import tidelake as tl
from crash.crash_points import EXPIRED_S, NEXT_ID, SHAPES, Case, Rows, Shape, World, check_files, rows, state
from model.deep import IS_DEEP
from model.one_thread import in_one_thread
from tidelake.storage import Fault, FaultyStorage, MemoryStorage, SimulatedCrash
from tidelake.testing import ManualClock

MOR, COW = "MERGE_ON_READ", "COPY_ON_WRITE"
PASSED: Rows = {NEXT_ID: ("passed", 1)}


class FirstWrite(Case):
    """The first write of a table: what others write meanwhile is the table's first instant."""

    def __str__(self) -> str:
        return f"first-{super().__str__()}"

    def begin(self) -> World:
        clock = ManualClock(seed=2)
        world = World(MemoryStorage(clock=clock), clock)
        self.shape.create(world.storage, clock)
        return world


SAMPLE = [
    Case(Shape(MOR, "SIMPLE"), "upsert"),
    Case(Shape(COW, "SIMPLE"), "insert_overwrite"),
    FirstWrite(Shape(MOR, "SIMPLE"), "insert"),
    FirstWrite(Shape(COW, "BUCKET"), "insert"),
]
DEEP = [
    *(Case(shape, name) for shape in SHAPES for name in ("upsert", "insert", "insert_overwrite", "delete_partitions")),
    *(FirstWrite(shape, name) for shape in SHAPES for name in ("upsert", "insert", "insert_overwrite")),
]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_thread(monkeypatch)


class Sleeper:
    """Sleeps before one operation while another writer passes, and then has a reader look before each operation."""

    def __init__(self, case: Case, world: World, at: int, is_watched: bool) -> None:
        self.case = case
        self.world = world
        self.at = at
        self.is_watched = is_watched
        self.was_decided = False
        self.changed = False

    def __call__(self, number: int, verb: str, path: str) -> None:
        if number == self.at:
            self.world.clock.advance(EXPIRED_S)
            self.world.open().upsert(rows((NEXT_ID, "passed", 1)))
            self.was_decided = state(self.world.storage) != {**self.case.before, **PASSED}
        elif number > self.at and self.is_watched and self.changed:
            self.look(f"before operation {number}")
        is_inner = path.startswith(".hoodie/") and not path.startswith(".hoodie/timeline/")
        self.changed = verb.startswith(("put", "delete")) and not is_inner

    def look(self, when: str) -> Rows:
        now = state(self.world.storage)
        assert now in (self.with_passed(self.case.before), self.with_passed(self.case.after)), f"a part {when}: {now}"
        return now

    def with_passed(self, base: Rows) -> Rows:
        """An overwrite that comes last replaces the partition of the row that passed, too: then it conflicts."""
        return {**base, **PASSED}


def run(case: Case, at: int, dies_at: int | None, is_watched: bool) -> str:
    world = case.begin()
    sleeper = Sleeper(case, world, at, is_watched)
    wrong = [] if dies_at is None else [Fault(dies_at, "crash_after")]
    faulty = FaultyStorage(world.storage, wrong, clock=world.clock, on_operation=sleeper)
    try:
        case.run(world.open(faulty))
        told = "ok"
    except SimulatedCrash:
        told = "dead"
    except tl.ConflictError:
        told = "conflict"
    now = sleeper.look("at the end")
    if told in ("ok", "conflict"):
        assert now == sleeper.with_passed(case.after if told == "ok" else case.before), f"told {told}, but {now}"
    if sleeper.was_decided:
        assert now == sleeper.with_passed(case.after), "a write that others had seen went away"
    world.clock.advance(EXPIRED_S)
    world.open().upsert(rows((NEXT_ID + 1, "last", 1)))
    last = state(world.storage)
    assert last.pop(NEXT_ID + 1) == ("last", 1)
    assert last in (sleeper.with_passed(case.before), sleeper.with_passed(case.after))
    assert last == now or told == "dead"
    assert not world.open().timeline.pending
    instants = world.open().timeline.instants
    assert len({i.requested_time for i in instants}) == len(instants), "an instant was used twice"
    check_files(world.storage, may_leave_condemned=told == "dead")
    return told


@pytest.mark.parametrize("case", DEEP if IS_DEEP else SAMPLE, ids=str)
def test_paused_writer_between_any_operations_fails_without_effect_or_succeeds(case: Case) -> None:
    """Taken for dead and rolled back in its sleep, it never shows a part, nor a row that was taken back."""
    told = set()
    for at in case.numbers:
        try:
            told.add(run(case, at, None, is_watched=True))
        except (AssertionError, tl.TidelakeError) as error:
            raise AssertionError(f"{case} paused before {at}: {error!r}") from error
    assert told == {"ok", "conflict"}


@pytest.mark.parametrize("case", DEEP if IS_DEEP else SAMPLE, ids=str)
def test_paused_writer_that_dies_after_it_woke_up_leaves_nothing_visible(case: Case) -> None:
    """Files that it made in between carry an instant that was rolled back: nobody sees them, the next writer removes them."""
    step = 1 if IS_DEEP else 4
    for at in case.numbers[::step]:
        for dies_at in range(at, case.numbers.stop + 20, 3 * step):
            try:
                run(case, at, dies_at, is_watched=False)
            except (AssertionError, tl.TidelakeError) as error:
                raise AssertionError(f"{case} paused before {at}, dead after {dies_at}: {error!r}") from error
