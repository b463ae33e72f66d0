"""The law of the table state: what was stored, with what completed since, equals a listing. On any history."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelake as tl
from golden.support import golden_names
from model.deep import IS_DEEP, examples
from model.histories import Action, History, histories, store
from model.oracle import Rules
from model.tables import time_of
from small_rows import rows
from tidelake.errors import TidelakeError
from tidelake.filegroup import FileSlice, TableState, build_state, load_state, save_state
from tidelake.filegroup.state_store import STATE_DIR
from tidelake.format.plans import InstantInfo, RollbackPlan
from tidelake.query import TableSource
from tidelake.storage import Storage, open_storage
from tidelake.testing import Fault, FaultyStorage, ManualClock, MemoryStorage, SimulatedCrash

FIRST, SECOND, THIRD = (f"{n:08d}-0000-4000-8000-000000000000-0" for n in range(3))


def built(storage: Storage) -> TableState:
    source = TableSource.load(storage)
    return build_state(storage, source.config, source.timeline, source.reader)


def loaded(storage: Storage) -> TableState | None:
    source = TableSource.load(storage)
    return load_state(storage, source.config, source.timeline, source.reader)


def listed(storage: Storage) -> list[FileSlice]:
    return in_order(TableSource.load(storage).view().listed_slices())


def in_order(slices: Iterable[FileSlice]) -> list[FileSlice]:
    """Slices by partition and group. How many bytes an archived commit wrote to a log, only the state remembers."""
    plain = (replace(s, logs=tuple(replace(log, committed_bytes=None) for log in s.logs)) for s in slices)
    return sorted(plain, key=lambda s: (s.partition_path, s.file_id))


def assert_is_listing(storage: Storage, state: TableState) -> None:
    found = list(state.slices_of())
    assert in_order(found) == listed(storage)
    partitions = sorted({s.partition_path for s in found})
    assert state.partitions() == partitions
    assert len(state) == len(partitions)
    some = partitions[::2]
    assert in_order(state.slices_of(some)) == in_order(s for s in found if s.partition_path in some)
    known = {(s.partition_path, log.path): log.committed_bytes for s in found for log in s.logs}
    for file_slice in TableSource.load(storage).view().listed_slices():
        for log in file_slice.logs:
            if log.committed_bytes is not None:
                assert known[file_slice.partition_path, log.path] == log.committed_bytes
    statistics = {row["path"]: row for row in state.statistics().to_pylist()}
    assert list(statistics) == partitions
    for path, row in statistics.items():
        assert row["size_bytes"] == sum(s.size_bytes for s in found if s.partition_path == path)


def give_state(source: Storage, target: Storage) -> None:
    """The state of one storage to another."""
    for info in source.list_dir(STATE_DIR)[1]:
        target.put(info.path, source.get(info.path))


def until(history: History, tick: int) -> History:
    """A history as it stood at an earlier moment; what was archived then is archived."""
    actions = [
        replace(a, completed=a.completed if a.completed and a.completed <= tick else None)
        for a in history.actions
        if a.requested <= tick
    ]
    return replace(history, actions=actions, now=tick, archived=0, savepoint=None)


@given(histories(), st.booleans(), st.data())
@examples(100)
def test_state_of_an_earlier_moment_folded_equals_the_listing(
    history: History, is_marked: bool, data: st.DataObject
) -> None:
    """Late completions, compactions, overwrites and archiving since, with our mark or without: nothing is missed."""
    earlier = until(history, data.draw(st.integers(1, history.now)))
    before, now = store(earlier, is_marked=is_marked), store(history, is_marked=is_marked)
    save_state(before, built(before))
    give_state(before, now)
    state = loaded(now)
    if state is None:
        # Given up only where the active timeline begins earlier than it did, or knows none of the state's writes.
        completed = [a for a in earlier.actions if a.completed]
        assert not completed or TableSource.load(now).timeline.first_active is None
        return
    assert_is_listing(now, state)
    assert_is_listing(now, state.compacted())
    save_state(now, state)
    again = loaded(now)
    assert again is not None
    assert_is_listing(now, again)


@given(histories(), st.booleans(), st.data())
@examples(100)
def test_state_of_a_later_moment_taken_back_equals_the_listing(
    history: History, is_marked: bool, data: st.DataObject
) -> None:
    """Writes that the state has and the timeline has not, undone or not yet read, are taken out again."""
    history.archived, history.savepoint = 0, None
    earlier = until(history, data.draw(st.integers(1, history.now)))
    before, now = store(earlier, is_marked=is_marked), store(history, is_marked=is_marked)
    save_state(now, built(now))
    give_state(now, before)
    state = loaded(before)
    if state is not None:
        assert_is_listing(before, state)


def test_state_after_its_savepoint_was_dropped_equals_the_listing() -> None:
    """The active timeline then begins with the commit that was kept: files of archived ones after it are not visible."""
    first = Action("insert", 1, 2, {("", FIRST): []})
    second = Action("insert", 3, 4, {("", SECOND): []})
    third = Action("insert", 5, 6, {("", THIRD): []})
    storage = store(History(Rules(), ("",), [first, second, third], 6, archived=2, savepoint=0))
    save_state(storage, built(storage))
    state = loaded(storage)
    assert state is not None
    assert_is_listing(storage, state)
    (savepoint,) = [info.path for info in storage.list_files() if info.path.endswith(".savepoint")]
    storage.delete(savepoint)
    assert len(listed(storage)) == 2
    state = loaded(storage) or built(storage)
    assert_is_listing(storage, state)


def test_state_after_a_write_without_an_instant_was_taken_back_equals_the_listing() -> None:
    """A file that counted as archived is not visible once a rollback names its instant and the history does not."""
    first = Action("insert", 1, 2, {("", FIRST): []})
    second = Action("insert", 3, 4, {("", SECOND): []})
    storage = store(History(Rules(), ("",), [first, second], 4))
    for info in list(storage.list_files(".hoodie/timeline")):
        if time_of(1) in info.path:
            storage.delete(info.path)
    save_state(storage, built(storage))
    assert len(listed(storage)) == 2
    plan = RollbackPlan(InstantInfo(time_of(1), "deltacommit"), (), 1)
    storage.put(f".hoodie/timeline/{time_of(7)}.rollback.requested", plan.encode(bytes(16)))
    assert len(listed(storage)) == 1
    state = loaded(storage)
    assert state is not None
    assert_is_listing(storage, state)


@pytest.mark.parametrize("name", golden_names())
def test_state_of_a_golden_table_equals_the_listing(name: str, golden: Callable[[str], Path]) -> None:
    """Tables of Apache Hudi: archived, cleaned, clustered, compacted, restored, in all layouts."""
    storage = in_memory(open_storage(str(golden(name))))
    state = built(storage)
    assert_is_listing(storage, state)
    save_state(storage, state)
    stored = loaded(storage)
    if stored is None:
        assert len(TableSource.load(storage).timeline) == 0
    else:
        assert stored.is_stored
        assert_is_listing(storage, stored)


@pytest.mark.parametrize("name", golden_names())
def test_state_from_before_the_last_writes_of_a_golden_table_equals_the_listing(
    name: str, golden: Callable[[str], Path]
) -> None:
    """Every completed file of Apache Hudi's timeline was once the last one: a state of any of these times is continued."""
    whole = in_memory(open_storage(str(golden(name))))
    timeline = TableSource.load(whole).timeline
    times = sorted(i.completion_time or "" for i in timeline.completed_writes)
    for cut in times[-5:-1]:
        before = whole.copy()
        for instant in timeline.instants:
            if (instant.completion_time or "") > cut:
                before.delete(f"{TableSource.load(whole).config.timeline_dir}/{instant.file_name}")
        try:
            save_state(before, built(before))
        except TidelakeError:
            continue  # files of that time were cleaned since
        now = whole.copy()
        give_state(before, now)
        state = loaded(now)
        assert state is not None
        assert_is_listing(now, state)


