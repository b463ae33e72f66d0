"""Two writers, interleaved storage operation by storage operation: as one after the other, or one is told."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from model.deep import IS_DEEP
from small_rows import rows
from tidelake.storage import FaultyStorage, MemoryStorage
from tidelake.testing import ManualClock
from tidelake.write import Commit
from unit.write.every_order import Orders
from unit.write.interleave import Scheduler, make_deterministic, outcome

SAMPLES = 500 if IS_DEEP else 20
FEW = 12
"""Runs of those in which every order is tried, in ``make test``."""
CONTROLS = 200
Rows = Counter[tuple[Any, ...]]


def wider(*entries: tuple[int, str, int]) -> pa.Table:
    table = rows(*entries)
    return table.append_column("more", pa.array(["m"] * table.num_rows))


Write = Callable[[tl.Table], object]
PAIRS: dict[str, tuple[Write, Write]] = {
    "one key twice": (lambda t: t.upsert(rows((1, "a", 5))), lambda t: t.upsert(rows((1, "b", 5)))),
    "one new key": (lambda t: t.upsert(rows((9, "a", 5))), lambda t: t.upsert(rows((9, "b", 6)))),
    "one group": (lambda t: t.upsert(rows((1, "a", 5))), lambda t: t.upsert(rows((3, "b", 5)))),
    "other partitions": (lambda t: t.upsert(rows((1, "a", 5))), lambda t: t.upsert(rows((2, "b", 5)))),
    "upsert and overwrite": (
        lambda t: t.upsert(rows((1, "a", 5), (9, "a", 5))),
        lambda t: t.insert_overwrite(rows((9, "b", 6))),
    ),
    "new partition": (lambda t: t.upsert(rows((9, "a", 5))), lambda t: t.insert_overwrite_table(rows((9, "b", 6)))),
    "upsert and delete": (lambda t: t.upsert(rows((1, "kept", 1))), lambda t: t.delete(filter="name = 'one'")),
    "delete partition": (lambda t: t.upsert(rows((1, "a", 5), (9, "a", 5))), lambda t: t.delete_partitions(["day=d1"])),
    "another column": (lambda t: t.upsert(wider((1, "a", 5))), lambda t: t.upsert(rows((2, "b", 5)))),
    "insert and upsert": (lambda t: t.insert(rows((9, "a", 5))), lambda t: t.upsert(rows((11, "b", 6), (2, "c", 2)))),
    "two overwrites": (
        lambda t: t.insert_overwrite(rows((1, "a", 5))),
        lambda t: t.insert_overwrite(rows((3, "b", 6))),
    ),
}


@pytest.fixture(autouse=True)
def deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    make_deterministic(monkeypatch)


def start(table_type: str) -> tuple[MemoryStorage, ManualClock]:
    clock = ManualClock(seed=1)
    storage = MemoryStorage(clock=clock)
    table = tl.create_table(
        "memory",
        "id bigint, name string, ts bigint, day string",
        name="two",
        record_key="id",
        partition_by="day",
        ordering_fields="ts",
        table_type=table_type,
        storage=storage,
        clock=clock,
    )
    table.upsert(rows((1, "one", 1), (2, "two", 1), (3, "three", 1)))
    return storage, clock


def state(storage: object) -> Rows:
    found = tl.open_table("memory", storage=storage).scan().to_arrow().to_pylist()
    names = ("id", "name", "ts", "more")
    return Counter(tuple(row.get(name) for name in names) for row in found)


def serial(table_type: str, *writes: Write) -> Rows:
    storage, clock = start(table_type)
    for write in writes:
        write(tl.open_table("memory", storage=storage, clock=clock))
    return state(storage)


def interleaved(table_type: str, pair: tuple[Write, Write], seed: int) -> tuple[MemoryStorage, ManualClock, list[Any]]:
    storage, clock = start(table_type)

    def job(write: Write) -> Callable[[object], object]:
        return lambda faulty: write(tl.open_table("memory", storage=faulty, clock=clock))

    switch = random.Random(seed).choice([0.05, 0.1, 0.3, 0.5])
    return storage, clock, Scheduler(seed, switch).run([job(write) for write in pair], storage)


def damage(table_type: str, name: str, seed: int, orders: dict[str, list[Rows]]) -> str | None:
    """What is wrong after one interleaving; None if nothing."""
    storage, clock, results = interleaved(table_type, PAIRS[name], seed)
    found = wrong(storage, clock, results, name, orders)
    return None if found is None else f"seed {seed}: {found}"


def wrong(
    storage: MemoryStorage, clock: ManualClock, results: list[Any], name: str, orders: dict[str, list[Rows]]
) -> str | None:
    """What is wrong with a table after two writes; None if nothing."""
    told = "+".join(outcome(result) for result in results)
    seen = state(storage)
    if seen not in orders[told]:
        return f"{told} and {seen}"
    timeline = tl.open_table("memory", storage=storage).timeline
    if timeline.pending:
        return f"pending {timeline.pending}"
    if told == "conflict+conflict":
        return "both were told of a conflict"
    if name == "other partitions" and told != "ok+ok":
        return told
    ends = [i.completion_time for i in timeline.completed_writes]
    commits = sum(isinstance(result, Commit) for result in results)
    if len(ends) != 1 + commits or len(set(ends)) != len(ends):
        return f"{told}, but {timeline.instants}"
    # Whoever was told of a conflict may redo the write.
    for result, write in zip(results, PAIRS[name], strict=True):
        if isinstance(result, tl.ConflictError):
            write(tl.open_table("memory", storage=storage, clock=clock))
            if state(storage) not in orders["ok+ok"]:
                return f"redone {state(storage)}"
    return None


def expected(table_type: str, name: str) -> dict[str, list[Rows]]:
    one, other = PAIRS[name]
    return {
        "ok+ok": [serial(table_type, one, other), serial(table_type, other, one)],
        "ok+conflict": [serial(table_type, one)],
        "conflict+ok": [serial(table_type, other)],
        "conflict+conflict": [serial(table_type)],
    }


def first_seed() -> int:
    return int(os.environ.get("TIDELAKE_SEED") or random.SystemRandom().randrange(10**9))


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize("name", PAIRS)
def test_two_writers_interleaved_equal_one_order_or_one_is_told(table_type: str, name: str) -> None:
    """However their storage operations mix, the rows are those of one order of the writes that were told ok."""
    start_seed = first_seed()
    orders = expected(table_type, name)
    found = [damage(table_type, name, seed, orders) for seed in range(start_seed, start_seed + SAMPLES)]
    assert not [each for each in found if each is not None]


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize("name", PAIRS)
def test_two_writers_in_every_order_of_their_phases(table_type: str, name: str) -> None:
    """All ways in which the phases of two writes can follow each other (in ``make test`` a few): one order, or one is told."""
    expect = expected(table_type, name)
    storage, clock = start(table_type)
    orders = Orders(storage, clock, tuple(on_table(write) for write in PAIRS[name]), first_seed())
    found = [wrong(end, later, results, name, expect) for end, later, results in orders.ends(None if IS_DEEP else FEW)]
    assert not [each for each in found if each is not None][:3], f"TIDELAKE_SEED={orders.seed}"
    print(f"{orders.count:,} orders, {len(orders.states):,} states, {len(found):,} ends" if IS_DEEP else len(found))


def on_table(write: Write) -> Callable[[object, ManualClock], object]:
    return lambda storage, clock: write(tl.open_table("memory", storage=storage, clock=clock))


def hits(table_type: str, name: str) -> int:
    """How many interleavings do damage, of as many as it takes to find two."""
    orders = expected(table_type, name)
    found = 0
    for seed in range(CONTROLS):
        try:
            found += damage(table_type, name, seed, orders) is not None
        except tl.TidelakeError:
            found += 1
        if found == 2:
            break
    return found


@pytest.mark.parametrize(("table_type", "name"), [("COPY_ON_WRITE", "one group"), ("MERGE_ON_READ", "one new key")])
def test_two_writers_head_without_compare_and_swap_is_found_out(
    monkeypatch: pytest.MonkeyPatch, table_type: str, name: str
) -> None:
    """Negative control: if put-if-match is a plain put, updates get lost or keys doubled, and the harness sees it."""
    monkeypatch.setattr(MemoryStorage, "put_if_match", lambda self, path, data, version: self.put(path, data))
    assert hits(table_type, name) == 2


@pytest.mark.parametrize(("table_type", "name"), [("COPY_ON_WRITE", "one group"), ("MERGE_ON_READ", "one new key")])
def test_two_writers_no_conflict_check_is_found_out(
    monkeypatch: pytest.MonkeyPatch, table_type: str, name: str
) -> None:
    """Negative control: without the conflict check, updates get lost or keys doubled, and the harness sees it."""
    monkeypatch.setattr("tidelake.write.transaction.check_conflicts", lambda *_: None)
    assert hits(table_type, name) == 2


def test_two_writers_in_every_order_without_conflict_check_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: among a few of all orders there are some that do damage without the conflict check."""
    monkeypatch.setattr("tidelake.write.transaction.check_conflicts", lambda *_: None)
    expect = expected("COPY_ON_WRITE", "one group")
    storage, clock = start("COPY_ON_WRITE")
    orders = Orders(storage, clock, tuple(on_table(write) for write in PAIRS["one group"]), seed=1)
    assert any(wrong(*end, "one group", expect) is not None for end in orders.ends(CONTROLS))


