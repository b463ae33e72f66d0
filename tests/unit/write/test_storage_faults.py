"""A storage that answers wrongly, late or not at all, at each operation of a write."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

import tidelake as tl
from model.deep import IS_DEEP
from model.one_thread import in_one_thread
from small_rows import rows
from tidelake.errors import UnavailableError
from tidelake.storage import Fault, FaultyStorage, MemoryStorage
from tidelake.testing import ManualClock

Rows = dict[int, tuple[str, int]]
SCHEMA = "id bigint, name string, ts bigint, day string"
EXPIRED_S = 600.0
KINDS = ("lost_answer", "http_409", "http_412", "http_503")
SAMPLE = [("upsert", "MERGE_ON_READ"), ("insert_overwrite", "COPY_ON_WRITE")]


WRITES: dict[str, Callable[[tl.Table], object]] = {
    "upsert": lambda t: t.upsert(rows((1, "new", 5), (2, "late", 0), (7, "fresh", 1))),
    "insert_overwrite": lambda t: t.insert_overwrite(rows((3, "over", 1))),
    "delete": lambda t: t.delete([1, 2]),
}


CASES = list(itertools.product(WRITES, ("MERGE_ON_READ", "COPY_ON_WRITE"))) if IS_DEEP else SAMPLE


class Broken(FaultyStorage):
    """From one operation on every write fails: a full disk, or a folder that has become read-only."""

    def __init__(self, inner: MemoryStorage, first: int, clock: ManualClock) -> None:
        super().__init__(inner, clock=clock, on_operation=self._refuse)
        self._first = first

    def _refuse(self, number: int, verb: str, path: str) -> None:
        if number >= self._first and verb.startswith("put"):
            raise UnavailableError(f"{verb} {path!r}: [Errno 28] No space left on device", file=path)


def start(table_type: str) -> tuple[MemoryStorage, ManualClock]:
    clock = ManualClock(seed=1)
    storage = MemoryStorage(clock=clock)
    table = tl.create_table(
        "memory",
        SCHEMA,
        name="faults",
        record_key="id",
        partition_by="day",
        ordering_fields="ts",
        table_type=table_type,
        storage=storage,
        clock=clock,
    )
    table.upsert(rows((1, "a", 1), (2, "b", 1), (3, "c", 1), (4, "d", 1)))
    return storage, clock


def state(storage: object) -> Rows:
    found = tl.open_table("memory", storage=storage).scan(columns=["id", "name", "ts"]).to_arrow().to_pylist()
    assert len(found) == len({row["id"] for row in found}), "a key stands twice"
    return {row["id"]: (row["name"], row["ts"]) for row in found}


def outcomes(write: str, table_type: str) -> tuple[Rows, Rows, range]:
    storage, clock = start(table_type)
    before = state(storage)
    counted = FaultyStorage(storage, clock=clock)
    table = tl.open_table("memory", storage=counted, clock=clock)
    opened = counted.operations
    WRITES[write](table)
    return before, state(storage), range(opened + 1, counted.operations + 1)


def attempt(write: str, table: tl.Table) -> tl.TidelakeError | None:
    try:
        WRITES[write](table)
    except tl.TidelakeError as error:
        return error
    return None


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_thread(monkeypatch)


@pytest.mark.parametrize(("write", "table_type"), CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_write_fault_at_every_operation_succeeds_or_is_told_truly(write: str, table_type: str, kind: str) -> None:
    """One wrong answer at any operation: a write that returns is there whole, one that raises is not there at all."""
    before, after, numbers = outcomes(write, table_type)
    told = {"ok": 0, "error": 0}
    for at in numbers:
        storage, clock = start(table_type)
        faulty = FaultyStorage(storage, [Fault(at, kind)], clock=clock)
        table = tl.open_table("memory", storage=faulty, clock=clock)
        error = attempt(write, table)
        what = f"{kind} at {faulty.journal[at - 1]}: {error!r}"
        told["ok" if error is None else "error"] += 1
        if error is not None:
            assert state(storage) == before, what
            clock.advance(EXPIRED_S)
            WRITES[write](tl.open_table("memory", storage=storage, clock=clock))
        assert state(storage) == after, what
        assert not tl.open_table("memory", storage=storage).timeline.pending, what
    assert told["ok"] > 0


@pytest.mark.parametrize(("write", "table_type"), CASES)
def test_write_disk_full_from_any_operation_on_leaves_the_table_as_before(write: str, table_type: str) -> None:
    """When nothing can be put any more, the caller gets a typed error, readers see the old rows, and it can be redone."""
    before, after, numbers = outcomes(write, table_type)
    for at in numbers:
        storage, clock = start(table_type)
        table = tl.open_table("memory", storage=Broken(storage, at, clock), clock=clock)
        error = attempt(write, table)
        if error is not None:
            assert "No space left" in str(error)
            assert state(storage) == before, at
        # Decided by the head, but the last file could not be put: the next writer finishes it; else it is redone.
        clock.advance(EXPIRED_S)
        again = tl.open_table("memory", storage=storage, clock=clock)
        again.upsert(rows((101, "next", 1)))
        now = state(storage)
        assert now.pop(101) == ("next", 1)
        assert now in (before, after), at
        assert not again.timeline.pending
