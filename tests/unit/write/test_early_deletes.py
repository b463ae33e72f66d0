"""Deletes that arrive before any record of their key, on tables that keep deletes: it does not count who comes first."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from clock_tables import SMITH_SCHEMA, clock_options
from tidelake.testing import FaultyStorage, ManualClock, MemoryStorage
from tidelake.write import Commit

MARK = "_hoodie_is_deleted"
INDEXES = {
    "SIMPLE": {"hoodie.index.type": "SIMPLE"},
    "BUCKET": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"},
}
MODES: dict[str, dict[str, Any]] = {
    "event time": {"ordering_fields": "a_ts", "options": {"tombstone.retention": "7d"}},
    "per_group": {"options": clock_options("per_group")},
    "all": {"options": clock_options("all")},
}
Version = tuple[str, str, int, bool]
"""A key, a value, a time, and whether it is a delete."""


def make(mode: str, index: str, storage: Any = None, **how: Any) -> tl.Table:
    options = {**MODES[mode]["options"], **INDEXES[index]}
    made = {**MODES[mode], **how, "options": options}
    schema = f"{SMITH_SCHEMA}, {MARK} boolean"
    return tl.create_table("memory://early", schema, record_key="id", storage=storage or MemoryStorage(), **made)


def put(table: tl.Table, *versions: Version, on_conflict: str = "fail") -> Commit:
    keys, values, times, marks = zip(*versions, strict=True)
    columns = {"id": keys, "agent": values, "a_ts": times, "plan": values, "p_ts": times, MARK: marks}
    return table.upsert(pa.table({name: list(column) for name, column in columns.items()}), on_conflict=on_conflict)


def values(table: tl.Table, mode: str = "snapshot") -> dict[str, str]:
    found = table.scan(columns=["id", "agent"], mode=mode).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["agent"] for row in found}


@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("mode", MODES)
def test_delete_before_any_record_hides_older_ones_and_no_newer_one(mode: str, index: str, compacts: bool) -> None:
    """What is older than the delete stays hidden, however late it comes; a newer record is there, once."""
    table = make(mode, index)
    put(table, ("a", "", 5, True), ("b", "other", 1, False))
    for version, seen in ((("a", "late", 4, False), {}), (("a", "new", 6, False), {"a": "new"})):
        if compacts:
            table.compact()
        put(table, version)
        assert values(table) == {"b": "other", **seen}
    table.compact()
    assert values(table) == values(table, "read_optimized") == {"a": "new", "b": "other"}


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("mode", MODES)
def test_delete_in_the_first_batch_of_its_key_hides_later_batches(mode: str, index: str) -> None:
    """A record and its delete come together and leave no row; what comes late is older than the delete all the same."""
    table = make(mode, index)
    put(table, ("a", "first", 3, False), ("a", "", 5, True))
    assert values(table) == {}
    put(table, ("a", "late", 4, False))
    assert values(table) == {}


@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("mode", ["event time", "per_group"])
def test_versions_in_every_order_of_arrival_end_the_same(mode: str, index: str, compacts: bool) -> None:
    """Two keys, records and deletes, one commit each: the order of the commits makes no difference."""
    versions = (("a", "one", 1, False), ("a", "", 3, True), ("b", "", 2, True), ("b", "two", 4, False))
    for order in permutations(versions):
        table = make(mode, index)
        for version in order:
            put(table, version)
            if compacts:
                table.compact()
        assert values(table) == {"b": "two"}, order


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("mode", ["event time", "per_group"])
def test_delete_and_first_record_by_two_writers_at_once_end_as_one_after_the_other(mode: str, index: str) -> None:
    """Each within the other, at every storage operation: the older record is hidden, whoever is first."""
    versions = {"delete": ("a", "", 5, True), "record": ("a", "late", 4, False)}
    for outer, inner in (("delete", "record"), ("record", "delete")):
        at = 0
        while True:
            clock = ManualClock(seed=1)
            storage = MemoryStorage(clock=clock)
            make(mode, index, storage, clock=clock)
            at += 1

            def between(
                number: int, verb: str, path: str, at: int = at, storage: Any = storage, clock: Any = clock
            ) -> None:
                if number == at:
                    put(tl.open_table("memory", storage=storage, clock=clock), versions[inner], on_conflict="retry")  # noqa: B023

            faulty = FaultyStorage(storage, clock=clock, on_operation=between)
            put(tl.open_table("memory", storage=faulty, clock=clock), versions[outer], on_conflict="retry")
            if faulty.operations < at:
                break
            table = tl.open_table("memory", storage=storage, clock=clock)
            assert values(table) == {}, (outer, at)
            table.compact()
            assert values(table) == {}, (outer, at)


@pytest.mark.parametrize("index", INDEXES)
def test_partition_that_begins_with_a_delete_is_one_to_every_engine(index: str) -> None:
    """It has its metafile, and every file group a base file, whether rows come with the delete or not."""
    storage = MemoryStorage()
    table = make("event time", index, storage, partition_by="plan")
    put(table, ("a", "new", 5, True))
    rows = [(key, "both", 1, False) for key in "cdefgh"]
    files = [stat.path for stat in put(table, ("b", "both", 5, True), *rows).stats]
    assert len(files) == len(set(files)), "no file is written twice"
    for partition in ("plan=new", "plan=both"):
        assert storage.exists(f"{partition}/.hoodie_partition_metadata")
    assert all(file_slice.base is not None for file_slice in table.files())
    assert sum(len(file_slice.logs) for file_slice in table.files()) == 2
    assert values(table) == dict.fromkeys("cdefgh", "both")


UNKEPT = {
    "no retention": {"ordering_fields": "a_ts"},
    "commit time": {"options": {"tombstone.retention": "7d"}},
    "global": {
        "ordering_fields": "a_ts",
        "partition_by": "p_ts",
        "options": {"tombstone.retention": "7d", "hoodie.index.type": "GLOBAL_SIMPLE"},
    },
}


@pytest.mark.parametrize("kind", UNKEPT)
def test_delete_before_any_record_that_hides_nothing_is_dropped(kind: str) -> None:
    """Tables that keep no deletes, do not go by time or have a global index have no file of it."""
    schema = f"{SMITH_SCHEMA}, {MARK} boolean"
    table = tl.create_table("memory://none", schema, record_key="id", storage=MemoryStorage(), **UNKEPT[kind])
    put(table, ("a", "", 5, True))
    assert list(table.files()) == []
    put(table, ("a", "late", 4, False))
    assert values(table) == {"a": "late"}
