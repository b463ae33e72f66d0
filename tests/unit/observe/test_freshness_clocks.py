"""Completion and freshness of a table with several event times: the least of all counts."""

from __future__ import annotations

import pytest

from clock_tables import clock_options, smiths, upsert
from exact_groups_world import Entry, GroupsWorld, entries_table
from tidelake.query import TableSource


def completions(world: GroupsWorld) -> dict[str, tuple[int | None, int | None]]:
    report = world.open().freshness()
    by_field = {clock.field: (clock.rt.completion_ms, clock.ro.completion_ms) for clock in report.clocks}
    return {**by_field, "all": (report.rt.completion_ms, report.ro.completion_ms)}


@pytest.mark.parametrize("exact", ["true", "false"])
def test_freshness_clocks_stream_that_stands_still_holds_completion_back(exact: str) -> None:
    """One stream brings a, another b; that a goes on says nothing of b."""
    world = GroupsWorld(options={"hoodie.compaction.event.time.exact": exact})
    world.write(Entry(2, "1", 10, None))
    assert completions(world) == {"a_ts": (10_000, None), "b_ts": (None, None), "all": (None, None)}
    assert any("'b_ts'" in reason for reason in world.open().freshness().reasons)
    world.write(Entry(2, "2", None, 4))
    world.write(Entry(2, "3", 30, None))
    found = completions(world)
    assert (found["a_ts"][0], found["b_ts"][0], found["all"][0]) == (30_000, 4_000, 4_000)
    report = world.open().freshness()
    assert [clock.rt.freshness_ms for clock in report.clocks] == [30_000, 4_000]
    assert report.rt.freshness_ms == 4_000
    stored = TableSource.load(world.files)
    extra = stored.reader.commit(stored.timeline.completed_writes[-1]).extra_metadata or {}
    assert extra["tidelake.rt.completion"] == "4000"


def test_freshness_clocks_read_optimised_view_is_never_ahead_of_a_clock() -> None:
    world = GroupsWorld()
    world.write(Entry(2, "1", 10, 4))
    world.write(Entry(2, "2", 30, None))
    assert world.schedule_and_run(15) is not None
    assert world.rows("read_optimized") == {2: (("a1", 10), ("b1", 4))}
    found = completions(world)
    assert found == {"a_ts": (30_000, 29_999), "b_ts": (4_000, 4_000), "all": (4_000, 4_000)}
    world.write(Entry(2, "3", 2, None))
    assert completions(world) == {"a_ts": (2_000, 1_999), "b_ts": (4_000, 1_999), "all": (2_000, 1_999)}


def test_freshness_clocks_write_that_does_not_tell_them_apart_raises_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As another engine, which knows of one: it may have brought either."""
    world = GroupsWorld()
    world.write(Entry(2, "1", 10, 4))
    monkeypatch.setattr("tidelake.write.job.encode_incoming", lambda times: {})
    world.write(Entry(2, "2", 30, None))
    assert completions(world)["all"][0] == 4_000
    world.write(Entry(2, "3", None, 2))
    found = completions(world)
    assert (found["a_ts"][0], found["b_ts"][0]) == (2_000, 2_000)


def test_freshness_clocks_deletes_count_with_their_own_times() -> None:
    world = GroupsWorld()
    world.table.upsert(entries_table([Entry(2, "1", 10, 4), Entry(4, "2", 12, 6)]))
    world.clock.advance(1)
    world.table.delete([4])
    assert completions(world)["all"][0] == 6_000


def test_freshness_clocks_of_copy_on_write_are_one_view() -> None:
    """Base files hold all that came: each clock's two views are the same, whatever the other clocks are."""
    options = {**clock_options("per_group"), "hoodie.payload.event.time.unit": "s"}
    table = smiths(None, table_type="COPY_ON_WRITE", event_time_field="a_ts", options=options)
    upsert(table, ("Mike", 10, None, None))
    agent, plan = table.freshness().clocks
    assert agent.ro == agent.rt
    assert (agent.ro.completion_ms, agent.ro.freshness_ms) == (10_000, 10_000)
    assert plan.ro.completion_ms is None
