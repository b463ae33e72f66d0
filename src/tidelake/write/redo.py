"""Redoing a write that lost to another one, within bounds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from tidelake._clock import Clock
from tidelake.errors import ConflictError, InvalidError

TRIES = 10
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
_LOG = logging.getLogger("tidelake.write")

T = TypeVar("T")


def redone(once: Callable[[], T], on_conflict: str, clock: Clock) -> T:
    """Run a write; with ``on_conflict="retry"`` again, on the table as it is then, if another writer was first."""
    if on_conflict not in ("fail", "retry"):
        raise InvalidError(f"on_conflict is {on_conflict!r}, known are fail and retry", value=on_conflict)
    tries = TRIES if on_conflict == "retry" else 1
    for number in range(1, tries):
        try:
            return once()
        except ConflictError as conflict:
            _LOG.info("try %d of %d lost to another writer: %s", number, tries, conflict)
            # Two losers do not meet again at once: the pause is a share of its bound, taken from a fresh id.
            share = int(clock.new_id()[:4], 16) / 0xFFFF
            clock.sleep(share * min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**number))
    return once()
