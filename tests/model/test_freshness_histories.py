"""Random lives of a table with event times: late, missing and impossible ones; deletes, overwrites, compactions that wait, die or are
carried out; writes within writes, other engines' commits without statistics, rollbacks, restores, clusterings, cleans and,
once, an archived past.

After every step
- completion is never claimed falsely: no event up to the claimed completion of base files, that had arrived, lies in a log, and
  rows of the snapshot up to it stand in base files as they are; for the table and for each partition;
- high-water marks have not gone back;
- what the last commit stored is what is worked out anew, and again from a listing, without the table state.
"""

from __future__ import annotations

import os
import random
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

import tidelake as tl
from model.deep import IS_DEEP
from model.one_thread import in_one_thread
from tidelake.filegroup.event_times import CACHE_FILE
from tidelake.filegroup.state_store import STATE_DIR
from tidelake.format.freshness_marks import decode_freshness_marks
from tidelake.observe.freshness import FreshnessReport
from tidelake.query import TableSource
from tidelake.query.event_column import read_range
from tidelake.storage import Fault, FaultyStorage, SimulatedCrash
from tidelake.timeline import parse_instant
from tidelake.timeline.transitions import Transitions
from unit.observe.event_tables import EventWorld, at, events
from unit.services.hand_made import SYNC, archive
from unit.services.service_tables import BUCKET, EXPIRED_S

HISTORIES = 10_000 if IS_DEEP else 30
STEPS = 12
REGRESSIONS = (20263790, 20270288, 30003370, 50000112)
"""Seeds that failed once."""
KEYS = 10
EXACT = {"hoodie.compaction.event.time.exact": "true"}
Marks = dict[str, int | None]


