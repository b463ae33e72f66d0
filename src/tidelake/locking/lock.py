"""What a lock is, the one that locks nothing, and the one within a process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from tidelake.errors import UnavailableError


class Lock(Protocol):
    """Held while an instant is begun and while one is published; never while data is written."""

    def held(self) -> AbstractContextManager[None]:
        """Take the lock, waiting within bounds, and give it back. ``UnavailableError`` if others keep it."""
        ...

    def check(self) -> None:
        """Raise ``UnavailableError`` if the lock was lost while it was held."""
        ...


class NoLock:
    """Locks nothing: the head alone arbitrates."""

    @contextmanager
    def held(self) -> Iterator[None]:
        yield

    def check(self) -> None:
        """Nothing can be lost."""


class InProcessLock:
    """Keeps the threads of one process apart. It protects nothing across processes."""

    _by_table: dict[str, threading.Lock] = {}  # noqa: RUF012 - shared by the process on purpose
    _guard = threading.Lock()

    def __init__(self, table_uri: str, wait_s: float) -> None:
        with self._guard:
            self._lock = self._by_table.setdefault(table_uri, threading.Lock())
        self._table_uri = table_uri
        self._wait_s = wait_s

    @contextmanager
    def held(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=self._wait_s):
            raise still_taken("another thread of this process", self._wait_s, self._table_uri)
        try:
            yield
        finally:
            self._lock.release()

    def check(self) -> None:
        """A lock in memory is not lost."""


def still_taken(holder: str, waited_s: float, table_uri: str) -> UnavailableError:
    """The error of a lock that others keep."""
    return UnavailableError(
        f"the table's lock is held by {holder} and was not free within {waited_s:g} s",
        table=table_uri,
        hint="try again later, or raise hoodie.write.lock.wait_time_ms",
    )
