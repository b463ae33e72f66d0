"""CALL of clean, savepoints and restore: Apache Hudi's names, arguments and columns."""

from __future__ import annotations

import pytest

from small_world import MOR, World
from tidelake.errors import InvalidError, OptionError, UnsupportedError
from tidelake.sql.call import parse_call
from tidelake.sql.procedures import run_call

Rows = list[dict[str, object]]


def call(world: World, text: str) -> Rows:
    parsed = parse_call(text)
    assert parsed is not None
    return run_call(parsed, lambda table, path: world.open()).to_pylist()


def test_call_run_clean_and_show_cleans() -> None:
    """A clean by each of the arguments that retain, and what is shown of it."""
    world = World()
    instants = [world.upsert(2) for _ in range(6)]
    assert call(world, "CALL run_clean(table => 't')") == []
    done = call(world, "CALL run_clean(table => 't', retain_commits => 3)")
    assert [(row["total_files_deleted"], row["earliest_commit_to_retain"]) for row in done] == [(2, instants[3])]
    text = "CALL run_clean('t', 'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => 2)"
    assert [row["total_files_deleted"] for row in call(world, text)] == [2]
    text = "CALL run_clean(table => 't', options => 'hoodie.clean.commits.retained=1')"
    assert call(world, text) == [], "the last two versions are what one commit needs"
    shown = call(world, "CALL show_cleans(table => 't')")
    assert [row["total_files_deleted"] for row in shown] == [2, 2]
    assert {row["action"] for row in shown} == {"clean"}
    with pytest.raises(InvalidError):
        call(world, "CALL run_clean(table => 't', clean_policy => 'KEEP_ALL')")


def test_call_savepoints_and_rollback_to_savepoint() -> None:
    """Made, shown with its files, restored to, and deleted."""
    world = World()
    kept = world.upsert(1, 2)
    assert call(world, "CALL create_savepoint('t', '', 'me', 'here')") == [{"create_savepoint_result": True}]
    shown = call(world, "CALL show_savepoints(table => 't')")
    assert [(row["savepoint_time"], row["savepointed_by"], row["comments"]) for row in shown] == [
        (kept, "me", "here")
    ] * 2
    assert {f"{row['partition_path']}/{row['savepoint_data_file']}" for row in shown} == world.files
    then = world.rows()
    world.upsert(2)
    text = f"CALL rollback_to_savepoint(table => 't', instant_time => '{kept}')"
    assert call(world, text) == [{"rollback_savepoint_result": True}]
    assert world.rows() == then
    text = f"CALL delete_savepoint('t', '{kept}')"
    assert call(world, text) == [{"delete_savepoint_result": True}]
    assert call(world, "CALL show_savepoints('t')") == []
    with pytest.raises(InvalidError, match="no savepoint"):
        call(world, text)


def test_call_run_compaction_by_event_time() -> None:
    world = World(
        table_type=MOR,
        options={
            "hoodie.payload.event.time.field": "ts",
            "hoodie.payload.event.time.unit": "ms",
            "hoodie.table.timeline.timezone": "UTC",
        },
    )
    world.upsert(1)
    world.upsert(1)
    how = "table => 't', strategy => 'event_time', threshold"
    assert call(world, f"CALL run_compaction('schedule', {how} => '2025-12-31')") == []
    (done,) = call(world, f"CALL run_compaction('scheduleAndExecute', {how} => '2026-01-02T00:00:00Z')")
    assert done["state"] == "COMPLETED"
    assert done["timestamp"] < world.open().timeline.greatest_time


def with_logs() -> World:
    """A table whose two partitions each have a log on a base file."""
    world = World(table_type=MOR)
    world.upsert(1, 2)
    world.upsert(1, 2)
    return world


@pytest.mark.parametrize("op", ["run", "scheduleAndExecute"])
def test_call_run_compaction_plans_what_no_plan_waits_for(op: str) -> None:
    """With no plan it makes one; with some it carries them out, and plans the rest; all of them are shown."""
    world = with_logs()
    (done,) = call(world, f"CALL run_compaction(op => '{op}', table => 't')")
    assert (done["operation_size"], done["state"]) == (2, "COMPLETED")
    world.upsert(1)
    waiting = world.open().schedule_compaction()
    world.upsert(2)
    newest, oldest = call(world, f"CALL run_compaction(op => '{op}', table => 't')")
    assert (oldest["timestamp"], oldest["state"], newest["state"]) == (waiting, "COMPLETED", "COMPLETED")
    assert call(world, f"CALL run_compaction(op => '{op}', table => 't')") == []


