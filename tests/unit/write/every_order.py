"""Every order in which two writers can make their storage operations, each outcome examined once.

Two writers in two threads, of which one runs at a time, as in ``interleave``; but who goes next is not drawn: all orders
are gone through. What a writer does next follows from what the storage answered to it so far, since each has a clock
and ids of its own. So two orders that lead to the same bytes in the storage, and gave each writer the same answers, go on
alike, and the second of them ends there. What is left is a graph of states, whose paths are the orders.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tidelake._clock import utc_from_ms
from tidelake.storage import MemoryStorage
from tidelake.testing import FaultyStorage, ManualClock
from tidelake.timeline.head import HEAD_FILE

PATIENCE_S = 60.0
CHANGES = frozenset({"put", "put_if_absent", "put_if_match", "delete"})
T = TypeVar("T")
Job = Callable[[FaultyStorage, ManualClock], object]


def begins_phase(verb: str, path: str, last: str) -> bool:
    """Whether another may come before an operation; ``last`` is the change before it.

    The eight phases of a write: looking; its heartbeat; its requested file; its inflight file; markers and data; a turn
    with its checks; the head; the completed file and clearing up.
    """
    return (
        verb in ("put_if_absent", "put_if_match")
        or (verb == "put" and path.endswith("/MARKERS0"))
        or (verb == "get_with_version" and path == HEAD_FILE and last == "put")
    )


class Stopped(BaseException):
    """The rest of this order is known: unwinds a writer."""


class PathVersions(MemoryStorage):
    """Versions count the changes of each path for itself: those of different paths may come in any order."""

    def begin(self, other: MemoryStorage) -> PathVersions:
        """With what another storage holds."""
        self._objects.update(other._objects)
        self._counts: dict[str, int] = {}
        return self

    def _store(self, path: str, data: bytes | memoryview) -> str:
        self._counts[path] = self._counts.get(path, 0) + 1
        self._versions = 1_000_000 * self._counts[path] - 1
        return super()._store(path, data)

    def digest(self) -> int:
        """Of all that is there."""
        return hash(frozenset((path, each.data, each.info.version) for path, each in self._objects.items()))


class View(FaultyStorage):
    """The storage as one writer sees it: asks for its turn, and remembers what it was told."""

    def __init__(self, inner: PathVersions, name: str, wait: Callable[[], None]) -> None:
        super().__init__(inner)
        self._name = name
        self._wait = wait
        self._last = ""
        self._gives_up = False
        self.told = 0

    @property
    def uri(self) -> str:
        """One of its own: writers of two processes share nothing in memory."""
        return f"{self.inner.uri}-{self._name}"

    def native_path(self, path: str) -> str:
        """The same in every run, since it is written into plans."""
        return f"memory://table/{path}"

    def _do(self, verb: str, path: str, act: Callable[[], T], *, torn: Callable[[], None] | None = None) -> T:
        self._gives_up = self._gives_up or ".rollback." in path
        if not self._gives_up and begins_phase(verb, path, self._last):
            self._wait()
        if verb in CHANGES:
            self._last = verb
        try:
            answer = act()
        except Exception as error:
            self.told = hash((self.told, type(error).__name__))
            raise
        self.told = hash((self.told, answer if isinstance(answer, bytes) else repr(answer)))
        return answer


State = tuple[Any, ...]


@dataclass
class Orders:
    """All orders of two jobs on copies of one storage."""

    start: MemoryStorage
    clock: ManualClock
    jobs: tuple[Job, ...]
    seed: int = 0
    """Of the order in which orders are tried."""
    states: dict[State, dict[int, State]] = field(default_factory=dict)
    """For each state, which one comes next if a writer goes on."""

    def ends(self, runs: int | None = None) -> Iterator[tuple[MemoryStorage, ManualClock, list[Any]]]:
        """Each end that is different, after all orders or so many of them: the storage, a clock, and what each job gave back or raised."""
        draw = random.Random(self.seed)
        left: list[list[int]] = [[]]
        seen = set()
        while left and (runs is None or runs > 0):
            run = _Run(self, left.pop() if runs is None else left.pop(draw.randrange(len(left))))
            results = run.go()
            left += run.left
            if runs is not None:
                runs -= 1
            if results is not None:
                end = (run.storage.digest(), *(type(result) for result in results))
                if end not in seen:
                    seen.add(end)
                    yield run.storage, self.now(0), results

    def now(self, number: int) -> ManualClock:
        """A clock that stands where that of the start does, with ids of its own."""
        return ManualClock(utc_from_ms(self.clock.now_ms()), seed=1_000 + number)

    @property
    def count(self) -> int:
        """How many orders there are."""
        paths: dict[State, int] = {}
        for state in reversed(self._sorted()):
            after = self.states.get(state, {})
            paths[state] = sum(paths[each] for each in after.values()) if after else 1
        return paths[self._first()]

    def _first(self) -> State:
        return next(iter(self.states))

    def _sorted(self) -> list[State]:
        """States so that each comes before those that follow it."""
        done: dict[State, None] = {}
        stack = [(self._first(), iter(self.states[self._first()].values()))]
        on_way = {self._first()}
        while stack:
            state, rest = stack[-1]
            for each in rest:
                if each not in on_way:
                    on_way.add(each)
                    stack.append((each, iter(self.states.get(each, {}).values())))
                    break
            else:
                done[state] = None
                stack.pop()
        return list(reversed(done))


class _Run:
    """One order: as told at first, then the first writer as long as it can."""

    def __init__(self, orders: Orders, told: list[int]) -> None:
        self.orders = orders
        self.storage = PathVersions(clock=ManualClock(seed=0)).begin(orders.start)
        self.left: list[list[int]] = []
        self._told = told
        self._chosen: list[int] = []
        self._turn = threading.Condition()
        self._waiting: set[int] = set()
        self._alive = {0, 1}
        self._running: int | None = None
        self._before: tuple[State, int] | None = None
        self._is_known = False
        self._failure: AssertionError | None = None
        self.views = [View(self.storage, str(n), lambda n=n: self._wait(n)) for n in (0, 1)]  # type: ignore[misc]
        self.results: list[Any] = [None, None]

    def go(self) -> list[Any] | None:
        """What the jobs gave; None if it is known how this order ends."""
        threads = [threading.Thread(target=self._work, args=(number,), daemon=True) for number in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "the two writers wait for each other"
        if self._failure is not None:
            raise self._failure
        return None if self._is_known else self.results

    def _work(self, number: int) -> None:
        try:
            self._wait(number)
            clock = self.orders.now(number + 1)
            self.results[number] = self.orders.jobs[number](self.views[number], clock)
        except BaseException as error:  # what it is, is the test's to judge
            self.results[number] = error
        finally:
            with self._turn:
                self._alive.discard(number)
                self._running = None
                self._choose()

    def _wait(self, number: int) -> None:
        with self._turn:
            self._waiting.add(number)
            if self._running == number:
                self._running = None
            self._choose()
            assert self._turn.wait_for(lambda: self._running == number or self._is_known, PATIENCE_S)
            if self._is_known:
                raise Stopped

    def _choose(self) -> None:
        if self._running is not None or self._waiting != self._alive or self._is_known:
            return
        state: State = (self.storage.digest(), *(v.told for v in self.views), frozenset(self._alive))
        states = self.orders.states
        if self._before is not None:
            came_from, by = self._before
            states[came_from][by] = state
        at = len(self._chosen)
        if at < len(self._told):
            chosen = self._told[at]
            if state not in states:
                self._failure = AssertionError("the same turns led elsewhere: something is drawn, or kept in memory")
                self._is_known = True
                self._turn.notify_all()
                return
        elif state in states:
            self._is_known = True
            self._turn.notify_all()
            return
        else:
            states[state] = {}
            chosen = min(self._alive, default=-1)
            self.left += [[*self._chosen, each] for each in self._alive if each != chosen]
        if not self._alive:
            return
        self._before = (state, chosen)
        self._chosen.append(chosen)
        self._waiting.discard(chosen)
        self._running = chosen
        self._turn.notify_all()
