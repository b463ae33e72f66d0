"""The sign of life of a write: a file that is put again and again until the write ends.

Whoever finds a write whose last sign is older than the interval times the tolerable misses may roll it back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tidelake.errors import TidelakeError
from tidelake.storage import Storage
from tidelake.timeline.transitions import HEARTBEAT_DIR

_LOG = logging.getLogger("tidelake.write")


@contextmanager
def beating(storage: Storage, instant: str, interval_ms: int) -> Iterator[None]:
    """Show, from a thread, that the write of an instant lives. Its first sign was given when the instant was taken."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(interval_ms / 1000):
            try:
                storage.put(f"{HEARTBEAT_DIR}/{instant}", b"")
            except TidelakeError as error:
                # Not fatal: if the signs stay away for too long, the commit finds the write rolled back.
                _LOG.warning("no sign of life could be given for the write %s: %s", instant, error)

    thread = threading.Thread(target=beat, name=f"tidelake-heartbeat-{instant}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
