"""A storage that fails on purpose, at a chosen operation. Shipped as ``tidelake.testing.FaultyStorage``.

It wraps any storage, numbers every operation from 1, and keeps them in a journal. A :class:`Fault` says what happens at
one number::

    storage = FaultyStorage(MemoryStorage(), faults=[Fault(at=7, kind="crash_before")])
    with pytest.raises(SimulatedCrash):
        write_something(storage)
    recover(storage.inner)            # another process: the storage without the dead one around it

To crash everywhere, run once without faults, read ``storage.operations``, and run again with a fault at each number.
For interleavings, ``on_operation`` is called in the operation's own thread before it happens, and may block.

Kinds
- ``crash_before``, ``crash_after``: the process dies before or after the operation took place. :class:`SimulatedCrash`
  is not an ``Exception``, so that no handler survives it, and every later operation raises it again, uncounted.
  The end of a batch is an operation too, ``sync``.
- ``lost_answer``: the operation takes place, and ``UnavailableError`` is reported.
- ``tear``: the process dies within the operation. A ``put`` outside ``.hoodie/`` leaves the first half of its bytes,
  as a writer does that streams into place; every other write is atomic and leaves nothing.
- ``delay``: the clock moves by ``delay_s``, then the operation takes place.
- ``http_409``, ``http_503``: nothing takes place, ``UnavailableError`` (a conflict that outlasted its retries, a busy
  server). ``http_412``: nothing takes place, and a conditional put is told that it lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, NoReturn, TypeVar

from tidelake._clock import Clock, SystemClock
from tidelake.errors import AlreadyExistsError, PreconditionError, TidelakeError, UnavailableError
from tidelake.storage.ensure import ensure_object
from tidelake.storage.port import Batch, ObjectInfo, Puts, Storage

FaultKind = Literal["crash_before", "crash_after", "lost_answer", "tear", "delay", "http_409", "http_412", "http_503"]
FAULT_KINDS: Final[tuple[FaultKind, ...]] = (
    "crash_before",
    "crash_after",
    "lost_answer",
    "tear",
    "delay",
    "http_409",
    "http_412",
    "http_503",
)

T = TypeVar("T")


class SimulatedCrash(BaseException):
    """The process is dead; what comes after it runs in another process."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at operation number ``at`` (the first is 1)."""

    at: int
    kind: FaultKind
    delay_s: float = 0.0

    def __post_init__(self) -> None:
        if self.at < 1:
            raise ValueError(f"operations are numbered from 1, not {self.at}")
        if self.kind not in FAULT_KINDS:
            raise ValueError(f"no fault {self.kind!r}: one of {', '.join(FAULT_KINDS)}")


class Operation(NamedTuple):
    """One line of the journal; equal to the tuple ``(number, verb, path)``."""

    number: int
    verb: str
    path: str


