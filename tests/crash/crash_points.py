"""Crashes at storage operations: what is written, how it may go wrong there, and what must be true afterwards.

The promises of the engine are checked literally after each crash (``examine``):

- P1 readers see the state before or the state after: at once, and before every storage operation of the recovery;
- P2 a write that returned is there; P3 a reader that began before the recovery ends with the rows it began with;
- P4 the states as of each completion time are the writes one after the other, each once, in rising times;
- P5 the next writer brings the table to before or after, leaves nothing pending, and finds nothing more to recover;
- P6, P7 every file of a completed write is there in its full size; of the others there is none, nor markers, staged
  bytes, heartbeats.

Modes of going wrong at an operation:

- ``before``, ``after``: the process dies before or after it;
- ``torn``: the process dies within it. In memory, as on an object store, a put takes place whole or not at all; to be
  harsher a put of a data file leaves half of its bytes, as a writer does that streams into place. What a local disk may
  leave, half of a temporary file at any put, is tried on a local disk (``test_write_crashes.py``);
- ``lost``: it takes place, an error is reported, and the process goes on;
- ``lost_then_dead``: the same, and the process dies at a later operation (at the next, or in the deep size at each).
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import tidelake as tl
from small_rows import rows
from tidelake.format.names import parse_base_name, parse_log_name
from tidelake.storage import Fault, FaultyStorage, MemoryStorage, SimulatedCrash, Storage
from tidelake.storage.port import ObjectInfo
from tidelake.testing import ManualClock
from tidelake.timeline import TimelineReader
from tidelake.write.transaction import recover

SCHEMA = "id bigint, name string, ts bigint, day string"
EXPIRED_S = 600.0
MODES = ("before", "after", "torn", "lost", "lost_then_dead")
NEXT_ID = 100
Rows = dict[int, tuple[str, int]]


OPERATIONS: dict[str, Callable[[tl.Table], object]] = {
    "upsert": lambda t: t.upsert(rows((1, "new", 5), (2, "late", 0), (7, "fresh", 1))),
    "insert": lambda t: t.insert(rows((7, "fresh", 1), (8, "fresh", 1))),
    "bulk_insert": lambda t: t.bulk_insert(rows((9, "fresh", 1), (7, "fresh", 1), (8, "fresh", 1))),
    "delete_keys": lambda t: t.delete([1, 2]),
    "delete_filter": lambda t: t.delete(filter="name = 'c' or name = 'd'"),
    "insert_overwrite": lambda t: t.insert_overwrite(rows((3, "over", 1))),
    "insert_overwrite_table": lambda t: t.insert_overwrite_table(rows((3, "over", 1))),
    "delete_partitions": lambda t: t.delete_partitions(["day=d1"]),
}


@dataclass(frozen=True)
class Shape:
    """A kind of table."""

    table_type: str
    index: str

    def __str__(self) -> str:
        return f"{'mor' if self.table_type == 'MERGE_ON_READ' else 'cow'}-{self.index.lower()}"

    def create(self, storage: Storage, clock: ManualClock | None) -> tl.Table:
        options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
        return tl.create_table(
            storage.uri,
            SCHEMA,
            name="crash",
            record_key="id",
            partition_by="day",
            ordering_fields="ts",
            table_type=self.table_type,
            options=options if self.index == "BUCKET" else {},
            storage=storage,
            clock=clock,
        )


SHAPES = [Shape(kind, index) for kind in ("MERGE_ON_READ", "COPY_ON_WRITE") for index in ("SIMPLE", "BUCKET")]


@dataclass
class World:
    """A storage and its clock."""

    storage: MemoryStorage
    clock: ManualClock

    def copy(self) -> World:
        clock = copy.deepcopy(self.clock)
        return World(self.storage.copy("crash", clock=clock), clock)

    def open(self, storage: Storage | None = None) -> tl.Table:
        return tl.open_table("memory", storage=storage or self.storage, clock=self.clock)

    @property
    def fingerprint(self) -> bytes:
        """Every byte on storage, every time, and what the clock will say: what happens next is decided by these."""
        digest = hashlib.blake2b(repr((self.clock.now_ms(), copy.deepcopy(self.clock).new_id())).encode())
        for info in self.storage.list_files():
            digest.update(repr((info.path, info.size_bytes, info.modified_ms)).encode() + self.storage.get(info.path))
        return digest.digest()


@cache
def started(shape: Shape) -> World:
    """A table with a few rows in two partitions, some of them updated."""
    clock = ManualClock(seed=1)
    world = World(MemoryStorage("crash", clock=clock), clock)
    table = shape.create(world.storage, clock)
    table.upsert(rows((1, "a", 1), (2, "b", 1), (3, "c", 1)))
    table.upsert(rows((4, "d", 1), (1, "a", 2)))
    return world


@dataclass(frozen=True)
class Case:
    """One operation on one kind of table; ``world`` is the state that each try begins with."""

    shape: Shape
    operation: str

    def __str__(self) -> str:
        return f"{self.operation}-{self.shape}"

    def begin(self) -> World:
        return started(self.shape).copy()

    def run(self, table: tl.Table) -> object:
        return OPERATIONS[self.operation](table)

    @property
    def before(self) -> Rows:
        return _measured(self)[0]

    @property
    def after(self) -> Rows:
        return _measured(self)[1]

    @property
    def numbers(self) -> range:
        """The numbers of the operation's storage operations."""
        return _measured(self)[2]


