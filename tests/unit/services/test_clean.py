"""Cleaning: what goes, what stays and why, and which partitions are looked at."""

from __future__ import annotations

import json

import pytest

from small_rows import rows
from small_world import MOR, World, counted
from tidelake.errors import MissingFileError, OptionError
from tidelake.format.names import State, TimelineName
from tidelake.format.plans import CleanerPlan, CompactionOperation, CompactionPlan
from tidelake.services.clean.cursor import CURSOR_FILE, MARK_KEY
from tidelake.storage import Fault, FaultyStorage, SimulatedCrash
from tidelake.timeline import TimelineReader

VERSIONS, HOURS = "KEEP_LATEST_FILE_VERSIONS", "KEEP_LATEST_BY_HOURS"


def test_clean_by_commits_keeps_what_the_last_commits_need() -> None:
    """The slices of the last n commits stay, and the one that the earliest of them superseded."""
    world = World()
    instants = [world.upsert(2) for _ in range(6)]
    before = [world.rows(as_of=instant) for instant in instants]
    result = world.table.clean(retain=2)
    assert result is not None
    assert world.instants_on_storage == instants[3:]
    assert len(result.files) == 3
    assert result.size_bytes == sum(file.size_bytes for file in result.files) > 0
    assert result.earliest_retained == instants[4]
    assert all("superseded by" in reason for reason in result.reasons)
    assert result.partition_source == "incremental"
    assert [world.rows(as_of=instant) for instant in instants[4:]] == before[4:]
    for instant in instants[:4]:
        with pytest.raises(MissingFileError, match="were cleaned"):
            world.rows(as_of=instant)


def test_clean_with_few_commits_writes_nothing_and_lists_nothing() -> None:
    """Up to the number of retained commits there is nothing to look for."""
    world = World()
    for _ in range(10):
        world.upsert(2)
    table, listed = counted(world)
    names = world.names()
    assert table.clean() is None
    assert listed() == []
    assert world.names() == names
    world.upsert(2)
    assert table.clean() is None, "what the earliest retained commit superseded stays"
    world.upsert(2)
    assert len(table.clean().files) == 1  # type: ignore[union-attr]


def test_clean_dry_run_shows_files_and_reasons_and_writes_nothing() -> None:
    """A dry run tells what goes and what stays, and leaves every byte as it is."""
    world = World()
    for _ in range(4):
        world.upsert(1, 2)
    before = {info.path: info.version for info in world.storage.list_files()}
    shown = world.table.clean(retain=1, dry_run=True)
    assert shown is not None
    assert shown.instant is None
    assert len(shown.files) == 4
    assert {file.reason.split(" by ")[0] for file in shown.kept} == {"superseded"}
    assert {info.path: info.version for info in world.storage.list_files()} == before
    done = world.table.clean(retain=1)
    assert done is not None
    assert done.files == shown.files


def test_clean_by_hours_counts_from_the_completion_of_the_successor() -> None:
    """An old file that was superseded a moment ago stays; one that was superseded long ago goes, however young its base."""
    world = World()
    old = world.upsert(2)
    world.clock.advance(100 * 3600)
    young = world.upsert(2)
    world.clock.advance(3600)
    assert world.table.clean(policy=HOURS, retain=2) is None
    assert world.instants_on_storage == [old, young]
    world.clock.advance(3600 + 60)
    result = world.table.clean(policy=HOURS, retain=2)
    assert result is not None
    assert world.instants_on_storage == [young]
    assert world.rows(as_of=young) == world.rows()


def test_clean_by_versions_keeps_so_many_slices_of_each_group() -> None:
    """Groups that change often lose their old slices, those that do not keep them; travel before that is refused."""
    world = World()
    seldom = [world.upsert(1), world.upsert(1)]
    often = [world.upsert(2) for _ in range(5)]
    result = world.table.clean(policy=VERSIONS, retain=2)
    assert result is not None
    assert world.instants_on_storage == sorted([*seldom, *often[-2:]])
    assert world.rows(as_of=often[3])
    with pytest.raises(MissingFileError, match="were cleaned"):
        world.rows(as_of=often[2])


