"""Savepoints: what they keep, what is refused, and what is left of one that died."""

from __future__ import annotations

from contextlib import suppress

import pytest

from small_rows import rows
from small_world import COW, MOR, World
from tidelake.errors import InvalidError, MissingFileError
from tidelake.format.service_metadata import SavepointMetadata
from tidelake.services.savepoint import Savepoint
from tidelake.storage import FaultyStorage, SimulatedCrash
from tidelake.timeline import TimelineReader


@pytest.mark.parametrize("table_type", [COW, MOR])
def test_savepoint_names_the_files_of_the_latest_slices(table_type: str) -> None:
    """Base files and logs as of the commit, by partition, as Apache Hudi writes them."""
    world = World(table_type=table_type)
    world.upsert(1, 2)
    second = world.upsert(2)
    world.upsert(1)
    made = world.table.savepoint(second, user="me", comment="before the move")
    assert len(made.files) == (2 if table_type == COW else 3)
    assert all(path in world.files for path in made.files)
    assert world.table.savepoints() == (made,)
    instant = world.table.timeline.of_action("savepoint")[0]
    metadata = TimelineReader(world.storage, world.table.config).record(SavepointMetadata, instant.file_name)
    assert (metadata.savepointed_by, metadata.comments, metadata.version) == ("me", "before the move", 1)
    assert metadata.savepointed_at == world.clock.now_ms()
    assert metadata.partition_metadata.keys() == {"day=d0", "day=d1"}
    assert world.storage.exists(f".hoodie/timeline/{second}.savepoint.inflight")


def test_savepoint_by_default_is_of_the_last_write_and_is_made_once() -> None:
    """Without an instant the last write is kept; a second savepoint of it is the first one."""
    world = World()
    world.upsert(1)
    last = world.upsert(1)
    made = world.table.savepoint(comment="first")
    assert made.instant == last
    assert world.table.savepoint(comment="second") == made
    assert len(world.table.savepoints()) == 1


def test_savepoint_of_nothing_or_of_what_is_not_there_is_refused() -> None:
    """There must be a completed write of that time, and its files."""
    world = World()
    with pytest.raises(InvalidError, match="no completed write"):
        world.table.savepoint()
    world.upsert(1)
    for wrong in ("20200101000000000", "nonsense"):
        with pytest.raises(InvalidError, match="no completed write"):
            world.table.savepoint(wrong)
        with pytest.raises(InvalidError, match="no savepoint"):
            world.table.drop_savepoint(wrong)
        with pytest.raises(InvalidError, match="no savepoint"):
            world.table.restore(wrong)


def test_savepoint_of_a_cleaned_write_is_refused_and_leaves_nothing() -> None:
    """What was cleaned cannot be kept."""
    world = World()
    first = world.upsert(2)
    for _ in range(4):
        world.upsert(2)
    world.table.clean(retain=1)
    names = world.names()
    with pytest.raises(MissingFileError, match="were cleaned"):
        world.table.savepoint(first)
    assert world.names() == names


def test_savepoint_finishes_a_pending_clean_first() -> None:
    """A clean that was decided has its files: the savepoint is made of what is left, or refused."""
    world = World()
    instants = [world.upsert(2) for _ in range(4)]

    def die(number: int, verb: str, path: str) -> None:
        if verb == "delete" and path.endswith(".parquet"):
            raise SimulatedCrash(path)

    dying = world.open(FaultyStorage(world.storage, clock=world.clock, on_operation=die))
    with pytest.raises(SimulatedCrash):
        dying.clean(retain=1)
    with pytest.raises(MissingFileError, match="were cleaned"):
        world.table.savepoint(instants[0])
    assert instants[0] not in world.instants_on_storage
    assert not world.table.timeline.pending
    assert world.table.savepoint(instants[3]).instant == instants[3]


def test_savepoint_race_with_a_clean_either_keeps_or_is_refused() -> None:
    """Wherever a clean comes between a savepoint's operations, what the savepoint names is there afterwards."""
    world = World()
    instants = [world.upsert(2) for _ in range(4)]
    seen = FaultyStorage(world.storage.copy(), clock=world.clock)
    world.open(seen).savepoint(instants[0])
    kept, refused = 0, 0
    for at in range(1, seen.operations + 1):
        storage = world.storage.copy(clock=world.clock)

        def meanwhile(number: int, verb: str, path: str, at: int = at, storage: object = storage) -> None:
            if number == at:
                world.open(storage).clean(retain=1)

        try:
            made = world.open(FaultyStorage(storage, clock=world.clock, on_operation=meanwhile)).savepoint(instants[0])
        except MissingFileError:
            refused += 1
        else:
            kept += 1
            assert all(storage.exists(path) for path in made.files)
            assert world.open(storage).scan(as_of=instants[0]).to_arrow().num_rows == 1
        assert not world.open(storage).timeline.pending
    assert kept
    assert refused


def test_savepoint_that_died_half_way_is_removed_by_the_next_writer() -> None:
    """An inflight file alone keeps nothing; it goes when it is old."""
    world = World()
    instant = world.upsert(1)
    world.storage.put(f".hoodie/timeline/{instant}.savepoint.inflight", b"")
    world.table.upsert(rows((1, "b", 2)))
    assert world.table.timeline.pending, "it may be a live one"
    world.clock.advance(600)
    world.table.upsert(rows((1, "c", 3)))
    assert not world.table.timeline.pending
    assert world.table.savepoints() == ()


def test_clean_race_with_a_savepoint_never_removes_what_it_keeps() -> None:
    """Wherever a savepoint comes between a clean's operations, its files stay, or it is refused."""
    world = World()
    instants = [world.upsert(2) for _ in range(4)]
    seen = FaultyStorage(world.storage.copy(), clock=world.clock)
    world.open(seen).clean(retain=1)
    kept, refused = 0, 0
    for at in range(1, seen.operations + 1):
        storage = world.storage.copy(clock=world.clock)
        made: list[Savepoint] = []

        def meanwhile(
            number: int, verb: str, path: str, at: int = at, storage: object = storage, made: list[Savepoint] = made
        ) -> None:
            if number == at:
                with suppress(MissingFileError):
                    made.append(world.open(storage).savepoint(instants[0]))

        world.open(FaultyStorage(storage, clock=world.clock, on_operation=meanwhile)).clean(retain=1)
        if made:
            kept += 1
            assert all(storage.exists(path) for path in made[0].files), at
            assert world.open(storage).scan(as_of=instants[0]).to_arrow().num_rows == 1
        else:
            refused += 1
        assert not world.open(storage).timeline.pending
    assert kept
    assert refused
