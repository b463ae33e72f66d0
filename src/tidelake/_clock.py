"""The only user of time, randomness and unique ids. Everything else is given a :class:`Clock`.

The lint ban on ``time``, ``random``, ``uuid`` and ``datetime.now`` points here. Tests inject
``tidelake.testing.ManualClock``; the same seed then gives the same bytes.
"""

from __future__ import annotations

import random
import time
import uuid
from datetime import datetime, timezone
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """Wall time, waiting and identity, as one injected thing."""

    def now_ms(self) -> int:
        """Wall time, in milliseconds since 1970 UTC."""
        ...

    def monotonic_s(self) -> float:
        """A time that never goes back, for measuring durations."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def new_id(self) -> str:
        """A fresh UUID (version 4) in text form."""
        ...


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def new_id(self) -> str:
        return str(uuid.uuid4())


class ManualClock:
    """A clock that moves only when told, with ids from a seed. Shipped as ``tidelake.testing.ManualClock``."""

    def __init__(self, start: datetime | None = None, *, seed: int = 0) -> None:
        moment = start or datetime(2026, 1, 1, tzinfo=timezone.utc)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        self._now_ms = round(moment.timestamp() * 1000)
        self._started_ms = self._now_ms
        self._elapsed_ms = 0
        self._random = random.Random(seed)

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return self._elapsed_ms / 1000

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError(f"time passes forwards, not by {seconds} s: use jump()")
        self._now_ms += round(seconds * 1000)
        self._elapsed_ms += round(seconds * 1000)

    def jump(self, seconds: float) -> None:
        """Set the wall clock forwards or back, as an administrator or a bad time server does."""
        self._now_ms += round(seconds * 1000)

    def new_id(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))


def utc_from_ms(epoch_ms: int) -> datetime:
    """Milliseconds since 1970 as an aware UTC datetime."""
    return datetime.fromtimestamp(epoch_ms / 1000, tz=timezone.utc)
