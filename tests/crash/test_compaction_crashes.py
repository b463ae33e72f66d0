"""A crash or a wrong answer at every storage operation of planning and of carrying out a compaction, then recovery.

No service changes rows: readers see the same rows, with the same commit times, before, during and after all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

import tidelake as tl
from crash.crash_points import EXPIRED_S, MODES, SCHEMA, Shape, World, check_files, faults, rows
from model.deep import IS_DEEP
from model.one_thread import in_one_thread
from tidelake.storage import Fault, FaultyStorage, MemoryStorage, SimulatedCrash, Storage
from tidelake.testing import ManualClock
from tidelake.timeline.claim import CLAIM_DIR
from tidelake.timeline.head import STAGED_DIR
from tidelake.write.transaction import recover

Seen = list[tuple[Any, ...]]
THRESHOLD = "1970-01-01T00:00:05Z"


class EventShape(Shape):
    """A table that is compacted by event time, at an instant in the past."""

    def __str__(self) -> str:
        return "event-time"

    def create(self, storage: Storage, clock: ManualClock | None) -> tl.Table:
        return tl.create_table(
            storage.uri,
            SCHEMA,
            name="crash",
            record_key="id",
            partition_by="day",
            ordering_fields="ts",
            event_time_field="ts",
            options={"hoodie.payload.event.time.unit": "s", "hoodie.table.timeline.timezone": "UTC"},
            storage=storage,
            clock=clock,
        )


def plan_by_event_time(table: tl.Table) -> str | None:
    return table.schedule_compaction(
        strategy="event_time", threshold=THRESHOLD, options={"hoodie.compaction.event.time.backdate": "any"}
    )


EVENT = EventShape("MERGE_ON_READ", "SIMPLE")
SIMPLE, BUCKET = Shape("MERGE_ON_READ", "SIMPLE"), Shape("MERGE_ON_READ", "BUCKET")
STEP = 1 if IS_DEEP else 3
COLUMNS = ["id", "name", "ts", "day", "_hoodie_commit_time"]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_thread(monkeypatch)


@cache
def logged(shape: Shape, *, is_planned: bool) -> World:
    """A table with logs, inserts and a deleted key in two partitions; and a plan of a compaction, if asked for."""
    clock = ManualClock(seed=1)
    world = World(MemoryStorage("crash", clock=clock), clock)
    table = shape.create(world.storage, clock)
    table.upsert(rows((1, "a", 1), (2, "b", 1), (3, "c", 1), (5, "e", 1)))
    table.upsert(rows((1, "a", 2), (2, "b", 2), (4, "d", 1)))
    table.delete([5])
    if isinstance(shape, EventShape):
        clock.advance(60)
        last = table.upsert(rows((2, "late", 9)))
        if is_planned:
            assert (plan_by_event_time(table) or "~") < last.requested_time
    elif is_planned:
        assert table.schedule_compaction() is not None
    return world


@dataclass(frozen=True)
class Service:
    """A call of a service on a kind of table."""

    name: str
    shape: Shape
    is_planned: bool
    call: Callable[[tl.Table], object]

    def __str__(self) -> str:
        return f"{self.name}-{self.shape}"

    def begin(self) -> World:
        return logged(self.shape, is_planned=self.is_planned).copy()

    @property
    def numbers(self) -> range:
        """The numbers of its storage operations."""
        return _numbers(self)


@cache
def _numbers(case: Service) -> range:
    world = case.begin()
    counted = FaultyStorage(world.storage, clock=world.clock)
    table = world.open(counted)
    opened = counted.operations
    case.call(table)
    return range(opened + 1, counted.operations + 1)


CASES = [
    Service("schedule", SIMPLE, False, lambda t: t.schedule_compaction()),
    Service("execute", SIMPLE, True, lambda t: t.run_compaction()),
    Service("execute", BUCKET, True, lambda t: t.run_compaction()),
    Service("schedule", EVENT, False, plan_by_event_time),
    Service("execute", EVENT, True, lambda t: t.run_compaction()),
]


def seen(storage: Storage, mode: str = "snapshot") -> Seen:
    found = tl.open_table("memory", storage=storage).scan(columns=COLUMNS, mode=mode).to_arrow().to_pylist()
    return sorted(tuple(row[name] for name in COLUMNS) for row in found)


def attempt(case: Service, world: World, wrong: Iterable[Fault]) -> str:
    """What the caller was told: ok, error, or nothing, being dead."""
    try:
        case.call(world.open(FaultyStorage(world.storage, wrong, clock=world.clock)))
    except SimulatedCrash:
        return "dead"
    except tl.TidelakeError:
        return "error"
    return "ok"


class Watch:
    """A reader after every change of the table that a service makes."""

    def __init__(self, storage: Storage, expected: Seen) -> None:
        self.storage = storage
        self.expected = expected
        self.changed = False

    def __call__(self, number: int, verb: str, path: str) -> None:
        if self.changed:
            assert seen(self.storage) == self.expected, f"P1: rows changed before operation {number}"
        is_inner = path.startswith(".hoodie/") and not path.startswith(".hoodie/timeline/")
        self.changed = verb.startswith(("put", "delete")) and not is_inner


def examine(case: Service, world: World, told: str, *, writes_first: bool = False) -> bool:
    """Check the promises after a service that went wrong, over its recovery; says whether it had completed before."""
    key = (str(case), told, writes_first, world.fingerprint)
    if key not in _examined:
        _examined[key] = _examine(world, told, writes_first)
    return _examined[key]


_examined: dict[object, bool] = {}


def _examine(world: World, told: str, writes_first: bool) -> bool:
    storage = world.storage
    expected = seen(storage)
    completed = [i for i in world.open().timeline.completed_writes if i.pending_action == "compaction"]
    planned = [i for i in world.open().timeline.instants if i.pending_action == "compaction"]
    assert told != "ok" or planned, "P2: a plan that was returned is not there"
    reading = world.open().scan(columns=COLUMNS)
    if writes_first:
        world.open().upsert(rows((1, "during", 9), (9, "new", 1)))
        expected = seen(storage)
        assert [row[:3] for row in expected if row[0] in (1, 9)] == [(1, "during", 9), (9, "new", 1)]
    world.clock.advance(EXPIRED_S)
    world.open(FaultyStorage(storage, clock=world.clock, on_operation=Watch(storage, expected))).compact()
    if list(storage.list_files(STAGED_DIR)):
        # What was staged for a turn that was lost goes with the next turn, and the compaction may have had none.
        world.open().drop_savepoint(world.open().savepoint().instant)
    if not writes_first:
        found = sorted(tuple(row[name] for name in COLUMNS) for row in reading.to_arrow().to_pylist())
        assert found == expected, "P3: a reader lost its snapshot"
    check_ended(world, expected)
    return bool(completed)


def check_ended(world: World, expected: Seen) -> None:
    """Everything is compacted, the rows are the same, and nothing is left of the making."""
    storage = world.storage
    assert seen(storage) == expected, "P5: the recovery changed rows"
    assert seen(storage, "read_optimized") == expected, "P5: something was not compacted"
    table = world.open()
    assert not table.timeline.pending, "P5: something is pending"
    ends = [i.completion_time for i in table.timeline.instants if i.is_completed]
    assert len(set(ends)) == len(ends), "P4: a completion time stands twice"
    check_files(storage)
    assert [info.path for info in storage.list_files(CLAIM_DIR)] == [], "P7: a claim was left"
    assert table.audit_services().is_clean
    assert table.compact() is None, "P5: there was more to do"
    assert recover(storage, table.config, world.clock) == [], "P5: something was left to recover"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_compaction_crash_at_every_operation_loses_nothing(case: Service, mode: str) -> None:
    """Wherever a compaction goes wrong, readers notice nothing and the next one ends it."""
    ended = set()
    chosen = case.numbers if case.shape is SIMPLE and mode in ("before", "lost") else case.numbers[:: STEP * 2]
    for at in chosen:
        world = case.begin()
        told = attempt(case, world, faults(mode, at))
        try:
            ended.add(examine(case, world, told))
        except (AssertionError, tl.TidelakeError) as error:
            raise AssertionError(f"{case}, {mode} at {at}, told {told}: {error}") from error
    assert ended


@pytest.mark.parametrize("case", CASES[:2], ids=str)
def test_compaction_crash_with_a_write_before_the_recovery_loses_nothing(case: Service) -> None:
    for at in case.numbers[::STEP]:
        world = case.begin()
        told = attempt(case, world, [Fault(at, "crash_after")])
        try:
            examine(case, world, told, writes_first=True)
        except (AssertionError, tl.TidelakeError) as error:
            raise AssertionError(f"{case}, crash after {at}, told {told}: {error}") from error


@pytest.mark.parametrize("case", CASES[:2], ids=str)
def test_compaction_second_crash_in_the_recovery_loses_nothing(case: Service) -> None:
    step = 4 if IS_DEEP else 17
    for first in case.numbers[::step]:
        world = case.begin()
        attempt(case, world, [Fault(first, "crash_after")])
        world.clock.advance(EXPIRED_S)
        counted = FaultyStorage(world.copy().storage, clock=world.clock)
        tl.open_table("memory", storage=counted, clock=world.copy().clock).compact()
        for at in range(1 + first % step, counted.operations + 1, step):
            again = world.copy()
            compacting = Service("compact", case.shape, False, lambda t: t.compact())
            told = attempt(compacting, again, [Fault(at, "crash_after")])
            try:
                examine(compacting, again, told if told != "ok" else "dead")
            except (AssertionError, tl.TidelakeError) as error:
                raise AssertionError(f"{case}, crash after {first}, second after {at}: {error}") from error
