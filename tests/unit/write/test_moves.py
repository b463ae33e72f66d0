"""Moving rows between the partitions of a table with a global index: what is written, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTable

import tidelake as tl
from tidelake.storage import FaultyStorage, MemoryStorage
from tidelake.testing import ManualClock

GLOBAL = {"hoodie.index.type": "GLOBAL_SIMPLE"}
TYPES = ["MERGE_ON_READ", "COPY_ON_WRITE"]
Entry = tuple[int, str, int, str]


def rows(*entries: Entry) -> pa.Table:
    ids, names, times, days = zip(*entries, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "name": names, "ts": pa.array(times, pa.int64()), "day": days})


def make(table_type: str, path: str = "memory", **how: Any) -> tl.Table:
    given: dict[str, Any] = {"ordering_fields": "ts", "partition_by": "day", "options": GLOBAL, **how}
    return tl.create_table(
        path, "id bigint, name string, ts bigint, day string", name="moves", table_type=table_type, **given
    )


def state(table: tl.Table) -> list[Entry]:
    found = table.scan(columns=["id", "name", "ts", "day"]).to_arrow().to_pylist()
    return sorted((r["id"], r["name"], r["ts"], r["day"]) for r in found)


@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("ordering", ["ts", ("ts", "name"), ()])
def test_moves_row_goes_back_and_forth_is_read_equal_by_filters_and_hudi_rs(
    table_type: str, ordering: Any, tmp_path: Path
) -> None:
    """A row that moves is found where it went, alone, by filters on its partition and by another engine."""
    path = str(tmp_path / "t")
    table = make(table_type, path, ordering_fields=ordering)
    table.upsert(rows((1, "a", 1, "d1"), (2, "b", 1, "d1"), (3, "c", 1, "d2")))
    for turn, day in enumerate(["d2", "d1", "d3", "d1"], start=2):
        table.upsert(rows((1, f"a{turn}", turn, day), (2, f"b{turn}", turn, "d1")))
        assert state(table) == [(1, f"a{turn}", turn, day), (2, f"b{turn}", turn, "d1"), (3, "c", 1, "d2")]
        assert table.scan(filter=f"day = '{day}' and id = 1").count() == 1
        if len(ordering) < 2 or ordering == "ts":
            found = [row for batch in HudiTable(path).read() for row in batch.to_pylist()]
            assert sorted((r["id"], r["name"], r["ts"], r["day"]) for r in found) == state(table)
    # A row that came back is logged over its old base row: no second group of the partition has its key.
    keys = [
        (batch["_hoodie_partition_path"], batch["_hoodie_record_key"])
        for batch in table.scan(mode="read_optimized").to_arrow().to_pylist()
    ]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("table_type", TYPES)
def test_moves_older_row_of_another_partition_changes_nothing(table_type: str) -> None:
    """An event older than what is stored is dropped wherever it points; of the same age it wins."""
    table = make(table_type, storage=MemoryStorage())
    table.upsert(rows((1, "kept", 5, "d1")))
    table.upsert(rows((1, "late", 4, "d2")))
    assert state(table) == [(1, "kept", 5, "d1")]
    table.upsert(rows((1, "same", 5, "d2")))
    assert state(table) == [(1, "same", 5, "d2")]


@pytest.mark.parametrize("table_type", TYPES)
def test_moves_two_versions_in_one_batch_are_one_key(table_type: str) -> None:
    """Of a batch's versions in several partitions the newest is written; the same for overwrites."""
    table = make(table_type, storage=MemoryStorage())
    table.upsert(rows((1, "new", 5, "d2"), (1, "old", 4, "d1")))
    assert state(table) == [(1, "new", 5, "d2")]
    table.insert_overwrite_table(rows((1, "old", 4, "d1"), (1, "new", 5, "d3")))
    assert state(table) == [(1, "new", 5, "d3")]


def test_moves_write_a_delete_with_the_ordering_value_of_what_moved() -> None:
    """The old group's delete carries the incoming ordering value: a later row of the same age brings the key back."""
    storage = MemoryStorage()
    table = make("MERGE_ON_READ", storage=storage)
    table.upsert(rows((1, "a", 1, "d1")))
    commit = table.upsert(rows((1, "b", 7, "d2")))
    assert sorted((s.partition_path, s.num_deletes, s.num_writes) for s in commit.stats) == [
        ("day=d1", 1, 0),
        ("day=d2", 0, 1),
    ]
    table.delete([1])
    table.upsert(rows((1, "late", 6, "d1")))
    assert state(table) == []
    table.upsert(rows((1, "back", 7, "d1")))
    assert state(table) == [(1, "back", 7, "d1")]