def test_two_writers_no_schema_check_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: without the comparison of schemas, an added column is hidden by the other writer's commit."""
    monkeypatch.setattr("tidelake.write.transaction.check_schema", lambda *_: None)
    assert hits("MERGE_ON_READ", "another column") == 2


def test_two_writers_first_inserts_of_one_key_after_a_third_give_one_row() -> None:
    """A key put into a small copy-on-write group meanwhile is seen by a writer who began when there was no group."""
    storage, clock = start("COPY_ON_WRITE")

    def table(over: object = storage) -> tl.Table:
        return tl.open_table("memory", storage=over, clock=clock)

    def others(number: int, verb: str, path: str) -> None:
        if verb == "put_if_absent" and path.endswith(".inflight") and not done:
            done.append(path)
            table().upsert(new_partition((20, "other")))
            table().upsert(new_partition((9, "first")))

    done: list[str] = []
    late = FaultyStorage(storage, clock=clock, on_operation=others)
    with pytest.raises(tl.ConflictError, match="'9'"):
        table(late).upsert(new_partition((9, "second")))
    assert [row[1] for row in state(storage) if row[0] == 9] == ["first"]


def new_partition(*entries: tuple[int, str]) -> pa.Table:
    table = rows(*((number, name, 1) for number, name in entries))
    return table.set_column(3, "day", pa.array(["new"] * table.num_rows))


