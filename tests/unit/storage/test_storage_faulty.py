"""The faulty storage: that it counts everything, and fails exactly as told."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from tidelake._clock import ManualClock
from tidelake.errors import AlreadyExistsError, PreconditionError, UnavailableError
from tidelake.storage import Fault, FaultKind, FaultyStorage, MemoryStorage, SimulatedCrash

WRITES: dict[str, Callable[[FaultyStorage], object]] = {
    "put": lambda storage: storage.put("a", b"new bytes"),
    "put_if_absent": lambda storage: storage.put_if_absent("b", b"new bytes"),
    "put_if_match": lambda storage: storage.put_if_match("a", b"new bytes", storage.inner.head("a").version),
    "delete": lambda storage: storage.delete("a"),
}


def _contents(storage: FaultyStorage) -> dict[str, bytes]:
    return {info.path: storage.inner.get(info.path) for info in storage.inner.list_files()}


def _storage(*faults: Fault, clock: ManualClock | None = None) -> FaultyStorage:
    inner = MemoryStorage()
    inner.put("a", b"old")
    return FaultyStorage(inner, faults, clock=clock)


AFTER = {
    "put": {"a": b"new bytes"},
    "put_if_absent": {"a": b"old", "b": b"new bytes"},
    "put_if_match": {"a": b"new bytes"},
    "delete": {},
}
BEFORE = {"a": b"old"}


def test_every_verb_is_numbered_and_journaled() -> None:
    """Each operation of the port is one number, with its verb and path, and native_path is none."""
    storage = _storage()
    storage.get("a")
    storage.get_with_version("a")
    storage.get_range("a", 0, 1)
    storage.head("a")
    storage.exists("x/y")
    version = storage.put("x/y", b"")
    storage.put_if_absent("z", b"")
    storage.put_if_match("x/y", b"", version)
    storage.delete("z")
    list(storage.list_files("x"))
    storage.list_dir()
    with storage.batch() as puts:
        puts.put("b", b"")
    storage.native_path("a")
    expected = [
        (1, "get", "a"),
        (2, "get_with_version", "a"),
        (3, "get_range", "a"),
        (4, "head", "a"),
        (5, "exists", "x/y"),
        (6, "put", "x/y"),
        (7, "put_if_absent", "z"),
        (8, "put_if_match", "x/y"),
        (9, "delete", "z"),
        (10, "list_files", "x"),
        (11, "list_dir", ""),
        (12, "put", "b"),
        (13, "sync", ""),
    ]
    assert storage.journal == expected
    assert storage.operations == 13
    assert storage.count() == 13
    assert storage.count("put") == 2
    assert storage.count(prefix="x") == 4
    assert storage.count("exists", prefix="x/") == 1
    storage.reset()
    assert (storage.operations, storage.journal) == (0, [])


@pytest.mark.parametrize("verb", WRITES)
def test_no_fault_changes_nothing(verb: str) -> None:
    """The negative control: without a fault at its number, the operation takes place and answers."""
    storage = _storage(Fault(2, "crash_before"))
    WRITES[verb](storage)
    assert _contents(storage) == AFTER[verb]
    assert not storage.crashed


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize(("kind", "applied"), [("crash_before", False), ("crash_after", True)])
def test_crash_kills_the_process_for_good(verb: str, kind: FaultKind, applied: bool) -> None:
    """The operation took place or not, as told; no later one does, and none is counted."""
    storage = _storage(Fault(1, kind))
    with pytest.raises(SimulatedCrash):
        WRITES[verb](storage)
    for _ in range(2):
        with pytest.raises(SimulatedCrash):
            storage.put("later", b"")
    assert _contents(storage) == (AFTER if applied else {verb: BEFORE})[verb]
    assert storage.crashed
    assert storage.operations == 1


def test_crash_passes_handlers_of_exceptions() -> None:
    """A simulated crash is no Exception: code that catches everything does not survive it."""
    assert not issubclass(SimulatedCrash, Exception)


@pytest.mark.parametrize("verb", WRITES)
def test_lost_answer_takes_place_and_reports_unavailable(verb: str) -> None:
    """The caller learns nothing, and the storage has changed; the process lives on."""
    storage = _storage(Fault(1, "lost_answer"))
    with pytest.raises(UnavailableError) as caught:
        WRITES[verb](storage)
    assert caught.value.retryable
    assert _contents(storage) == AFTER[verb]
    assert not storage.crashed
    storage.put("later", b"")


def test_lost_answer_hides_a_refusal_too() -> None:
    """Whether a conditional put won or lost is what the caller does not learn."""
    storage = _storage(Fault(1, "lost_answer"))
    with pytest.raises(UnavailableError) as caught:
        storage.put_if_absent("a", b"new")
    assert type(caught.value) is UnavailableError
    assert _contents(storage) == BEFORE


@pytest.mark.parametrize("verb", ["put_if_absent", "put_if_match", "delete"])
def test_tear_of_an_atomic_write_leaves_nothing(verb: str) -> None:
    """What is atomic is not torn: the process dies and nothing is visible."""
    storage = _storage(Fault(1, "tear"))
    with pytest.raises(SimulatedCrash):
        WRITES[verb](storage)
    assert _contents(storage) == BEFORE


def test_tear_of_a_data_file_leaves_its_first_half() -> None:
    """A data file may be cut short, a file of the timeline never."""
    storage = _storage(Fault(1, "tear"))
    with pytest.raises(SimulatedCrash):
        storage.put("p=1/f.parquet", b"12345678")
    assert _contents(storage) == {**BEFORE, "p=1/f.parquet": b"1234"}
    storage = _storage(Fault(1, "tear"))
    with pytest.raises(SimulatedCrash):
        storage.put(".hoodie/hoodie.properties", b"12345678")
    assert _contents(storage) == BEFORE


def test_delay_moves_the_clock_then_takes_place() -> None:
    """Slowness is simulated in the injected clock's time."""
    clock = ManualClock()
    storage = _storage(Fault(1, "delay", delay_s=130), clock=clock)
    storage.put("a", b"new bytes")
    assert clock.monotonic_s() == 130
    assert _contents(storage) == AFTER["put"]


