"""Batches that are written once (``txn``), writes that are redone, and writers that show they live."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake.errors import ConflictError, InvalidError
from tidelake.storage import Fault, FaultyStorage, MemoryStorage, SimulatedCrash
from tidelake.testing import ManualClock
from tidelake.timeline.transitions import HEARTBEAT_DIR
from tidelake.write.transaction import Transaction, recover
from tidelake.write.txn import TXN_KEY

SCHEMA = "id bigint, name string, ts bigint"


def rows(number: int, name: str, ts: int = 0) -> pa.Table:
    return pa.table({"id": [number], "name": [name], "ts": pa.array([ts], pa.int64())})


def new_table(storage: MemoryStorage | FaultyStorage, **options: str) -> tl.Table:
    return tl.create_table("t", SCHEMA, record_key="id", storage=storage, clock=ManualClock(), options=options or None)


def names(table: tl.Table) -> list[str]:
    return sorted(table.scan().to_arrow().column("name").to_pylist())


OPERATIONS = ("insert", "bulk_insert", "upsert", "insert_overwrite", "insert_overwrite_table")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_repeated_batch_is_skipped(operation: str) -> None:
    table = new_table(MemoryStorage())
    first = getattr(table, operation)(rows(1, "once"), txn=("loader", 7))
    again = getattr(table, operation)(rows(1, "twice"), txn=("loader", 7))
    assert (first.is_repeat, again.is_repeat) == (False, True)
    assert (again.requested_time, again.completion_time) == (first.requested_time, first.completion_time)
    assert again.stats == first.stats
    assert names(table) == ["once"]
    assert len(table.timeline.instants) == 1


def test_batches_are_counted_for_each_application() -> None:
    table = new_table(MemoryStorage())
    for app, version, name in (("a", 1, "a1"), ("b", 1, "b1"), ("a", 2, "a2"), ("a", 1, "old"), ("b", 0, "older")):
        table.insert(rows(1, name), txn=(app, version))
    assert names(table) == ["a1", "a2", "b1"]


def test_a_batch_that_another_process_writes_meanwhile_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    table = new_table(storage)
    commit = Transaction.commit

    def first_another(self: Transaction, *args: object, **kwargs: object) -> object:
        monkeypatch.undo()
        tl.open_table("t", storage=storage, clock=ManualClock()).insert(rows(1, "other"), txn=("loader", 3))
        return commit(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Transaction, "commit", first_another)
    assert table.insert(rows(1, "mine"), txn=("loader", 3)).is_repeat
    assert names(table) == ["other"]
    assert not table.timeline.pending


@pytest.mark.parametrize("txn", ["loader", ("loader",), ("", 1), ("loader", -1), ("loader", "1"), ("loader", True)])
def test_a_txn_that_is_none_is_refused(txn: object) -> None:
    with pytest.raises(InvalidError, match="txn"):
        new_table(MemoryStorage()).insert(rows(1, "a"), txn=txn)  # type: ignore[arg-type]


def test_the_txn_key_is_the_tables_own() -> None:
    with pytest.raises(InvalidError, match=TXN_KEY):
        new_table(MemoryStorage()).insert(rows(1, "a"), metadata={TXN_KEY: "{}"})


def test_a_lost_write_is_redone(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    table = new_table(storage)
    table.upsert(rows(1, "first", 1))
    commit, rivals = Transaction.commit, iter(range(3))

    def another_first(self: Transaction, *args: object, **kwargs: object) -> object:
        for number in rivals:
            monkeypatch.setattr(Transaction, "commit", commit)
            tl.open_table("t", storage=storage, clock=ManualClock()).upsert(rows(1, f"rival {number}", 2))
            monkeypatch.setattr(Transaction, "commit", another_first)
            break
        return commit(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Transaction, "commit", another_first)
    with pytest.raises(ConflictError):
        table.upsert(rows(1, "mine", 3))
    table.upsert(rows(1, "mine", 3), on_conflict="retry")
    assert names(table) == ["mine"]
    assert next(rivals, None) is None
    with pytest.raises(InvalidError, match="on_conflict"):
        table.upsert(rows(1, "x"), on_conflict="again")


def test_a_delete_is_redone_on_the_rows_as_they_are_then(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    table = new_table(storage)
    table.upsert(pa.concat_tables([rows(1, "a", 1), rows(2, "b", 1)]))
    commit = Transaction.commit

    def another_first(self: Transaction, *args: object, **kwargs: object) -> object:
        monkeypatch.undo()
        tl.open_table("t", storage=storage, clock=ManualClock()).upsert(rows(1, "b", 2))
        return commit(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Transaction, "commit", another_first)
    table.delete(filter="name = 'b'", on_conflict="retry")
    assert names(table) == []


def test_retries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0

    def always_late(self: Transaction, *_: object, **__: object) -> object:
        nonlocal tries
        tries += 1
        raise ConflictError("another was first")

    monkeypatch.setattr(Transaction, "commit", always_late)
    with pytest.raises(ConflictError):
        new_table(MemoryStorage()).upsert(rows(1, "a"), on_conflict="retry")
    assert tries == 10


def test_a_long_write_shows_that_it_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that takes many intervals is left alone by another one; without its signs it would be rolled back."""
    options = {"hoodie.client.heartbeat.interval_in_ms": "50", "hoodie.client.heartbeat.tolerable.misses": "20"}
    table = tl.create_table(str(tmp_path / "t"), SCHEMA, record_key="id", options=options)
    commit = Transaction.commit

    def slow(self: Transaction, *args: object, **kwargs: object) -> object:
        beat = tmp_path / "t" / HEARTBEAT_DIR / self.instant
        first = beat.stat().st_mtime_ns
        for _ in range(200):
            if beat.stat().st_mtime_ns > first:
                return commit(self, *args, **kwargs)  # type: ignore[arg-type]
            threading.Event().wait(0.05)
        raise AssertionError("no sign of life")

    monkeypatch.setattr(Transaction, "commit", slow)
    table.upsert(rows(1, "a"))
    assert names(table) == ["a"]
    assert not list((tmp_path / "t" / HEARTBEAT_DIR).iterdir())


