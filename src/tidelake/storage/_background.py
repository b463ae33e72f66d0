"""Work that a batch of puts leaves to a few threads: syncing files, sending objects.

What waits is bounded, so that the data of a large write is not held twice. The first error is told at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class Background:
    """A few threads for the time of one batch. ``run`` may be called by any thread."""

    def __init__(self, threads: int, waiting: int) -> None:
        self._pool = ThreadPoolExecutor(threads)
        self._most = threads + waiting
        self._room = threading.Semaphore(self._most)
        self._error: BaseException | None = None

    def run(self, act: Callable[[], object]) -> None:
        """Let a thread do it; waits while too much is waiting."""
        self._room.acquire()
        self._pool.submit(self._do, act)

    def wait(self) -> None:
        """Wait until everything is done that was to be run so far, well or not; nobody runs anything meanwhile."""
        for _ in range(self._most):
            self._room.acquire()
        self._room.release(self._most)

    def end(self) -> None:
        """Wait until everything is done, well or not."""
        self._pool.shutdown(wait=True)

    def check(self) -> None:
        """After a wait or the end: raise the first error, if there was one."""
        if self._error is not None:
            raise self._error

    def _do(self, act: Callable[[], object]) -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - raised again by ``check``
            self._error = self._error or error
        finally:
            self._room.release()
