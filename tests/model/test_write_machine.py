"""Random sequences of writes against the oracle of ``write_oracle``: all operations, a second writer, crashes, clocks.

Each run has a seed, printed when it fails: ``TIDELAKE_SEED=<shape>/<seed>`` runs that one alone, ``TIDELAKE_SEED=<seed>``
starts every shape there.
"""

from __future__ import annotations

import os
import random

import pytest

from model.deep import IS_DEEP
from model.one_thread import in_one_thread
from model.write_machine import BUCKET_SHAPES, SHAPES, Machine, Shape

STEPS = 20
ALL = [*SHAPES, *BUCKET_SHAPES]
RUNS = 1_300 if IS_DEEP else 6
"""Of each of the 39 shapes: 234 runs, or a million steps."""
REGRESSIONS = ("mor-event1-1part-avro/742449906",)
"""Seeds that failed once, each with its shape: ``shape/seed``."""


def run(shape: Shape, seed: int, steps: int = STEPS) -> None:
    machine = Machine(shape, random.Random(f"{shape}/{seed}"))
    try:
        for _ in range(steps):
            machine.step()
    except BaseException:
        print(f"TIDELAKE_SEED={shape}/{seed}", *machine.told, sep="\n  ")
        raise


def seeds() -> list[tuple[Shape, int]]:
    """What to run: all shapes with fresh seeds, or the one that TIDELAKE_SEED names."""
    named = os.environ.get("TIDELAKE_SEED")
    if named and "/" in named:
        kind, _, seed = named.partition("/")
        return [(shape, int(seed)) for shape in ALL if str(shape) == kind]
    start = int(named) if named else random.SystemRandom().randrange(10**9)
    return [(shape, start) for shape in ALL]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations get their numbers in one order, so that a seed gives the same run again."""
    in_one_thread(monkeypatch)


@pytest.mark.parametrize(("shape", "start"), seeds(), ids=lambda value: str(value) if isinstance(value, Shape) else "")
def test_write_machine_random_steps_equals_the_oracle(shape: Shape, start: int) -> None:
    """Whatever was written, by whom, over which crashes and clock jumps, the table holds what the dict holds."""
    for seed in range(start, start + (1 if "/" in os.environ.get("TIDELAKE_SEED", "") else RUNS)):
        run(shape, seed)


def test_write_machine_seeds_that_failed_once_equal_the_oracle() -> None:
    """What failed once stays right."""
    for case in REGRESSIONS:
        kind, _, seed = case.partition("/")
        run(next(shape for shape in ALL if str(shape) == kind), int(seed))