def test_clean_replaced_groups_go_when_the_replacement_is_past() -> None:
    """Files of a replaced group stay as long as the state before the replacement may be read."""
    world = World()
    first = world.upsert(2)
    world.clock.advance(60)
    over = world.table.insert_overwrite(rows((4, "over", 1))).requested_time
    assert world.table.clean(retain=1) is None
    world.upsert(1)
    assert world.table.clean(retain=2) is None
    world.upsert(1)
    result = world.table.clean(retain=2)
    assert result is not None
    assert [file.reason.split(" at ")[0] for file in result.files] == [f"replaced by {over}"]
    assert first not in world.instants_on_storage
    assert world.rows().keys() == {1, 4}


def test_clean_by_versions_takes_replaced_groups_whole() -> None:
    """A replaced group has no version that anybody needs."""
    world = World()
    world.upsert(2)
    world.clock.advance(60)
    over = world.table.insert_overwrite(rows((4, "over", 1))).requested_time
    assert world.table.clean(policy=VERSIONS, retain=3) is not None
    assert world.instants_on_storage == [over]


def test_clean_counts_commits_by_completion_and_not_by_request() -> None:
    """A write that was requested first and completes last is the newest: what it superseded stays."""
    world = World()
    base = world.upsert(2)
    world.upsert(1)
    others: list[str] = []

    def meanwhile(number: int, verb: str, path: str) -> None:
        if verb == "put" and "/staged/" in path and not others:
            others.append("begun")
            others.extend(world.upsert(1, advance_s=1) for _ in range(3))

    slow = world.open(FaultyStorage(world.storage, clock=world.clock, on_operation=meanwhile))
    world.clock.advance(60)
    slow_instant = slow.upsert(rows((2, "slow", 10**14))).requested_time
    timeline = world.table.timeline
    assert slow_instant < others[1]
    assert max(timeline.completed_writes, key=lambda i: i.completion_time or "").requested_time == slow_instant
    world.table.clean(retain=1)
    assert base in world.instants_on_storage, "superseded by the newest commit"
    assert world.rows(as_of=slow_instant)[2] == "slow"


def test_clean_pending_write_keeps_what_it_began_with() -> None:
    """What was superseded after a pending write began is not removed under it; when it has ended, it goes."""
    world = World()
    first = world.upsert(2)
    faulty = FaultyStorage(world.storage, clock=world.clock)
    world.open(faulty).upsert(rows((1, "x", 1)))
    turn = next(o.number for o in faulty.journal if o.verb == "put" and "/staged/" in o.path)
    world.clock.advance(60)
    dying = world.open(FaultyStorage(world.storage, [Fault(turn, "crash_before")], clock=world.clock))
    with pytest.raises(SimulatedCrash):
        dying.upsert(rows((3, "pending", 1)))
    world.clock.advance(1)
    for _ in range(4):
        world.clock.advance(1)
        world.table.upsert(rows((2, f"at {world.clock.now_ms()}", world.clock.now_ms())))
    assert world.table.clean(retain=1) is None
    assert first in world.instants_on_storage
    world.clock.advance(600)
    result = world.table.clean(retain=1)
    assert result is not None
    assert first not in world.instants_on_storage


def pend_compaction(world: World, partition: str, base: str, logs: tuple[str, ...]) -> str:
    """A compaction plan as another planner made it; returns its instant."""
    world.clock.advance(60)
    _, timeline = None, world.table.timeline
    instant = str(int(timeline.greatest_time) + 1)
    file_id = base.split("_")[0]
    operation = CompactionOperation(base.rpartition("_")[2].split(".")[0], logs, base, file_id, partition, {}, None)
    plan = CompactionPlan((operation,), {}, 2)
    path = f".hoodie/timeline/{TimelineName(instant, 'compaction', State.REQUESTED)}"
    world.storage.put(path, plan.encode(b"0123456789abcdef"))
    return path