def test_two_writers_instant_that_was_rolled_back_meanwhile_is_not_used_again() -> None:
    """A writer who drew an instant time, then slept while another used it and was rolled back, draws another."""
    storage, clock = start("MERGE_ON_READ")
    done: list[str] = []

    def others(number: int, verb: str, path: str) -> None:
        if verb == "put_if_absent" and path.startswith(".hoodie/.heartbeat/") and not done:
            done.append(path.rpartition("/")[2])
            with pytest.raises(tl.InvalidError, match="schema"):
                tl.open_table("memory", storage=storage, clock=clock).upsert(rows((1, "x", 9)), metadata={"schema": ""})

    late = FaultyStorage(storage, clock=clock, on_operation=others)
    commit = tl.open_table("memory", storage=late, clock=clock).upsert(rows((1, "late", 9)))
    timeline = tl.open_table("memory", storage=storage).timeline
    assert commit.requested_time > done[0]
    assert done[0] not in {i.requested_time for i in timeline.instants}
    assert (1, "late", 9, None) in state(storage)


def test_two_writers_filter_delete_after_a_change_since_its_scan_is_told() -> None:
    """A row that stopped to match between the delete's look and its commit is not deleted."""
    storage, clock = start("COPY_ON_WRITE")
    done: list[str] = []

    def others(number: int, verb: str, path: str) -> None:
        if verb == "put_if_absent" and path.startswith(".hoodie/.heartbeat/") and not done:
            done.append(path)
            tl.open_table("memory", storage=storage, clock=clock).upsert(rows((1, "kept", 1)))

    late = FaultyStorage(storage, clock=clock, on_operation=others)
    with pytest.raises(tl.ConflictError):
        tl.open_table("memory", storage=late, clock=clock).delete(filter="name = 'one'")
    assert (1, "kept", 1, None) in state(storage)


