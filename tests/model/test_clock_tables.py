"""Histories of tables with several event times: any batches, any compactions, every kind of table."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.clock_cases import ClockCase, clock_cases, random_case
from model.clock_world import KINDS, ClockWorld
from model.deep import IS_DEEP, examples


@pytest.mark.parametrize("kind", KINDS)
def test_tables_with_several_event_times_show_what_the_rules_give(kind: str) -> None:
    """After every batch and every compaction the rows, and the counts of what was rejected, are the oracle's."""

    @given(clock_cases(most=16), st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=5))
    @examples(20, 600)
    def runs(case: ClockCase, steps: list[tuple[int, bool]]) -> None:
        world = ClockWorld(case, kind)
        start = 0
        for size, compacts in steps:
            batch = case.changes[start : start + size]
            start += size
            if batch:
                world.write(batch)
                world.check()
            if compacts and batch:
                world.compact()
                world.check()

    runs()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(400 if IS_DEEP else 8))
def test_long_histories_of_few_keys(kind: str, seed: int) -> None:
    """Deletes, ties and late records are frequent: what a delete ended stays so across compactions."""
    case = random_case(seed)
    random = Random(seed)
    world = ClockWorld(case, kind)
    start = 0
    while start < len(case.changes):
        size = random.choice([1, 1, 2, 6])
        world.write(case.changes[start : start + size])
        world.check()
        start += size
        if random.random() < 0.4:
            world.compact()
            world.check()
