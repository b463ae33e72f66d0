"""The sign of life of a write: a file that is put again and again until the write ends.

Whoever finds a write whose last sign is older than the interval times the tolerable misses may roll it back.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager

from tidelake._periodic import every
from tidelake.errors import TidelakeError
from tidelake.storage import Storage
from tidelake.timeline.transitions import HEARTBEAT_DIR

_LOG = logging.getLogger("tidelake.write")


def beating(storage: Storage, instant: str, interval_ms: int) -> AbstractContextManager[None]:
    """Show, from a thread, that the write of an instant lives. Its first sign was given when the instant was taken."""

    def beat() -> None:
        try:
            storage.put(f"{HEARTBEAT_DIR}/{instant}", b"")
        except TidelakeError as error:
            # Not fatal: if the signs stay away for too long, the commit finds the write rolled back.
            _LOG.warning("no sign of life could be given for the write %s: %s", instant, error)

    return every(interval_ms / 1000, beat, f"heartbeat-{instant}")