class FaultyStorage:
    """``inner`` with its operations counted, journaled and, where a fault says so, failing."""

    def __init__(
        self,
        inner: Storage,
        faults: Iterable[Fault] = (),
        *,
        clock: Clock | None = None,
        on_operation: Callable[[int, str, str], None] | None = None,
    ) -> None:
        self.inner = inner
        self.on_operation = on_operation
        self._faults = {fault.at: fault for fault in faults}
        self._clock: Clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._journal: list[Operation] = []
        self._crashed = False

    def __repr__(self) -> str:
        return f"FaultyStorage({self.inner!r}, operations={self.operations})"

    @property
    def operations(self) -> int:
        """How many operations were begun."""
        return len(self._journal)

    @property
    def journal(self) -> list[Operation]:
        """Every operation begun, in order."""
        with self._lock:
            return list(self._journal)

    @property
    def crashed(self) -> bool:
        """Whether the process is dead."""
        return self._crashed

    def count(self, verb: str | None = None, *, prefix: str = "") -> int:
        """How many operations had that verb, on paths that begin with ``prefix``."""
        return sum(1 for each in self.journal if verb in (None, each.verb) and each.path.startswith(prefix))

    def reset(self) -> None:
        """Begin to count from 1 again, with an empty journal; the dead stay dead."""
        with self._lock:
            self._journal.clear()

    @property
    def uri(self) -> str:
        return self.inner.uri

    @property
    def options(self) -> dict[str, str]:
        return self.inner.options

    @property
    def is_remote(self) -> bool:
        return self.inner.is_remote

    def get(self, path: str) -> bytes:
        return self._do("get", path, lambda: self.inner.get(path))

    def get_with_version(self, path: str) -> tuple[bytes, str]:
        return self._do("get_with_version", path, lambda: self.inner.get_with_version(path))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        return self._do("get_range", path, lambda: self.inner.get_range(path, start, length))

    def head(self, path: str) -> ObjectInfo:
        return self._do("head", path, lambda: self.inner.head(path))

    def exists(self, path: str) -> bool:
        return self._do("exists", path, lambda: self.inner.exists(path))

    def put(self, path: str, data: bytes | memoryview) -> str:
        return self._do("put", path, lambda: self.inner.put(path, data), torn=lambda: self._put_half(path, data))

    @contextmanager
    def batch(self) -> Iterator[Batch]:
        with self.inner.batch() as puts:
            yield _FaultyPuts(self, puts)
            # What may fail when the block ends, where a storage makes everything durable at once.
            self._do("sync", "", lambda: None)

    def put_if_absent(self, path: str, data: bytes) -> str:
        return self._do("put_if_absent", path, lambda: self.inner.put_if_absent(path, data))

    def put_if_match(self, path: str, data: bytes, version: str) -> str:
        return self._do("put_if_match", path, lambda: self.inner.put_if_match(path, data, version))

    def delete(self, path: str) -> None:
        self._do("delete", path, lambda: self.inner.delete(path))

    def list_files(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return iter(self._do("list_files", prefix, lambda: list(self.inner.list_files(prefix))))

    def list_dir(self, prefix: str = "") -> tuple[list[str], list[ObjectInfo]]:
        return self._do("list_dir", prefix, lambda: self.inner.list_dir(prefix))

    def native_path(self, path: str) -> str:
        return self.inner.native_path(path)

    def put_in(self, puts: Puts, path: str, data: bytes | memoryview) -> None:
        """A put of a batch of the inner storage; counted as any put."""
        self._do("put", path, lambda: puts.put(path, data), torn=lambda: self._put_half(path, data))

    def _do(self, verb: str, path: str, act: Callable[[], T], *, torn: Callable[[], None] | None = None) -> T:
        with self._lock:
            if self._crashed:
                raise SimulatedCrash(f"{verb} {path!r}: the process died before")
            number = len(self._journal) + 1
            self._journal.append(Operation(number, verb, path))
        if self.on_operation is not None:
            self.on_operation(number, verb, path)
        if self._crashed:  # while this thread waited in the hook
            raise SimulatedCrash(f"{verb} {path!r}: the process died before")
        fault = self._faults.get(number)
        if fault is None:
            return act()
        return self._fail(fault, Operation(number, verb, path), act, torn)

    def _fail(self, fault: Fault, operation: Operation, act: Callable[[], T], torn: Callable[[], None] | None) -> T:
        match fault.kind:
            case "crash_before":
                self._die(operation, "before")
            case "crash_after":
                _attempt(act)
                self._die(operation, "after")
            case "tear":
                if torn is not None:
                    _attempt(torn)
                self._die(operation, "within")
            case "lost_answer":
                _attempt(act)
                raise _refusal(operation, "the answer was lost")
            case "delay":
                self._clock.sleep(fault.delay_s)
                return act()
            case "http_412":
                raise _lost(operation)
            case "http_409" | "http_503":
                raise _refusal(operation, f"injected {fault.kind}")

    def _die(self, operation: Operation, when: str) -> NoReturn:
        self._crashed = True
        raise SimulatedCrash(f"{when} operation {operation.number}: {operation.verb} {operation.path!r}")

    def _put_half(self, path: str, data: bytes | memoryview) -> None:
        if not path.startswith(".hoodie/"):
            self.inner.put(path, data[: len(data) // 2])


@dataclass(frozen=True, slots=True)
class _FaultyPuts:
    storage: FaultyStorage
    inner: Puts

    def put(self, path: str, data: bytes | memoryview) -> None:
        self.storage.put_in(self.inner, path, data)

    def ensure(self, path: str, data: bytes) -> None:
        ensure_object(self.storage, path, data)


def _attempt(act: Callable[[], object]) -> None:
    """Let the operation take place; whether it succeeded is what the caller does not learn."""
    try:
        act()
    except TidelakeError:
        return


def _refusal(operation: Operation, why: str) -> UnavailableError:
    said = f"operation {operation.number}, {operation.verb} {operation.path!r}: {why}"
    return UnavailableError(said, value=operation.path, file=operation.path)


def _lost(operation: Operation) -> TidelakeError:
    kinds = {"put_if_absent": AlreadyExistsError, "put_if_match": PreconditionError}
    kind = kinds.get(operation.verb, UnavailableError)
    said = f"operation {operation.number}, {operation.verb} {operation.path!r}: injected http_412"
    return kind(said, value=operation.path, file=operation.path)
