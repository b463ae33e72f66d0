"""A crash or a wrong answer at every storage operation of every write and of its rollback, then recovery."""

from __future__ import annotations

import itertools
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidelake as tl
from crash.crash_points import (
    EXPIRED_S,
    MODES,
    OPERATIONS,
    SHAPES,
    AbortCase,
    Case,
    RollbackCase,
    Shape,
    World,
    attempt,
    check_files,
    examine,
    faults,
    rows,
    state,
)
from model.deep import IS_DEEP
from model.one_thread import in_one_thread
from tidelake.errors import NotATableError
from tidelake.storage import Fault, FaultyStorage, LocalStorage, MemoryStorage, SimulatedCrash, local
from tidelake.testing import ManualClock
from tidelake.timeline.transitions import Transitions

MOR, COW = "MERGE_ON_READ", "COPY_ON_WRITE"
SAMPLE = [
    Case(Shape(MOR, "SIMPLE"), "upsert"),
    Case(Shape(COW, "SIMPLE"), "insert_overwrite"),
    Case(Shape(MOR, "BUCKET"), "delete_keys"),
    Case(Shape(COW, "BUCKET"), "upsert"),
    RollbackCase(Shape(MOR, "SIMPLE"), "upsert"),
    AbortCase(Shape(COW, "SIMPLE"), "upsert"),
]
ALL = [
    *(Case(shape, operation) for shape in SHAPES for operation in OPERATIONS),
    *(RollbackCase(shape, operation) for shape in SHAPES for operation in OPERATIONS),
    *(AbortCase(shape, "upsert") for shape in SHAPES),
]
CASES = ALL if IS_DEEP else SAMPLE
DISK = [case for case in CASES if type(case) is Case][: None if IS_DEEP else 2]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_thread(monkeypatch)


@pytest.fixture(scope="module", autouse=True)
def counts() -> Iterator[Counter[str]]:
    """How many points were tried; printed with ``-s``, for docs/reliability.md."""
    yield COUNTS
    print(f"\ncrash points: {dict(COUNTS)}, {sum(COUNTS.values())} in all")


COUNTS: Counter[str] = Counter()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_crash_at_every_operation_recovers_to_before_or_after(case: Case, mode: str) -> None:
    """Wherever it goes wrong, readers see all of a write or nothing, and the next writer goes on without a person."""
    seen = set()
    for at in case.numbers:
        # After a lost answer the process may die at any operation that follows; the sample tries the next one.
        last = case.numbers.stop - at if mode == "lost_then_dead" and IS_DEEP and type(case) is Case else 1
        for then in range(1, last + 1):
            COUNTS[mode] += 1
            world = case.begin()
            told = attempt(case, world, faults(mode, at, then))
            try:
                seen.add(examine(case, world, told))
            except (AssertionError, tl.TidelakeError) as error:
                raise AssertionError(f"{case}, {mode} at {at} then {then}, told {told}: {error}") from error
    assert True in seen or isinstance(case, AbortCase)
    assert False in seen or mode == "lost"


@pytest.mark.parametrize("case", [case for case in CASES if type(case) is Case], ids=str)
def test_second_crash_during_the_recovery_recovers_to_before_or_after(case: Case) -> None:
    """The next writer may die at any operation too: the one after it finds the table as whole."""
    step = 4 if IS_DEEP else 13
    for first in case.numbers[::step]:
        world = case.begin()
        attempt(case, world, [Fault(first, "crash_after")])
        world.clock.advance(EXPIRED_S)
        # A write that had its turn and was not put is true: else there were three states, before, between and after.
        Transitions(world.storage, world.open().config, world.clock).finish_last_turn()
        recovery = _From(case, world, first)
        for at in recovery.numbers[first % step :: step]:
            COUNTS["second"] += 1
            again = recovery.begin()
            told = attempt(recovery, again, [Fault(at, "crash_after")])
            try:
                examine(recovery, again, told)
            except (AssertionError, tl.TidelakeError) as error:
                raise AssertionError(f"{recovery}, second crash at {at}: {error}") from error


