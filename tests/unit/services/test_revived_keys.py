"""A key that was deleted, and came back in a log while a compaction was pending, lives in that log alone.

The index of base files does not know it: writers have to find it all the same, or it becomes two rows.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake as tl
from small_rows import rows
from tidelake.storage import FaultyStorage
from unit.services.service_tables import GLOBAL, World

PLAIN: dict[str, str] = {}


def entries(world: World) -> list[tuple[int, str, int, str]]:
    return [row[:4] for row in world.rows]


def in_day(table: pa.Table, day: str) -> pa.Table:
    return table.set_column(3, "day", pa.array([day] * table.num_rows))


def revived(options: dict[str, str]) -> World:
    """Key 1 stands in a log only, on top of the base file of a compaction that took its delete in."""
    world = World(options)
    table = world.open()
    table.upsert(rows((1, "one", 1), (3, "three", 1)))
    table.delete([1])
    plan = table.schedule_compaction()
    table.upsert(rows((1, "back", 5), (3, "changed", 5)))
    table.run_compaction(plan)
    assert [row["id"] for row in table.scan(mode="read_optimized").to_arrow().to_pylist()] == [3]
    return world


@pytest.mark.parametrize("options", [PLAIN, GLOBAL], ids=["simple", "global"])
def test_revived_key_is_upserted_into_its_group(options: dict[str, str]) -> None:
    world = revived(options)
    world.open().upsert(rows((1, "again", 6), (5, "new", 1)))
    assert entries(world) == [(1, "again", 6, "d1"), (3, "changed", 5, "d1"), (5, "new", 1, "d1")]
    world.open().compact()
    world.open().upsert(rows((1, "last", 7)))
    assert entries(world)[0] == (1, "last", 7, "d1")
    assert len(entries(world)) == 3


@pytest.mark.parametrize("options", [PLAIN, GLOBAL], ids=["simple", "global"])
def test_revived_key_is_deleted_by_key(options: dict[str, str]) -> None:
    world = revived(options)
    world.open().delete([1])
    assert entries(world) == [(3, "changed", 5, "d1")]


def test_revived_key_of_a_global_table_moves() -> None:
    world = revived(GLOBAL)
    world.open().upsert(in_day(rows((1, "moved", 6)), "d7"))
    assert entries(world) == [(1, "moved", 6, "d7"), (3, "changed", 5, "d1")]
    world.open().upsert(in_day(rows((1, "late", 2)), "d8"))
    assert entries(world)[0] == (1, "moved", 6, "d7")


def test_revived_key_after_the_compaction_is_a_conflict_of_the_writer_who_did_not_see_it() -> None:
    """A writer found the key in the old base file, and commits when the new one, without it, is there: it writes anew."""
    world = World()
    world.open().upsert(rows((1, "one", 1), (3, "three", 1)))
    world.open().delete([1])
    plan = world.open().schedule_compaction()
    done: list[str] = []

    def others(number: int, verb: str, path: str) -> None:
        if verb == "put" and path.startswith("day=d1/") and not done:
            done.append(path)
            world.open().run_compaction(plan)
            world.open().upsert(rows((1, "other", 7)))

    late = FaultyStorage(world.storage, clock=world.clock, on_operation=others)
    with pytest.raises(tl.ConflictError, match="'1'"):
        world.open(late).upsert(rows((1, "late", 8), (3, "late", 8)))
    assert entries(world) == [(1, "other", 7, "d1"), (3, "three", 1, "d1")]


def test_revived_key_conflict_is_no_conflict_of_a_writer_whose_keys_are_in_the_new_base_file() -> None:
    world = World()
    world.open().upsert(rows((1, "one", 1), (3, "three", 1)))
    world.open().delete([1])
    plan = world.open().schedule_compaction()
    done: list[str] = []

    def others(number: int, verb: str, path: str) -> None:
        if verb == "put" and path.startswith("day=d1/") and not done:
            done.append(path)
            world.open().run_compaction(plan)

    late = FaultyStorage(world.storage, clock=world.clock, on_operation=others)
    world.open(late).upsert(rows((3, "late", 8)))
    assert done
    assert entries(world) == [(3, "late", 8, "d1")]


def test_revived_key_costs_an_ordinary_upsert_nothing() -> None:
    """Where no log is older than its base file's completion, no log is read to look keys up."""
    world = World()
    world.open().upsert(rows((1, "one", 1)))
    world.open().upsert(rows((1, "two", 2)))
    world.open().compact()
    world.open().upsert(rows((1, "three", 3)))
    counted = FaultyStorage(world.storage, clock=world.clock)
    world.open(counted).upsert(rows((1, "four", 4)))
    assert [o for o in counted.journal if o.verb.startswith("get") and ".log." in o.path] == []
