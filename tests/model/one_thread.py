"""Everything in the calling thread: operations get their numbers in one order, so that a seed gives the same run again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import nullcontext
from typing import Any

import pytest

from tidelake.index.key_cache import KeyCache

POOLS = (
    "tidelake.write.job",
    "tidelake.timeline.load",
    "tidelake.filegroup.listing",
    "tidelake.filegroup.view",
    "tidelake.query.source",
    "tidelake.engine.tasks",
    "tidelake.services.execution",
    "tidelake.services.clean.execute",
)


class SamePool:
    """A pool of no threads."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> SamePool:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, call: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        return iter([call(*each) for each in zip(*items, strict=False)])

    def submit(self, call: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(call(*args))
        return future


def in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the engine's pools run in the thread that uses them, and keep nothing in memory from one write to the next.

    Signs of life after the first are left out: they come by the real clock, after longer than any of these tests takes.
    """
    monkeypatch.setattr("tidelake.write.heartbeat.every", lambda *_: nullcontext())
    monkeypatch.setattr("tidelake.index.simple.KEPT", KeyCache(0))
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    for module in POOLS:
        monkeypatch.setattr(f"{module}.ThreadPoolExecutor", SamePool, raising=False)
