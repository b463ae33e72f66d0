"""CALL show_freshness."""

from __future__ import annotations

from tidelake._clock import utc_from_ms
from tidelake.sql.call import parse_call
from tidelake.sql.procedures import run_call
from unit.observe.event_tables import EventWorld, at


def test_call_show_freshness_has_a_row_for_each_view() -> None:
    """The table, then its partitions; high-water marks are the table's."""
    world = EventWorld()
    world.upsert((0, "07:00"), (1, "07:00"))
    world.upsert((1, "08:00"))
    parsed = parse_call("CALL show_freshness(table => 't')")
    assert parsed is not None
    rows = run_call(parsed, lambda table, path: world.open()).to_pylist()
    assert [(row["partition"], row["view"]) for row in rows] == [
        ("", "rt"),
        ("", "ro"),
        ("day=d0", "rt"),
        ("day=d0", "ro"),
        ("day=d1", "rt"),
        ("day=d1", "ro"),
    ]
    ro = rows[1]
    assert (ro["completion"], ro["freshness"]) == (utc_from_ms(at("08:00") - 1), utc_from_ms(at("07:00")))
    assert rows[3]["completion"] == utc_from_ms(at("07:00"))
    assert rows[3]["completion_hwm"] is None