def test_clean_keeps_inputs_of_a_pending_compaction_and_finds_them_later() -> None:
    """A pending plan's inputs stay though they are superseded; when the plan is gone, a later clean finds them again."""
    world = World()
    for _ in range(4):
        world.upsert(2)
    first = min(path for path in world.files if world.instants_on_storage[0] in path)
    partition, _, name = first.rpartition("/")
    plan = pend_compaction(world, partition, name, ())
    result = world.table.clean(retain=1)
    assert result is not None
    assert first in world.files
    assert any("pending compaction" in kept.reason for kept in result.kept)
    assert result.carried == (partition,)
    world.storage.delete(plan)
    again = world.table.clean(retain=1)
    assert again is not None
    assert [file.path for file in again.files] == [first]
    assert again.partition_source == "incremental"


def test_clean_incremental_lists_only_partitions_that_changed() -> None:
    """After the first clean, only partitions in which commits since superseded something are listed."""
    world = World()
    for _ in range(4):
        world.upsert(1, 2)
    world.storage.delete(CURSOR_FILE)
    assert world.table.clean(retain=1).partition_source == "full"  # type: ignore[union-attr]
    for _ in range(3):
        world.upsert(2)
    table, listed = counted(world)
    result = table.clean(retain=1)
    assert result is not None
    assert result.partition_source == "incremental"
    assert set(listed()) == {"day=d0", "day=d1"}, "d1 was superseded by the commit that was retained last time"
    for _ in range(3):
        world.upsert(2)
    table, listed = counted(world)
    assert table.clean(retain=1) is not None
    assert set(listed()) == {"day=d0"}


def test_clean_passes_without_work_are_flat() -> None:
    """A hundred passes with only new files since list nothing, and write nothing on the timeline."""
    world = World(table_type=MOR)
    for _ in range(3):
        world.upsert(1, 2)
    world.table.clean(retain=1)
    for number in range(20):
        world.upsert(2 * number + 100)
        table, listed = counted(world)
        names = world.names()
        assert table.clean(retain=1) is None
        assert listed() == [] or number == 0
        assert world.names() == names


def test_clean_after_a_lost_cursor_or_with_a_damaged_one_looks_again() -> None:
    """The cursor's file is a help: without it, or with nonsense in it, nothing is lost."""
    world = World()
    for _ in range(4):
        world.upsert(2)
    keep = world.table.savepoint(world.instants_on_storage[0]).instant
    for _ in range(2):
        world.upsert(2)
        world.table.clean(retain=1)
    assert world.table.clean(retain=1) is None
    world.table.drop_savepoint(keep)
    for damage in (lambda: world.storage.delete(CURSOR_FILE), lambda: world.storage.put(CURSOR_FILE, b"[{]")):
        damage()
        shown = world.table.clean(retain=1, dry_run=True)
        assert shown is not None
        assert keep in shown.files[0].path
    assert world.table.clean(retain=1) is not None
    assert keep not in world.instants_on_storage


def test_clean_after_a_foreign_clean_alone_looks_at_everything() -> None:
    """What a clean of another engine left is not known: all partitions are looked at, and the reason is said."""
    world = World()
    for _ in range(4):
        world.upsert(1, 2)
    world.table.clean(retain=1)
    unmark(world)
    for _ in range(3):
        world.upsert(2)
    result = world.table.clean(retain=1)
    assert result is not None
    assert result.partition_source == "full_fallback:the last clean is not ours"


def unmark(world: World) -> None:
    """Make the table and its cleans look like another engine's."""
    world.storage.delete(CURSOR_FILE)
    reader = TimelineReader(world.storage, world.table.config)
    for instant in world.table.timeline.of_action("clean"):
        plan = reader.record(CleanerPlan, instant.requested_file_name)
        assert plan.extra_metadata is not None
        plan.extra_metadata.pop(MARK_KEY)
        world.storage.put(f".hoodie/timeline/{instant.requested_file_name}", plan.encode(b"0123456789abcdef"))


