"""A crash at every storage operation of a write, then recovery by the next writer: the state before, or the state after."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake.storage import Fault, FaultyStorage, MemoryStorage, SimulatedCrash
from tidelake.testing import ManualClock

SCHEMA = "id bigint, name string, ts bigint, day string"
Rows = dict[int, tuple[str, int]]
EXPIRED_S = 600.0


def rows(*entries: tuple[int, str, int]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([e[0] for e in entries], pa.int64()),
            "name": [e[1] for e in entries],
            "ts": pa.array([e[2] for e in entries], pa.int64()),
            "day": [f"d{e[0] % 2}" for e in entries],
        }
    )


OPERATIONS: dict[str, Callable[[tl.Table], object]] = {
    "upsert": lambda t: t.upsert(rows((1, "new", 5), (2, "late", 0), (7, "fresh", 1))),
    "insert": lambda t: t.insert(rows((7, "fresh", 1), (8, "fresh", 1))),
    "insert_overwrite": lambda t: t.insert_overwrite(rows((3, "over", 1))),
    "delete_partitions": lambda t: t.delete_partitions(["day=d1"]),
}


def start(table_type: str) -> tuple[MemoryStorage, ManualClock]:
    clock = ManualClock(seed=1)
    storage = MemoryStorage(clock=clock)
    table = tl.create_table(
        "memory",
        SCHEMA,
        name="crash",
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


def outcomes(operation: str, table_type: str) -> tuple[Rows, Rows, range]:
    """The state before, the state after, and the numbers of the storage operations between."""
    storage, clock = start(table_type)
    before = state(storage)
    counted = FaultyStorage(storage, clock=clock)
    table = tl.open_table("memory", storage=counted, clock=clock)
    opened = counted.operations
    OPERATIONS[operation](table)
    return before, state(storage), range(opened + 1, counted.operations + 1)


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", ["crash_before", "crash_after"])
def test_write_crash_at_every_operation_recovers_to_before_or_after(operation: str, table_type: str, kind: str) -> None:
    """Wherever a writer dies, readers see all of its write or nothing, and the next writer goes on without a person."""
    before, after, numbers = outcomes(operation, table_type)
    assert before != after
    seen = set()
    for at in numbers:
        storage, clock = start(table_type)
        faulty = FaultyStorage(storage, [Fault(at, kind)], clock=clock)
        table = tl.open_table("memory", storage=faulty, clock=clock)
        with pytest.raises(SimulatedCrash):
            OPERATIONS[operation](table)
        crashed = state(storage)
        assert crashed in (before, after), f"operation {at}: readers saw a part"
        clock.advance(EXPIRED_S)
        next_table = tl.open_table("memory", storage=storage, clock=clock)
        next_table.upsert(rows((100, "next", 1)))
        recovered = state(storage)
        assert recovered.pop(100) == ("next", 1)
        assert recovered in (before, after), f"operation {at}: recovery lost or doubled something"
        assert recovered == after or crashed == before, f"operation {at}: a visible write went away"
        assert not next_table.timeline.pending, f"operation {at}: {next_table.timeline.pending}"
        seen.add(recovered == after)
    assert seen == {True, False}