def test_call_run_compaction_of_named_plans_or_of_some() -> None:
    """By a timestamp as text or number, by instants, and at most so many; execute plans nothing."""
    world = World(table_type=MOR)
    world.upsert(1, 2)
    assert call(world, "CALL run_compaction(op => 'execute', table => 't')") == []
    plans = []
    for number in (1, 2, 1, 2):
        world.upsert(number)
        plans.append(str(world.open().schedule_compaction(partitions=[f"day=d{number % 2}"])))
        if len(plans) == 2:
            stamps = (f"timestamp => {plans[0]}", f"timestamp => '{plans[1]}'")
            for op, stamp in zip(("run", "execute"), stamps, strict=True):
                assert len(call(world, f"CALL run_compaction(op => '{op}', table => 't', {stamp})")) == 1
    wrong = (
        "op => 'schedule', instants => 'x'",
        "op => 'scheduleAndExecute', timestamp => 1",
        "op => 'run', limit => 0",
    )
    for arguments in wrong:
        with pytest.raises(InvalidError):
            call(world, f"CALL run_compaction(table => 't', {arguments})")
    assert [r.state for r in world.open().compactions()] == ["REQUESTED"] * 2 + ["COMPLETED"] * 2
    (first,) = call(world, "CALL run_compaction(op => 'execute', table => 't', limit => 1)")
    assert first["timestamp"] == plans[2]
    text = f"CALL run_compaction(op => 'execute', table => 't', instants => '{plans[3]}, {plans[2]}')"
    assert [row["timestamp"] for row in call(world, text)] == [plans[3], plans[2]]


@pytest.mark.parametrize("op", ["run", "scheduleAndExecute"])
def test_call_run_compaction_with_a_limit_counts_waiting_plans_first(op: str) -> None:
    """One plan waits and one is to be made: a limit of one leaves the second for the next call."""
    world = with_logs()
    waiting = world.open().schedule_compaction(partitions=["day=d1"])
    text = f"CALL run_compaction(op => '{op}', table => 't', limit => 1)"
    assert [row["timestamp"] for row in call(world, text)] == [waiting]
    (second,) = call(world, text)
    assert second["timestamp"] != waiting
    assert call(world, text) == []


def test_call_run_clustering_with_a_limit_carries_out_so_many_plans() -> None:
    """The oldest first; also where it plans by itself."""
    world = World()
    world.upsert(1, 2)
    first, second = (
        world.open().schedule_clustering(sort_by="name", partitions=[partition]) for partition in ("day=d0", "day=d1")
    )
    text = "CALL run_clustering(table => 't', {} limit => 1)"
    assert [row["timestamp"] for row in call(world, text.format("op => 'execute',"))] == [first]
    assert [row["timestamp"] for row in call(world, text.format("order => 'ts',"))] == [second]
    (third,) = call(world, text.format("order => 'ts',"))
    assert third["timestamp"] not in (first, second)
    assert third["state"] == "COMPLETED"


def test_call_run_clean_by_the_number_of_commits_since_the_last_clean() -> None:
    """Not before so many have completed; and what is no trigger of ours is refused."""
    world = World()
    for _ in range(3):
        world.upsert(2)
    due = "CALL run_clean(table => 't', retain_commits => 1, trigger_strategy => 'num_commits', trigger_max_commits => {})"
    assert call(world, due.format(4)) == []
    assert len(call(world, due.format(3))) == 1
    world.upsert(2)
    assert call(world, due.format(2)) == []
    world.upsert(2)
    assert world.open().clean(dry_run=True, options={"hoodie.clean.trigger.max.commits": "3"}) is None
    assert len(call(world, due.format(2))) == 1
    world.upsert(2)
    assert len(call(world, "CALL run_clean(table => 't', retain_commits => 1, schedule_in_line => true)")) == 1
    with pytest.raises(UnsupportedError, match="schedule_in_line"):
        call(world, "CALL run_clean(table => 't', schedule_in_line => false)")
    with pytest.raises(OptionError, match="NUM_COMMITS"):
        call(world, "CALL run_clean(table => 't', trigger_strategy => 'SOMETIMES')")