def test_clean_foreign_clean_after_ours_does_not_hide_our_mark() -> None:
    """A foreign clean only removes more: the mark of ours before it still says where to go on."""
    world = World()
    for _ in range(4):
        world.upsert(1, 2)
    world.table.clean(retain=1)
    ours = world.table.timeline.of_action("clean")[-1].requested_time
    for _ in range(3):
        world.upsert(2)
    world.table.clean(retain=1)
    last = world.table.timeline.of_action("clean")[-1]
    reader = TimelineReader(world.storage, world.table.config)
    plan = reader.record(CleanerPlan, last.requested_file_name)
    assert plan.extra_metadata is not None
    assert json.loads(plan.extra_metadata.pop(MARK_KEY))["carry"] == []
    world.storage.put(f".hoodie/timeline/{last.requested_file_name}", plan.encode(b"0123456789abcdef"))
    for _ in range(3):
        world.upsert(2)
    result = world.table.clean(retain=1)
    assert result is not None
    assert result.partition_source == "incremental"
    assert ours < last.requested_time


def test_clean_with_another_policy_looks_at_everything() -> None:
    """What versions keep in partitions that did not change is found by a policy of time."""
    world = World()
    for _ in range(5):
        world.upsert(1, 2)
    world.table.clean(policy=VERSIONS, retain=3)
    result = world.table.clean(retain=1)
    assert result is not None
    assert result.partition_source == "full_fallback:the last clean had another policy"
    assert len(result.files) == 2


def test_clean_with_a_looser_policy_after_a_stricter_one_loses_nothing() -> None:
    """Whatever order policies of time come in, the strictest one leaves what it alone would leave."""
    world = World()
    for number in range(12):
        world.upsert(number % 4)
        world.table.clean(retain=(2, 6, 3, 9)[number % 4])
    world.table.clean(retain=2)
    incremental = world.files
    plain = world.open(**{"hoodie.clean.incremental.enabled": "false"})
    assert plain.clean(retain=2) is None
    assert world.files == incremental


def test_clean_minimum_age_keeps_what_a_reader_may_still_read() -> None:
    """Whatever the policy, a file stays for the minimum age after it was superseded, and goes later."""
    for policy in (None, VERSIONS):
        world = World(options={"tidelake.clean.min.age.seconds": "600"})
        for _ in range(4):
            world.upsert(2)
        assert world.table.clean(policy=policy, retain=1) is None
        world.clock.advance(601)
        assert len(world.table.clean(policy=policy, retain=1).files) == (2 if policy is None else 3)  # type: ignore[union-attr]


def test_clean_savepoint_keeps_its_files_until_it_is_dropped() -> None:
    """A savepoint's files survive, reading as of it too; once it is dropped, the next clean finds them."""
    world = World()
    instants = [world.upsert(2) for _ in range(3)]
    then = world.rows(as_of=instants[1])
    world.table.savepoint(instants[1])
    for _ in range(4):
        world.upsert(2)
    assert world.table.clean(retain=1) is not None
    assert instants[1] in world.instants_on_storage
    assert instants[0] not in world.instants_on_storage
    assert world.rows(as_of=instants[1]) == then
    world.table.drop_savepoint(instants[1])
    result = world.table.clean(retain=1)
    assert result is not None
    assert instants[1] not in world.instants_on_storage


def test_clean_plan_and_metadata_are_as_apache_hudi_writes_them() -> None:
    """Version 2, full paths in the plan, names in the metadata, empty maps instead of nulls."""
    world = World()
    for _ in range(4):
        world.upsert(2)
    result = world.table.clean(retain=1)
    assert result is not None
    instant = world.table.timeline.of_action("clean")[0]
    assert instant.requested_time == result.instant
    reader = TimelineReader(world.storage, world.table.config)
    plan = reader.record(CleanerPlan, instant.requested_file_name)
    assert plan.version == 2
    assert plan.policy == "KEEP_LATEST_COMMITS"
    assert plan.earliest_instant_to_retain is not None
    assert plan.earliest_instant_to_retain.state == "COMPLETED"
    infos = (plan.file_paths_to_be_deleted_per_partition or {})["day=d0"]
    assert [info.file_path for info in infos] == [f"{world.storage.uri}/{file.path}" for file in result.files]
    states = world.table.timeline.states_of(instant.requested_time, "clean")
    assert states == {State.REQUESTED, State.INFLIGHT, State.COMPLETED}


