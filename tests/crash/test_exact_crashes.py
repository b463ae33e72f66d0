"""A crash or a wrong answer at every storage operation of an exact compaction, then recovery.

Readers of the snapshot see the same rows all the time. Readers of base files see those of before or those of after; and a
base file of the compaction is never there without the log of what was left out of it.
"""

from __future__ import annotations

from functools import cache

import pytest

import tidelake as tl
from crash.crash_points import EXPIRED_S, MODES, World, check_files, faults
from exact_world import create_exact, events, plan_exact, rows_of
from model.deep import IS_DEEP
from model.one_thread import in_one_thread
from tidelake.format.names import parse_base_name, parse_log_name
from tidelake.storage import Fault, FaultyStorage, MemoryStorage, SimulatedCrash, Storage
from tidelake.testing import ManualClock
from tidelake.timeline.claim import CLAIM_DIR
from tidelake.write.transaction import recover

THRESHOLD_S = 5
SNAPSHOT = {2: ("nine", 9), 3: ("seven", 7), 5: ("c", 2)}
BEFORE = {3: ("b", 1)}
AFTER = {2: ("one", 1), 3: ("b", 1), 4: ("x", 3), 5: ("c", 2)}


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_thread(monkeypatch)


@cache
def planned() -> World:
    """A table with versions and deletes on both sides of the threshold, in two partitions, and an exact plan of it."""
    clock = ManualClock(seed=1)
    world = World(MemoryStorage("crash", clock=clock), clock)
    table = create_exact(world.storage, clock)
    table.upsert(events((3, "b", 1)))
    table.run_compaction(plan_exact(world.storage, clock, THRESHOLD_S))
    table.upsert(events((2, "one", 1), (2, "nine", 9), (4, "x", 3), (3, "seven", 7), (5, "c", 2)))
    table.upsert(events((4, "", 8, True), (5, "", 1, True)))
    assert plan_exact(world.storage, clock, THRESHOLD_S) is not None
    return world


@cache
def numbers() -> range:
    """The numbers of the compaction's storage operations."""
    world = planned().copy()
    counted = FaultyStorage(world.storage, clock=world.clock)
    table = world.open(counted)
    opened = counted.operations
    table.run_compaction()
    return range(opened + 1, counted.operations + 1)


def attempt(world: World, wrong: list[Fault]) -> str:
    try:
        world.open(FaultyStorage(world.storage, wrong, clock=world.clock)).run_compaction()
    except SimulatedCrash:
        return "dead"
    except tl.TidelakeError:
        return "error"
    return "ok"


def check_views(storage: Storage) -> bool:
    """Both views are right and no base file lacks its log; says whether base files are those of after."""
    table = tl.open_table("memory", storage=storage)
    assert rows_of(table) == SNAPSHOT, "P1: the snapshot changed"
    optimised = rows_of(table, "read_optimized")
    assert optimised in (BEFORE, AFTER), "P1: the read-optimised view is neither that of before nor that of after"
    plan = [i.requested_time for i in table.timeline.instants if i.pending_action == "compaction"][-1]
    names = [info.path.rpartition("/")[2] for info in storage.list_files() if not info.path.startswith(".hoodie")]
    bases = {b.file_id for n in names if (b := parse_base_name(n)) is not None and b.instant == plan}
    logs = {g.file_id for n in names if (g := parse_log_name(n)) is not None and g.instant == plan}
    assert bases <= logs, "a base file lacks what was left out of it"
    return optimised == AFTER


class Watch:
    """Looks after every change of files that the recovery makes."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.changed = False

    def __call__(self, number: int, verb: str, path: str) -> None:
        if self.changed:
            check_views(self.storage)
        is_inner = path.startswith(".hoodie/") and not path.startswith(".hoodie/timeline/")
        self.changed = verb.startswith(("put", "delete")) and not is_inner


_examined: dict[object, bool] = {}


def examine(world: World, told: str) -> bool:
    key = (told, world.fingerprint)
    if key not in _examined:
        _examined[key] = _examine(world, told)
    return _examined[key]


def _examine(world: World, told: str) -> bool:
    storage = world.storage
    was_after = check_views(storage)
    assert told != "ok" or was_after, "P2: a compaction that returned is not there"
    world.clock.advance(EXPIRED_S)
    world.open(FaultyStorage(storage, clock=world.clock, on_operation=Watch(storage))).run_compaction()
    world.open().drop_savepoint(world.open().savepoint().instant)  # what was staged for a lost turn goes with the next
    assert check_views(storage), "P5: the compaction was not carried out"
    table = world.open()
    assert not table.timeline.pending, "P5: something is pending"
    check_files(storage)
    assert [info.path for info in storage.list_files(CLAIM_DIR)] == [], "P7: a claim was left"
    assert table.audit_services().is_clean
    assert recover(storage, table.config, world.clock) == [], "P5: something was left to recover"
    return was_after


@pytest.mark.parametrize("mode", MODES)
def test_exact_crash_at_every_operation_loses_nothing(mode: str) -> None:
    ended = set()
    step = 1 if IS_DEEP or mode == "before" else 4
    for at in numbers()[::step]:
        world = planned().copy()
        told = attempt(world, list(faults(mode, at)))
        try:
            ended.add(examine(world, told))
        except (AssertionError, tl.TidelakeError) as error:
            raise AssertionError(f"{mode} at {at}, told {told}: {error}") from error
    assert False in ended
