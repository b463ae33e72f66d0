"""Instant times: formats, zones, and a generator that only ever goes forward."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.deep import examples
from tidelake.errors import CorruptError, InvalidError, TidelakeError, UnavailableError
from tidelake.testing import ManualClock
from tidelake.timeline import InstantGenerator, as_instant, format_instant, parse_instant, timeline_zone
from tidelake.timeline.times import WAIT_MS, next_instant

UTC = dt.timezone.utc
BERLIN = dt.timezone(dt.timedelta(hours=2))


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process in Berlin."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def _clock() -> ManualClock:
    return ManualClock(dt.datetime(2026, 1, 31, 12, tzinfo=UTC))


def test_generator_standing_clock_gives_strictly_increasing_times() -> None:
    """Many draws in one millisecond are one millisecond apart."""
    generator = InstantGenerator(_clock(), UTC)
    drawn = [generator.draw() for _ in range(500)]
    assert drawn[0] == "20260131120000000"
    assert drawn == sorted(set(drawn))


def test_generator_clock_that_jumps_back_a_little_still_goes_forward() -> None:
    """A clock set back by less than a second never repeats a time."""
    clock = _clock()
    generator = InstantGenerator(clock, UTC)
    first = generator.draw()
    clock.jump(-0.9)
    second = generator.draw()
    assert second == next_instant(first)


def test_generator_clock_that_jumps_back_far_waits_and_then_says_so() -> None:
    """Set back by an hour, the generator waits its bound and names the time that is ahead."""
    clock = _clock()
    generator = InstantGenerator(clock, UTC)
    first = generator.draw()
    clock.jump(-3600)
    with pytest.raises(UnavailableError, match=first) as error:
        generator.draw()
    assert error.value.retryable
    assert clock.monotonic_s() * 1000 >= WAIT_MS


def test_generator_other_writer_ahead_by_less_than_a_second_is_followed() -> None:
    """A time of another writer a little ahead is passed by a millisecond, without waiting."""
    clock = _clock()
    ahead = format_instant(clock.now_ms() + 900, UTC)
    assert InstantGenerator(clock, UTC).draw(ahead) == next_instant(ahead)
    assert clock.monotonic_s() == 0


def test_generator_other_writer_ahead_by_seconds_is_waited_for() -> None:
    """More than a second ahead, the generator waits until its own clock is near, and never goes below."""
    clock = _clock()
    ahead = format_instant(clock.now_ms() + 5_000, UTC)
    drawn = InstantGenerator(clock, UTC).draw(ahead)
    assert drawn > ahead
    assert 3.9 <= clock.monotonic_s() <= 5.1
    assert drawn <= format_instant(clock.now_ms() + 1_000, UTC)


def test_generator_other_writer_ahead_by_a_minute_is_refused() -> None:
    """A writer whose clock is a minute ahead is named, and nothing is drawn."""
    clock = _clock()
    ahead = format_instant(clock.now_ms() + 60_000, UTC)
    with pytest.raises(UnavailableError, match=ahead):
        InstantGenerator(clock, UTC).draw(ahead)


def test_generator_time_at_the_end_of_the_calendar_is_refused_and_typed() -> None:
    """The last time that can be written has no successor: a typed error, not an overflow."""
    with pytest.raises(UnavailableError):
        InstantGenerator(_clock(), UTC).draw("99991231235959999")


def test_generator_used_by_threads_gives_each_time_once() -> None:
    """Threads share a generator, and no two get the same time."""
    generator = InstantGenerator(_clock(), UTC)
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda _: generator.draw(), range(800)))
    assert len(set(drawn)) == 800


@given(st.lists(st.tuples(st.integers(-900, 5_000), st.integers(0, 900)), max_size=30))
@examples()
def test_generator_any_small_jumps_and_skews_stay_strictly_increasing(steps: list[tuple[int, int]]) -> None:
    """Whatever the clock does within a second, and whoever is a little ahead, times increase."""
    clock = _clock()
    generator = InstantGenerator(clock, UTC)
    last = ""
    for jump_ms, skew_ms in steps:
        clock.jump(jump_ms / 1000)
        known = format_instant(clock.now_ms() + skew_ms, UTC)
        drawn = generator.draw(known)
        assert drawn > last
        assert drawn > known
        last = drawn


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("20260131235959999", "20260201000000000"),
        ("20251231235959999", "20260101000000000"),
        ("20240228235959999", "20240229000000000"),
        ("20260101000000000", "20260101000000001"),
        ("20260101000059999", "20260101000100000"),
        ("20260101000000", "20260101000001000"),
        ("00000000000000000", "00000000000000001"),
        ("00000000000000", "00000000000001"),
        ("00010101000000000", "00010101000000001"),
    ],
)
def test_next_instant_at_boundaries_is_one_millisecond_later(before: str, after: str) -> None:
    """Seconds, days, months, leap years and Hudi's special small times are stepped over right."""
    assert next_instant(before) == after
    assert after > before