def batch(*entries: tuple[int, str, bool]) -> pa.Table:
    gone = pa.array([is_gone for *_, is_gone in entries])
    return rows(*((id, name, 5) for id, name, _ in entries)).append_column("_hoodie_is_deleted", gone)


DROPPED: dict[str, tuple[Write, Write]] = {
    "overwrite": (
        lambda t: t.upsert(batch((4, "new", False), (9, "gone", True))),
        lambda t: t.insert_overwrite(batch((9, "other", False), (6, "other", False))),
    ),
    "upsert": (
        lambda t: t.upsert(batch((4, "new", False), (9, "gone", True))),
        lambda t: t.upsert(batch((9, "new", False), (4, "gone", True))),
    ),
    "too many to name": (
        lambda t: t.upsert(batch((4, "new", False), *((9 + 2 * n, "gone", True) for n in range(4)))),
        lambda t: t.upsert(batch((11, "new", False), (4, "gone", True))),
    ),
    "overwrite by a delete alone": (
        lambda t: t.insert_overwrite(batch((4, "new", False), (9, "gone", True))),
        lambda t: t.upsert(batch((9, "other", False), (4, "gone", True))),
    ),
}
"""A delete that finds nothing is true before the other's insert only, and the other's before this one's."""
FIRST = {"overwrite by a delete alone": ((2, "two", False),)}
"""What the table has; of the second day nothing, where the day is overwritten by nothing."""


@pytest.mark.parametrize("options", [{}, {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "7"}])
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize("name", DROPPED)
def test_writes_that_drop_deletes_of_what_the_other_inserts_have_an_order(
    name: str, table_type: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whole write within the other, at some (deep: every) storage operation: one after the other, or one is told and done again."""
    monkeypatch.setattr("tidelake.write.missed.MOST_KEYS", 3)
    outer, inner = DROPPED[name]

    def begin() -> tuple[MemoryStorage, ManualClock]:
        clock = ManualClock(seed=1)
        storage = MemoryStorage(clock=clock)
        tl.create_table(
            "memory",
            "id bigint, name string, ts bigint, day string, _hoodie_is_deleted boolean",
            name="two",
            record_key="id",
            partition_by="day",
            ordering_fields="ts",
            table_type=table_type,
            options=options,
            storage=storage,
            clock=clock,
        ).upsert(batch(*FIRST.get(name, ((2, "two", False), (3, "three", False)))))
        return storage, clock

    orders = []
    for first, second in ((outer, inner), (inner, outer)):
        storage, clock = begin()
        for act in (first, second):
            act(tl.open_table("memory", storage=storage, clock=clock))
        orders.append(state(storage))
    storage, clock = begin()
    counted = FaultyStorage(storage, clock=clock)
    outer(tl.open_table("memory", storage=counted, clock=clock))
    for at in range(1, counted.operations, 1 if IS_DEEP else 3):
        storage, clock = begin()

        def between(number: int, *_: str, at: int = at, storage: Any = storage, clock: Any = clock) -> None:
            if number == at:
                inner(tl.open_table("memory", storage=storage, clock=clock))

        faulty = FaultyStorage(storage, clock=clock, on_operation=between)
        try:
            outer(tl.open_table("memory", storage=faulty, clock=clock))
        except tl.ConflictError:
            outer(tl.open_table("memory", storage=storage, clock=clock))
        assert state(storage) in orders, at