class Life:
    """A table, and the high-water marks that it has shown."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        kind = self.random.choice(["MERGE_ON_READ"] * 4 + ["COPY_ON_WRITE"])
        self.is_bucketed = self.random.random() < 0.3
        self.is_exact = self.is_bucketed and kind == "MERGE_ON_READ" and self.random.random() < 0.5
        options = {**(BUCKET if self.is_bucketed else {}), **(EXACT if self.is_exact else {})}
        self.world = EventWorld(options, table_type=kind)
        self.is_logged = kind == "MERGE_ON_READ"
        self.steps: list[str] = [kind, "BUCKET" if self.is_bucketed else "SIMPLE", "exact" if self.is_exact else ""]
        self.high: Marks = {}
        self.saved: str | None = None
        self.is_archived = False
        self.world.upsert(*((key, self.drawn_time()) for key in range(KEYS)))

    def drawn_time(self) -> int | None:
        """Around now, late, or far ahead. The ordering field has no nulls, so there are none here."""
        around = self.world.clock.now_ms()
        return self.random.choice(
            [
                *[around - self.random.randrange(3_600_000) for _ in range(6)],
                around - self.random.randrange(86_400_000),
                around + self.random.choice([0, 3_600_000, 3_600_001, 7_200_000]),
            ]
        )

    # -- what may happen

    def step(self) -> None:
        self.world.clock.advance(self.random.choice([1, 60, 1_800]))
        chosen = self.random.choices(
            [self.write, self.plan, self.run, self.die, self.take_back, self.save_or_restore, self.cluster, self.tidy],
            weights=[10, 4, 4, 2, 2, 1, 1, 2],
        )[0]
        self.steps.append(chosen.__name__)
        chosen()

    def write(self, table: tl.Table | None = None) -> None:
        """A write of any kind, during which others may write and compact."""
        at_operation = self.random.randrange(3, 40)

        def meanwhile(number: int, verb: str, path: str) -> None:
            if number == at_operation:
                self.steps.append("meanwhile")
                self.random.choice([self.plan, self.run, self.small_write])()

        within = table is None and self.random.random() < 0.3
        storage = FaultyStorage(self.world.storage, clock=self.world.clock, on_operation=meanwhile if within else None)
        with suppress(tl.ConflictError, tl.InvalidError):  # rows older than an unconditional delete are refused
            self.some_write(table or self.world.open(storage))

    def small_write(self) -> None:
        with suppress(tl.ConflictError, tl.InvalidError):
            self.world.open().upsert(events((self.random.randrange(KEYS), self.drawn_time())))

    def some_write(self, table: tl.Table) -> None:
        drawn = self.random
        keys = drawn.sample(range(KEYS + 4), drawn.randint(1, 3))
        rows = events(*((key, self.drawn_time()) for key in keys))
        kind = drawn.choice(
            [*["upsert"] * 8, "hudi", "delete", "unconditional", "overwrite", "drop", "empty", "declare"]
        )
        self.steps.append(kind)
        if kind == "delete" or (kind == "unconditional" and self.is_bucketed):
            table.delete(keys)
        elif kind == "unconditional":
            table.delete(keys, unconditional=True)
        elif kind == "overwrite":
            table.insert_overwrite(rows)
        elif kind == "drop":
            table.delete_partitions(["day=d1"])
        elif kind == "empty":
            table.upsert(events())
        elif kind == "declare":
            table.declare_complete(self.world.clock.now_ms())
        elif kind == "hudi":
            self.forget(table.upsert(rows).requested_time)
        else:
            table.upsert(rows, watermark=at("08:00") if drawn.random() < 0.2 else None)

    def forget(self, instant: str) -> None:
        """Make a commit one of an engine that keeps neither statistics of event times nor marks."""
        source = TableSource.load(self.world.storage)
        done = source.timeline.by_time[instant]
        commit = source.reader.commit(done)
        stats = {
            path: tuple(replace(stat, min_event_time=None, max_event_time=None) for stat in some)
            for path, some in (commit.partition_to_write_stats or {}).items()
        }
        foreign = replace(commit, partition_to_write_stats=stats, extra_metadata={"schema": commit.schema_text or ""})
        self.world.storage.put(f"{source.config.timeline_dir}/{done.file_name}", foreign.encode(SYNC))
        for info in list(self.world.storage.list_files(STATE_DIR)):
            self.world.storage.delete(info.path)

    def plan(self, table: tl.Table | None = None) -> None:
        if not self.is_logged:
            return
        plain: list[dict[str, Any]] = [{}, {"partitions": ["day=d0"]}]
        timed: list[dict[str, Any]] = [
            {"strategy": "event_time", "options": {"hoodie.compaction.event.time.policy": "LAG"}},
            {"strategy": "event_time", "options": {"hoodie.compaction.event.time.threshold": "2026-01-01T10:00:00Z"}},
        ]
        how = self.random.choice(timed if self.is_exact else plain + timed)
        (table or self.world.open()).schedule_compaction(**how)

    def run(self, table: tl.Table | None = None) -> None:
        plans = [i.requested_time for i in self.world.open().timeline.pending if i.pending_action == "compaction"]
        if plans:
            with suppress(tl.ConflictError):
                (table or self.world.open()).run_compaction(self.random.choice(plans))

    def die(self) -> None:
        """A process dies, and those after it find it dead."""
        fault = Fault(self.random.randrange(3, 70), "crash_after")
        faulty = FaultyStorage(self.world.storage, [fault], clock=self.world.clock)
        try:
            self.random.choice([self.write, self.plan, self.run])(self.world.open(faulty))
        except SimulatedCrash:
            Transitions(self.world.storage, self.world.open().config, self.world.clock).finish_last_turn()
            self.world.clock.advance(EXPIRED_S)

    def take_back(self) -> None:
        writes = self.world.open().timeline.completed_writes
        if not writes:
            return
        last = max(writes, key=lambda i: i.completion_time or "")
        with suppress(tl.ConflictError, tl.UnsupportedError):
            self.world.open().rollback(last.requested_time)

    def save_or_restore(self) -> None:
        if self.saved is None and not self.is_archived and self.world.open().timeline.completed_writes:
            self.saved = self.world.open().savepoint().instant
        elif self.saved is not None:
            self.world.open().restore(self.saved)

    def cluster(self) -> None:
        with suppress(tl.ConflictError):
            self.world.open().cluster(sort_by="name")

    def tidy(self) -> None:
        """A clean; what is derived is lost; or, once, the first instants are archived."""
        kind = self.random.choice(["clean", "lose", "archive"])
        if kind == "clean":
            self.world.open().clean(retain=1)
        elif kind == "lose":
            for path in [info.path for info in self.world.storage.list_files(STATE_DIR)] + [CACHE_FILE]:
                self.world.storage.delete(path)
        elif not self.is_archived and self.saved is None:
            done = []
            for instant in self.world.open().timeline.instants:
                if not instant.is_completed or instant.action == "replacecommit":
                    break
                done.append(instant.requested_time)
            if len(done) > 4:
                self.is_archived = True
                archive(self.world, done[: len(done) // 2])  # type: ignore[arg-type]

    # -- what must be true

    def check(self) -> None:
        report = self.world.open().freshness()
        self.check_claims(report)
        self.check_marks(report)
        source = TableSource.load(self.world.storage)
        if not source.timeline.completed_writes:
            return  # all was taken back
        stored, found = self.world.stored(), self.world.recomputed()
        newest = max(source.timeline.completed_writes, key=lambda i: i.completion_time or "")
        commit = source.reader.commit(newest)
        marks = decode_freshness_marks(commit.extra_metadata)
        undone = any(
            (taker.completion_time or "~") > (newest.completion_time or "") for taker in source.timeline.takers
        )
        undone |= any((old.completion_time or "") > (newest.completion_time or "") for old in source.reader.history)
        # What a commit ignored counts when its time has come.
        is_now = parse_instant(newest.completion_time or "", source.zone) >= self.world.clock.now_ms()
        if commit.is_ours(newest.requested_time) and not undone:
            assert marks is not None
            assert stored == found or not (marks.memory.is_settled or is_now), f"stored {stored}, recomputed {found}"
        for info in list(self.world.storage.list_files(STATE_DIR)):
            self.world.storage.delete(info.path)
        assert self.world.recomputed() == found, "the state is not the listing"

    def check_claims(self, report: FreshnessReport) -> None:
        source = TableSource.load(self.world.storage)
        snapshot, base = self.rows("snapshot"), self.rows("read_optimized")
        claims = {each.path: each.ro.completion_ms for each in report.partitions}
        for file_slice in source.view().listed_slices():
            for log in file_slice.logs:
                low = read_range(source, log).minimum
                for claimed in (claims[file_slice.partition_path], report.ro.completion_ms):
                    assert low is None or claimed is None or low > claimed, f"{log.path} has an event before {claimed}"
        for key, row in snapshot.items():
            for claimed in (claims[f"day={row['day']}"], report.ro.completion_ms):
                if claimed is not None and row["ts"] <= claimed:
                    assert base.get(key) == row, f"{key} is not in base files, and {claimed} is claimed"

    def rows(self, mode: str) -> dict[int, dict[str, Any]]:
        return {row["id"]: row for row in self.world.open().scan(mode=mode).to_arrow().to_pylist()}

    def check_marks(self, report: FreshnessReport) -> None:
        now: Marks = {
            f"{name}.{what}": getattr(view, f"{what}_hwm_ms")
            for name, view in (("rt", report.rt), ("ro", report.ro))
            for what in ("completion", "freshness")
        }
        for name, value in self.high.items():
            assert value is None or (now[name] or 0) >= value, f"{name} went back from {value} to {now[name]}"
        self.high = now


def first_seed() -> int:
    return int(os.environ.get("TIDELAKE_SEED") or random.SystemRandom().randrange(10**9))


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_thread(monkeypatch)


def test_freshness_histories_claim_nothing_falsely() -> None:
    start = first_seed()
    for seed in range(start, start + HISTORIES):
        run(seed)


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_freshness_histories_that_failed_once_are_right(seed: int) -> None:
    run(seed)


def run(seed: int) -> None:
    life = Life(seed)
    try:
        for _ in range(STEPS):
            life.step()
            life.check()
    except Exception as error:
        raise AssertionError(f"TIDELAKE_SEED={seed}, {' '.join(life.steps)}: {error}") from error
