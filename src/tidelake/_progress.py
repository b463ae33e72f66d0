"""How far a long write is: a line per stage in the log, and on a terminal a bar that is drawn in place.

A write opens a ``progress``; whatever it calls finds it by ``current`` and says which stage it is at and how many steps it
has done. Without one nothing is said. The log is ``tidelake.write``, at level INFO. The bar goes to standard error, only if
that is a terminal, only for writes that take a moment, and not if the environment has ``TIDELAKE_PROGRESS=0``.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO, TypeVar

from tidelake._clock import Clock, SystemClock
from tidelake._periodic import every

LOG = logging.getLogger("tidelake.write")
VARIABLE = "TIDELAKE_PROGRESS"
FIRST_DRAWN_S = 0.5
"""Shorter writes show no bar."""
BETWEEN_S = 0.1
_WIDTH = 30
T = TypeVar("T")


class Progress:
    """What one write tells of itself. Threads may step at the same time."""

    def __init__(self, what: str, stream: TextIO | None = None, clock: Clock | None = None) -> None:
        self._what = what
        self._stream = stream
        self._clock: Clock = clock or SystemClock()
        self._began_s = self._clock.monotonic_s()
        self._drawn_s = self._began_s + FIRST_DRAWN_S - BETWEEN_S
        self._stage = ""
        self._done = 0
        self._total = 0
        self._drawn = ""
        self._mutex = threading.Lock()

    @property
    def is_drawn(self) -> bool:
        """Whether there is a terminal that shows a bar."""
        return self._stream is not None

    def stage(self, name: str, total: int = 0) -> None:
        """The next stage begins; ``total`` is how many steps it has, 0 if nobody knows."""
        with self._mutex:
            self._wipe()
            self._stage, self._done, self._total = name, 0, total
            LOG.info("%s: %s%s", self._what, name, f" ({total})" if total else "")
            self._draw()

    def step(self, value: T) -> T:
        """One step of the stage is done; hands on what came of it."""
        with self._mutex:
            self._done += 1
            self._draw()
        return value

    def at(self, done: int, total: int) -> None:
        """So many of so many steps are done."""
        with self._mutex:
            self._done, self._total = done, total
            self._draw()

    def close(self) -> None:
        """The write has ended, well or not."""
        with self._mutex:
            self._wipe()
            if self._stage:
                LOG.info("%s: ended after %.1f s", self._what, self._clock.monotonic_s() - self._began_s)

    def _draw(self) -> None:
        now_s = self._clock.monotonic_s()
        if self._stream is None or now_s - self._drawn_s < BETWEEN_S:
            return
        self._drawn_s = now_s
        bar = ""
        if self._total:
            filled = min(_WIDTH, _WIDTH * self._done // self._total)
            bar = f" [{'#' * filled}{'.' * (_WIDTH - filled)}] {self._done} of {self._total}"
        text = f"{self._what}: {self._stage}{bar}"
        self._put(f"\r{text}{' ' * (len(self._drawn) - len(text))}")
        self._drawn = text

    def _wipe(self) -> None:
        if self._drawn:
            self._put(f"\r{' ' * len(self._drawn)}\r")
            self._drawn = ""

    def _put(self, text: str) -> None:
        assert self._stream is not None
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # The terminal went away: no reason for a write to fail.
            self._stream, self._drawn = None, ""


_CURRENT: ContextVar[Progress | None] = ContextVar("tidelake_progress", default=None)


class _Silent(Progress):
    """Says nothing: what is asked for a write that nobody watches."""

    def stage(self, name: str, total: int = 0) -> None:
        """Nobody hears it."""


def current() -> Progress:
    """The progress of the write under way in this thread."""
    return _CURRENT.get() or _Silent("")


@contextmanager
def progress(what: str, stream: TextIO | None = None, clock: Clock | None = None) -> Iterator[Progress]:
    """Tell of a write while it runs; one inside another is part of it."""
    outer = _CURRENT.get()
    if outer is not None:
        yield outer
        return
    shown = Progress(what, _terminal(stream or sys.stderr), clock)
    token = _CURRENT.set(shown)
    try:
        yield shown
    finally:
        _CURRENT.reset(token)
        shown.close()


@contextmanager
def polled(look: Callable[[], tuple[int, int] | None]) -> Iterator[None]:
    """Ask now and then how far a stage is, by a thread, while it runs; only for a bar that is drawn."""
    shown = current()
    if not shown.is_drawn:
        yield
        return

    def ask() -> None:
        found = look()
        if found is not None:
            shown.at(*found)

    with every(2 * BETWEEN_S, ask, "progress"):
        yield


def _terminal(stream: TextIO) -> TextIO | None:
    if os.environ.get(VARIABLE, "") == "0":
        return None
    try:
        return stream if stream.isatty() else None
    except ValueError:
        return None