@pytest.mark.parametrize("kind", ["http_409", "http_503"])
@pytest.mark.parametrize("verb", WRITES)
def test_refusal_takes_no_place_and_may_be_retried(verb: str, kind: FaultKind) -> None:
    """A busy server did nothing; the same call then succeeds."""
    storage = _storage(Fault(1, kind))
    with pytest.raises(UnavailableError):
        WRITES[verb](storage)
    assert _contents(storage) == BEFORE
    WRITES[verb](storage)
    assert _contents(storage) == AFTER[verb]


@pytest.mark.parametrize(
    ("verb", "kind"),
    [("put_if_absent", AlreadyExistsError), ("put_if_match", PreconditionError), ("put", UnavailableError)],
)
def test_precondition_answer_is_the_verbs_own_loss(verb: str, kind: type[UnavailableError]) -> None:
    """412 tells a conditional put that it lost, though nobody won."""
    storage = _storage(Fault(1, "http_412"))
    with pytest.raises(UnavailableError) as caught:
        WRITES[verb](storage)
    assert type(caught.value) is kind
    assert _contents(storage) == BEFORE


def test_reads_and_listings_fail_as_told() -> None:
    """Faults hit reading verbs as well, a listing at its call."""
    for act in (
        lambda storage: storage.get("a"),
        lambda storage: storage.list_files(),
        lambda storage: storage.list_dir(),
    ):
        with pytest.raises(UnavailableError):
            act(_storage(Fault(1, "http_503")))
        with pytest.raises(SimulatedCrash):
            act(_storage(Fault(1, "crash_after")))


def test_crash_at_every_operation_finds_a_missing_safety_net() -> None:
    """The harness can fail: a two-step write without recovery is caught at exactly the point between its steps."""

    def transfer(storage: FaultyStorage) -> None:
        storage.put("from", b"0")
        storage.put("to", b"1")

    broken: list[int] = []
    for number in range(1, 4):
        storage = FaultyStorage(MemoryStorage(), [Fault(number, "crash_before")])
        storage.inner.put("from", b"1")
        storage.inner.put("to", b"0")
        with contextlib.suppress(SimulatedCrash):
            transfer(storage)
        if int(storage.inner.get("from")) + int(storage.inner.get("to")) != 1:
            broken.append(number)
    assert broken == [2]


def test_hook_sees_each_operation_before_it_happens() -> None:
    """on_operation runs before the operation, may act on the inner storage, and so interleaves another writer."""
    seen: list[tuple[int, str, str, bool]] = []
    storage = _storage()

    def hook(number: int, verb: str, path: str) -> None:
        seen.append((number, verb, path, storage.inner.exists(path)))
        if number == 2:
            storage.inner.put_if_absent(path, b"other writer")

    storage.on_operation = hook
    storage.put_if_absent("b", b"")
    with pytest.raises(AlreadyExistsError):
        storage.put_if_absent("c", b"")
    assert seen == [(1, "put_if_absent", "b", False), (2, "put_if_absent", "c", False)]


@pytest.mark.parametrize(("at", "kind"), [(0, "tear"), (-1, "tear"), (1, "explode")])
def test_fault_that_cannot_be_is_refused(at: int, kind: FaultKind) -> None:
    """A fault that would silently never happen is an error in the test."""
    with pytest.raises(ValueError, match=r"operations are numbered|no fault"):
        Fault(at, kind)
