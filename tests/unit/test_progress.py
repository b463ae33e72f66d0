"""What a write tells of itself: lines in the log, a bar on a terminal and nowhere else, at most ten times a second."""

from __future__ import annotations

import io
import logging
import threading

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake._progress import VARIABLE, current, polled, progress
from tidelake.storage import MemoryStorage
from tidelake.testing import ManualClock


class Terminal(io.StringIO):
    """Keeps what is written, and says that it is a terminal."""

    def isatty(self) -> bool:
        super().isatty()  # which fails if it is closed
        return True

    @property
    def frames(self) -> list[str]:
        return [frame.strip() for frame in self.getvalue().split("\r") if frame.strip()]


@pytest.fixture(autouse=True)
def allowed(monkeypatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_progress_on_a_terminal_draws_in_place_and_wipes(caplog) -> None:
    """The bar says stage and steps, never breaks the line, and is gone when the write has ended."""
    terminal, clock = Terminal(), ManualClock()
    with caplog.at_level(logging.INFO, "tidelake.write"), progress("upsert of trips", terminal, clock) as shown:
        shown.stage("prepare")
        clock.advance(1.0)
        shown.stage("write files", 4)
        for _ in range(2):
            clock.advance(1.0)
            assert current().step("done") == "done"
    assert terminal.frames == [
        "upsert of trips: write files [..............................] 0 of 4",
        "upsert of trips: write files [#######.......................] 1 of 4",
        "upsert of trips: write files [###############...............] 2 of 4",
    ]
    assert "\n" not in terminal.getvalue()
    assert terminal.getvalue().endswith(f"\r{' ' * len(terminal.frames[-1])}\r")
    assert [r.getMessage() for r in caplog.records] == [
        "upsert of trips: prepare",
        "upsert of trips: write files (4)",
        "upsert of trips: ended after 3.0 s",
    ]


def test_progress_of_a_short_write_draws_nothing_and_of_a_long_one_ten_times_a_second() -> None:
    """A thousand steps in half a second are no bar; in ten seconds they are about a hundred drawings."""
    for seconds, least, most in ((0.4, 0, 0), (10.0, 80, 101)):
        terminal, clock = Terminal(), ManualClock()
        with progress("w", terminal, clock) as shown:
            shown.stage("write", 1000)
            for _ in range(1000):
                clock.advance(seconds / 1000)
                shown.step(None)
        assert least <= len(terminal.frames) <= most, seconds


def test_progress_without_a_terminal_or_switched_off_draws_nothing(monkeypatch) -> None:
    """Into a file, a closed stream, or with the variable at 0: not a character."""
    closed = Terminal()
    closed.close()
    plain, terminal = io.StringIO(), Terminal()
    for stream in (plain, closed, terminal):
        if stream is terminal:
            monkeypatch.setenv(VARIABLE, "0")
        clock = ManualClock()
        with progress("w", stream, clock) as shown:
            clock.advance(5.0)
            shown.stage("write", 3)
            assert not shown.is_drawn
    assert plain.getvalue() == terminal.getvalue() == ""


def test_progress_of_a_terminal_that_goes_away_does_not_fail_the_write() -> None:
    """The bar ends, the write goes on."""
    terminal, clock = Terminal(), ManualClock()
    with progress("w", terminal, clock) as shown:
        clock.advance(5.0)
        shown.stage("one", 3)
        terminal.close()
        clock.advance(5.0)
        shown.stage("two", 3)
        shown.step(None)
    assert not shown.is_drawn


def test_progress_inside_another_is_part_of_it_and_outside_there_is_none() -> None:
    """A write that is part of another does not end its bar; without any, saying something is no error."""
    with progress("outer", Terminal(), ManualClock()) as outer:
        with progress("inner") as inner:
            assert inner is outer
        assert current() is outer
    current().stage("nothing", 3)
    assert current() is not outer
    assert not current().is_drawn


def test_progress_polled_shows_what_the_look_says() -> None:
    """A stage that runs elsewhere is asked how far it is, until it ends."""
    asked = threading.Event()
    terminal, clock = Terminal(), ManualClock()

    def look() -> tuple[int, int]:
        asked.set()
        return 3, 6

    with progress("w", terminal, clock) as shown:
        shown.stage("on Spark")
        clock.advance(5.0)
        with polled(look):
            assert asked.wait(20)
        threads = [t.name for t in threading.enumerate()]
    assert terminal.frames[-1] == "w: on Spark [###############...............] 3 of 6"
    assert "tidelake-progress" not in threads


def test_write_tells_its_stages_in_the_log(caplog, capsys) -> None:
    """One line for each stage of a write in process, with the counts; nothing on standard error."""
    clock = ManualClock()
    table = tl.create_table(
        "memory", "id bigint, day string", name="trips", partition_by="day", storage=MemoryStorage(), clock=clock
    )
    with caplog.at_level(logging.INFO, "tidelake.write"):
        table.upsert(pa.table({"id": [1, 2, 3], "day": ["a", "b", "b"]}))
    told = [r.getMessage() for r in caplog.records]
    assert told[:-1] == [
        "upsert of trips: prepare",
        "upsert of trips: look up partitions (2)",
        "upsert of trips: write files (2)",
        "upsert of trips: commit",
    ]
    assert told[-1].startswith("upsert of trips: ended after")
    assert capsys.readouterr().err == ""