@pytest.mark.parametrize("table_type", TYPES)
def test_moves_delete_finds_the_key_wherever_it_lives(table_type: str) -> None:
    """A delete by key does not need the partition, nor does a wrong one mislead it."""
    table = make(table_type, storage=MemoryStorage())
    table.upsert(rows((1, "a", 1, "d1"), (2, "b", 1, "d1")))
    table.upsert(rows((1, "a", 2, "d2")))
    table.delete(pa.table({"id": pa.array([1], pa.int64()), "day": ["d1"]}))
    assert state(table) == [(2, "b", 1, "d1")]


def test_moves_index_is_kept_and_used_by_every_later_writer() -> None:
    """The index is the table's, not the handle's; one that is not known, and rows that keep their folder, are refused."""
    storage = MemoryStorage()
    make("MERGE_ON_READ", storage=storage).upsert(rows((1, "a", 1, "d1")))
    other = tl.open_table("memory", storage=storage)
    other.upsert(rows((1, "a", 2, "d2")))
    assert other.config.properties["hoodie.index.type"] == "GLOBAL_SIMPLE"
    assert state(other) == [(1, "a", 2, "d2")]
    with pytest.raises(tl.UnsupportedError, match=r"GLOBAL_BLOOM.*GLOBAL_SIMPLE"):
        make("MERGE_ON_READ", storage=MemoryStorage(), options={"hoodie.index.type": "GLOBAL_BLOOM"})
    kept = {**GLOBAL, "hoodie.simple.index.update.partition.path": "false"}
    with pytest.raises(tl.UnsupportedError, match=r"update\.partition\.path"):
        make("MERGE_ON_READ", storage=MemoryStorage(), options=kept)


@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "BUCKET"])
def test_moves_unconditional_delete_of_an_event_time_table_is_refused(index: str) -> None:
    """Where a late row may lie elsewhere than its old base row, a delete needs an ordering value."""
    table = make("MERGE_ON_READ", storage=MemoryStorage(), options={"hoodie.index.type": index})
    table.upsert(rows((1, "a", 1, "d1")))
    with pytest.raises(tl.UnsupportedError, match="unconditional"):
        table.delete([1], unconditional=True)
    table.delete([1])
    assert state(table) == []


Write = Callable[[tl.Table], object]
MEANWHILE: dict[str, tuple[list[Write], Write, Write]] = {
    "one new key in two partitions": (
        [],
        lambda t: t.upsert(rows((9, "x", 5, "d1"))),
        lambda t: t.upsert(rows((9, "y", 6, "d2"))),
    ),
    "one move to two partitions": (
        [lambda t: t.upsert(rows((1, "a", 1, "d1")))],
        lambda t: t.upsert(rows((1, "x", 5, "d2"))),
        lambda t: t.upsert(rows((1, "y", 6, "d3"))),
    ),
    "a move and an update": (
        [lambda t: t.upsert(rows((1, "a", 1, "d1")))],
        lambda t: t.upsert(rows((1, "x", 5, "d1"))),
        lambda t: t.upsert(rows((1, "y", 6, "d3"))),
    ),
    "one key brought back in two partitions": (
        [
            lambda t: t.upsert(rows((1, "a", 1, "d1"))),
            lambda t: t.upsert(rows((1, "a", 2, "d2"))),
            lambda t: t.delete([1]),
        ],
        lambda t: t.upsert(rows((1, "x", 5, "d1"))),
        lambda t: t.upsert(rows((1, "y", 6, "d2"))),
    ),
    "one key brought back here and new there": (
        [lambda t: t.upsert(rows((1, "a", 1, "d1"))), lambda t: t.delete([1])],
        lambda t: t.upsert(rows((1, "x", 5, "d1"))),
        lambda t: t.upsert(rows((1, "y", 6, "d2"))),
    ),
}


@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("case", MEANWHILE)
def test_moves_of_one_key_at_the_same_time_leave_one_row_and_one_writer_told(
    table_type: str, is_turned: bool, case: str
) -> None:
    """Two writers who touch one key in different partitions at once: the second is told, and the key stands once."""
    clock = ManualClock(seed=1)
    storage = MemoryStorage(clock=clock)
    table = make(table_type, storage=storage, clock=clock)
    before, one, other = MEANWHILE[case]
    if is_turned:
        one, other = other, one
    for write in before:
        write(table)
    done: list[str] = []

    def others(number: int, verb: str, path: str) -> None:
        if verb == "put_if_absent" and path.endswith(".inflight") and not done:
            done.append(path)
            one(tl.open_table("memory", storage=storage, clock=clock))

    late = FaultyStorage(storage, clock=clock, on_operation=others)
    with pytest.raises(tl.ConflictError):
        other(tl.open_table("memory", storage=late, clock=clock))
    assert len(state(table)) == 1
    other(tl.open_table("memory", storage=storage, clock=clock))
    assert len(state(table)) == 1
