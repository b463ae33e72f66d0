"""``Table.rollback``: a pending write, the last completed one, what is refused, and a crash at every storage operation."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake._clock import Clock
from tidelake.errors import ConflictError, InvalidError, UnsupportedError
from tidelake.format.names import State, TimelineName
from tidelake.locking.lock import NoLock
from tidelake.query import TableSource
from tidelake.storage import Fault, FaultyStorage, MemoryStorage, SimulatedCrash, Storage
from tidelake.testing import ManualClock
from tidelake.write.context import FileOptions
from tidelake.write.job import WriteRequest, start_of
from tidelake.write.transaction import Transaction

KINDS = ("MERGE_ON_READ", "COPY_ON_WRITE")
VERBS = ("upsert", "insert_overwrite", "insert", "delete_partitions")


def rows(*ids: int, name: str = "a", ts: int = 1) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [name] * len(ids),
            "ts": pa.array([ts] * len(ids), pa.int64()),
            "day": [f"d{i % 2}" for i in ids],
        }
    )


def make(kind: str = "MERGE_ON_READ") -> tuple[tl.Table, MemoryStorage, ManualClock]:
    clock = ManualClock(seed=1)
    storage = MemoryStorage(clock=clock)
    schema = "id bigint, name string, ts bigint, day string"
    table = tl.create_table(
        "memory", schema, partition_by="day", ordering_fields="ts", table_type=kind, storage=storage, clock=clock
    )
    table.upsert(rows(1, 2, 3, 4))
    return table, storage, clock


def change(table: tl.Table, verb: str) -> tl.Table:
    if verb == "delete_partitions":
        table.delete_partitions(["day=d1"])
    elif verb == "insert":
        table.insert(rows(7, 8, name="new"))
    else:
        getattr(table, verb)(rows(1, 3, 7, name="new", ts=5))
    return table


def state(storage: Storage) -> dict[int, str]:
    found = tl.open_table("memory", storage=storage).scan(columns=["id", "name"]).to_arrow().to_pylist()
    assert len(found) == len({row["id"] for row in found})
    return {row["id"]: row["name"] for row in found}


def last_of(table: tl.Table) -> str:
    return table.timeline.completed_writes[-1].requested_time


def begin(storage: Storage, clock: Clock) -> Transaction:
    request = WriteRequest("upsert", {}, FileOptions())
    return Transaction(start_of(TableSource.load(storage), clock, request), NoLock())


def carrying(storage: MemoryStorage, instant: str) -> list[str]:
    return [i.path for i in storage.list_files("") if instant in i.path and "rollback" not in i.path]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", VERBS)
def test_rollback_of_the_last_completed_write_brings_the_state_before_back(kind: str, verb: str) -> None:
    """Every trace of the write is gone, a rollback says so, and the same write can be made again."""
    table, storage, _ = make(kind)
    before = state(storage)
    after = state(change(table, verb)._source.storage)
    gone = last_of(table)
    assert after != before
    own = table.rollback(gone)
    assert state(storage) == before
    assert carrying(storage, gone) == []
    assert [i.requested_time for i in table.timeline.of_action("rollback")] == [own]
    assert not table.timeline.pending
    change(table, verb)
    assert state(storage) == after


def test_rollback_newest_first_undoes_one_write_after_another() -> None:
    """What came later is refused first, by name; in the right order all goes."""
    table, storage, _ = make()
    for name in ("b", "c"):
        table.upsert(rows(1, name=name, ts=ord(name)))
    first, second, third = (i.requested_time for i in table.timeline.completed_writes)
    for early in (first, second):
        with pytest.raises(ConflictError, match=f"{early}.*{second if early == first else third}.* completed after it"):
            table.rollback(early)
    assert state(storage)[1] == "c"
    table.rollback(third)
    assert state(storage)[1] == "b"
    table.rollback(second)
    table.rollback(first)
    assert state(storage) == {}


def test_rollback_of_a_pending_write_that_lives_makes_its_commit_fail() -> None:
    """A user's word counts more than a fresh heartbeat; the writer is told, and nothing of it is seen."""
    table, storage, clock = make()
    writer = begin(storage, clock)
    table.rollback(writer.instant)
    assert carrying(storage, writer.instant) == []
    from tidelake.write.conflicts import Footprint

    with pytest.raises(ConflictError):
        writer.commit((), Footprint(frozenset()), {})
    assert len(table.timeline.completed_writes) == 1
    with pytest.raises(InvalidError, match=writer.instant):
        table.rollback(writer.instant)


def test_rollback_is_refused_while_a_write_begun_after_it_is_pending() -> None:
    """A pending write may have read it; one that was begun before it completed has not."""
    table, storage, clock = make()
    early = begin(storage, clock)
    table.upsert(rows(9))
    late = begin(storage, clock)
    gone = last_of(table)
    with pytest.raises(ConflictError, match=f"{late.instant}.*is pending"):
        table.rollback(gone)
    table.rollback(late.instant)
    table.rollback(gone)
    assert 9 not in state(storage)
    assert [i.requested_time for i in table.timeline.pending] == [early.instant]