def test_the_tolerated_silence_is_an_option() -> None:
    clock = ManualClock()
    storage = MemoryStorage(clock=clock)
    table = tl.create_table("t", SCHEMA, record_key="id", storage=storage, clock=clock)
    storage.put(f"{HEARTBEAT_DIR}/20260101000000001", b"")
    storage.put(f"{table.config.timeline_dir}/20260101000000001.deltacommit.requested", b"")
    clock.advance(30)
    assert recover(storage, table.config, clock) == []
    impatient = tl.open_table(
        "t",
        storage=storage,
        clock=clock,
        options={"hoodie.client.heartbeat.interval_in_ms": "5000", "hoodie.client.heartbeat.tolerable.misses": "2"},
    )
    impatient.upsert(rows(1, "a"))
    assert [i.action for i in impatient.timeline.instants if i.is_completed] == ["rollback", "deltacommit"]


@pytest.mark.parametrize("undo", ["rollback", "restore"])
def test_a_batch_that_is_being_taken_back_is_written_again(undo: str) -> None:
    """Whoever takes a batch back dies at any operation: it is there, or taken back and written again, and stays."""

    def begin() -> tuple[MemoryStorage, ManualClock, str]:
        clock = ManualClock()
        storage = MemoryStorage(clock=clock)
        table = tl.create_table("t", SCHEMA, record_key="id", storage=storage, clock=clock)
        table.insert(rows(1, "first"))
        saved = table.savepoint().instant
        batch = table.insert(rows(2, "batch"), txn=("loader", 7)).requested_time
        return storage, clock, saved if undo == "restore" else batch

    storage, clock, instant = begin()
    counted = FaultyStorage(storage, clock=clock)
    getattr(tl.open_table("t", storage=counted, clock=clock), undo)(instant)
    for at in range(1, counted.operations + 1):
        storage, clock, instant = begin()
        faulty = FaultyStorage(storage, [Fault(at, "crash_after")], clock=clock)
        with suppress(SimulatedCrash):
            getattr(tl.open_table("t", storage=faulty, clock=clock), undo)(instant)
        clock.advance(600)
        table = tl.open_table("t", storage=storage, clock=clock)
        table.insert(rows(2, "batch"), txn=("loader", 7))
        table.insert(rows(3, "last"))
        assert names(table) == ["batch", "first", "last"], at
