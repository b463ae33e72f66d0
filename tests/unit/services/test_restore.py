"""Going back to a savepoint: what is undone, in which order, what is refused, and who goes on afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tidelake as tl
from small_rows import rows
from small_world import COW, MOR, World
from tidelake.errors import ConflictError, InvalidError, MissingFileError
from tidelake.format.plans import RestorePlan
from tidelake.format.service_metadata import RestoreMetadata
from tidelake.storage import Fault, FaultyStorage, SimulatedCrash, Storage
from tidelake.timeline import TimelineReader


@pytest.mark.parametrize("table_type", [COW, MOR])
def test_restore_brings_back_the_rows_of_the_savepoint(table_type: str) -> None:
    """Updates, inserts, deletes, overwrites: all of it goes, and writing goes on."""
    world = World(table_type=table_type)
    world.upsert(1, 2, 3)
    world.upsert(2)
    then, files = world.rows(), world.files
    kept = world.table.savepoint().instant
    later = [world.upsert(1, 5)]
    world.clock.advance(60)
    world.table.delete([2])
    world.clock.advance(60)
    world.table.insert_overwrite(rows((4, "over", 1)))
    shown = world.table.restore(kept, dry_run=True)
    names = world.names()
    result = world.table.restore(kept)
    assert shown is not None
    assert result is not None
    assert names != world.names()
    assert (shown.undone, shown.files) == (result.undone, result.files)
    assert len(result.undone) == 3
    assert result.undone[-1].requested_time == later[0], "the newest completion first"
    assert world.rows() == then
    assert world.files == files
    assert not world.table.timeline.pending
    assert world.table.restore(kept) is None, "it is there"
    world.upsert(2, 6)
    assert world.rows().keys() == {1, 2, 3, 6}
    assert world.rows(as_of=kept) == then


def test_restore_undoes_what_completed_after_the_savepoint_was_made_whenever_it_was_requested() -> None:
    """A write that was requested before the savepoint and completed after it goes; Apache Hudi's order would keep it."""
    world = World()
    world.upsert(1, 2)
    kept: list[str] = []

    def meanwhile(number: int, verb: str, path: str) -> None:
        if verb == "put" and "/staged/" in path and not kept:
            kept.append("begun")
            world.upsert(1, advance_s=1)
            kept.append(world.table.savepoint().instant)

    slow = world.open(FaultyStorage(world.storage, clock=world.clock, on_operation=meanwhile))
    slow_instant = slow.upsert(rows((2, "slow", 10**14))).requested_time
    assert slow_instant < kept[1]
    assert world.rows()[2] == "slow"
    result = world.table.restore(kept[1])
    assert result is not None
    assert [i.requested_time for i in result.undone] == [slow_instant]
    assert world.rows()[2] != "slow"


def test_restore_to_an_older_commit_undoes_what_was_requested_after_it() -> None:
    """A savepoint of an older write, made later, brings back that write's state."""
    world = World()
    instants = [world.upsert(2) for _ in range(3)]
    then = world.rows(as_of=instants[0])
    world.table.savepoint(instants[0])
    result = world.table.restore(instants[0])
    assert result is not None
    assert [i.requested_time for i in result.undone] == [instants[2], instants[1]]
    assert world.rows() == then


def test_restore_condemns_pending_writes() -> None:
    """A writer that is under way fails at its commit, and nothing of it is left."""
    world = World()
    world.upsert(1, 2)
    then = world.rows()
    kept = world.table.savepoint().instant
    world.upsert(1)
    done: list[object] = []

    def meanwhile(number: int, verb: str, path: str) -> None:
        if verb == "put" and "/staged/" in path and not done:
            done.append("begun")
            done.append(world.table.restore(kept))

    with pytest.raises(ConflictError):
        world.open(FaultyStorage(world.storage, clock=world.clock, on_operation=meanwhile)).upsert(
            rows((2, "x", 10**14))
        )
    assert [len(done[1].undone), len(done[1].rolled_back)] == [1, 1]  # type: ignore[attr-defined]
    assert world.rows() == then
    world.clock.advance(600)
    world.upsert(1)
    assert not world.table.timeline.pending
    assert not list(world.storage.list_files(".hoodie/.temp"))


def test_restore_with_a_newer_savepoint_in_the_way_is_refused() -> None:
    """A newer savepoint keeps its commit: it is dropped first, by a person."""
    world = World()
    world.upsert(1)
    old = world.table.savepoint().instant
    world.upsert(1)
    new = world.table.savepoint().instant
    with pytest.raises(ConflictError, match="savepoint"):
        world.table.restore(old)
    world.table.drop_savepoint(new)
    assert world.table.restore(old) is not None


def test_restore_with_a_lost_file_is_refused_and_changes_nothing() -> None:
    """What the savepoint keeps is looked for before anything is undone."""
    world = World()
    world.upsert(1, 2)
    made = world.table.savepoint()
    world.upsert(1)
    world.storage.delete(made.files[0])
    before = {info.path: info.version for info in world.storage.list_files() if "timeline" in info.path}
    with pytest.raises(MissingFileError, match="savepoint keeps"):
        world.table.restore(made.instant)
    assert {i.path: i.version for i in world.storage.list_files() if "timeline" in i.path} == before


