"""Streams of writers that never pause: compaction by event time follows them, on exact tables too.

Each writer has a partition of its own and begins its next write as soon as the last one has completed, so that at every
moment of the simulated hour as many writes are under way as there are writers.
"""

from __future__ import annotations

import threading

import pytest

from tidelake.query import TableSource
from tidelake.query.event_column import event_times_of
from unit.services.event_tables import During, EventWorld, ms, rows
from unit.services.service_tables import BUCKET

PREFIX = "hoodie.compaction.event.time."
OPTIONS = {
    "hoodie.compaction.strategy": "event_time",
    PREFIX + "policy": "FLOOR",
    PREFIX + "floor": "minute",
    PREFIX + "delay": "10m",
    **BUCKET,
    "hoodie.bucket.index.num.buckets": "1",
}
MINUTES = 60
LASTS = 7
"""How many minutes a write takes."""


class Writer:
    """Writes one row after the other into its own partition; between two steps of the test it stands still."""

    def __init__(self, world: EventWorld, number: int) -> None:
        self.world = world
        self.day = f"w{number}"
        self.written = 0
        self.last = dict.fromkeys(range(3), "09:00")
        """The event time of the last version of each row."""
        self._thread: threading.Thread | None = None

    def begin(self, time: str) -> None:
        """Begin a write of an event of that time, and stop before its first file."""
        self._go, paused = threading.Event(), threading.Event()

        def pause() -> None:
            paused.set()
            self._go.wait()

        table = self.world.open(During(self.world.storage, pause))  # type: ignore[arg-type]
        self.written += 1
        row_id = self.written % 3
        self.last[row_id] = time
        data = rows((row_id, time), day=self.day)
        self._thread = threading.Thread(target=lambda: table.upsert(data))
        self._thread.start()
        assert paused.wait(60)

    def complete(self) -> None:
        if self._thread is not None:
            self._go.set()
            self._thread.join(60)
            assert not self._thread.is_alive()


def clock(minute: int) -> str:
    return f"{10 + minute // 60:02d}:{minute % 60:02d}"


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("is_exact", [False, True], ids=["plain", "exact"])
def test_compaction_follows_writers_that_never_pause(count: int, is_exact: bool) -> None:
    world = EventWorld({**OPTIONS, **({PREFIX + "exact": "true"} if is_exact else {})}).at("09:50")
    writers = [Writer(world, number) for number in range(count)]
    for writer in writers:
        world.insert((0, "09:00"), (1, "09:00"), (2, "09:00"), day=writer.day)
    compacted: set[str] = set()
    passes = 0
    for minute in range(MINUTES):
        world.at(clock(minute)).beat()
        for number, writer in enumerate(writers):
            if minute % LASTS == number * LASTS // count:
                writer.complete()
                world.at(f"{clock(minute)}:0{number + 1}")
                writer.begin(f"{clock(minute)}:00")
        if minute % 5 == 4:
            world.beat()
            done = world.open().compact()
            compacted |= set() if done is None else {stat.partition_path or "" for stat in done.stats}
            passes += done is not None
    for writer in writers:
        writer.complete()
    assert compacted == {f"day={writer.day}" for writer in writers}
    assert passes >= 5
    source = TableSource.load(world.storage)
    lows = [
        found.minimum
        for path, found in event_times_of(source).of(source.view().slices()).items()
        if ".log." in path and found.minimum is not None
    ]
    # What is left is not older than the delay, one write, and the time until its group's turn.
    assert min(lows) >= ms(clock(MINUTES)) - (10 + (1 + count) * LASTS) * 60_000
    assert sorted(row[:2] for row in world.rows) == sorted(
        (row_id, f"{row_id} at {time}") for writer in writers for row_id, time in writer.last.items()
    )
