"""The storage in memory: its registry and its clock."""

from __future__ import annotations

import gc

from tidelake._clock import ManualClock
from tidelake.storage import MemoryStorage, discard_memory_storage, open_storage


def test_open_by_name_finds_the_same_storage() -> None:
    """A name leads back to the same objects within the process, until it is discarded."""
    opened = open_storage("memory://trips")
    opened.put("a", b"x")
    assert open_storage("memory://trips").get("a") == b"x"
    assert open_storage(opened.uri) is opened
    discard_memory_storage("trips")
    assert not open_storage("memory://trips").exists("a")
    discard_memory_storage("trips")


def test_new_storage_of_a_name_takes_its_place() -> None:
    """Constructing gives an empty storage, which the name then means."""
    first = MemoryStorage("place")
    first.put("a", b"")
    second = MemoryStorage("place")
    assert not second.exists("a")
    assert open_storage("memory://place") is second
    discard_memory_storage("place")


def test_unnamed_storage_is_found_while_it_is_held() -> None:
    """Without a name a storage has a URI of its own, and is forgotten with its last holder."""
    storage = MemoryStorage()
    storage.put("a", b"")
    uri = storage.uri
    assert uri != MemoryStorage().uri
    assert open_storage(uri) is storage
    del storage
    gc.collect()
    assert not open_storage(uri).exists("a")
    discard_memory_storage(uri.removeprefix("memory://"))


def test_modified_time_comes_from_the_clock() -> None:
    """Objects are as old as the injected clock says."""
    clock = ManualClock()
    storage = MemoryStorage(clock=clock)
    storage.put("a", b"")
    clock.advance(120)
    storage.put("b", b"")
    assert storage.head("b").modified_ms - storage.head("a").modified_ms == 120_000
    assert storage.head("b").modified_ms == clock.now_ms()


def test_stored_bytes_do_not_follow_the_callers_buffer() -> None:
    """What was put stays, whatever the caller does with its buffer."""
    storage = MemoryStorage()
    buffer = bytearray(b"before")
    storage.put("a", memoryview(buffer))  # type: ignore[arg-type]
    buffer[:] = b"after!"
    assert storage.get("a") == b"before"


def test_copy_has_the_same_objects_and_goes_its_own_way() -> None:
    """What is put into a copy, or into the original afterwards, is not seen by the other; versions stay valid."""
    storage = MemoryStorage()
    version = storage.put("a", b"1")
    copied = storage.copy()
    copied.put_if_match("a", b"2", version)
    storage.put("b", b"3")
    assert (storage.get("a"), copied.get("a"), copied.exists("b")) == (b"1", b"2", False)
