"""Random lives of a table with compactions: planned by any strategy, by us and as Apache Hudi plans, run in any order,
dying, rolled back, beside writers who began before them and end after them; with clusterings and restores between, and,
once, an archived past.

After every step
- the rows, with the commit that wrote each, are those of the writes alone (a dict knows them);
- every file group with logs is in a pending plan, or in what the next plan looks at; so a plan finds what a full scan does.

At the end a few runs without new writes leave nothing, and the read-optimised view has every row.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from model.deep import IS_DEEP
from model.one_thread import in_one_thread
from tidelake.query import TableSource
from tidelake.services.cursor import CURSOR_DIR, read_cursor
from tidelake.services.kinds import COMPACTION
from tidelake.services.window import WindowFinder
from tidelake.storage import Fault, FaultyStorage, SimulatedCrash
from tidelake.timeline.transitions import Transitions
from unit.services.hand_made import archive, foreign_plan, planned_groups, work_left
from unit.services.service_tables import BUCKET, EXPIRED_S, World

HISTORIES = 300 if IS_DEEP else 8
STEPS = 25
DAYS = 4
KEYS = 24
Rows = dict[int, tuple[str, int, str]]
"""By key: name, ts, and the instant that wrote it."""


class EveryOther(tl.ServiceStrategy):
    """A user's strategy, which does not declare itself incremental, and takes every other group."""

    def choose(self, config: object, candidates: Any) -> Any:
        return candidates[::2]


def entries(*keys: int, ts: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(keys, pa.int64()),
            "name": [f"{key}@{ts}" for key in keys],
            "ts": pa.array([ts] * len(keys), pa.int64()),
            "day": [f"2026-01-{1 + key % DAYS:02d}" for key in keys],
        }
    )


