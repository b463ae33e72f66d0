"""Generated tables: what a scan shows is what format/07 says, at every point in time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import tidelake as tl
from model.deep import examples
from model.histories import SHOWN, History, Point, histories, store, visible_rows
from model.kinds import multiset
from model.tables import time_of


@given(histories())
@examples()
def test_scan_of_a_generated_table_shows_what_is_visible(history: History) -> None:
    """Uncommitted files, pending compactions, overwrites and late completions never add or hide a row."""
    table = tl.open_table("memory", storage=store(history))
    shown = table.scan(columns=list(SHOWN)).to_arrow().to_pylist()
    assert multiset(shown) == multiset(visible_rows(history))


@given(histories(), st.data())
@examples()
def test_scan_as_of_a_requested_time_shows_what_was_requested_by_then(history: History, data: st.DataObject) -> None:
    """Time travel by requested time sees completed instants requested by then, and no other."""
    point = Point(as_of=data.draw(st.integers(0, history.now + 1)))
    table = tl.open_table("memory", storage=store(history))
    shown = table.scan(columns=list(SHOWN), as_of=time_of(point.as_of)).to_arrow().to_pylist()
    assert multiset(shown) == multiset(visible_rows(history, point))


@given(histories(), st.data())
@examples()
def test_scan_as_of_a_completion_time_shows_what_a_reader_saw_then(history: History, data: st.DataObject) -> None:
    """Time travel by completion time gives the rows that a scan at that moment gave."""
    moment = data.draw(st.integers(0, history.now + 1))
    table = tl.open_table("memory", storage=store(history))
    shown = table.scan(columns=list(SHOWN), as_of_completion=time_of(moment)).to_arrow().to_pylist()
    assert multiset(shown) == multiset(visible_rows(history, Point(as_of_completion=moment)))


@given(histories())
@examples()
def test_scan_read_optimised_shows_the_latest_committed_base_files(history: History) -> None:
    """Base files alone: a group under pending compaction still shows its old base file."""
    table = tl.open_table("memory", storage=store(history))
    shown = table.scan(columns=list(SHOWN), mode="read_optimized").to_arrow().to_pylist()
    assert multiset(shown) == multiset(visible_rows(history, base_only=True))
