"""Random histories of writes, clusterings and compactions, some within one another, against a dict."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import tidelake as tl
from model.deep import IS_DEEP
from small_rows import rows
from tidelake.errors import ConflictError
from tidelake.storage import MemoryStorage
from tidelake.testing import ManualClock
from tidelake.write import job

SCHEMA = "id bigint, name string, ts bigint, day string"
SHAPES = [(kind, index) for kind in ("MERGE_ON_READ", "COPY_ON_WRITE") for index in ("SIMPLE", "BUCKET")]
SEEDS = range(500) if IS_DEEP else range(3)
STEPS = 40 if IS_DEEP else 14
KEYS = 24


class History:
    """A table, what it must hold, and random things that happen to it."""

    def __init__(self, seed: int, table_type: str, index: str) -> None:
        self.rng = random.Random(seed)
        self.clock = ManualClock(seed=seed)
        self.storage = MemoryStorage(clock=self.clock)
        options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"} if index == "BUCKET" else {}
        tl.create_table(
            "memory",
            SCHEMA,
            name="t",
            record_key="id",
            partition_by="day",
            ordering_fields="ts",
            table_type=table_type,
            options=options,
            storage=self.storage,
            clock=self.clock,
        )
        self.has_logs = table_type == "MERGE_ON_READ"
        self.expected: dict[int, tuple[str, int]] = {}
        self.now = 1
        self.refused = 0

    def open(self) -> tl.Table:
        return tl.open_table("memory", storage=self.storage, clock=self.clock)

    def found(self) -> dict[int, tuple[str, int]]:
        read = self.open().scan(columns=["id", "name", "ts"]).to_arrow().to_pylist()
        assert len(read) == len({row["id"] for row in read}), "a key stands twice"
        return {row["id"]: (row["name"], row["ts"]) for row in read}

    def step(self) -> None:
        self.now += 1
        steps = [self.upsert, self.upsert, self.delete, self.overwrite, self.service, self.service, self.within]
        self.rng.choice(steps)()
        assert self.found() == self.expected

    def attempt(self, write: Callable[[tl.Table], object], apply: Callable[[], None]) -> None:
        """A write that a pending clustering may refuse: then it leaves nothing."""
        try:
            write(self.open())
        except ConflictError:
            self.refused += 1
        else:
            apply()

    def upsert(self) -> None:
        ids = self.rng.sample(range(KEYS), self.rng.randrange(1, 6))
        late = self.rng.random() < 0.2
        new = {key: (f"v{self.now}", 0 if late and key in self.expected else self.now) for key in ids}

        def apply() -> None:
            for key, (name, ts) in new.items():
                if ts >= self.expected.get(key, ("", -1))[1]:
                    self.expected[key] = (name, ts)

        data = rows(*((key, name, ts) for key, (name, ts) in new.items()))
        self.attempt(lambda t: t.upsert(data), apply)

    def delete(self) -> None:
        ids = self.rng.sample(range(KEYS), 3)
        self.attempt(lambda t: t.delete(ids), lambda: [self.expected.pop(key, None) for key in ids] and None)

    def overwrite(self) -> None:
        key = self.rng.randrange(KEYS)

        def apply() -> None:
            for other in [k for k in self.expected if k % 2 == key % 2]:
                del self.expected[other]
            self.expected[key] = ("over", self.now)

        self.attempt(lambda t: t.insert_overwrite(rows((key, "over", self.now))), apply)

    def service(self) -> None:
        table = self.open()
        order: dict[str, Any] = self.rng.choice(
            [{}, {"sort_by": "name"}, {"sort_by": ["name", "ts"], "order": "hilbert"}]
        )
        limit = {"hoodie.clustering.plan.strategy.max.num.groups": str(self.rng.randrange(1, 4))}
        kinds: list[Callable[[], object]] = [
            lambda: table.cluster(**order),
            lambda: table.cluster(**order, options=limit),
            lambda: table.schedule_clustering(**order, options=limit),
            table.run_clustering,
        ]
        if self.has_logs:
            kinds += [table.compact, table.schedule_compaction, table.run_compaction]
        try:
            self.rng.choice(kinds)()
        except ConflictError:
            self.refused += 1

    def within(self) -> None:
        """Something else happens after a write has made its files, and before it commits."""
        real, happened = job.finish, []

        def finish(*given: Any) -> Any:
            if not happened:
                happened.append(1)
                self.rng.choice([self.service, self.service, self.delete])()
            return real(*given)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(job, "finish", finish)
            self.upsert()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("table_type", "index"), SHAPES)
def test_random_history_with_clusterings_holds_what_the_dict_holds(table_type: str, index: str, seed: int) -> None:
    """No step, nor its refusal, loses or doubles a row; in the end everything that waits completes, and rests."""
    history = History(seed, table_type, index)
    for _ in range(STEPS):
        history.step()
    table = history.open()
    for _ in range(20):
        done = table.cluster(sort_by="name")
        compacted = table.compact() if history.has_logs else None
        if done is None and compacted is None:
            break
    else:
        raise AssertionError("the table does not come to rest")
    assert not history.open().timeline.pending
    assert history.found() == history.expected
    full = {"hoodie.table.services.incremental.enabled": "false"}
    assert table.cluster(sort_by="name", dry_run=True, options=full) is None, "incremental planning left work"