@pytest.mark.parametrize("action", ["clean", "savepoint"])
def test_rollback_is_refused_after_a_clean_or_under_a_savepoint(action: str) -> None:
    """A clean may have removed what the write replaced; a savepoint keeps it."""
    table, storage, _ = make()
    table.upsert(rows(9))
    gone = table.timeline.completed_writes[-1]
    completion = gone.completion_time or ""
    later = str(int(completion) + 5)
    time = gone.requested_time if action == "savepoint" else later
    for at in (State.REQUESTED, State.INFLIGHT, State.COMPLETED):
        name = TimelineName(time, action, at, str(int(later) + 1) if at is State.COMPLETED else None)
        if action != "savepoint" or at is not State.REQUESTED:
            storage.put(f"{table.config.timeline_dir}/{name}", b"")
    with pytest.raises(ConflictError, match="savepoint" if action == "savepoint" else later):
        table.rollback(gone.requested_time)
    assert 9 in state(storage)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_before", [True, False], ids=["completed before it", "completed after it"])
def test_rollback_under_the_savepoint_of_a_write_that_was_requested_later(kind: str, is_before: bool) -> None:
    """The savepoint keeps what was requested before its write if that was done when it was made; else it does not."""
    table, storage, clock = make(kind)
    kept: list[str] = []
    inner: list[str] = []

    def between(number: int, verb: str, path: str) -> None:
        if not inner and verb == "put" and path.endswith(".parquet"):
            inner.append(
                tl.open_table("memory", storage=storage, clock=clock).upsert(rows(21, name="x")).requested_time
            )
            if not is_before:
                kept.append(table.savepoint(inner[0]).instant)

    faulty = FaultyStorage(storage, clock=clock, on_operation=between)
    outer = tl.open_table("memory", storage=faulty, clock=clock).upsert(rows(30, name="y")).requested_time
    assert inner
    assert outer < inner[0]
    if is_before:
        kept.append(table.savepoint(inner[0]).instant)
        with pytest.raises(ConflictError, match="savepoint"):
            table.rollback(outer)
    else:
        table.rollback(outer)
        assert 30 not in state(storage)
    table.upsert(rows(40))
    table.restore(kept[0])
    assert ({21, 30} if is_before else {21}) == set(state(storage)) & {21, 30, 40}


def test_rollback_of_what_is_no_write_is_refused(golden, tmp_path) -> None:
    """An unknown instant, a text that is none, and a table service."""
    import shutil

    table, _, _ = make()
    for wrong in ("20200101000000000", "yesterday", ""):
        with pytest.raises(InvalidError, match="no write"):
            table.rollback(wrong)
    shutil.copytree(golden("mor_v9_inline_compaction"), tmp_path / "t")
    compacted = tl.open_table(str(tmp_path / "t"))
    service = next(i for i in reversed(compacted.timeline.completed_writes) if i.action == "commit")
    with pytest.raises(UnsupportedError, match="table service"):
        compacted.rollback(service.requested_time)


def test_rollback_while_another_write_begins_on_top_makes_that_one_conflict() -> None:
    """A writer that read the rows at the moment they were rolled back does not bring them back."""
    table, storage, clock = make("COPY_ON_WRITE")
    table.upsert(rows(1, name="wrong", ts=5))
    gone = last_of(table)

    class Dying(FaultyStorage):
        """Dies when the rollback is decided and nothing of it is done."""

        def put_if_absent(self, path: str, data: bytes) -> str:
            if path.endswith(".rollback.inflight"):
                raise SimulatedCrash("dead")
            return super().put_if_absent(path, data)

    class Between(FaultyStorage):
        """Rolls back when the other write has looked at the timeline, and is about to show itself."""

        is_armed = True

        def put_if_absent(self, path: str, data: bytes) -> str:
            if self.is_armed and path.endswith(".commit.requested"):
                self.is_armed = False
                clock.advance(1.0)
                with pytest.raises(SimulatedCrash):
                    tl.open_table("memory", storage=Dying(storage, clock=clock), clock=clock).rollback(gone)
            return super().put_if_absent(path, data)

    other = tl.open_table("memory", storage=Between(storage, clock=clock), clock=clock)
    with pytest.raises(ConflictError, match=f"{gone} was rolled back"):
        other.upsert(rows(3, name="on top", ts=9))
    other.upsert(rows(3, name="again", ts=9))
    assert state(storage) == {1: "a", 2: "a", 3: "again", 4: "a"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", ["crash_before", "crash_after"])
def test_rollback_crash_at_every_operation_is_finished_by_the_next_writer(kind: str, fault: str) -> None:
    """Readers see the state before or after the rollback at every point, and never an error; recovery ends it."""
    table, storage, clock = make(kind)
    undone = state(storage)
    counted = FaultyStorage(storage, clock=clock)
    done = state(change(table, "upsert")._source.storage)
    again = tl.open_table("memory", storage=counted, clock=clock)
    opened = counted.operations
    again.rollback(last_of(table))
    seen = set()
    for at in range(opened + 1, counted.operations + 1):
        table, storage, clock = make(kind)
        change(table, "upsert")
        gone = last_of(table)
        broken = tl.open_table("memory", storage=FaultyStorage(storage, [Fault(at, fault)], clock=clock), clock=clock)
        with pytest.raises(SimulatedCrash):
            broken.rollback(gone)
        crashed = state(storage)
        assert crashed in (undone, done), at
        clock.advance(600.0)
        reopened = tl.open_table("memory", storage=storage, clock=clock)
        was_decided = bool(reopened.timeline.takers)
        reopened.upsert(rows(100, name="next"))
        recovered = state(storage)
        assert recovered.pop(100) == "next"
        assert recovered == (undone if was_decided or crashed == undone else recovered), at
        assert recovered in (undone, done), at
        assert not reopened.timeline.pending, at
        if recovered == undone:
            assert carrying(storage, gone) == [], at
        seen.add(recovered == undone)
    assert seen == {True, False}