class _From(RollbackCase):
    """The recovery from a given state."""

    def __init__(self, case: Case, world: World, first: int) -> None:
        super().__init__(case.shape, case.operation)
        object.__setattr__(self, "world", world)
        object.__setattr__(self, "first", first)

    def __str__(self) -> str:
        return f"{super().__str__()}-after-{self.first}"

    def begin(self) -> World:
        return self.world.copy()

    __hash__ = object.__hash__


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_crash_of_create_table_leaves_a_table_or_nothing(shape: Shape, mode: str) -> None:
    """A creation that went wrong at any operation left the whole table or none, and the next one says which."""
    counted = FaultyStorage(MemoryStorage())
    shape.create(counted, ManualClock())
    for at in range(1, counted.operations + 1):
        COUNTS[mode] += 1
        clock = ManualClock()
        storage = MemoryStorage(clock=clock)
        told = "ok"
        try:
            shape.create(FaultyStorage(storage, faults(mode, at)), clock)
        except SimulatedCrash:
            told = "dead"
        except tl.TidelakeError:
            told = "error"
        try:
            tl.open_table("memory", storage=storage)
        except NotATableError:
            assert told != "ok"
            shape.create(storage, clock)
        else:
            with pytest.raises(tl.InvalidError, match="is a table already"):
                shape.create(storage, clock)
        tl.open_table("memory", storage=storage, clock=clock).upsert(rows((1, "a", 1)))
        assert state(storage) == {1: ("a", 1)}


class TornDisk:
    """A local disk on which the process dies with half of the bytes of one file written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.at = at
        self.puts = 0
        self.is_dead = False
        self.torn_file = ""
        write, unlink = local.write_all, local.unlink
        monkeypatch.setattr(local, "unlink", lambda target: False if self.is_dead else unlink(target))

        def torn(file: int, data: bytes) -> None:
            self.puts += 1
            if self.puts == self.at:
                write(file, data[: len(data) // 2])
                self.is_dead = True
                self.torn_file = os.readlink(f"/proc/self/fd/{file}")
                raise SimulatedCrash(f"within put {self.puts}")
            write(file, data)

        monkeypatch.setattr(local, "write_all", torn)


def age(root: Path) -> None:
    """Let hours pass for heartbeats, instants and temporary files."""
    for folder in (".hoodie/.heartbeat", ".hoodie/timeline", ".hoodie/.tidelake/tmp"):
        for path in (root / folder).glob("*"):
            old_s = path.stat().st_mtime - 2 * 60 * 60
            os.utime(path, (old_s, old_s))


@pytest.mark.parametrize("case", DISK, ids=str)
def test_torn_file_at_every_put_on_a_local_disk_recovers(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a local disk a put tears in its temporary file, which nobody lists, and which a later writer sweeps.

    A data file tears under its own name: nothing shows it, and the rollback of its write removes it.
    """
    made = LocalStorage(tmp_path / "made")
    table = case.shape.create(made, None)
    table.upsert(rows((1, "a", 1), (2, "b", 1), (3, "c", 1)))
    table.upsert(rows((4, "d", 1), (1, "a", 2)))
    took_place = set()
    torn_kinds = set()
    for at in itertools.count(1):
        root = tmp_path / str(at)
        shutil.copytree(tmp_path / "made", root)
        storage = LocalStorage(root)
        with pytest.MonkeyPatch.context() as patch:
            disk = TornDisk(patch, at)
            try:
                case.run(tl.open_table(str(root), storage=storage))
            except SimulatedCrash:
                assert Path(disk.torn_file).exists()
                torn_kinds.add(Path(disk.torn_file).parent.name == "tmp")
        if not disk.is_dead:
            break
        COUNTS["torn temporary file"] += 1
        crashed = state(storage)
        assert crashed in (case.before, case.after), at
        age(root)
        tl.open_table(str(root), storage=storage).upsert(rows((100, "next", 1)))
        recovered = state(storage)
        assert recovered.pop(100) == ("next", 1)
        assert recovered in (case.before, case.after), at
        assert recovered == case.after or crashed == case.before, at
        check_files(storage)
        assert not Path(disk.torn_file).exists(), "the torn file was not removed"
        assert not list((root / ".hoodie/.tidelake/tmp").iterdir()), "a temporary file was not swept"
        took_place.add(recovered == case.after)
    assert torn_kinds == ({True} if case.operation == "delete_partitions" else {True, False}), "it writes no data file"
    assert took_place == {True, False}
