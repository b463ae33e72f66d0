"""A task that runs twice: the first attempt was taken for lost, is killed late, and leaves half of its files.

The write token in a file's name tells attempts apart; files that no statistic names are removed before the commit.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

import tidelake as tl
from crash.crash_points import OPERATIONS, SHAPES, Shape, check_files, started, state
from tidelake.storage import FaultyStorage, SimulatedCrash
from tidelake.write.files import open_markers, put_markers
from tidelake.write.partition import PartitionTask, plan_partition

WRITES = ("upsert", "insert", "insert_overwrite", "delete_keys")


class Dying(FaultyStorage):
    """The storage of a process that dies within its first put of a data file."""

    def put(self, path: str, data: bytes | memoryview) -> str:
        self.inner.put(path, bytes(data)[: len(data) // 2])
        raise SimulatedCrash(path)

    def ensure(self, path: str, data: bytes) -> None:
        self.inner.ensure(path, data)


def twice(token_of: Callable[[int], str]) -> Callable[..., Any]:
    """A run of tasks in which each has two attempts: the second is done first, and reported."""

    def run(
        storage: Any,
        context: Any,
        tasks: list[PartitionTask],
        parts: list[Callable[[], Any]],
        outcome: Any,
        missed: Any,
        **_: Any,
    ) -> tuple[Any, ...]:
        open_markers(storage, context.instant)
        stats = []
        for number, (task, part) in enumerate(zip(tasks, parts, strict=True)):
            attempts = [replace(task, token=f"{number}-0-{token_of(attempt)}") for attempt in range(2)]
            late = plan_partition(storage, context, attempts[0], part(), outcome, missed)
            done = plan_partition(storage, context, attempts[1], part(), outcome, missed)
            for attempt, planned in enumerate((late, done)):
                put_markers(storage, context.instant, 2 * number + attempt, [(f.path, f.kind) for f in planned])
            stats += [file.write(storage) for file in done]
            for file in late:
                with suppress(SimulatedCrash):
                    file.write(Dying(storage))
        return tuple(stats)

    return run


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("write", WRITES)
def test_task_attempt_killed_late_leaves_no_trace(monkeypatch: pytest.MonkeyPatch, shape: Shape, write: str) -> None:
    """What the attempt that counts wrote is there, whole, and nothing of the other one."""
    plain, world = started(shape).copy(), started(shape).copy()
    OPERATIONS[write](plain.open())
    monkeypatch.setattr("tidelake.write.job._run", twice(str))
    OPERATIONS[write](world.open())
    assert state(world.storage) == state(plain.storage)
    check_files(world.storage)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_task_attempts_without_a_write_token_are_found_out(monkeypatch: pytest.MonkeyPatch, shape: Shape) -> None:
    """Negative control: if both attempts use one name, the late one spoils what was committed, and it is seen."""
    world = started(shape).copy()
    monkeypatch.setattr("tidelake.write.job._run", twice(lambda _: "0"))
    OPERATIONS["upsert"](world.open())
    with pytest.raises((tl.TidelakeError, AssertionError)):
        check_files(world.storage)
    with pytest.raises(tl.TidelakeError):
        state(world.storage)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_task_attempt_that_writes_after_the_commit_and_dies_is_cleared_up_by_the_next_writer(
    monkeypatch: pytest.MonkeyPatch, shape: Shape
) -> None:
    """The double's files carry a completed instant, so they would be read: its markers, put before them, tell."""
    plain, world = started(shape).copy(), started(shape).copy()
    late: list[Callable[[], None]] = []

    def run(
        storage: Any,
        context: Any,
        tasks: list[PartitionTask],
        parts: list[Callable[[], Any]],
        outcome: Any,
        missed: Any,
        **_: Any,
    ) -> tuple[Any, ...]:
        open_markers(storage, context.instant)
        done = []
        for number, (task, part) in enumerate(zip(tasks, parts, strict=True)):
            double = plan_partition(storage, context, replace(task, token=f"{number}-0-9"), part(), outcome, missed)
            done += plan_partition(storage, context, task, part(), outcome, missed)

            def write_late(number: int = number, files: Any = double) -> None:
                put_markers(storage, context.instant, 100 + number, [(f.path, f.kind) for f in files])
                for file in files:
                    file.write(storage)

            late.append(write_late)
        put_markers(storage, context.instant, 0, [(f.path, f.kind) for f in done])
        return tuple(file.write(storage) for file in done)

    OPERATIONS["upsert"](plain.open())
    monkeypatch.setattr("tidelake.write.job._run", run)
    OPERATIONS["upsert"](world.open())
    monkeypatch.undo()
    for write_late in late:
        write_late()
    for table in (plain.open(), world.open()):
        OPERATIONS["delete_keys"](table)
    assert state(world.storage) == state(plain.storage)
    check_files(world.storage)
