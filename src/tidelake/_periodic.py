"""Doing a thing again and again, from a thread, while something else runs: signs of life, leases, a bar of progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def every(interval_s: float, act: Callable[[], bool | None], name: str) -> Iterator[None]:
    """Do it each interval until the block ends, or until it returns False. It must deal with its own errors."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(interval_s) and act() is not False:
            pass

    thread = threading.Thread(target=run, name=f"tidelake-{name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