def in_memory(storage: Storage) -> MemoryStorage:
    made = MemoryStorage()
    for info in storage.list_files():
        made.put(info.path, storage.get(info.path))
    return made


OPERATIONS = [
    "upsert",
    "insert",
    "bulk_insert",
    "delete",
    "insert_overwrite",
    "insert_overwrite_table",
    "delete_partitions",
    "compact",
    "clean",
    "savepoint",
    "restore",
    "drop_savepoint",
]


class Life:
    """A table that is written at random, and states of it that are stored now and then."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock(seed=seed)
        self.storage = MemoryStorage(clock=self.clock)
        self.told: list[str] = []
        self.kind = self.random.choice(["MERGE_ON_READ", "COPY_ON_WRITE"])
        index = self.random.choice(["SIMPLE", "BUCKET", "GLOBAL_SIMPLE"])
        tl.create_table(
            "memory",
            "id bigint, name string, ts bigint, day string",
            name="life",
            record_key="id",
            partition_by="day",
            ordering_fields="ts",
            event_time_field="ts",
            table_type=self.kind,
            options={"hoodie.index.type": index, "hoodie.payload.event.time.unit": "ms"},
            storage=self.storage,
            clock=self.clock,
        )

    def batch(self) -> pa.Table:
        days = pa.array([f"d{self.random.randrange(5)}" for _ in range(self.random.randint(1, 4))])
        some = rows(*((self.random.randrange(12), "n", self.random.randrange(1000)) for _ in range(len(days))))
        return some.set_column(3, "day", days)

    def step(self) -> None:
        self.clock.advance(1.0)
        table = tl.open_table("memory", storage=self.storage, clock=self.clock, options={"tidelake.state.turns": "0"})
        verb = self.random.choice([*OPERATIONS, "upsert", "upsert", "rollback", "rollback", "crash", "save", "save"])
        self.told.append(verb)
        if verb == "save":
            state = loaded(self.storage) or built(self.storage)
            save_state(self.storage, state)
        elif verb == "rollback":
            last = max(table.timeline.completed_writes, key=lambda i: i.completion_time or "", default=None)
            if last is not None:
                # A write that died is pending, or the last one is a service.
                with suppress(tl.ConflictError, tl.UnsupportedError):
                    table.rollback(last.requested_time)
        elif verb == "compact":
            if self.kind == "MERGE_ON_READ":
                table.compact()
        elif verb == "clean":
            self.clock.advance(self.random.choice([1.0, 100_000.0]))
            table.clean("KEEP_LATEST_COMMITS", 1)
        elif verb == "savepoint":
            with suppress(tl.TidelakeError):  # nothing to keep, or kept already
                table.savepoint()
        elif verb in ("restore", "drop_savepoint"):
            for savepoint in self.random.sample(table.savepoints(), min(1, len(table.savepoints()))):
                with suppress(tl.ConflictError):  # a savepoint that is later
                    getattr(table, verb)(savepoint.instant)
        elif verb == "delete":
            table.delete([self.random.randrange(12)])
        elif verb == "delete_partitions":
            table.delete_partitions([f"day=d{self.random.randrange(5)}"])
        elif verb == "crash":
            dying = FaultyStorage(self.storage, [Fault(self.random.randint(1, 60), "crash_before")], clock=self.clock)
            try:
                tl.open_table("memory", storage=dying, clock=self.clock).upsert(self.batch())
            except SimulatedCrash:
                self.clock.advance(600.0)
        else:
            getattr(table, verb)(self.batch())


SEEDS = [int(os.environ["TIDELAKE_SEED"])] if os.environ.get("TIDELAKE_SEED", "").isdigit() else None


@pytest.mark.parametrize(
    "seed", SEEDS or [random.SystemRandom().randrange(10**9) for _ in range(500 if IS_DEEP else 12)]
)
def test_state_of_a_table_that_is_written_and_rolled_back_equals_the_listing(seed: int) -> None:
    """Writes of every operation, rollbacks and crashes: a state stored at any time becomes the listing of any later one."""
    life = Life(seed)
    try:
        for _ in range(25):
            life.step()
            state = loaded(life.storage)
            if state is not None:
                assert_is_listing(life.storage, state)
    except BaseException:
        print(f"TIDELAKE_SEED={seed}", *life.told, sep="\n  ")
        raise
