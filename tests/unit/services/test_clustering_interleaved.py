"""A clustering and something else, interleaved storage operation by storage operation: as one after the other, or told."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

import tidelake as tl
from crash.crash_points import SHAPES, Rows, Shape, check_files, state
from model.deep import IS_DEEP
from small_rows import rows
from tidelake.storage import MemoryStorage
from tidelake.testing import ManualClock
from unit.write.interleave import Scheduler, make_deterministic, outcome

SAMPLES = 3_000 if IS_DEEP else 7
EXPIRED_S = 600.0
Act = Callable[[tl.Table], object]
OTHERS: dict[str, Act] = {
    "upsert": lambda t: t.upsert(rows((1, "x", 9), (9, "x", 9))),
    "delete": lambda t: t.delete([1, 2]),
    "insert": lambda t: t.insert(rows((11, "x", 9))),
    "insert_overwrite": lambda t: t.insert_overwrite(rows((3, "x", 9))),
    "delete_partitions": lambda t: t.delete_partitions(["day=d1"]),
    "cluster": lambda t: t.cluster(sort_by="name"),
    "withdraw": lambda t: [t.withdraw_clustering(run.instant) for run in t.clusterings() if run.state != "COMPLETED"],
}


@pytest.fixture(autouse=True)
def deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    make_deterministic(monkeypatch)


def start(shape: Shape) -> tuple[MemoryStorage, ManualClock]:
    clock = ManualClock(seed=1)
    storage = MemoryStorage(clock=clock)
    table = shape.create(storage, clock)
    table.bulk_insert(rows((1, "one", 1), (2, "two", 1), (3, "three", 1)))
    table.upsert(rows((1, "one", 2), (5, "five", 1)))
    return storage, clock


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", OTHERS)
def test_clustering_interleaved_with_another_loses_nothing(shape: Shape, name: str) -> None:
    """Rows are those before, or those after the other if it was told ok; the next clustering leaves nothing pending."""
    first = int(os.environ.get("TIDELAKE_SEED") or random.SystemRandom().randrange(10**9))
    storage, clock = start(shape)
    before = state(storage)
    OTHERS[name](tl.open_table("memory", storage=storage, clock=clock))
    after = state(storage)
    found = [damage(shape, name, seed, before, after) for seed in range(first, first + SAMPLES)]
    assert not [each for each in found if each is not None]


def damage(shape: Shape, name: str, seed: int, before: Rows, after: Rows) -> str | None:
    """What is wrong after one interleaving; None if nothing."""
    storage, clock = start(shape)

    def job(act: Act) -> Callable[[object], object]:
        return lambda faulty: act(tl.open_table("memory", storage=faulty, clock=clock))  # type: ignore[arg-type]

    switch = random.Random(seed).choice([0.05, 0.1, 0.3, 0.5])
    jobs = [job(lambda t: t.cluster(sort_by="name")), job(OTHERS[name])]
    results = Scheduler(seed, switch).run(jobs, storage)  # type: ignore[arg-type]
    told = [outcome(result) for result in results]
    expected = after if told[1] == "ok" else before
    if state(storage) != expected:
        return f"seed {seed}: {told} and {state(storage)}, not {expected}"
    clock.advance(EXPIRED_S)
    table = tl.open_table("memory", storage=storage, clock=clock)
    table.cluster(sort_by="name")
    if state(storage) != expected or table.timeline.pending:
        return f"seed {seed}: {told}, after one more {state(storage)}, pending {table.timeline.pending}"
    table.upsert(rows((2, "last", 99)))
    check_files(storage, may_leave_condemned=True)
    return None


def test_without_the_checks_of_both_sides_an_update_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: with the writer's and the clustering's checks taken out, some interleaving shows damage."""
    monkeypatch.setattr("tidelake.write.conflicts._check_clustering", lambda *_: None)
    monkeypatch.setattr("tidelake.write.conflicts._check_completed", lambda *_: None)
    monkeypatch.setattr("tidelake.services.clustering.execute._check", lambda *_: None)
    shape = SHAPES[0]
    storage, clock = start(shape)
    before = state(storage)
    OTHERS["upsert"](tl.open_table("memory", storage=storage, clock=clock))
    after = state(storage)
    assert any(damage(shape, "upsert", seed, before, after) is not None for seed in range(200))