class RollbackCase(Case):
    """The recovery from a writer that died just before its turn, by a writer with a write of its own."""

    def __str__(self) -> str:
        return f"rollback-of-{super().__str__()}"

    def begin(self) -> World:
        return dead_writer(self.shape, self.operation).copy()

    def run(self, table: tl.Table) -> object:
        return table.upsert(rows((50, "second", 1)))


class AbortCase(Case):
    """A write that is refused when all of its files are there, and takes itself back."""

    def __str__(self) -> str:
        return f"abort-{self.shape}"

    def run(self, table: tl.Table) -> object:
        return table.upsert(rows((1, "new", 5), (7, "fresh", 1)), metadata={"schema": "is not the caller's to say"})

    @property
    def after(self) -> Rows:
        return {-1: ("never", 0)}


@cache
def _measured(case: Case) -> tuple[Rows, Rows, range]:
    """The state before, the state after, and the storage operations between."""
    world = case.begin()
    before = state(world.storage)
    counted = FaultyStorage(world.storage, clock=world.clock)
    table = world.open(counted)
    opened = counted.operations
    with suppress(tl.InvalidError):
        case.run(table)
    return before, state(world.storage), range(opened + 1, counted.operations + 1)


@cache
def dead_writer(shape: Shape, operation: str) -> World:
    """A table whose writer died with all of its files written, and whose heartbeat has expired."""
    case = Case(shape, operation)
    world = case.begin()
    counted = FaultyStorage(world.storage, clock=world.clock)
    case.run(world.open(counted))
    turn = next(o.number for o in counted.journal if o.verb == "put" and "/staged/" in o.path)
    world = case.begin()
    assert attempt(case, world, [Fault(turn, "crash_before")]) == "dead"
    world.clock.advance(EXPIRED_S)
    return world


def faults(mode: str, at: int, then: int = 1) -> list[Fault]:
    """What happens at an operation; ``then`` operations later the process dies, if the mode says so."""
    kinds: dict[str, Any] = {"before": "crash_before", "after": "crash_after", "torn": "tear", "lost": "lost_answer"}
    if mode == "lost_then_dead":
        return [Fault(at, "lost_answer"), Fault(at + then, "crash_before")]
    return [Fault(at, kinds[mode])]


def attempt(case: Case, world: World, wrong: Iterable[Fault]) -> str:
    """What the caller of the operation was told: ok, error, or nothing, being dead."""
    faulty = FaultyStorage(world.storage, wrong, clock=world.clock)
    try:
        case.run(world.open(faulty))
    except SimulatedCrash:
        return "dead"
    except tl.TidelakeError:
        return "error"
    return "ok"


def state(storage: Storage, **point: str) -> Rows:
    """The rows that a reader sees now."""
    return _rows(tl.open_table("memory", storage=storage).scan(columns=["id", "name", "ts"], **point))


def _rows(scan: Any) -> Rows:
    found = scan.to_arrow().to_pylist()
    assert len(found) == len({row["id"] for row in found}), "a key stands twice"
    return {row["id"]: (row["name"], row["ts"]) for row in found}


def examine(case: Case, world: World, told: str) -> bool:
    """Check every promise after an operation that went wrong, over the recovery; says whether it took place.

    Everything that follows is decided by the bytes on storage and the clock: worlds that are equal are examined once.
    """
    seen = (str(case), told, world.fingerprint)
    if seen not in _examined:
        _examined[seen] = _examine(case, world, told)
    return _examined[seen]


_examined: dict[object, bool] = {}


