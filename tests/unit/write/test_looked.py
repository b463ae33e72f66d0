"""Rows that lost against what is stored leave no file, and yet their write went by it: nobody takes it away at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from clock_tables import ENABLE, FIELDS, MODE
from model.deep import IS_DEEP
from tidelake.errors import InvalidError
from tidelake.storage import FaultyStorage, MemoryStorage
from tidelake.testing import ManualClock
from unit.write.interleave import make_deterministic

STEP = 1 if IS_DEEP else 4
SCHEMA = "id string, name string, ts bigint, p_ts bigint, day string, _hoodie_is_deleted boolean"
Act = Callable[[tl.Table], object]


@pytest.fixture(autouse=True)
def deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    make_deterministic(monkeypatch)


def batch(*entries: tuple[str, str, int, str, bool]) -> pa.Table:
    ids, names, times, days, gone = (list(column) for column in zip(*entries, strict=True))
    stamps = pa.array(times, pa.int64())
    columns = {"id": ids, "name": names, "ts": stamps, "p_ts": stamps, "day": days, "_hoodie_is_deleted": gone}
    return pa.table(columns)


class World:
    """A table in memory, with one row that late ones lose against."""

    def __init__(self, kind: str) -> None:
        self.clock = ManualClock(seed=1)
        self.storage = MemoryStorage(clock=self.clock)
        how: dict[str, Any] = {"options": {ENABLE: "true", FIELDS: "ts,p_ts", MODE: "all", "write.resolve": "eager"}}
        if kind == "moving":
            how = {"options": {"hoodie.index.type": "GLOBAL_SIMPLE"}, "table_type": "COPY_ON_WRITE"}
            how["ordering_fields"] = "ts"
        given = {"name": "looked", "record_key": "id", "partition_by": "day", **how}
        table = tl.create_table("memory", SCHEMA, storage=self.storage, clock=self.clock, **given)
        table.upsert(batch(("stored", "one", 9, "d1", False), ("other", "two", 9, "d0", False)))

    def open(self, storage: Any = None) -> tl.Table:
        return tl.open_table("memory", storage=storage or self.storage, clock=self.clock)

    @property
    def rows(self) -> list[tuple[str, str, int]]:
        found = self.open().scan(columns=["id", "name", "ts"]).to_arrow().to_pylist()
        return sorted((row["id"], row["name"], row["ts"]) for row in found)


def late(day: str) -> Act:
    """A row that loses, and one that is new."""
    return lambda t: t.upsert(
        batch(("stored", "old", 5, day, False), ("fresh", "one", 5, "d2", False)), on_conflict="retry"
    )


REMOVALS: dict[str, Act] = {
    "marked": lambda t: t.upsert(
        batch(("stored", "", 10, "d1", True), ("fresh", "", 10, "d2", True)), on_conflict="retry"
    ),
    "keys": lambda t: t.delete(["stored", "fresh"], on_conflict="retry"),
    "filter": lambda t: t.delete(filter="name = 'one'", on_conflict="retry"),
}
"""Each takes away what the late row loses against, and would take the new one too, if it were first."""


@pytest.mark.parametrize("removal", REMOVALS)
@pytest.mark.parametrize(("kind", "day"), [("eager", "d1"), ("moving", "d0")])
def test_late_rows_and_the_removal_of_what_they_lose_against_have_an_order(kind: str, day: str, removal: str) -> None:
    """One whole write within the other, at some (deep: every) storage operation; who is told of a conflict tries again."""
    pair = late(day), REMOVALS[removal]
    orders = []
    for acts in (pair, pair[::-1]):
        world = World(kind)
        for act in acts:
            act(world.open())
        orders.append(world.rows)
    assert orders[0] != orders[1]
    for outer, inner in (pair, pair[::-1]):
        world = World(kind)
        counted = FaultyStorage(world.storage, clock=world.clock)
        outer(world.open(counted))
        for at in range(1, counted.operations, STEP):
            world = World(kind)

            def between(number: int, *_: str, at: int = at, world: World = world, inner: Act = inner) -> None:
                if number == at:
                    inner(world.open())

            outer(world.open(FaultyStorage(world.storage, clock=world.clock, on_operation=between)))
            assert world.rows in orders, (at, world.rows)


def test_two_writes_that_go_by_one_group_do_not_meet() -> None:
    """Nothing is changed there: both stand."""
    world = World("eager")
    done: list[str] = []

    def between(number: int, verb: str, path: str) -> None:
        if verb == "put_if_absent" and path.endswith(".inflight") and not done:
            done.append(path)
            world.open().upsert(batch(("stored", "older", 4, "d1", False)))

    world.open(FaultyStorage(world.storage, clock=world.clock, on_operation=between)).upsert(
        batch(("stored", "old", 5, "d1", False))
    )
    assert done
    assert ("stored", "one", 9) in world.rows


def test_metadata_that_would_say_what_a_write_went_by_is_refused() -> None:
    with pytest.raises(InvalidError, match=r"tidelake\.looked"):
        World("eager").open().upsert(batch(("x", "x", 1, "d1", False)), metadata={"tidelake.looked": "{}"})
