"""The read-optimised view as of an event time: exactly the data before it, or a refusal that says why."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

import tidelake as tl
from exact_world import ExactWorld, create_exact, events
from small_rows import rows
from tidelake.errors import InvalidError, NotExactError
from tidelake.storage import MemoryStorage
from tidelake.timeline.times import as_epoch_ms


def at(table: tl.Table, time_s: int) -> dict[int, str]:
    found = table.scan(columns=["id", "name"], mode="read_optimized", as_of_event_time=time_s * 1000).to_arrow()
    return {row["id"]: row["name"] for row in found.to_pylist()}


def test_exact_view_answers_between_the_base_files_and_the_logs() -> None:
    """Base files up to 3, logs from 7 on: exact as of 4 to 7, and no other time."""
    world = ExactWorld()
    world.upsert((2, "one", 1), (2, "nine", 9), (4, "three", 3), (3, "seven", 7))
    world.compact(5)
    table = world.open()
    for time in (4, 5, 6, 7):
        assert at(table, time) == {2: "one", 4: "three"}
    with pytest.raises(NotExactError, match="1 base file holds events at or after it") as early:
        at(table, 3)
    assert "up to 1970-01-01T00:00:03.000Z" in early.value.message
    assert "exact as of times after 1970-01-01T00:00:03.000Z, up to 1970-01-01T00:00:07.000Z" in str(early.value)
    with pytest.raises(NotExactError, match="1 log holds events before it") as late:
        at(table, 8)
    assert "from 1970-01-01T00:00:07.000Z" in late.value.message
    assert late.value.file is not None
    assert ".log." in late.value.file


def test_exact_view_of_late_data_is_refused_until_it_is_compacted() -> None:
    world = ExactWorld()
    world.upsert((2, "one", 1), (2, "nine", 9))
    world.compact(5)
    world.upsert((4, "late", 2))
    with pytest.raises(NotExactError, match="1 log"):
        at(world.open(), 5)
    world.compact(5)
    assert at(world.open(), 5) == {2: "one", 4: "late"}


def test_exact_view_of_a_late_delete_is_refused_until_it_is_compacted() -> None:
    """A delete before T beside a row after it, in one log: the row's time does not hide the delete's."""
    world = ExactWorld()
    world.upsert((2, "one", 1), (4, "two", 2))
    world.compact(5)
    assert at(world.open(), 5) == {2: "one", 4: "two"}
    world.upsert((2, "", 3, True), (4, "eight", 8))
    with pytest.raises(NotExactError, match="1970-01-01T00:00:03"):
        at(world.open(), 5)
    world.compact(5)
    assert at(world.open(), 5) == {4: "two"}


def test_exact_view_goes_by_files_and_not_by_the_plan() -> None:
    """An exact plan that another engine carried out as a plain one leaves base files that are not exact."""
    world = ExactWorld()
    world.upsert((2, "one", 1), (2, "nine", 9))
    world.open().compact(strategy="unbounded")
    with pytest.raises(NotExactError, match="base file"):
        at(world.open(), 5)
    assert at(world.open(), 10) == {2: "nine"}


def test_exact_view_looks_only_at_partitions_that_the_filter_leaves() -> None:
    world = ExactWorld()
    world.upsert((2, "one", 1), (3, "x", 1))
    world.compact(5)
    world.upsert((3, "late", 2))
    scan = world.open().scan(filter="day = 'd0'", mode="read_optimized", as_of_event_time=5000)
    assert [row["id"] for row in scan.to_arrow().to_pylist()] == [2]


def test_exact_view_needs_the_read_optimised_mode_and_an_event_time_field() -> None:
    table = create_exact(MemoryStorage())
    with pytest.raises(InvalidError, match="read-optimised"):
        table.scan(as_of_event_time=5)
    plain = tl.create_table("memory", rows((1, "a", 1)).schema, name="plain", storage=MemoryStorage())
    with pytest.raises(InvalidError, match="no event-time field"):
        plain.scan(mode="read_optimized", as_of_event_time=5).to_arrow()


def test_exact_view_takes_times_in_every_form() -> None:
    world = ExactWorld()
    world.upsert((2, "one", 1))
    world.compact(5)
    table = world.open()
    for time in ("1970-01-01T00:00:05Z", "1970-01-01 00:00:05", "19700101000005", datetime(1970, 1, 1, 0, 0, 5)):
        assert table.scan(mode="read_optimized", as_of_event_time=time).count() == 1
    with pytest.raises(NotExactError):
        table.scan(mode="read_optimized", as_of_event_time="1970-01-01T00:00:01Z").count()


def test_event_time_without_a_zone_is_refused_where_the_table_has_none() -> None:
    aware = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
    assert (
        as_epoch_ms(aware, None) == as_epoch_ms("2026-01-31T13:00:00+01:00", None) == as_epoch_ms(aware, timezone.utc)
    )
    for time in ("2026-01-31T12:00:00", "20260131", datetime(2026, 1, 31)):
        with pytest.raises(InvalidError, match="known zone"):
            as_epoch_ms(time, None)
    assert as_epoch_ms(12, None) == 12


def test_exact_view_of_a_copy_on_write_table_is_what_its_files_say() -> None:
    table = tl.create_table(
        "memory",
        events((2, "a", 1)).schema,
        name="cow",
        table_type="COPY_ON_WRITE",
        event_time_field="ts",
        options={"hoodie.payload.event.time.unit": "s"},
        storage=MemoryStorage(),
    )
    table.upsert(events((2, "a", 1), (4, "b", 3)))
    assert at(table, 4) == {2: "a", 4: "b"}
    with pytest.raises(NotExactError):
        at(table, 3)
