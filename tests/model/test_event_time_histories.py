"""Random histories of writes and event-time compactions: rows stay, P keeps the rules, and what a plan claims is true.

The rules are checked by a naive reading of the timeline's names and of the files on storage, which shares nothing with the
planner. A seed gives the same history again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from model.deep import IS_DEEP
from tidelake.errors import ConflictError
from tidelake.format.names import State, parse_base_name, parse_log_name, parse_timeline_name
from tidelake.query import TableSource
from tidelake.query.event_column import read_range
from tidelake.services.kinds import COMPACTION
from tidelake.services.withdraw import withdraw
from unit.services.event_tables import During, EventWorld
from unit.services.hand_made import archive
from unit.services.service_tables import BUCKET

SEEDS = range(4_000 if IS_DEEP else 40)
STEPS = 14
RETAINED = 4
DAYS = ("a", "b")
PREFIX = "hoodie.compaction.event.time."


class Life:
    """A table whose life a seed decides."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        options = {"hoodie.clean.commits.retained": str(RETAINED)}
        self.is_exact = self.random.random() < 0.3
        if self.is_exact:
            options |= {PREFIX + "exact": "true", **BUCKET}
        elif self.random.random() < 0.5:
            options |= BUCKET
        if self.random.random() < 0.5:
            options[PREFIX + "backdate"] = "any"
        self.is_bounded = PREFIX + "backdate" not in options
        self.world = EventWorld(options)
        self.is_archived = False
        self.world.clock.advance(3600)
        for day in DAYS:
            self.world.open().insert(self.rows(day, range(6)))
            self.tick()

    def tick(self) -> None:
        self.world.clock.advance(self.random.choice([0.001, 0.01, 1, 60, 700]))

    def moment(self) -> int:
        """An event time: mostly a little before now."""
        return self.world.clock.now_ms() - round(
            1000 * self.random.choice([0, 1, 30, 300, 3000]) * self.random.random()
        )

    def rows(self, day: str, ids: range | list[int]) -> pa.Table:
        return pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "name": [f"{i}-{self.random.randrange(1000)}" for i in ids],
                "ts": pa.array([self.moment() for _ in ids], pa.int64()),
                "day": [day] * len(ids),
            }
        )

    def write(self) -> None:
        day = self.random.choice(DAYS)
        ids = self.random.sample(range(8), self.random.randint(1, 4))
        inner = [self.random.choice([self.tick, self.compact, self.write_other(day)]) for _ in range(2)]

        def meanwhile() -> None:
            for act in inner:
                act()
            self.world.beat()

        act = meanwhile if self.random.random() < 0.4 else self.tick
        # One that is refused is not seen: the checks say whether that is so.
        with suppress(ConflictError):
            self.world.open(During(self.world.storage, act)).upsert(self.rows(day, ids))  # type: ignore[arg-type]

    def write_other(self, day: str) -> Callable[[], None]:
        other = next(each for each in DAYS if each != day)

        def act() -> None:
            self.world.open().upsert(self.rows(other, [self.random.randrange(8)]))

        return act

    def delete(self) -> None:
        day = self.random.choice(DAYS)
        keys = pa.table({"id": pa.array([self.random.randrange(8)], pa.int64()), "day": [day]})
        self.world.open().delete(keys)

    def compact(self) -> None:
        """Schedule by event time; the plan is checked as it is made."""
        lag_ms = round(1000 * self.random.choice([0, 10, 100, 1000, 4000]) * self.random.random())
        threshold = self.world.clock.now_ms() - lag_ms
        options = {PREFIX + "barrier": self.random.choice(["COVERING", "COVERING", "AT_THRESHOLD"])}
        if self.random.random() < 0.5:
            options[PREFIX + "late.delay"] = "0s"
        self.world.beat()
        before = self.content()
        arrived = self.arrived(threshold)
        known = self.world.names
        now = self.world.clock.now_ms()
        made = self.world.open().schedule_compaction(
            strategy="event_time",
            threshold=_iso(threshold),
            options=options,
        )
        assert self.content() == before
        if made is None:
            assert {n for n in self.world.names if "rollback" not in n} <= known
            return
        self.check_rules(made, known, now)
        marks = self.world.marks(made)
        assert marks.threshold_ms == threshold
        if marks.barrier == "AT_THRESHOLD":
            assert made <= _instant(threshold)
        planned = {name for op in self.world.plan(made).operations or () for name in op.delta_file_paths or ()}
        if marks.covers:
            assert arrived <= planned
        if self.random.random() < 0.7:
            self.run()

    def run(self) -> None:
        before = self.content()
        self.world.beat()
        self.world.open().run_compaction()
        assert self.content() == before

    def withdraw(self) -> None:
        pending = [run.instant for run in self.world.open().compactions(None) if run.state != "COMPLETED"]
        if pending:
            before = self.content()
            withdraw(self.world.open()._service_call(None), COMPACTION, self.random.choice(pending))
            assert self.content() == before

    def archive(self) -> None:
        """The first writes move to the history, as far as nothing pending or replaced is among them."""
        instants = self.world.open().timeline.instants
        done = []
        for each in instants[: len(instants) // 2]:
            if not each.is_completed or not each.is_write:
                break
            done.append(each.requested_time)
        if self.is_archived or not done:
            return
        self.is_archived = True
        before = self.content()
        archive(self.world, done)
        assert self.content() == before

    def content(self) -> list[tuple[object, ...]]:
        return self.world.rows

    def arrived(self, threshold_ms: int) -> set[str]:
        """The logs with an event before T that are in no base file and no plan, by reading each."""
        source = TableSource.load(self.world.storage)
        found = set()
        for file_slice in source.view().listed_slices():
            for log in file_slice.logs:
                low = read_range(source, log).minimum
                if low is not None and low < threshold_ms:
                    found.add(str(log.name))
        return found

    def check_rules(self, requested: str, known: set[str], now_ms: int) -> None:
        """The six rules, from the names that were there before the plan."""
        names = [n for n in map(parse_timeline_name, known) if n is not None]
        assert requested <= _instant(now_ms + 60_000)
        source = TableSource.load(self.world.storage)
        archived = source.reader.history
        writes = sorted(
            {n.requested_time for n in names if n.completed_action in ("commit", "deltacommit", "replacecommit")}
        )
        assert requested > writes[0]
        assert all(requested > old.requested_time for old in archived)
        completed = sorted(
            n.requested_time
            for n in names
            if n.state is State.COMPLETED and n.action in ("commit", "deltacommit", "replacecommit")
        )
        if self.is_bounded and len(completed) >= RETAINED // 2:
            assert requested > completed[-(RETAINED // 2)]
        assert all(requested > n.requested_time for n in names if n.action in ("compaction", "clustering"))
        times = set(chain.from_iterable((n.requested_time, n.completion_time) for n in names))
        times |= set(chain.from_iterable((old.requested_time, old.completion_time) for old in archived))
        named = {t for taker in source.timeline.takers for t in source.reader.targets(taker)}
        assert requested not in times | (named - {requested} if requested not in known else named)
        groups = {op.file_id for op in self.world.plan(requested).operations or ()}
        carried = set()
        for info in self.world.storage.list_files(""):
            name = info.path.rpartition("/")[2]
            parsed = parse_base_name(name) or parse_log_name(name)
            if parsed is not None and parsed.file_id in groups:
                carried.add(parsed.instant)
        assert requested not in carried
        spans = {n.requested_time: n.completion_time for n in names if n.state is State.COMPLETED}
        spans |= {old.requested_time: old.completion_time for old in archived}
        services = {n.requested_time for n in names if n.action == "compaction"}
        for instant in carried:
            end = spans.get(instant)
            if end is not None and instant not in services:
                assert not instant < requested <= end, (instant, requested, end)
        if self.is_exact:
            ended = {n.requested_time for n in names if n.state is State.COMPLETED}
            assert not any(
                n.requested_time < requested
                for n in names
                if n.action == "deltacommit" and n.requested_time not in ended
            )


@pytest.mark.parametrize("seed", SEEDS)
def test_event_time_histories(seed: int) -> None:
    life = Life(seed)
    for _ in range(STEPS):
        life.tick()
        acts = [life.write] * 5 + [life.compact] * 3 + [life.run, life.withdraw, life.archive, life.delete]
        life.random.choice(acts)()
    # In the end: whatever waits is carried out, and a last compaction at now covers all.
    before = life.content()
    while life.world.open().run_compaction() is not None:
        pass
    assert life.content() == before
    life.world.clock.advance(4000)
    threshold = life.world.clock.now_ms()
    life.world.open().compact(strategy="event_time", threshold=_iso(threshold))
    assert life.content() == before
    assert life.arrived(threshold) == set()
    late = life.world.open().scan(mode="read_optimized", columns=["ts"]).to_arrow().column("ts")
    assert not pc.any(pc.greater_equal(late, threshold)).as_py()
    columns = ["id", "name", "ts", "day", "_hoodie_commit_time"]
    base = life.world.open().scan(mode="read_optimized", columns=columns).to_arrow().to_pylist()
    assert sorted(tuple(row[c] for c in columns) for row in base) == before
    assert life.world.open().audit_services().is_clean


def _instant(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, timezone.utc)
    return f"{moment:%Y%m%d%H%M%S}{time_ms % 1000:03d}"


def _iso(time_ms: int) -> str:
    text = _instant(time_ms)
    return f"{text[:4]}-{text[4:6]}-{text[6:8]}T{text[8:10]}:{text[10:12]}:{text[12:14]}.{text[14:]}Z"
