"""CALL of clean, savepoints and restore: Apache Hudi's names, arguments and columns."""

from __future__ import annotations

import pytest

from small_world import MOR, World
from tidelake.errors import InvalidError
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
