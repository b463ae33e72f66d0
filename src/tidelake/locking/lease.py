"""The lease of Apache Hudi's StorageBasedLockProvider: one JSON object, changed by conditional puts alone.

``{"expired": false, "validUntil": <epoch ms>, "owner": "<id>"}``. A lease that is not renewed runs out by itself; its
holder renews it from a thread. A holder that was asleep finds at its next renewal, or at ``check``, that it lost the lease.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tidelake._clock import Clock
from tidelake._periodic import every
from tidelake.errors import (
    AlreadyExistsError,
    CorruptError,
    NotFoundError,
    PreconditionError,
    TidelakeError,
    UnavailableError,
)
from tidelake.locking.lock import still_taken
from tidelake.storage import Storage

LEASE_FILE = ".hoodie/.locks/table_lock.json"
CLOCK_SKEW_MS = 500
"""How long after its end a lease is still respected: clocks of two machines differ."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds the lock, and until when."""

    expired: bool
    valid_until_ms: int
    owner: str

    def encode(self) -> bytes:
        """The lease as Apache Hudi writes it."""
        fields = {"expired": self.expired, "validUntil": self.valid_until_ms, "owner": self.owner}
        return json.dumps(fields, separators=(",", ":")).encode()


def decode_lease(data: bytes) -> Lease:
    """The lease from its bytes."""
    try:
        fields = json.loads(data)
        return Lease(bool(fields["expired"]), int(fields["validUntil"]), str(fields["owner"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptError(f"the table's lock cannot be parsed: {error}", file=LEASE_FILE) from error


class LeaseLock:
    """A lease in the table's storage, for object stores."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        *,
        wait_s: float,
        pause_s: float,
        validity_s: float,
        renew_s: float,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._wait_s = wait_s
        self._pause_s = pause_s
        self._validity_ms = round(validity_s * 1000)
        self._renew_s = renew_s
        self._owner = clock.new_id()
        self._version: str | None = None
        self._valid_until_ms = 0
        self._guard = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        self._acquire()
        try:
            with every(self._renew_s, self._renew, "lease"):
                yield
        finally:
            self._release()

    def check(self) -> None:
        """Raise if the lease has run out or is another's."""
        with self._guard:
            if self._version is None or self._clock.now_ms() >= self._valid_until_ms:
                raise UnavailableError(
                    "the lease on the table's lock ran out before the write could complete",
                    file=LEASE_FILE,
                    table=self._storage.uri,
                    hint="redo the write",
                )

    def _acquire(self) -> None:
        began = self._clock.monotonic_s()
        while True:
            holder = self._try()
            if holder is None:
                return
            if self._clock.monotonic_s() - began >= self._wait_s:
                raise still_taken(f"the writer {holder}", self._wait_s, self._storage.uri)
            self._clock.sleep(self._pause_s)

    def _try(self) -> str | None:
        """Take the lease if it is free: None; else who has it."""
        try:
            data, version = self._storage.get_with_version(LEASE_FILE)
        except NotFoundError:
            data, version = None, ""
        if data is not None:
            found = decode_lease(data)
            is_over = found.expired or self._clock.now_ms() > found.valid_until_ms + CLOCK_SKEW_MS
            if found.owner != self._owner and not is_over:
                return found.owner
        try:
            self._put(None if data is None else version)
        except (PreconditionError, AlreadyExistsError):
            return "another"  # or it is ours, of an answer that was lost: the next look tells
        return None

    def _put(self, version: str | None, *, expired: bool = False) -> None:
        until = self._clock.now_ms() + (0 if expired else self._validity_ms)
        content = Lease(expired, until, self._owner).encode()
        if version is None:
            made = self._storage.put_if_absent(LEASE_FILE, content)
        else:
            made = self._storage.put_if_match(LEASE_FILE, content, version)
        with self._guard:
            self._version, self._valid_until_ms = made, until

    def _renew(self) -> bool:
        """Prolong the lease; False if it is lost."""
        try:
            self._put(self._version)
        except PreconditionError:
            with self._guard:
                self._version = None
            return False
        except TidelakeError:
            return True  # the lease still has most of its validity: tried again at the next beat
        return True

    def _release(self) -> None:
        with self._guard:
            version, self._version = self._version, None
        # A lease that cannot be given back runs out by itself.
        with suppress(TidelakeError):
            if version is not None:
                self._put(version, expired=True)
