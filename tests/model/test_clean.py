"""Random histories of writes, compactions, cleans by every policy, savepoints and restores, against a plain dict.

After each step: the rows now, as of every savepoint, and as of every point that is retained are those of then; an incremental
clean has left what a full one would leave; nothing that is referenced is missing.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

import tidelake as tl
from model.deep import IS_DEEP
from small_world import SCHEMA
from tidelake.errors import MissingFileError
from tidelake.storage import MemoryStorage
from tidelake.testing import ManualClock

State = dict[int, str]
POLICIES = (None, None, "KEEP_LATEST_BY_HOURS", "KEEP_LATEST_FILE_VERSIONS")
PARTITIONS = 5
RUNS, STEPS = (300, 60) if IS_DEEP else (4, 30)
FULL = {"hoodie.clean.incremental.enabled": "false"}


def rows(state: State, ts: int) -> pa.Table:
    """Rows, in a partition that follows from the id."""
    return pa.table(
        {
            "id": pa.array(state.keys(), pa.int64()),
            "name": list(state.values()),
            "ts": pa.array([ts] * len(state), pa.int64()),
            "day": [f"d{id % PARTITIONS}" for id in state],
        }
    )


@dataclass
class Machine:
    """A table, and a dict that says what it holds and held."""

    random: random.Random
    table_type: str
    clock: ManualClock = field(default_factory=ManualClock)
    now: State = field(default_factory=dict)
    past: dict[str, State] = field(default_factory=dict)
    kept: dict[str, State] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    writes: int = 0
    refused: int = 0
    read: int = 0
    cleaned: int = 0

    def __post_init__(self) -> None:
        self.storage = MemoryStorage(clock=self.clock)
        self.usual = self.random.choice(POLICIES)
        self.table = tl.create_table(
            "memory", SCHEMA, name="model", partition_by="day", table_type=self.table_type,
            storage=self.storage, clock=self.clock,
        )  # fmt: skip

    def step(self) -> None:
        self.clock.advance(self.random.choice((1, 60, 3600)))
        choices = [self.upsert] * 8 + [self.overwrite, self.delete, self.drop_partition]
        choices += [self.clean] * 4 + [
            self.savepoint,
            self.drop,
            self.restore,
            self.compact,
            self.compact,
            self.schedule,
        ]
        action = self.random.choice(choices)
        self.log.append(action.__name__)
        action()
        self.check()

    def ids(self) -> list[int]:
        return self.random.sample(range(10), self.random.randint(1, 3))

    def fresh(self, ids: list[int]) -> State:
        self.writes += 1
        return {id: f"{id} at {self.writes}" for id in ids}

    def done(self, commit: tl.Commit | None) -> None:
        if commit is not None:
            self.past[commit.requested_time] = dict(self.now)

    def upsert(self) -> None:
        new = self.fresh(self.ids())
        self.now.update(new)
        self.done(self.table.upsert(rows(new, self.writes)))

    def overwrite(self) -> None:
        self.settle()
        new = self.fresh(self.ids())
        days = {id % PARTITIONS for id in new}
        self.now = {id: name for id, name in self.now.items() if id % PARTITIONS not in days} | new
        self.done(self.table.insert_overwrite(rows(new, self.writes)))

    def delete(self) -> None:
        ids = self.ids()
        for id in ids:
            self.now.pop(id, None)
        self.done(self.table.delete(ids, unconditional=True))

    def drop_partition(self) -> None:
        self.settle()
        if any(id % PARTITIONS == 1 for id in self.now):
            self.now = {id: name for id, name in self.now.items() if id % PARTITIONS != 1}
            self.done(self.table.delete_partitions(["day=d1"]))

    def settle(self) -> None:
        """Plans that wait are carried out: an overwrite would retire what they compact."""
        while self.table_type == "MERGE_ON_READ" and self.table.run_compaction() is not None:
            pass

    def compact(self) -> None:
        if self.table_type == "MERGE_ON_READ":
            self.done(self.table.compact())

    def schedule(self) -> None:
        if self.table_type == "MERGE_ON_READ":
            self.table.schedule_compaction()

    def clean(self) -> None:
        # Mostly the same policy: a change of its kind is a reason to look at everything.
        policy = self.usual if self.random.random() < 0.85 else self.random.choice(POLICIES)
        retain = self.random.randint(1, 3) if policy != "KEEP_LATEST_FILE_VERSIONS" else 1
        result = self.table.clean(policy=policy, retain=retain)
        self.cleaned += 0 if result is None else len(result.files)
        again = tl.open_table("memory", storage=self.storage, clock=self.clock, options=FULL)
        left = again.clean(policy=policy, retain=retain, dry_run=True)
        assert left is None, f"an incremental clean left {[(f.path, f.reason) for f in left.files]}"
        if result is not None and result.earliest_retained is not None:
            for instant in self.past:
                if instant >= result.earliest_retained:
                    self.table.scan(as_of=instant).to_arrow()

    def savepoint(self) -> None:
        retained = [i for i in self.past if i in self.table.timeline.by_time]
        if not retained:
            return
        instant = self.random.choice((None, self.random.choice(retained)))
        try:
            made = self.table.savepoint(instant)
        except MissingFileError:
            return
        if made.instant not in self.kept:
            self.kept[made.instant] = self.past[made.instant]

    def drop(self) -> None:
        if self.kept:
            instant = self.random.choice(sorted(self.kept))
            self.table.drop_savepoint(instant)
            del self.kept[instant]

    def restore(self) -> None:
        if not self.kept or self.random.random() < 0.5:
            return
        instant = max(self.kept)
        self.table.restore(instant)
        self.now = dict(self.kept[instant])
        self.past = {time: state for time, state in self.past.items() if time <= instant}

    def check(self) -> None:
        assert self.rows() == self.now
        for instant, state in self.kept.items():
            assert self.rows(instant) == state, f"as of the savepoint {instant}"
        for instant, state in self.past.items():
            try:
                found = self.rows(instant)
            except MissingFileError:
                self.refused += 1
                continue
            self.read += 1
            assert found == state, f"as of {instant}"

    def rows(self, as_of: str | None = None) -> State:
        found = self.table.scan(columns=["id", "name"], as_of=as_of).to_arrow().to_pylist()
        assert len(found) == len({row["id"] for row in found})
        return {row["id"]: row["name"] for row in found}


SEED = int(os.environ.get("TIDELAKE_SEED") or random.SystemRandom().randrange(10**9))


@pytest.mark.parametrize("seed", range(SEED, SEED + RUNS), ids=lambda seed: "")
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_random_history_with_cleans_keeps_every_promise(table_type: str, seed: int) -> None:
    """Snapshots, retained points and savepoints never change; incremental cleaning equals full cleaning."""
    print(f"TIDELAKE_SEED={seed} {table_type}")
    machine = Machine(random.Random(f"{table_type}/{seed}"), table_type)
    for _ in range(STEPS):
        machine.step()
    print(machine.log, machine.cleaned, machine.refused, machine.read)
    assert machine.read
