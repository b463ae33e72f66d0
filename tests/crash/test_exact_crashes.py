"""A crash or a wrong answer at every storage operation of an exact compaction, then recovery.

Readers of the snapshot see the same rows all the time. Readers of base files see those of before or those of after; and a
base file of the compaction is never there without the log of what was left out of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

import tidelake as tl
from crash.crash_points import EXPIRED_S, MODES, World, check_files, faults
from exact_groups_world import Entry, create_groups, entries_table
from exact_groups_world import rows_of as group_rows_of
from exact_world import create_exact, events, plan_exact, rows_of
from model.deep import IS_DEEP
from model.one_thread import in_one_thread
from tidelake.format.names import parse_base_name, parse_log_name
from tidelake.storage import Fault, FaultyStorage, MemoryStorage, SimulatedCrash, Storage
from tidelake.testing import ManualClock
from tidelake.timeline.claim import CLAIM_DIR
from tidelake.write.transaction import recover

THRESHOLD_S = 5


@dataclass(frozen=True)
class Case:
    """What the views of a table show: the snapshot all the time, base files before and after the compaction."""

    rows: Callable[..., dict[int, Any]]
    snapshot: dict[int, Any]
    before: dict[int, Any]
    after: dict[int, Any]


CASES = {
    "one event time": Case(
        rows_of,
        {2: ("nine", 9), 3: ("seven", 7), 5: ("c", 2)},
        {3: ("b", 1)},
        {2: ("one", 1), 3: ("b", 1), 4: ("x", 3), 5: ("c", 2)},
    ),
    "groups": Case(
        group_rows_of,
        {2: (("aone", 1), ("bone", 9)), 3: (("aold", 1), ("bnew", 7)), 5: (("ac", 9), (None, None))},
        {3: (("aold", 1), ("bold", 1))},
        {2: (("aone", 1), (None, None)), 3: (("aold", 1), ("bold", 1)), 4: ((None, None), ("bx", 3))},
    ),
}


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_thread(monkeypatch)


@cache
def planned(name: str) -> World:
    """A table with versions and deletes on both sides of the threshold, in two partitions, and an exact plan of it."""
    clock = ManualClock(seed=1)
    world = World(MemoryStorage("crash", clock=clock), clock)
    if name == "groups":
        return with_groups(world, clock)
    table = create_exact(world.storage, clock)
    table.upsert(events((3, "b", 1)))
    table.run_compaction(plan_exact(world.storage, clock, THRESHOLD_S))
    table.upsert(events((2, "one", 1), (2, "nine", 9), (4, "x", 3), (3, "seven", 7), (5, "c", 2)))
    table.upsert(events((4, "", 8, True), (5, "", 1, True)))
    assert plan_exact(world.storage, clock, THRESHOLD_S) is not None
    return world


def with_groups(world: World, clock: ManualClock) -> World:
    """The same with records and deletes whose groups lie on both sides."""
    table = create_groups(world.storage, clock)
    table.upsert(entries_table([Entry(3, "old", 1, 1)]))
    table.run_compaction(plan_exact(world.storage, clock, THRESHOLD_S, "a_ts,b_ts"))
    table.upsert(
        entries_table([Entry(2, "one", 1, 9), Entry(4, "x", 3, 3), Entry(3, "new", None, 7), Entry(5, "c", 9, 2)])
    )
    table.upsert(entries_table([Entry(4, "", 4, 8, is_delete=True), Entry(5, "", None, 3, is_delete=True)]))
    assert plan_exact(world.storage, clock, THRESHOLD_S, "a_ts,b_ts") is not None
    return world


@cache
def numbers(name: str) -> range:
    """The numbers of the compaction's storage operations."""
    world = planned(name).copy()
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


def check_views(storage: Storage, case: Case) -> bool:
    """Both views are right and no base file lacks its log; says whether base files are those of after."""
    table = tl.open_table("memory", storage=storage)
    assert case.rows(table) == case.snapshot, "P1: the snapshot changed"
    optimised = case.rows(table, "read_optimized")
    assert optimised in (case.before, case.after), (
        "P1: the read-optimised view is neither that of before nor that of after"
    )
    plan = [i.requested_time for i in table.timeline.instants if i.pending_action == "compaction"][-1]
    names = [info.path.rpartition("/")[2] for info in storage.list_files() if not info.path.startswith(".hoodie")]
    bases = {b.file_id for n in names if (b := parse_base_name(n)) is not None and b.instant == plan}
    logs = {g.file_id for n in names if (g := parse_log_name(n)) is not None and g.instant == plan}
    assert bases <= logs, "a base file lacks what was left out of it"
    return optimised == case.after


class Watch:
    """Looks after every change of files that the recovery makes."""

    def __init__(self, storage: Storage, case: Case) -> None:
        self.storage = storage
        self.case = case
        self.changed = False

    def __call__(self, number: int, verb: str, path: str) -> None:
        if self.changed:
            check_views(self.storage, self.case)
        is_inner = path.startswith(".hoodie/") and not path.startswith(".hoodie/timeline/")
        self.changed = verb.startswith(("put", "delete")) and not is_inner


_examined: dict[object, bool] = {}


def examine(world: World, told: str, case: Case) -> bool:
    key = (told, world.fingerprint)
    if key not in _examined:
        _examined[key] = _examine(world, told, case)
    return _examined[key]


def _examine(world: World, told: str, case: Case) -> bool:
    storage = world.storage
    was_after = check_views(storage, case)
    assert told != "ok" or was_after, "P2: a compaction that returned is not there"
    world.clock.advance(EXPIRED_S)
    world.open(FaultyStorage(storage, clock=world.clock, on_operation=Watch(storage, case))).run_compaction()
    world.open().drop_savepoint(world.open().savepoint().instant)  # what was staged for a lost turn goes with the next
    assert check_views(storage, case), "P5: the compaction was not carried out"
    table = world.open()
    assert not table.timeline.pending, "P5: something is pending"
    check_files(storage)
    assert [info.path for info in storage.list_files(CLAIM_DIR)] == [], "P7: a claim was left"
    assert table.audit_services().is_clean
    assert recover(storage, table.config, world.clock) == [], "P5: something was left to recover"
    return was_after


@pytest.mark.parametrize(("name", "mode"), [*(("one event time", mode) for mode in MODES), ("groups", "before")])
def test_exact_crash_at_every_operation_loses_nothing(name: str, mode: str) -> None:
    ended = set()
    step = 1 if IS_DEEP or mode == "before" else 4
    for at in numbers(name)[::step]:
        world = planned(name).copy()
        told = attempt(world, list(faults(mode, at)))
        try:
            ended.add(examine(world, told, CASES[name]))
        except (AssertionError, tl.TidelakeError) as error:
            raise AssertionError(f"{mode} at {at}, told {told}: {error}") from error
    assert False in ended
