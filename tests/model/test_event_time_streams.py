"""Writers that never pause: exact compactions make progress, and completion follows the threshold.

Each writer is always at a write; its next one begins a moment after the last has completed. With several writers there is
no moment at which none is at work, so no barrier is right for all file groups at once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from model.deep import IS_DEEP
from tidelake.storage import Storage
from unit.services.event_tables import EventWorld
from unit.services.service_tables import BUCKET

PASS_MIN, WRITE_MIN, LAG_MIN, HOURS = 5, 4, 20, 8 if IS_DEEP else 2
EXACT = {"hoodie.compaction.event.time.exact": "true", **BUCKET}
LAG = {"hoodie.compaction.event.time.policy": "LAG", "hoodie.compaction.event.time.lag": f"{LAG_MIN}m"}


class Held:
    """A storage on which a write stops at its first marker until it is let go."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner
        self.at_work, self.go = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put(self, path: str, data: bytes) -> Any:
        if path.startswith(".hoodie/.temp/") and not self.at_work.is_set():
            self.at_work.set()
            assert self.go.wait(60)
        return self._inner.put(path, data)


class Writer:
    """One stream, to a partition of its own; only one thread runs at any time."""

    def __init__(self, world: EventWorld, number: int) -> None:
        self.world, self.day = world, f"p{number}"
        self.written: list[tuple[int, int]] = []
        """(id, event time) of what has completed."""
        self._round = 0
        self._running: tuple[threading.Thread, Held, list[tuple[int, int]]] | None = None
        self._error: BaseException | None = None

    def begin(self) -> None:
        now = self.world.clock.now_ms()
        self._round += 1
        # Versions of few keys, some of them late by up to ten minutes.
        rows = [(key, now - (key * 97 + self._round * 61) % 600 * 1000) for key in range(3)]
        held = Held(self.world.storage)
        thread = threading.Thread(target=self._write, args=(held, rows))
        thread.start()
        assert held.at_work.wait(60)
        self._running = (thread, held, rows)

    def end(self) -> None:
        assert self._running is not None
        thread, held, rows = self._running
        held.go.set()
        thread.join(60)
        assert self._error is None, self._error
        self.written += rows
        self._running = None

    def _write(self, held: Held, rows: list[tuple[int, int]]) -> None:
        table = pa.table(
            {
                "id": pa.array([key for key, _ in rows], pa.int64()),
                "name": [f"{key} at {time}" for key, time in rows],
                "ts": pa.array([time for _, time in rows], pa.int64()),
                "day": [self.day] * len(rows),
            }
        )
        try:
            self.world.open(held).upsert(table)  # type: ignore[arg-type]
        except BaseException as error:
            self._error = error
            held.at_work.set()


def minutes(world: EventWorld, writers: list[Writer]) -> Iterator[int]:
    """Play the streams minute by minute: each writer's turn comes a part of its time after the one before."""
    offset = WRITE_MIN // len(writers)
    for writer in writers:
        writer.begin()
        world.clock.advance(1)
    for minute in range(HOURS * 60):
        world.clock.advance(60)
        world.beat()
        for number, writer in enumerate(writers):
            if (minute - number * offset) % WRITE_MIN == 0:
                writer.end()
                world.clock.advance(1)
                writer.begin()
        yield minute
    for writer in writers:
        writer.end()


@pytest.mark.parametrize("count", [1, 2, 4])
def test_event_time_streams_exact_compaction_makes_progress_among_writers_that_never_pause(count: int) -> None:
    world = EventWorld({**EXACT, **LAG})
    world.clock.advance(3600)
    writers = [Writer(world, number) for number in range(count)]
    started = world.clock.now_ms()
    compactions = 0
    for minute in minutes(world, writers):
        if minute % PASS_MIN or minute < LAG_MIN:
            continue
        compactions += world.open().compact(strategy="event_time") is not None
        assert_right(world, writers)
        if minute >= 60:
            # What is older than the lag, the longest lateness and a few turns of all writers has been taken in.
            assert_complete(
                world, writers, world.clock.now_ms() - (LAG_MIN + 10 + 2 * WRITE_MIN + 6 * PASS_MIN) * 60_000
            )
    assert compactions > HOURS * 60 // PASS_MIN // 3
    assert world.clock.now_ms() - started >= HOURS * 3_600_000


def assert_right(world: EventWorld, writers: list[Writer]) -> None:
    """The snapshot is the newest version of each key, of all that has completed."""
    newest: dict[tuple[str, int], int] = {}
    for writer in writers:
        for key, time in writer.written:
            newest[writer.day, key] = max(time, newest.get((writer.day, key), 0))
    found = world.open().scan(columns=["id", "ts", "day"]).to_arrow().to_pylist()
    assert {(row["day"], row["id"]): row["ts"] for row in found} == newest


def assert_complete(world: EventWorld, writers: list[Writer], before: int) -> None:
    """The read-optimised view has, of each key, a version that is no older than the newest one before a time."""
    found = world.open().scan(mode="read_optimized", columns=["id", "ts", "day"]).to_arrow().to_pylist()
    held = {(row["day"], row["id"]): row["ts"] for row in found}
    for writer in writers:
        for key, time in writer.written:
            if time < before:
                assert held.get((writer.day, key), 0) >= time, (writer.day, key, time, before)