@given(st.integers(0, 4_102_444_800_000))
@examples()
def test_instant_format_and_parse_are_inverse(epoch_ms: int) -> None:
    """Every millisecond until 2100 reads back."""
    text = format_instant(epoch_ms, UTC)
    assert len(text) == 17
    assert parse_instant(text, UTC) == epoch_ms
    assert parse_instant(format_instant(epoch_ms, BERLIN), BERLIN) == epoch_ms


def test_parse_instant_of_seconds_is_the_last_millisecond_and_nonsense_is_corrupt() -> None:
    """Old times of 14 digits stand for the end of their second."""
    assert parse_instant("20260131120000", UTC) == parse_instant("20260131120000999", UTC)
    for text in ("2026", "20261331120000000", "", "x" * 17):
        with pytest.raises(CorruptError):
            parse_instant(text, UTC)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("20260131120000123", "20260131120000123"),
        (" 20260131120000123 ", "20260131120000123"),
        ("20260131120000", "20260131120000999"),
        ("20260131", "20260131000000000"),
        ("2026-01-31", "20260131000000000"),
        ("2026-01-31 12:00", "20260131120000000"),
        ("2026-01-31 12:00:01", "20260131120001000"),
        ("2026-01-31T12:00:01.5", "20260131120001500"),
        ("2026-01-31 12:00:01.123456789", "20260131120001123"),
        ("2026-01-31T12:00:00Z", "20260131120000000"),
        ("2026-01-31T12:00:00+02:00", "20260131100000000"),
        ("2026-01-31T12:00:00-0130", "20260131133000000"),
        (dt.date(2026, 1, 31), "20260131000000000"),
        (dt.datetime(2026, 1, 31, 12), "20260131120000000"),
        (dt.datetime(2026, 1, 31, 12, tzinfo=BERLIN), "20260131100000000"),
        (dt.datetime(2026, 1, 31, 12, 0, 0, 999_999, tzinfo=UTC), "20260131120000999"),
    ],
)
def test_as_instant_understands_what_people_write(value: str | dt.datetime | dt.date, expected: str) -> None:
    """Digits, ISO text with and without offset, dates and datetimes, in a table whose zone is UTC."""
    assert as_instant(value, UTC) == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        "now",
        "2026-13-01",
        "2026-01-32",
        "20260131120",
        "2026-01-31 25:00",
        "2026-01-01T00:00:00+99:00",
        "0001-01-01T00:00:00+02:00",
        "١٢٣٤٥٦٧٨",
    ],
)
def test_as_instant_refuses_what_is_no_time(value: str) -> None:
    """What cannot be a point in time is the caller's error, with the text."""
    with pytest.raises(InvalidError):
        as_instant(value, UTC)


@pytest.mark.usefixtures("berlin")
def test_as_instant_local_table_takes_the_zone_of_the_process() -> None:
    """A LOCAL table's times are local: naive values stand as they are, aware ones are shifted."""
    zone = timeline_zone(False)
    assert zone is None
    assert as_instant("2026-07-01 12:00:00", zone) == "20260701120000000"
    assert as_instant(dt.datetime(2026, 7, 1, 12), zone) == "20260701120000000"
    assert as_instant("2026-07-01T12:00:00Z", zone) == "20260701140000000"
    assert as_instant("2026-01-01T12:00:00Z", zone) == "20260101130000000"
    assert format_instant(parse_instant("20260701120000123", zone), zone) == "20260701120000123"
    assert timeline_zone(True) == UTC


@pytest.mark.usefixtures("berlin")
def test_generator_local_table_draws_local_times() -> None:
    """The generator writes times of the table's zone."""
    assert InstantGenerator(_clock(), None).draw() == "20260131130000000"


@given(st.text(max_size=24))
@examples()
def test_as_instant_any_text_is_an_instant_or_a_typed_error(text: str) -> None:
    """No text makes the parser fail in another way."""
    try:
        found = as_instant(text, UTC)
    except TidelakeError:
        return
    assert len(found) == 17
    assert found.isdigit()