def test_restore_after_cleans_brings_back_and_can_be_read_as_of() -> None:
    """Cleans since the savepoint have kept its files; its own time stays readable, others before it do not come back."""
    world = World()
    first = world.upsert(2)
    kept = world.upsert(2)
    then = world.rows()
    world.table.savepoint()
    for _ in range(5):
        world.upsert(2)
        world.table.clean(retain=1)
    assert world.table.restore(kept) is not None
    assert world.rows() == then == world.rows(as_of=kept)
    assert world.rows(as_of_completion=world.table.timeline.greatest_time) == then
    with pytest.raises(MissingFileError):
        world.rows(as_of=first)
    for _ in range(4):
        world.upsert(2)
    world.table.drop_savepoint(kept)
    world.table.clean(retain=1)
    assert world.open(**{"hoodie.clean.incremental.enabled": "false"}).clean(retain=1) is None
    assert kept not in world.instants_on_storage


def test_restore_plan_and_metadata_are_as_apache_hudi_writes_them() -> None:
    """Newest completion first, version 2 with the savepoint; metadata by instant."""
    world = World()
    world.upsert(1)
    kept = world.table.savepoint().instant
    later = [world.upsert(1), world.upsert(2)]
    world.table.restore(kept)
    instant = world.table.timeline.of_action("restore")[0]
    reader = TimelineReader(world.storage, world.table.config)
    plan = reader.record(RestorePlan, instant.requested_file_name)
    assert [(i.commit_time, i.action) for i in plan.instants_to_rollback] == [(t, "commit") for t in reversed(later)]
    assert (plan.version, plan.savepoint_to_restore_timestamp) == (2, kept)
    metadata = reader.record(RestoreMetadata, instant.file_name)
    assert metadata.instants_to_rollback == tuple(reversed(later))
    assert metadata.hoodie_restore_metadata.keys() == set(later)
    assert not [name for name in world.names() if any(t in name for t in later)]


def test_restore_half_done_is_finished_by_the_next_writer() -> None:
    """Once its plan is published a restore is true: readers see its state, and the next write finishes it."""
    world = World(table_type=MOR)
    world.upsert(1, 2)
    then = world.rows()
    kept = world.table.savepoint().instant
    world.upsert(1)
    counted = FaultyStorage(world.storage.copy(), clock=world.clock)
    world.open(counted).restore(kept)
    first = next(o.number for o in counted.journal if o.verb == "delete" and "/timeline/" in o.path)
    with pytest.raises(SimulatedCrash):
        tl.open_table(
            "memory", storage=FaultyStorage(world.storage, [Fault(first, "crash_before")]), clock=world.clock
        ).restore(kept)
    assert world.rows() == then
    world.upsert(7)
    assert world.rows() == {**then, 7: world.rows()[7]}
    assert not world.table.timeline.pending
    assert world.table.timeline.of_action("restore")


OTHERS: dict[str, Callable[[tl.Table], object]] = {
    "upsert": lambda t: t.upsert(rows((1, "other", 10**14), (8, "other", 1))),
    "clean": lambda t: t.clean(retain=1),
    "compact": lambda t: t.compact(),
    "restore": lambda t: t.restore(next(iter(t.timeline.savepoints))),
    "drop": lambda t: t.drop_savepoint(next(iter(t.timeline.savepoints))),
}


@pytest.mark.parametrize("other", OTHERS)
def test_restore_race_with_another_process_ends_in_the_savepoint_or_on_top_of_it(other: str) -> None:
    """Wherever another process writes, cleans, compacts or restores between a restore's operations, the table is whole."""
    world = World(table_type=MOR)
    world.upsert(1, 2)
    then = world.rows()
    kept = world.table.savepoint().instant
    world.upsert(1)
    world.table.compact()
    world.upsert(1, 2)
    trial = world.storage.copy(clock=world.clock)
    counted = FaultyStorage(trial, clock=world.clock)
    world.open(counted).restore(kept)
    ends = set()
    for at in range(1, counted.operations + 1, 2):
        storage = world.storage.copy(clock=world.clock)
        told: list[str] = []

        def meanwhile(
            number: int, verb: str, path: str, at: int = at, storage: Storage = storage, told: list[str] = told
        ) -> None:
            if number == at:
                try:
                    OTHERS[other](world.open(storage))
                    told.append("ok")
                except (ConflictError, InvalidError, MissingFileError):
                    told.append("refused")

        try:
            world.open(FaultyStorage(storage, clock=world.clock, on_operation=meanwhile)).restore(kept)
        except InvalidError:
            assert other == "drop", at
            continue
        world.clock.advance(600)
        found = {row["id"]: row["name"] for row in world.open(storage).scan().to_arrow().to_pylist()}
        assert found in (then, {**then, 1: "other", 8: "other"}), at
        assert found == then or told == ["ok"], at
        world.open(storage).upsert(rows((20, "next", 1)))
        assert not [i for i in world.open(storage).timeline.pending if i.pending_action != "compaction"], at
        ends.add(found == then)
    assert True in ends
    assert (False in ends) == (other == "upsert")


def test_restore_takes_plans_back_and_their_executors_are_told() -> None:
    """Whoever was about to carry such a plan out gets a conflict, and plans anew."""
    world = World(table_type=MOR)
    world.upsert(1, 2)
    world.upsert(1)
    saved = world.table.savepoint().instant
    instant = world.table.schedule_compaction()
    world.table.restore(saved)
    with pytest.raises(ConflictError, match=instant):
        world.table.run_compaction(instant)
    assert world.table.compact() is not None