def test_clean_plan_found_pending_is_finished_first_without_what_is_needed() -> None:
    """A plan of another engine is carried out, except for files that the table needs and names that are no data files."""
    world = World()
    instants = [world.upsert(2) for _ in range(3)]
    doomed = next(path for path in world.files if instants[0] in path)
    latest = next(path for path in world.files if instants[2] in path)
    world.clock.advance(60)
    own = str(int(world.table.timeline.greatest_time) + 1)
    names = [path.rpartition("/")[2] for path in (doomed, latest)]
    plan = CleanerPlan(None, instants[2], "KEEP_LATEST_COMMITS", {"day=d0": (*names, ".hoodie_partition_metadata")}, 1)
    world.storage.put(f".hoodie/timeline/{own}.clean.requested", plan.encode(b"0123456789abcdef"))
    result = world.table.clean()
    assert result is not None
    assert result.resumed == (own,)
    assert [file.path for file in result.files] == [doomed]
    assert doomed not in world.files
    assert latest in world.files
    assert world.storage.exists("day=d0/.hoodie_partition_metadata")
    assert [i.requested_time for i in world.table.timeline.of_action("clean")] == [own]


def test_clean_commits_that_complete_during_the_listing_are_not_lost() -> None:
    """What others commit between the listing and the turn is in the window of the next clean."""
    world = World()
    for _ in range(4):
        world.upsert(1, 2)
    once: list[int] = []

    def meanwhile(number: int, verb: str, path: str) -> None:
        if verb.startswith("list") and path == "day=d0" and not once:
            once.append(number)
        elif once == [number - 1]:
            once.append(number)
            for _ in range(3):
                world.upsert(1, 2)

    world.open(FaultyStorage(world.storage, clock=world.clock, on_operation=meanwhile)).clean(retain=1)
    assert len(once) == 2
    world.table.clean(retain=1)
    incremental = world.files
    assert world.open(**{"hoodie.clean.incremental.enabled": "false"}).clean(retain=1) is None
    assert world.files == incremental
    assert len(incremental) == 4


def test_clean_options_of_table_handle_and_call() -> None:
    """A call's own wins over a handle's; Apache Hudi's older names are understood."""
    world = World(options={"hoodie.clean.commits.retained": "2"})
    for _ in range(8):
        world.upsert(2)
    assert len(world.table.clean(dry_run=True).files) == 5  # type: ignore[union-attr]
    handle = world.open(**{"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS"})
    assert len(handle.clean(dry_run=True).files) == 5  # type: ignore[union-attr]
    assert len(handle.clean(retain=1, dry_run=True).files) == 7  # type: ignore[union-attr]
    assert len(handle.clean(policy="KEEP_LATEST_COMMITS", retain=5, dry_run=True).files) == 2  # type: ignore[union-attr]
    for wrong in ({"policy": "KEEP_ALL"}, {"retain": 0}, {"retain": True}):
        with pytest.raises(OptionError):
            world.table.clean(**wrong)  # type: ignore[arg-type]


def test_clean_race_with_another_cleaner_leaves_one_plan_for_each_file() -> None:
    """A cleaner that finds another one's plan in its turn finishes that first, and plans again."""
    world = World()
    for _ in range(5):
        world.upsert(2)
    other: list[object] = []

    def meanwhile(number: int, verb: str, path: str) -> None:
        if verb == "put" and "/staged/" in path and not other:
            other.append("begun")
            dying = world.open(FaultyStorage(world.storage, clock=world.clock, on_operation=die_at_first_delete))
            with pytest.raises(SimulatedCrash):
                dying.clean(retain=1)

    def die_at_first_delete(number: int, verb: str, path: str) -> None:
        if verb == "delete" and path.endswith(".parquet"):
            raise SimulatedCrash(path)

    result = world.open(FaultyStorage(world.storage, clock=world.clock, on_operation=meanwhile)).clean(retain=1)
    assert result is not None
    assert other
    assert not world.table.timeline.pending
    assert len(world.table.timeline.of_action("clean")) == 1
    assert len(world.files) == 2
