"""The lock file of Apache Hudi's FileSystemBasedLockProvider: whoever creates it holds the lock.

Its content means nothing to Apache Hudi. Ours is the owner's nonce, so that a holder whose file has expired and was taken
by another does not delete the other's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidelake._clock import Clock
from tidelake.errors import AlreadyExistsError, NotFoundError, UnavailableError
from tidelake.locking.lock import still_taken
from tidelake.storage import Storage


class FileLock:
    """A lock file in the table's folder, for local and shared disks."""

    def __init__(
        self, storage: Storage, clock: Clock, path: str, *, wait_s: float, pause_s: float, expire_minutes: int
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._path = path
        self._wait_s = wait_s
        self._pause_s = pause_s
        self._expire_ms = expire_minutes * 60_000
        self._nonce = clock.new_id().encode()

    @contextmanager
    def held(self) -> Iterator[None]:
        self._acquire()
        try:
            yield
        finally:
            if self._owner() == self._nonce:
                self._storage.delete(self._path)

    def check(self) -> None:
        """Raise if the file is no longer ours."""
        if self._owner() != self._nonce:
            raise UnavailableError(
                "the table's lock file expired and was taken by another writer",
                file=self._path,
                table=self._storage.uri,
                hint="raise hoodie.write.lock.filesystem.expire, and redo the write",
            )

    def _acquire(self) -> None:
        began = self._clock.monotonic_s()
        while True:
            try:
                self._storage.put_if_absent(self._path, self._nonce)
                return
            except AlreadyExistsError:
                if self._owner() == self._nonce:
                    return  # ours, of an answer that was lost
                self._remove_expired()
            if self._clock.monotonic_s() - began >= self._wait_s:
                raise still_taken(f"the file {self._path}", self._wait_s, self._storage.uri)
            self._clock.sleep(self._pause_s)

    def _owner(self) -> bytes | None:
        try:
            return self._storage.get(self._path)
        except NotFoundError:
            return None

    def _remove_expired(self) -> None:
        if self._expire_ms <= 0:
            return
        try:
            age_ms = self._clock.now_ms() - self._storage.head(self._path).modified_ms
        except NotFoundError:
            return
        if age_ms > self._expire_ms:
            self._storage.delete(self._path)
