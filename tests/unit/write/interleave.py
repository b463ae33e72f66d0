"""Two writers in two threads, of which one runs at a time: who makes the next storage operation is drawn from a seed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any

import pytest

import tidelake as tl
from model.one_thread import in_one_thread
from tidelake.filegroup import TableView
from tidelake.testing import FaultyStorage

PATIENCE_S = 60.0


class _Open:
    """A lock that never locks."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def make_deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread pools, and no lock that a waiting writer could hold (cached_property has one up to Python 3.11)."""
    in_one_thread(monkeypatch)
    for held in vars(TableView).values():
        if isinstance(held, cached_property) and hasattr(held, "lock"):
            monkeypatch.setattr(held, "lock", _Open())


class Scheduler:
    """Hands the turn to one of the threads that wait before a storage operation."""

    def __init__(self, seed: int, switch: float) -> None:
        self._random = random.Random(seed)
        self._switch = switch
        self._turn = threading.Condition()
        self._waiting: set[int] = set()
        self._alive: set[int] = set()
        self._running: int | None = None

    def run(self, jobs: list[Callable[[FaultyStorage], Any]], storage: object) -> list[Any]:
        """Run the jobs interleaved, each on a storage of its own view; returns results or errors."""
        results: list[Any] = [None] * len(jobs)
        self._alive = set(range(len(jobs)))

        def work(number: int) -> None:
            faulty = FaultyStorage(storage, on_operation=lambda *_: self._wait(number))  # type: ignore[arg-type]
            self._wait(number)
            try:
                results[number] = jobs[number](faulty)
            except BaseException as error:  # what it is, is the test's to judge
                results[number] = error
            finally:
                self._leave(number)

        threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in self._alive]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "the two writers wait for each other"
        return results

    def _wait(self, number: int) -> None:
        with self._turn:
            self._waiting.add(number)
            if self._running == number:
                self._running = None
            self._choose(number)
            assert self._turn.wait_for(lambda: self._running == number, PATIENCE_S)

    def _leave(self, number: int) -> None:
        with self._turn:
            self._alive.discard(number)
            self._running = None
            self._choose(number)

    def _choose(self, last: int) -> None:
        """When all that live are waiting, one goes on: mostly the same, by ``switch`` another."""
        if self._running is not None or self._waiting != self._alive or not self._alive:
            return
        others = sorted(self._waiting - {last})
        if last in self._waiting and (not others or self._random.random() >= self._switch):
            chosen = last
        else:
            chosen = self._random.choice(others)
        self._waiting.discard(chosen)
        self._running = chosen
        self._turn.notify_all()


def outcome(result: Any) -> str:
    """What a writer was told; anything but success or a conflict is a failure of the test."""
    if isinstance(result, tl.ConflictError):
        return "conflict"
    if isinstance(result, BaseException):
        raise result
    return "ok"