class Life:
    """A table, and what its rows must be."""

    def __init__(self, seed: int, options: dict[str, str]) -> None:
        self.random = random.Random(seed)
        self.world = World(options)
        self.rows: Rows = {}
        self.tick = 0
        self.steps: list[str] = []
        self.is_archived = False
        self.saved: tuple[str, Rows] | None = None
        first = self.world.open().insert(entries(*range(KEYS), ts=0))
        self.rows = {key: (f"{key}@0", 0, first.requested_time) for key in range(KEYS)}

    # -- what may happen

    def step(self) -> None:
        chosen = self.random.choices(
            [
                *(self.write, self.plan, self.plan_as_hudi, self.run, self.die),
                *(self.take_back, self.nothing, self.past, self.save_or_restore, self.cluster),
            ],
            weights=[10, 5, 4, 6, 3, 1, 1, 1, 1, 1],
        )[0]
        self.steps.append(chosen.__name__)
        chosen()

    def write(self, table: tl.Table | None = None) -> None:
        """A write, during which services may go on."""
        self.tick += 1
        act, after = self._drawn_write()
        within = self.random.random() < 0.3 and table is None
        at = self.random.randrange(3, 40)

        def meanwhile(number: int, verb: str, path: str) -> None:
            if number == at:
                self.steps.append("meanwhile")
                self.random.choice([self.plan, self.run, self.plan_as_hudi])()

        storage = FaultyStorage(self.world.storage, clock=self.world.clock, on_operation=meanwhile if within else None)
        try:
            commit = act(table or self.world.open(storage))
        except tl.ConflictError:
            return
        self.rows = {key: (n, t, at_ or commit.requested_time) for key, (n, t, at_) in after.items()}

    def _drawn_write(self) -> tuple[Callable[[tl.Table], Any], Rows]:
        tick, drawn = self.tick, self.random
        keys = drawn.sample(range(KEYS), drawn.randint(1, 3))
        fresh = [key for key in keys if key not in self.rows]
        kind = drawn.choice([*["upsert"] * 8, "delete", "insert", "overwrite", "drop", "empty"])
        new = {key: (f"{key}@{tick}", tick, "") for key in keys}
        if kind == "delete":
            return lambda t: t.delete(keys), {k: v for k, v in self.rows.items() if k not in keys}
        if kind == "insert" and fresh:
            added = {key: new[key] for key in fresh}
            return lambda t: t.insert(entries(*fresh, ts=tick)), {**self.rows, **added}
        if kind == "overwrite":
            days = {key % DAYS for key in keys}
            kept = {k: v for k, v in self.rows.items() if k % DAYS not in days}
            return lambda t: t.insert_overwrite(entries(*keys, ts=tick)), {**kept, **new}
        if kind == "drop" and drawn.random() < 0.3:
            day = drawn.randrange(DAYS)
            kept = {k: v for k, v in self.rows.items() if k % DAYS != day}
            return lambda t: t.delete_partitions([f"day=2026-01-{1 + day:02d}"]), kept
        if kind == "empty":
            return lambda t: t.upsert(entries(ts=tick)), self.rows
        return lambda t: t.upsert(entries(*keys, ts=tick)), {**self.rows, **new}

    def plan(self, table: tl.Table | None = None) -> None:
        how = self.random.choice(
            [
                {},
                {"partitions": [f"day=2026-01-{1 + self.random.randrange(DAYS):02d}"]},
                {"strategy": "bounded_io", "options": {"hoodie.compaction.target.io": "1"}},
                {"strategy": "log_file_num", "options": {"hoodie.compaction.logfile.num.threshold": "2"}},
                {"strategy": "day_based", "options": {"hoodie.compaction.daybased.target.partitions": "1"}},
                {"strategy": "every_other"},
            ]
        )
        (table or self.world.open()).schedule_compaction(**how)  # type: ignore[arg-type]

    def plan_as_hudi(self) -> None:
        left = [f"day=2026-01-{1 + day:02d}" for day in range(DAYS) if self.random.random() < 0.4]
        foreign_plan(self.world, left)

    def run(self, table: tl.Table | None = None) -> None:
        """Carry out any of the plans, the last one before the first perhaps."""
        plans = [i.requested_time for i in self.world.open().timeline.pending if i.pending_action == "compaction"]
        if plans:
            with suppress(tl.ConflictError):  # within a write the other's claim may live
                (table or self.world.open()).run_compaction(self.random.choice(plans))

    def die(self) -> None:
        """A process dies in a write, a plan or a run, and those after it find it dead."""
        at = self.random.randrange(3, 70)
        faulty = FaultyStorage(self.world.storage, [Fault(at, "crash_after")], clock=self.world.clock)
        before = self.rows
        act = self.random.choice([self.write, self.plan, self.run])
        self.steps.append(f"in {act.__name__}")
        try:
            act(self.world.open(faulty))
        except SimulatedCrash:
            Transitions(self.world.storage, self.world.open().config, self.world.clock).finish_last_turn()
            self.world.clock.advance(EXPIRED_S)
            if act == self.write:
                self.rows = self._either(before)

    def _either(self, before: Rows) -> Rows:
        """Whether a write that died is there: all of it or nothing. Which it was is only known to the table."""
        found = seen(self.world.open())
        if found == before:
            return before
        instants = {at for _, _, at in found.values()} - {at for _, _, at in before.values()}
        assert len(instants) <= 1, "a part of several writes"
        assert all(row == before.get(key) for key, row in found.items() if row[2] not in instants), "a part of a write"
        written = {key for key, row in found.items() if row[2] in instants}
        assert all(found[key][1] == self.tick for key in written)
        return found

    def take_back(self) -> None:
        plans = [i for i in self.world.open().timeline.pending if i.pending_action == "compaction"]
        if plans:
            self.world.open().rollback(self.random.choice(plans).requested_time)

    def nothing(self) -> None:
        """The cursor is lost: it costs time alone."""
        for info in list(self.world.storage.list_files(CURSOR_DIR)):
            self.world.storage.delete(info.path)

    def past(self) -> None:
        """The first instants are archived, once, up to the first that is pending."""
        done = []
        for instant in self.world.open().timeline.instants:
            if not instant.is_completed or instant.action == "replacecommit":
                break
            done.append(instant.requested_time)
        if len(done) > 6 and not self.is_archived and self.saved is None:
            self.is_archived = True
            archive(self.world, done[: len(done) // 2])

    def save_or_restore(self) -> None:
        """Make a savepoint, or go back to it: services that were done since are undone."""
        if self.saved is None:
            self.saved = (self.world.open().savepoint().instant, self.rows)
        else:
            self.world.open().restore(self.saved[0])
            self.rows = self.saved[1]

    def cluster(self) -> None:
        """File groups are replaced by others, logs and all; those of pending compactions stay."""
        self.world.open().cluster()

    # -- what must be true

    def check(self) -> None:
        table = self.world.open()
        assert seen(table) == self.rows, "rows changed"
        source = TableSource.load(self.world.storage)
        finder = WindowFinder(self.world.storage, source.config, source.timeline, source.reader, COMPACTION)
        looked_at = finder.find(read_cursor(self.world.storage, "compaction")).partitions
        held = set(planned_groups(self.world))
        working = {(s.partition_path, s.file_id) for s in table.files() if s.logs}
        lost = {group for group in working - held if looked_at is not None and group[0] not in looked_at}
        assert not lost, f"lost {lost}"
        assert len(held) == len(planned_groups(self.world)), "two plans have one group"
        found = table.compact(dry_run=True)
        planned = set() if found is None else {(op.partition_path, op.file_id) for op in found.operations}  # type: ignore[union-attr]
        assert planned == working - held, "an incremental plan is not a full one"

    def end(self) -> None:
        self.world.clock.advance(EXPIRED_S)
        for _ in range(3):
            self.world.open().compact()
        table = self.world.open()
        assert work_left(table) == {}
        assert seen(table) == self.rows
        assert seen(table, "read_optimized") == self.rows
        assert table.compact() is None
        assert not table.timeline.pending


def seen(table: tl.Table, mode: str = "snapshot") -> Rows:
    columns = ["id", "name", "ts", "_hoodie_commit_time"]
    found = table.scan(columns=columns, mode=mode).to_arrow().to_pylist()
    assert len(found) == len({row["id"] for row in found}), "a key stands twice"
    return {row["id"]: (row["name"], row["ts"], row["_hoodie_commit_time"]) for row in found}


def first_seed() -> int:
    return int(os.environ.get("TIDELAKE_SEED") or random.SystemRandom().randrange(10**9))


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_thread(monkeypatch)
    tl.register_strategy("every_other", EveryOther)


@pytest.mark.parametrize("index", ["SIMPLE", "BUCKET"])
def test_service_histories_conserve_work_and_rows(index: str) -> None:
    start = first_seed()
    for seed in range(start, start + HISTORIES // 2):
        run(index, seed)


def run(index: str, seed: int) -> None:
    life = Life(seed, BUCKET if index == "BUCKET" else {})
    try:
        for _ in range(STEPS):
            life.step()
            life.check()
        life.steps.append("end")
        life.end()
    except (AssertionError, tl.TidelakeError) as error:
        raise AssertionError(f"TIDELAKE_SEED={seed}, {' '.join(life.steps)}: {error}") from error
