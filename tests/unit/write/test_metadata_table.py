"""Apache Hudi's metadata table is retired before a write of ours is true: properties first, then its files."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake.errors import UnavailableError
from tidelake.format.properties import decode_properties, encode_properties
from tidelake.storage import Fault, FaultyStorage, MemoryStorage, SimulatedCrash
from tidelake.testing import ManualClock
from tidelake.write.metadata_table import retire_metadata_table

PROPERTIES = ".hoodie/hoodie.properties"
BACKUP = ".hoodie/hoodie.properties.backup"
METADATA_FILES = (
    ".hoodie/metadata/.hoodie/hoodie.properties",
    ".hoodie/metadata/.hoodie/timeline/00000000000000000_20260101000000000.deltacommit",
    ".hoodie/metadata/files/files-0000-0_0-5-4_00000000000000000.hfile",
    ".hoodie/.index_defs/index.json",
)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def table_with_metadata() -> tuple[MemoryStorage, ManualClock]:
    """A table as an Apache Hudi writer leaves it that has built its metadata table."""
    clock = ManualClock(seed=1)
    storage = MemoryStorage(clock=clock)
    tl.create_table("memory", "id bigint", name="t", storage=storage, clock=clock).upsert(rows(1))
    properties = decode_properties(storage.get(PROPERTIES))
    properties["hoodie.table.metadata.partitions"] = "column_stats,files"
    properties["hoodie.table.metadata.partitions.inflight"] = "record_index"
    properties["hoodie.table.index.defs.path"] = ".hoodie/.index_defs/index.json"
    storage.put(PROPERTIES, encode_properties(properties))
    for path in METADATA_FILES:
        storage.put(path, b"x")
    return storage, clock


def assert_retired(storage: MemoryStorage) -> None:
    properties = decode_properties(storage.get(PROPERTIES))
    assert properties["hoodie.table.metadata.partitions"] == ""
    assert properties["hoodie.table.metadata.partitions.inflight"] == ""
    assert "hoodie.table.index.defs.path" not in properties
    assert properties["hoodie.table.name"] == "t"
    assert not any(storage.exists(path) for path in (*METADATA_FILES, BACKUP))


def test_retire_named_metadata_table_is_gone_from_properties_and_storage() -> None:
    """The properties stop naming it, every file of it goes, and everything else that they say stays."""
    storage, clock = table_with_metadata()
    before = decode_properties(storage.get(PROPERTIES))
    assert retire_metadata_table(storage, clock)
    assert_retired(storage)
    after = decode_properties(storage.get(PROPERTIES))
    assert {k: v for k, v in before.items() if "metadata" not in k and "index" not in k}.items() <= after.items()


def test_retire_without_metadata_table_changes_nothing() -> None:
    """A table without one costs two reads and no write."""
    clock = ManualClock(seed=1)
    inner = MemoryStorage(clock=clock)
    tl.create_table("memory", "id bigint", name="t", storage=inner, clock=clock)
    storage = FaultyStorage(inner)
    assert not retire_metadata_table(storage, clock)
    assert [operation.verb for operation in storage.journal] == ["get_with_version", "exists"]


def test_commit_on_table_with_metadata_retires_it_before_the_commit_shows() -> None:
    """At the turn of the head the metadata table is gone already."""
    inner, clock = table_with_metadata()
    storage = FaultyStorage(inner)
    tl.open_table("memory", storage=storage, clock=clock).upsert(rows(2))
    assert_retired(inner)
    last_delete = max(o.number for o in storage.journal if o.verb == "delete" and o.path in METADATA_FILES)
    replaced = next(o.number for o in storage.journal if o.verb == "put_if_match" and o.path == PROPERTIES)
    first_delete = min(o.number for o in storage.journal if o.verb == "delete" and o.path in METADATA_FILES)
    turn = max(o.number for o in storage.journal if o.verb == "put_if_match" and o.path == ".hoodie/.tidelake/head")
    assert replaced < first_delete <= last_delete < turn


@pytest.mark.parametrize("kind", ["crash_before", "crash_after"])
def test_retire_crash_at_every_operation_is_finished_by_the_next_writer(kind: str) -> None:
    """Wherever a retirement dies, the table opens, and the next one leaves neither names nor files behind."""
    storage, clock = table_with_metadata()
    counted = FaultyStorage(storage)
    retire_metadata_table(counted, clock)
    for at in range(1, counted.operations + 1):
        storage, clock = table_with_metadata()
        with pytest.raises(SimulatedCrash):
            retire_metadata_table(FaultyStorage(storage, [Fault(at, kind)]), clock)
        table = tl.open_table("memory", storage=storage, clock=clock)
        table.upsert(rows(2))
        assert {row["id"] for row in table.scan(columns=["id"]).to_arrow().to_pylist()} == {1, 2}
        properties = decode_properties(storage.get(PROPERTIES))
        assert not properties["hoodie.table.metadata.partitions"], f"operation {at}"
        left = [path for path in METADATA_FILES if storage.exists(path)]
        assert left == [], f"operation {at}"


@pytest.mark.parametrize("kind", ["lost_answer", "http_412"])
def test_retire_answer_of_the_properties_put_lost_or_412_succeeds(kind: str) -> None:
    """A put whose answer was lost is recognised by its bytes; a lost turn is taken again."""
    storage, clock = table_with_metadata()
    counted = FaultyStorage(storage)
    retire_metadata_table(counted, clock)
    at = next(o.number for o in counted.journal if o.verb == "put_if_match")
    storage, clock = table_with_metadata()
    assert retire_metadata_table(FaultyStorage(storage, [Fault(at, kind)]), clock)
    assert_retired(storage)


def test_retire_storage_busy_fails_without_a_change() -> None:
    """A storage that does not take the properties fails the write, and the metadata table stays whole."""
    storage, clock = table_with_metadata()
    counted = FaultyStorage(storage)
    retire_metadata_table(counted, clock)
    at = next(o.number for o in counted.journal if o.verb == "put_if_match")
    storage, clock = table_with_metadata()
    with pytest.raises(UnavailableError):
        retire_metadata_table(FaultyStorage(storage, [Fault(at, "http_503")]), clock)
    assert all(storage.exists(path) for path in METADATA_FILES)


def test_retire_by_two_at_once_leaves_it_retired_once() -> None:
    """Two first writers: the one that comes between reading and putting wins, the other finds nothing more to do."""
    inner, clock = table_with_metadata()
    others: list[bool] = []

    def between(_: int, verb: str, path: str) -> None:
        if verb == "put_if_match" and path == PROPERTIES and not others:
            others.append(True)
            others[0] = retire_metadata_table(inner, clock)

    retire_metadata_table(FaultyStorage(inner, on_operation=between), clock)
    assert others == [True]
    assert_retired(inner)


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_retire_after_an_update_of_theirs_that_died_repairs_from_the_backup(damage: str) -> None:
    """Apache Hudi deletes the properties before it writes them anew; dead in between, the backup counts."""
    storage, clock = table_with_metadata()
    storage.put(BACKUP, storage.get(PROPERTIES))
    if damage == "missing":
        storage.delete(PROPERTIES)
    else:
        storage.put(PROPERTIES, b"hoodie.table.name=t\nhoodie.table.checksum=1\n")
    tl.open_table("memory", storage=storage, clock=clock).upsert(rows(2))
    assert_retired(storage)
