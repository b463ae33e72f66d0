"""Random sequences of writes against the oracle of ``write_oracle``: all operations, a second writer, crashes, clocks.

Each run has a seed, printed when it fails: ``TIDELAKE_SEED=<shape>/<seed>`` runs that one alone, ``TIDELAKE_SEED=<seed>``
starts every shape there. The deep size is a million steps, in runs of ``length_of`` their seeds; kinds of table that cost
less get more of them.
"""

from __future__ import annotations

import os
import random

import pytest

from model.one_thread import in_one_thread
from model.turns import Turns
from model.write_machine import BUCKET_SHAPES, SHAPES, Machine, Shape

STEPS = 20
ALL = [*SHAPES, *BUCKET_SHAPES]
RUNS = 6
"""Of each of the 39 shapes: 234 runs."""
DEEP_STEPS = 1_000_000
SHORT, LONG, LONG_ONES = 10, 40, 50
"""A step costs the more the longer the run is; one run in fifty is a long one."""
REGRESSIONS = (
    "mor-event1-1part-avro/742449906",
    "mor-commit-0part-parquet-3buckets/375735251",
    "mor-event2-1part-parquet/370033093",
    "cow-commit-2part-parquet/393886086",
    "mor-event2-2part-avro/30512532",
    "mor-event1-1part-parquet-3buckets/673945503",
    "mor-event1-0part-parquet-3buckets/410651488",
)
"""Seeds that failed once, each with its shape: ``shape/seed``."""


def length_of(seed: int) -> int:
    """How many steps a run of the deep size has."""
    return LONG if seed % LONG_ONES == 0 else SHORT


def run(shape: Shape, seed: int, steps: int = STEPS) -> int:
    """Take so many steps, and say so."""
    machine = Machine(shape, random.Random(f"{shape}/{seed}"))
    try:
        for _ in range(steps):
            machine.step()
    except BaseException:
        print(f"TIDELAKE_SEED={shape}/{seed}", *machine.told, sep="\n  ")
        raise
    return steps


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
    if "/" in os.environ.get("TIDELAKE_SEED", ""):
        run(shape, start, max(STEPS, length_of(start)))
        return
    for seed in range(start, start + RUNS):
        run(shape, seed)


@pytest.mark.deep
def test_write_machine_a_million_random_steps_equal_the_oracle() -> None:
    turns, steps = Turns(ALL), 0
    seed = int(os.environ.get("TIDELAKE_SEED") or random.SystemRandom().randrange(10**9))
    while steps < DEEP_STEPS:
        with turns.turn() as shape:
            steps += run(shape, seed, length_of(seed))
        seed += 1


def test_write_machine_seeds_that_failed_once_equal_the_oracle() -> None:
    """What failed once stays right."""
    for case in REGRESSIONS:
        kind, _, seed = case.partition("/")
        run(next(shape for shape in ALL if str(shape) == kind), int(seed))
