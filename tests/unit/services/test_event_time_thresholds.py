"""The threshold of a compaction by event time: each policy, from the instant, the options and the timeline alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from tidelake.errors import InvalidError, OptionError
from tidelake.format.event_marks import WATERMARK_PREFIX
from tidelake.services.compaction.thresholds import EventTimeBasedCompactionStrategy, EventTimeConfig, future_count
from unit.services.event_tables import EventWorld, instant, ms
from unit.services.hand_made import SYNC

PREFIX = "hoodie.compaction.event.time."
NOW = instant("10:30:15.250")
MOMENT = datetime(2026, 1, 1, tzinfo=timezone.utc)


def threshold(world: EventWorld, now: str = NOW, **options: str) -> str:
    given = {PREFIX + key.replace("_", "."): value for key, value in options.items()}
    source = world.source
    config = EventTimeConfig(source.config, given, MOMENT, source)
    return EventTimeBasedCompactionStrategy().calc_event_time_threshold(now, config)


def declared(world: EventWorld, requested: str, **marks: str) -> None:
    """Let a commit declare watermarks."""
    source = world.source
    done = source.timeline.by_time[requested]
    commit = source.reader.commit(done)
    said = {WATERMARK_PREFIX + name: str(ms(time)) for name, time in marks.items()}
    changed = replace(commit, extra_metadata={**(commit.extra_metadata or {}), **said})
    world.storage.put(f"{source.config.timeline_dir}/{done.file_name}", changed.encode(SYNC))


@pytest.fixture
def world() -> EventWorld:
    made = EventWorld().at("09:00")
    made.insert((1, "08:00"), (2, "08:30"))
    return made


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2026-01-01T10:00:00Z", "10:00"),
        ("2026-01-01 10:00", "10:00"),
        ("2026-01-01T12:00:00+02:00", "10:00"),
        ("2026-01-02", "02T00:00"),
        ("20260101100000", "10:00"),
        ("20260101", "00:00"),
    ],
)
def test_fixed(world: EventWorld, given: str, expected: str) -> None:
    assert threshold(world, threshold=given) == instant(expected)


def test_fixed_in_a_named_zone(world: EventWorld) -> None:
    """A time without an offset stands in the zone; digits are an instant time, and so stand in the timeline's."""
    assert threshold(world, threshold="2026-01-01 12:00", zone="Europe/Helsinki") == instant("10:00")
    assert threshold(world, threshold="20260101120000", zone="Europe/Helsinki") == instant("12:00")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"floor": "minute"}, "10:30"),
        ({"floor": "minute", "delay": "90s"}, "10:28"),
        ({"floor": "hour"}, "10:00"),
        ({"floor": "hour", "delay": "31m"}, "09:00"),
        ({"floor": "day"}, "00:00"),
        ({"floor": "day", "zone": "Asia/Kolkata", "delay": "5h"}, None),
        ({"floor": "hour", "zone": "Asia/Kolkata"}, "10:30"),
    ],
)
def test_floor(world: EventWorld, options: dict[str, str], expected: str | None) -> None:
    """Days and hours begin where the zone says: an hour of India's begins at half past one of ours."""
    found = threshold(world, policy="floor", **options)
    assert found == ("20251231183000000" if expected is None else instant(expected))


def test_floor_on_a_day_of_25_hours(world: EventWorld) -> None:
    """Midnight of the day on which clocks are put back is that of summer time."""
    found = threshold(world, "20261025120000000", policy="floor", floor="day", zone="Europe/Berlin")
    assert found == "20261024220000000"


def test_lag_goes_by_the_latest_event_that_is_not_in_the_future(world: EventWorld) -> None:
    assert threshold(world, policy="lag", lag="10m") == instant("08:20")
    world.at("10:00").upsert((1, "09:50"))
    assert threshold(world, policy="lag", lag="10m") == instant("09:40")
    world.upsert((2, "11:30:16"))
    assert threshold(world, policy="lag", lag="10m") == instant("09:40")
    config = EventTimeConfig(world.source.config, {}, MOMENT, world.source)
    assert future_count(NOW, config) == 1
    assert threshold(world, instant("10:30:16"), policy="lag", lag="10m") == instant("11:20:16")


def test_lag_of_a_table_that_has_seen_nothing_is_no_threshold() -> None:
    empty = EventWorld(ordering_fields="id").at("09:00")
    empty.insert((1, None))
    assert threshold(empty, policy="lag") == ""
    empty.upsert((1, None))
    assert "no event time" in empty.dry(None, {PREFIX + "policy": "LAG"}).reason


def test_watermark_is_the_least_of_the_inputs_that_are_not_idle(world: EventWorld) -> None:
    a = world.at("09:30").upsert((1, "09:20")).requested_time
    b = world.at("10:00").upsert((2, "09:40")).requested_time
    declared(world, a, slow="09:00")
    declared(world, b, fast="09:45")
    assert threshold(world, policy="watermark", lateness="5m", idle_timeout="2h") == instant("08:55")
    assert threshold(world, policy="watermark", lateness="5m", idle_timeout="45m") == instant("09:40")
    # All idle: none has said more than it has.
    assert threshold(world, policy="watermark", idle_timeout="1s") == instant("09:00")
    # One that lies in the future does not count, and an input's own never goes back.
    c = world.at("10:10").upsert((1, "10:05")).requested_time
    declared(world, c, wild="12:00", fast="09:30")
    assert threshold(world, policy="watermark", idle_timeout="45m") == instant("09:45")


def test_watermark_without_declarations_follows_the_events(world: EventWorld) -> None:
    assert threshold(world, policy="watermark", lateness="10m") == instant("08:20")


def test_a_retry_finds_the_same(world: EventWorld) -> None:
    found = {threshold(world, policy="floor", floor="minute") for _ in range(3)}
    assert len(found) == 1


def test_wrong_options_are_refused(world: EventWorld) -> None:
    for key, value in {"policy": "guess", "floor": "week", "delay": "soon", "zone": "Mars/Base"}.items():
        with pytest.raises(OptionError):
            threshold(world, **{"policy": "floor", key: value})
    with pytest.raises(InvalidError, match="instant time"):
        threshold(world, threshold="2026")
