"""Cleans, savepoints and restores in turns with Apache Hudi: each reads, writes, cleans and finishes what the other left."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tidelake as tl
from interop.jvm.both import Both, make, rows
from interop.jvm.hudi_client import Hudi
from tidelake.storage import LocalStorage
from tidelake.testing import FaultyStorage, SimulatedCrash

pytestmark = pytest.mark.hudi_jvm


def data_files(path: Path) -> set[str]:
    found = (file.relative_to(path) for file in path.rglob("*") if file.is_file())
    kept = (file for file in found if file.parts[0] != ".hoodie" and not file.name.endswith(".crc"))
    return {str(file) for file in kept if not file.name.startswith(".hoodie_partition_metadata")}


def history(hudi: Hudi, path: Path, table_type: str) -> Both:
    """A table of both, with superseded slices and a replaced group."""
    both = make(hudi, path, table_type=table_type, partition_by="day", ordering_fields="ts")
    both.ours.upsert(rows(*((i, f"first {i}", 10) for i in range(6))))
    both.ours.insert_overwrite(rows((2, "over", 11)))
    for turn in range(3):
        both.ours.upsert(rows((0, f"ours {turn}", 20 + turn), (1, f"ours {turn}", 20 + turn)))
        both.ours.compact() if both.is_merge_on_read else None
    return both


def die_cleaning(both: Both) -> None:
    """A clean of ours whose process dies at its first delete."""

    def die(number: int, verb: str, path: str) -> None:
        if verb == "delete" and path.endswith(".parquet"):
            raise SimulatedCrash(path)

    storage = FaultyStorage(LocalStorage(both.path), on_operation=die)
    with pytest.raises(SimulatedCrash):
        tl.open_table(str(both.path), storage=storage).clean(retain=1)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_cleans_in_turns_keep_the_table_and_are_finished_by_the_other(
    hudi: Hudi, tmp_path: Path, table_type: str
) -> None:
    """We clean, Apache Hudi reads, writes and cleans; it finishes a plan of ours, and we one of its own."""
    both = history(hudi, tmp_path / "table", table_type)
    before = data_files(both.path)
    state = both.state()
    result = both.ours.clean(retain=1)
    assert result is not None
    assert before - data_files(both.path) == {file.path for file in result.files}
    both.check()
    both.theirs(rows((0, "theirs", 30), (9, "theirs", 30)))
    both.theirs(rows((1, "theirs", 31)))
    state |= {0: "theirs", 9: "theirs", 1: "theirs"}
    if both.is_merge_on_read:
        hudi.compact(both.path)
    assert both.state() == state
    both.ours.upsert(rows((9, "ours", 40)))
    both.ours.compact() if both.is_merge_on_read else None
    both.ours.upsert(rows((0, "last", 41)))
    state |= {9: "ours", 0: "last"}
    # Of one state: a plan of theirs that we finish, and one of ours that they finish.
    copy = tmp_path / "copy" / both.path.name
    shutil.copytree(both.path, copy)
    die_cleaning(both)
    planned = tl.open_table(str(both.path)).timeline.pending
    assert [i.action for i in planned] == ["clean"]
    hudi.clean(both.path)
    assert not both.ours.timeline.pending
    assert planned[0].requested_time in {run.instant for run in both.ours.cleans()}
    assert both.state() == state
    both.check()
    hudi.clean(copy)
    theirs = tl.open_table(str(copy))
    (made,) = [
        i
        for i in theirs.timeline.of_action("clean")
        if i.requested_time not in {r.instant for r in theirs.cleans()[1:]}
    ]
    for file in ("inflight", ""):
        name = made.file_name if not file else f"{made.requested_time}.clean.{file}"
        (copy / ".hoodie/timeline" / name).unlink()
        (copy / ".hoodie/timeline" / f".{name}.crc").unlink(missing_ok=True)
    assert [i.requested_time for i in tl.open_table(str(copy)).timeline.pending] == [made.requested_time]
    finished = tl.open_table(str(copy)).clean()
    assert finished is not None
    assert finished.resumed == (made.requested_time,)
    again = Both(hudi, copy, both.write_options)
    assert again.state() == state
    again.check()
    again.theirs(rows((1, "after", 50)))
    assert again.state() == state | {1: "after"}
    assert again.ours.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1) is not None or both.is_merge_on_read
    again.check()


def test_restores_in_turns_bring_both_engines_to_the_savepoint(hudi: Hudi, tmp_path: Path) -> None:
    """Our restore undoes their writes and a compaction; they read and write on, and restore to our savepoint themselves."""
    both = make(hudi, tmp_path / "table", table_type="MERGE_ON_READ", partition_by="day", ordering_fields="ts")
    both.ours.upsert(rows(*((i, f"first {i}", 10) for i in range(6))))
    both.ours.upsert(rows((0, "second", 11)))
    state = both.state()
    kept = both.ours.savepoint(user="ours").instant
    files = data_files(both.path)
    both.theirs(rows((0, "theirs", 20), (9, "theirs", 20)))
    both.ours.upsert(rows((1, "ours", 21)))
    both.ours.compact()
    both.ours.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1)
    both.theirs(rows((2, "theirs", 22)))
    both.ours.schedule_compaction()
    result = both.ours.restore(kept)
    assert result is not None
    assert len(result.undone) == 5
    assert both.state() == state
    assert data_files(both.path) == files
    both.check()
    both.theirs(rows((0, "after", 30), (8, "after", 30)))
    both.ours.upsert(rows((1, "after", 31)))
    assert both.state() == state | {0: "after", 8: "after", 1: "after"}
    both.check()
    assert both.sql(f"CALL rollback_to_savepoint(table => '{{t}}', instant_time => '{kept}')") == [["True"]]
    assert both.state() == state
    both.check()
    both.sql("CALL create_savepoint(table => '{t}', comments => 'theirs')")
    assert len(both.ours.savepoints()) == 1, "it is the same write"
    both.theirs(rows((3, "later", 40)))
    theirs = both.ours.timeline.completed_writes[-1].requested_time
    both.sql("CALL create_savepoint(table => '{t}', comments => 'theirs')")
    assert [s.comment for s in both.ours.savepoints()] == ["", "theirs"]
    both.ours.upsert(rows((3, "last", 41)))
    assert both.ours.restore(theirs) is not None
    assert both.state() == state | {3: "later"}
    both.check()
