"""Two first writers of ours on a table that Apache Hudi made, with its metadata table: no head yet, two retirements at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from model.deep import IS_DEEP
from tidelake.format.properties import check_table_properties, decode_properties
from tidelake.storage import FaultyStorage, MemoryStorage
from tidelake.testing import ManualClock
from unit.write.interleave import Scheduler, make_deterministic, outcome

PROPERTIES = ".hoodie/hoodie.properties"
NAMED = ("hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight")
SAMPLES = 2_000 if IS_DEEP else 20
START = datetime(2026, 12, 1, tzinfo=timezone.utc)
Rows = dict[int, str]

# What the two write: into different partitions, so that both succeed, or to the same key.
PAIRS = {
    "other partitions": ((5, "a"), (4, "b")),
    "one key": ((5, "a"), (5, "a")),
    "one new key": ((50, "a"), (50, "a")),
}


@pytest.fixture(autouse=True)
def deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    make_deterministic(monkeypatch)


@pytest.fixture(scope="module")
def made_by_hudi(golden: Callable[[str], Path]) -> MemoryStorage:
    root = golden("mor_v9_metadata_table")
    storage = MemoryStorage()
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.name.endswith(".crc"):
            storage.put(path.relative_to(root).as_posix(), path.read_bytes())
    assert decode_properties(storage.get(PROPERTIES))[NAMED[0]]
    assert list(storage.list_files(".hoodie/metadata"))
    return storage


class World:
    """A copy of the table, and what may be seen on it at any moment."""

    def __init__(self, made: MemoryStorage) -> None:
        self.clock = ManualClock(START, seed=1)
        self.storage = made.copy(clock=self.clock)
        self.first = {info.path for info in made.list_files(".hoodie/timeline")}
        self.properties = decode_properties(made.get(PROPERTIES))
        self.before = self.rows()

    def write(self, row: tuple[int, str], name: str) -> Callable[[Any], Any]:
        number, part = row
        data = pa.table(
            {
                "id": pa.array([number], pa.int32()),
                "name": [name],
                "ts": pa.array([99], pa.int64()),
                "part": [part],
            }
        )
        return lambda storage: tl.open_table("memory", storage=storage, clock=self.clock).upsert(data)

    def rows(self) -> Rows:
        found = tl.open_table("memory", storage=self.storage).scan(columns=["id", "name"]).to_arrow().to_pylist()
        assert len({row["id"] for row in found}) == len(found), "a key stands twice"
        return {row["id"]: row["name"] for row in found}

    def look(self) -> None:
        """Once a commit of ours is there, no property may send a reader to the metadata table."""
        ours = {info.path for info in self.storage.list_files(".hoodie/timeline")} - self.first
        if any(path.endswith(".deltacommit") for path in ours):
            properties = decode_properties(self.storage.get(PROPERTIES))
            assert not any(properties.get(name) for name in NAMED), "a commit that the metadata table does not know"

    def check(self, pair: str, results: list[Any]) -> None:
        self.look()
        told = [outcome(result) for result in results]
        expected = dict(self.before)
        for (number, _), name, said in zip(PAIRS[pair], ("one", "other"), told, strict=True):
            if said == "ok":
                expected[number] = name
        seen = self.rows()
        if told == ["ok", "ok"] and PAIRS[pair][0] == PAIRS[pair][1]:
            assert seen in (expected, {**expected, PAIRS[pair][0][0]: "one"}), told
        else:
            assert seen == expected, told
        assert "ok" in told
        assert pair != "other partitions" or told == ["ok", "ok"]
        properties = decode_properties(self.storage.get(PROPERTIES))
        check_table_properties(properties)
        changed = {key for key in {*properties, *self.properties} if properties.get(key) != self.properties.get(key)}
        assert changed <= {*NAMED, "hoodie.table.index.defs.path"}
        left = [info.path for info in self.storage.list_files(".hoodie/metadata")]
        assert not left, left
        assert not self.storage.exists(".hoodie/hoodie.properties.backup")
        assert not tl.open_table("memory", storage=self.storage).timeline.pending


def operations(made: MemoryStorage) -> range:
    world = World(made)
    counted = FaultyStorage(world.storage)
    world.write((5, "a"), "counted")(counted)
    return range(1, counted.operations + 1)


@pytest.mark.parametrize("pair", PAIRS)
def test_first_writers_one_within_the_other_at_every_operation(made_by_hudi: MemoryStorage, pair: str) -> None:
    """The other's whole first write happens before any operation of the one: both are right, or one is told."""
    numbers = operations(made_by_hudi)
    for at in numbers if IS_DEEP or pair == "other partitions" else numbers[::4]:
        world = World(made_by_hudi)
        other: list[Any] = []

        def between(
            number: int, verb: str, path: str, world: World = world, other: list[Any] = other, at: int = at
        ) -> None:
            world.look()
            if number == at and not other:
                other.append(caught(world.write(PAIRS[pair][1], "other"), world.storage))

        one = caught(world.write(PAIRS[pair][0], "one"), FaultyStorage(world.storage, on_operation=between))
        world.check(pair, [one, *other])


@pytest.mark.parametrize("pair", PAIRS)
def test_first_writers_interleaved_at_random(made_by_hudi: MemoryStorage, pair: str) -> None:
    """However their storage operations mix, no reader is sent to a metadata table that does not know a commit."""
    start = random.SystemRandom().randrange(10**9)
    for seed in range(start, start + SAMPLES):
        world = World(made_by_hudi)
        jobs = [world.write(row, name) for row, name in zip(PAIRS[pair], ("one", "other"), strict=True)]
        results = Scheduler(seed, random.Random(seed).choice([0.05, 0.1, 0.3])).run(jobs, Looking(world))
        try:
            world.check(pair, results)
        except (AssertionError, tl.TidelakeError) as error:
            raise AssertionError(f"seed {seed}: {error}") from error


class Looking(FaultyStorage):
    """Looks at the table after every change of it."""

    def __init__(self, world: World) -> None:
        super().__init__(world.storage, on_operation=lambda *_: world.look())


def caught(job: Callable[[Any], Any], storage: Any) -> Any:
    try:
        return job(storage)
    except tl.TidelakeError as error:
        return error


def test_first_writers_without_retirement_are_found_out(
    made_by_hudi: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: if the metadata table stays named, the harness sees a commit that it does not know."""
    monkeypatch.setattr("tidelake.write.transaction.retire_metadata_table", lambda *_: False)
    world = World(made_by_hudi)
    world.write((5, "a"), "one")(world.storage)
    with pytest.raises(AssertionError, match="does not know"):
        world.look()
