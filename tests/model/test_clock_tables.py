"""Histories of tables with several event times: any batches, any compactions, every kind of table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.clock_cases import ClockCase, clock_cases
from model.clock_world import KINDS, ClockWorld
from model.deep import examples


@pytest.mark.parametrize("kind", KINDS)
def test_tables_with_several_event_times_show_what_the_rules_give(kind: str) -> None:
    """After every batch and every compaction the rows, and the counts of what was rejected, are the oracle's."""

    @given(clock_cases(most=16), st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=5))
    @examples(40, 600)
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
