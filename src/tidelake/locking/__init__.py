"""Locks: they keep writers from wasting work on each other. What is true is decided by the head, never by a lock.

The one exception are writers that do not know the head: beside Apache Hudi's own writers a lock provider that both sides
share is the only net. So the names and the files of two of its providers are understood here.
"""

from tidelake.locking.file_lock import FileLock
from tidelake.locking.lease import LeaseLock
from tidelake.locking.lock import InProcessLock, Lock, NoLock
from tidelake.locking.provider import make_lock

__all__ = ["FileLock", "InProcessLock", "LeaseLock", "Lock", "NoLock", "make_lock"]
