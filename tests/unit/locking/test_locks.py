"""Locks keep writers apart, run out, and are shared with Apache Hudi's providers by file name and content."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake._clock import SystemClock
from tidelake.config import LockOptions
from tidelake.errors import ConflictError, CorruptError, OptionError, UnavailableError
from tidelake.locking import Lock, make_lock
from tidelake.locking.lease import LEASE_FILE, Lease, decode_lease
from tidelake.storage import MemoryStorage, Storage, open_storage
from tidelake.testing import ManualClock

PROVIDERS = ("in_process", "file", "storage")


def lock_of(storage: Storage, clock: ManualClock | SystemClock, provider: str, **times: int) -> Lock:
    return make_lock(LockOptions(provider, **{"wait_ms": 50, "pause_ms": 5, **times}), storage, clock)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_held_lock_keeps_others_out_and_is_given_back(provider: str) -> None:
    storage, clock = MemoryStorage(), ManualClock()
    first, second = lock_of(storage, clock, provider), lock_of(storage, clock, provider)
    with first.held():
        first.check()
        with pytest.raises(UnavailableError, match="held by"), second.held():
            pytest.fail("two hold the lock")
    with second.held():
        second.check()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_threads_take_turns(provider: str, tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    inside, most, turns = 0, 0, []

    def work(number: int) -> None:
        nonlocal inside, most
        lock = lock_of(storage, SystemClock(), provider, wait_ms=20_000)
        for _ in range(5):
            with lock.held():
                inside += 1
                most = max(most, inside)
                turns.append(number)
                inside -= 1

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, len(turns)) == (1, 20)


def test_the_lock_file_is_apache_hudis() -> None:
    storage = MemoryStorage()
    with lock_of(storage, ManualClock(), "file").held():
        assert storage.exists(".hoodie/lock")
    assert not storage.exists(".hoodie/lock")


def test_an_empty_lock_file_of_apache_hudi_is_respected_until_it_expires() -> None:
    clock = ManualClock()
    storage = MemoryStorage(clock=clock)
    storage.put(".hoodie/lock", b"")
    with pytest.raises(UnavailableError), lock_of(storage, clock, "file", expire_minutes=1).held():
        pytest.fail("the lock is another's")
    clock.advance(61)
    with lock_of(storage, clock, "file", expire_minutes=1).held():
        pass
    assert not storage.exists(".hoodie/lock")


def test_a_lock_file_that_was_taken_over_is_neither_kept_nor_deleted() -> None:
    clock = ManualClock()
    storage = MemoryStorage(clock=clock)
    slow, quick = (lock_of(storage, clock, "file", expire_minutes=1) for _ in range(2))
    with slow.held():
        clock.advance(120)
        with quick.held():
            with pytest.raises(UnavailableError, match="taken by another"):
                slow.check()
            quick.check()
        storage.put(".hoodie/lock", b"a third")
    assert storage.get(".hoodie/lock") == b"a third"


def test_the_lease_is_apache_hudis_json() -> None:
    storage, clock = MemoryStorage(), ManualClock()
    with lock_of(storage, clock, "storage", validity_s=300).held():
        held = json.loads(storage.get(LEASE_FILE))
        assert held.keys() == {"expired", "validUntil", "owner"}
        assert (held["expired"], held["validUntil"]) == (False, clock.now_ms() + 300_000)
    assert decode_lease(storage.get(LEASE_FILE)).expired


def test_a_lease_that_ran_out_is_taken_and_its_holder_told() -> None:
    storage, clock = MemoryStorage(), ManualClock()
    asleep, awake = (lock_of(storage, clock, "storage", validity_s=10, renew_s=5) for _ in range(2))
    with asleep.held():
        clock.advance(11)
        with awake.held():
            with pytest.raises(UnavailableError, match="ran out"):
                asleep.check()
            awake.check()
        assert decode_lease(storage.get(LEASE_FILE)).expired
    # Giving back what was lost must not touch what the other left.
    assert decode_lease(storage.get(LEASE_FILE)).expired


def test_a_lease_is_renewed_while_it_is_held() -> None:
    storage = MemoryStorage()
    lock = lock_of(storage, SystemClock(), "storage", validity_s=2, renew_s=1)
    renewed = threading.Event()
    with lock.held():
        first = decode_lease(storage.get(LEASE_FILE)).valid_until_ms
        for _ in range(100):
            if decode_lease(storage.get(LEASE_FILE)).valid_until_ms > first:
                break
            renewed.wait(0.1)
        else:
            pytest.fail("the lease was not renewed")


def test_a_damaged_lease_is_named() -> None:
    storage = MemoryStorage()
    storage.put(LEASE_FILE, b"{")
    with pytest.raises(CorruptError, match="lock"), lock_of(storage, ManualClock(), "storage").held():
        pytest.fail("a damaged lease was taken")
    assert decode_lease(Lease(False, 5, "me").encode()) == Lease(False, 5, "me")


SCHEMA = "id bigint, name string"
NAMES = {
    "in_process": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "file": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "storage": "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider",
}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_writes_under_a_lock_are_as_without_and_leave_it_free(provider: str, tmp_path: Path) -> None:
    options = {"hoodie.write.lock.provider": NAMES[provider]}
    table = tl.create_table(str(tmp_path / "t"), SCHEMA, record_key="id", options=options)
    table.upsert(pa.table({"id": [1, 2], "name": ["a", "b"]}))
    table.upsert(pa.table({"id": [2], "name": ["c"]}))
    assert sorted(table.scan().to_arrow().column("name").to_pylist()) == ["a", "c"]
    assert not (tmp_path / "t/.hoodie/lock").exists()
    assert (tmp_path / "t" / LEASE_FILE).exists() == (provider == "storage")


def test_a_lock_that_others_keep_leaves_nothing_of_the_write(tmp_path: Path) -> None:
    tl.create_table(str(tmp_path / "t"), SCHEMA, record_key="id")
    (tmp_path / "t/.hoodie/lock").touch()
    options = {
        "hoodie.write.lock.provider": "file",
        "hoodie.write.lock.wait_time_ms": "20",
        "hoodie.write.lock.wait_time_ms_between_retry": "5",
    }
    table = tl.open_table(str(tmp_path / "t"), options=options)
    with pytest.raises(UnavailableError, match=r"\.hoodie/lock"):
        table.upsert(pa.table({"id": [1], "name": ["a"]}))
    assert len(table.timeline.instants) == 0
    assert not list((tmp_path / "t").glob("*.parquet"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.write.lock.provider", "ZookeeperBasedLockProvider"),
        ("hoodie.write.lock.wait_time_ms", "-1"),
        ("hoodie.client.heartbeat.interval_in_ms", "soon"),
        ("hoodie.write.lock.filesystem.path", "../elsewhere"),
        ("hoodie.write.lock.storage.renew.interval.secs", "400"),
    ],
)
def test_a_wrong_option_is_an_error(key: str, value: str, tmp_path: Path) -> None:
    tl.create_table(str(tmp_path / "t"), SCHEMA, record_key="id")
    with pytest.raises(OptionError):
        tl.open_table(str(tmp_path / "t"), options={key: value})


def test_a_conflict_is_found_with_every_lock(tmp_path: Path) -> None:
    """The lock saves work; what is true is decided without it."""
    path = str(tmp_path / "t")
    tl.create_table(path, SCHEMA, record_key="id").upsert(pa.table({"id": [1], "name": ["a"]}))
    for provider in ("none", *PROVIDERS):
        table = tl.open_table(path, options={"hoodie.write.lock.provider": provider})
        doomed, known = table._rows_to_delete([1], None)
        tl.open_table(path).upsert(pa.table({"id": [1], "name": [provider]}))
        stale = tl.open_table(path)
        stale._rows_to_delete = lambda *_, found=(doomed, known): found  # type: ignore[method-assign,assignment]
        with pytest.raises(ConflictError):
            stale.delete([1])
