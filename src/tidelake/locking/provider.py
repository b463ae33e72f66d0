"""Which lock a writer takes, by Apache Hudi's option names."""

from __future__ import annotations

from tidelake._clock import Clock
from tidelake.config import LockOptions
from tidelake.locking.file_lock import FileLock
from tidelake.locking.lease import LeaseLock
from tidelake.locking.lock import InProcessLock, Lock, NoLock
from tidelake.storage import Storage


def make_lock(options: LockOptions, storage: Storage, clock: Clock) -> Lock:
    """The lock that the options name."""
    wait_s, pause_s = options.wait_ms / 1000, options.pause_ms / 1000
    if options.provider == "in_process":
        return InProcessLock(storage.uri, wait_s)
    if options.provider == "file":
        path = f"{options.folder}/lock"
        return FileLock(storage, clock, path, wait_s=wait_s, pause_s=pause_s, expire_minutes=options.expire_minutes)
    if options.provider == "storage":
        return LeaseLock(
            storage, clock, wait_s=wait_s, pause_s=pause_s, validity_s=options.validity_s, renew_s=options.renew_s
        )
    return NoLock()