def _examine(case: Case, world: World, told: str) -> bool:
    storage, crashed = world.storage, state(world.storage)
    assert crashed in (case.before, case.after), "P1: readers saw a part"
    assert told != "ok" or crashed == case.after, "P2: a write that returned is not there"
    assert told != "error" or crashed == case.before, "a write that was refused is there"
    known = [i.completion_time for i in world.open().timeline.instants if i.is_completed]
    reading = world.open().scan(columns=["id", "name", "ts"])
    world.clock.advance(EXPIRED_S)
    watched = FaultyStorage(storage, clock=world.clock, on_operation=_Watch(case, storage))
    world.open(watched).upsert(rows((NEXT_ID, "next", 1)))
    assert _rows(reading) == crashed, "P3: a reader lost its snapshot"
    recovered = state(storage)
    assert recovered.pop(NEXT_ID) == ("next", 1)
    assert recovered in (case.before, case.after), "P5: recovery lost or doubled something"
    assert recovered == case.after or crashed == case.before, "P5: a visible write went away"
    check_chain(case, world, known, took_place=recovered == case.after)
    check_files(world.storage)
    assert recover(storage, world.open().config, world.clock) == [], "P5: something was left to recover"
    return recovered == case.after


class _Watch:
    """A reader between any two storage operations of a recovery."""

    def __init__(self, case: Case, storage: Storage) -> None:
        self.case = case
        self.storage = storage
        self.changed = False
        self.seen: list[Rows] = []

    def __call__(self, number: int, verb: str, path: str) -> None:
        if self.changed:
            now = state(self.storage)
            now.pop(NEXT_ID, None)
            assert now in (self.case.before, self.case.after), f"P1: part of a write before operation {number}"
            assert not self.seen or self.seen[-1] == self.case.before or now == self.case.after, "P1: a write went away"
            self.seen.append(now)
        is_inner = path.startswith(".hoodie/") and not path.startswith(".hoodie/timeline/")
        self.changed = verb.startswith(("put", "delete")) and not is_inner


def check_chain(case: Case, world: World, known: list[str | None], *, took_place: bool) -> None:
    """P4: as of each completion time the table holds the writes up to it; what shows later has later times."""
    table = world.open()
    assert not table.timeline.pending, "P5: something is pending"
    completed = [i for i in table.timeline.instants if i.is_completed]
    ends = [i.completion_time or "" for i in completed]
    assert len(set(ends)) == len(ends), "P4: a completion time stands twice"
    assert len({i.requested_time for i in completed}) == len(completed), "P4: an instant stands twice"
    assert all(end > max(known, default="") for end in ends if end not in known), "P4: shown late, with an early time"
    writes = sorted(i.completion_time or "" for i in completed if i.is_write)
    states = [state(world.storage, as_of_completion=end) for end in writes[-2 - took_place :]]
    last = case.after if took_place else case.before
    expected = [case.before, *([last] if took_place else []), {**last, NEXT_ID: ("next", 1)}]
    assert states == expected, "P4: the chain of states is not that of the writes"


def check_files(storage: Storage, *, may_leave_condemned: bool = False) -> None:
    """P6, P7: all files of completed writes, whole, and nothing else.

    A writer that died after it was rolled back may leave files without a marker: invisible, until a sweep finds them.
    """
    table = tl.open_table("memory", storage=storage)
    reader = TimelineReader(storage, table.config)
    wanted = {
        stat.path: stat.file_size_in_bytes
        for instant in table.timeline.completed_writes
        for stat in reader.commit(instant).stats
    }
    found = {info.path: info.size_bytes for info in _data_files(storage)}
    assert {path: found.get(path or "") for path in wanted} == wanted, (
        "P6: a file of a completed write is missing or cut"
    )
    if may_leave_condemned:
        condemned = {target for taker in table.timeline.takers for target in reader.targets(taker)}
        found = {path: size for path, size in found.items() if _instant_of(path) not in condemned}
    assert found.keys() <= wanted.keys(), "P7: files that no completed write names were left"
    for folder in (".hoodie/.temp", ".hoodie/.heartbeat", ".hoodie/.tidelake/staged"):
        assert [info.path for info in storage.list_files(folder)] == [], "P7: traces of a dead writer were left"


def _data_files(storage: Storage) -> Iterator[ObjectInfo]:
    return (i for i in storage.list_files() if not i.path.startswith(".hoodie/") and _instant_of(i.path) is not None)


def _instant_of(path: str) -> str | None:
    name = path.rpartition("/")[2]
    parsed = parse_base_name(name) or parse_log_name(name)
    return parsed.instant if parsed else None
