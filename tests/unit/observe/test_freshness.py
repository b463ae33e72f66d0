"""Completion and freshness: each rule of theirs, stored by commits as it is worked out anew."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

import tidelake as tl
from tidelake.filegroup.event_times import CACHE_FILE
from tidelake.filegroup.state_store import STATE_DIR
from tidelake.query import TableSource
from tidelake.storage import FaultyStorage, SimulatedCrash
from unit.observe.event_tables import DAY_MS, EventWorld, at, events
from unit.services.hand_made import SYNC, archive

D0, D1 = "day=d0", "day=d1"


def check_stored(world: EventWorld) -> None:
    assert world.stored() == world.recomputed()


def forget_statistics(world: EventWorld, instant: str) -> None:
    """Make a commit one of a writer that keeps no event times and no marks."""
    source = TableSource.load(world.storage)
    done = source.timeline.by_time[instant]
    commit = source.reader.commit(done)
    stats = {
        path: tuple(replace(stat, min_event_time=None, max_event_time=None) for stat in some)
        for path, some in (commit.partition_to_write_stats or {}).items()
    }
    foreign = replace(commit, partition_to_write_stats=stats, extra_metadata={"schema": commit.schema_text or ""})
    world.storage.put(f"{source.config.timeline_dir}/{done.file_name}", foreign.encode(SYNC))
    for info in list(world.storage.list_files(STATE_DIR)):
        world.storage.delete(info.path)


def test_freshness_of_an_empty_table_is_unknown_with_the_reason() -> None:
    """Nothing written is None, and said so."""
    report = EventWorld().open().freshness()
    assert (report.rt.completion_ms, report.ro.completion_ms) == (None, None)
    assert report.reasons == ("no write has brought events yet",)


def test_freshness_without_an_event_time_field_is_unknown_with_the_reason() -> None:
    """A table that has no event times is never complete, and its commits say nothing of it."""
    world = EventWorld(event_time_field=None)
    world.upsert((0, "08:00"))
    report = world.open().freshness()
    assert (report.rt.completion_ms, report.clocks) == (None, ())
    assert "no event-time field" in str(report)
    assert not [
        key
        for key in world.last_commit().extra_metadata or {}
        if key.startswith("tidelake.") and key != "tidelake.writer"
    ]


def test_freshness_of_the_snapshot_view_is_that_of_the_last_write_with_events() -> None:
    """The last write's least and greatest event times; late data moves them back, high-water marks stay."""
    world = EventWorld()
    world.upsert((0, "08:00"), (1, "09:00"))
    check_stored(world)
    world.upsert((0, "06:00"), (1, "07:00"))
    report = world.open().freshness()
    assert (report.rt.completion_ms, report.rt.freshness_ms) == (at("06:00"), at("07:00"))
    assert (report.rt.completion_hwm_ms, report.rt.freshness_hwm_ms) == (at("08:00"), at("09:00"))
    check_stored(world)


def test_freshness_group_compacted_beside_one_with_logs_case() -> None:
    """Group A compacted, B has logs from 08:00: the table is complete to 07:59:59.999, A's partition as far as it arrived."""
    world = EventWorld()
    world.upsert((0, "07:00"), (1, "07:00"))
    world.upsert((0, "09:00"), (1, "08:00"))
    world.open().compact(partitions=[D0])
    check_stored(world)
    report = world.open().freshness()
    assert report.ro.completion_ms == at("08:00") - 1
    of_partition = {each.path: each for each in report.partitions}
    assert of_partition[D0].ro.completion_ms == of_partition[D0].rt.completion_ms == at("09:00")
    assert of_partition[D0].ro.freshness_ms == at("09:00")
    assert of_partition[D1].ro.completion_ms == at("08:00") - 1
    assert of_partition[D1].ro.freshness_ms == at("07:00")


def test_freshness_late_log_case_moves_completion_back_and_not_its_mark(caplog: pytest.LogCaptureFixture) -> None:
    """After T = 10:10 a log with an event of 09:00 completes: RO completion 08:59:59.999, hwm unchanged, and it is told."""
    world = EventWorld()
    world.upsert((0, "10:00"), (1, "10:00"))
    world.upsert((0, "10:10"), (1, "10:10"))
    world.open().compact()
    before = world.open().freshness().ro
    assert before.completion_ms == at("10:10")
    caplog.clear()
    world.upsert((1, "10:20"))
    assert not caplog.messages, "data that is not late is nothing to warn of"
    late = world.upsert((0, "09:00"))
    (warning,) = caplog.messages
    assert "back from 2026-01-01T10:19:59.999+00:00 to 2026-01-01T08:59:59.999+00:00" in warning
    report = world.open().freshness()
    assert report.ro.completion_ms == at("09:00") - 1
    assert report.ro.completion_hwm_ms == at("10:20") - 1
    held = report.holding[0]
    completed = world.open().timeline.by_time[late].completion_time
    assert (held.partition_path, held.min_event_ms, held.since, held.logs) == (D0, at("09:00"), completed, 1)
    assert "held back by 2 file group(s): day=d0/" in str(report)
    check_stored(world)


def test_freshness_of_logs_in_a_pending_plan_still_counts() -> None:
    """A plan promises; only a completed compaction changes what base files hold."""
    world = EventWorld()
    world.upsert((0, "07:00"))
    world.upsert((0, "08:00"))
    world.open().schedule_compaction()
    assert world.open().freshness().ro.completion_ms == at("08:00") - 1
    world.upsert((0, "09:00"))
    assert world.open().freshness().ro.completion_ms == at("08:00") - 1
    check_stored(world)
    world.open().run_compaction()
    assert world.open().freshness().ro.completion_ms == at("09:00") - 1
    check_stored(world)


def test_freshness_does_not_count_what_was_rolled_back_and_its_marks_stay() -> None:
    """A write that was taken back moves nothing, except that high-water marks never go back."""
    world = EventWorld()
    world.upsert((0, "07:00"))
    world.upsert((0, "08:00"))
    gone = world.upsert((0, "09:00"), (1, "06:00"))
    world.open().rollback(gone)
    report = world.open().freshness()
    assert (report.rt.completion_ms, report.ro.completion_ms) == (at("08:00"), at("08:00") - 1)
    assert report.rt.freshness_hwm_ms == at("09:00")
    world.upsert((0, "08:30"))
    check_stored(world)
    assert world.open().freshness().rt.freshness_hwm_ms == at("09:00")


def test_freshness_after_a_restore_counts_what_is_left_and_keeps_marks() -> None:
    """Compactions and writes that a restore undoes count no more; their high-water marks do."""
    world = EventWorld()
    world.upsert((0, "07:00"))
    world.upsert((0, "08:00"))
    saved = world.open().savepoint()
    world.upsert((0, "09:00"))
    world.open().compact()
    assert world.open().freshness().ro.completion_ms == at("09:00")
    world.open().restore(saved.instant)
    report = world.open().freshness()
    assert report.ro.completion_ms == at("08:00") - 1
    assert report.ro.completion_hwm_ms == at("09:00")


def test_freshness_does_not_count_replaced_groups() -> None:
    """An overwrite retires the logs of what it replaces."""
    world = EventWorld()
    world.upsert((0, "07:00"), (1, "07:00"))
    world.upsert((0, "05:00"), (1, "08:00"))
    world.open().insert_overwrite(events((0, "09:00")))
    check_stored(world)
    assert world.open().freshness().ro.completion_ms == at("08:00") - 1
    world.open().delete_partitions([D1])
    check_stored(world)
    assert world.open().freshness().ro.completion_ms == at("09:00")


def test_freshness_does_not_count_uncommitted_logs() -> None:
    """Files of a write that died before its turn are nobody's."""
    world = EventWorld()
    world.upsert((0, "07:00"))
    world.upsert((0, "09:00"))
    before = world.recomputed()

    def die_before_the_turn(_: int, verb: str, path: str) -> None:
        if verb == "put_if_match":
            raise SimulatedCrash(path)

    dying = FaultyStorage(world.storage, clock=world.clock, on_operation=die_before_the_turn)
    with pytest.raises(SimulatedCrash):
        world.open(dying).upsert(events((0, "05:00")))
    assert len([info for info in world.storage.list_files(D0) if ".log." in info.path]) == 2
    assert world.recomputed() == before
    world.clock.advance(3_600)
    world.upsert((0, "09:20"))
    check_stored(world)


def test_freshness_is_not_moved_by_empty_commits() -> None:
    """A commit without rows says nothing of event times."""
    world = EventWorld()
    world.upsert((0, "08:00"))
    before = world.recomputed()
    world.upsert()
    world.open().declare_complete("2026-01-01T12:00:00Z")
    assert world.recomputed() == before
    check_stored(world)


def test_freshness_is_not_moved_by_rows_without_event_times() -> None:
    """Rows whose event time is null arrive at no time: they count nowhere."""
    world = EventWorld(ordering_fields="id")
    world.upsert((0, "08:00"))
    world.upsert((0, None))
    report = world.open().freshness()
    assert (report.rt.completion_ms, report.ro.completion_ms) == (at("08:00"), at("08:00"))
    check_stored(world)


def test_freshness_an_unconditional_delete_counts_with_its_commits_time() -> None:
    """It happened when it was asked for."""
    world = EventWorld()
    world.upsert((0, "07:00"), (2, "07:00"))
    world.open().compact()
    world.clock.advance(60)
    commit = world.open().delete([0], unconditional=True)
    assert commit is not None
    requested_ms = DAY_MS + 10 * 3_600_000 + 32 * 60_000 + int(commit.requested_time[-3:])
    assert world.open().freshness().ro.completion_ms == requested_ms - 1
    check_stored(world)


def test_freshness_a_delete_with_an_ordering_value_counts_with_it() -> None:
    """It deletes the version of that time."""
    world = EventWorld()
    world.upsert((0, "07:00"), (2, "08:00"))
    world.open().delete([0])
    assert world.open().freshness().ro.completion_ms == at("07:00") - 1
    check_stored(world)


def test_freshness_event_times_of_the_future_are_ignored_and_counted() -> None:
    """A wrong clock does not make a table fresh; when the time has come, it counts."""
    world = EventWorld()
    world.upsert((0, "08:00"))
    world.upsert((0, at("10:00")), (1, at("23:00")))
    report = world.open().freshness()
    assert (report.rt.completion_ms, report.rt.freshness_ms) == (at("10:00"), at("10:00"))
    assert (report.ro.completion_ms, report.ro.freshness_ms) == (at("10:00") - 1, at("08:00"))
    assert report.future_files == 1
    assert "1 file(s) have event times more than an hour ahead" in str(report)
    check_stored(world)
    world.upsert((0, at("10:20")))
    check_stored(world)
    world.clock.advance(12 * 3_600)
    later = world.open().freshness()
    assert (later.future_files, later.ro.freshness_ms) == (0, at("23:00"))
    world.upsert((0, at("10:25")))
    check_stored(world)


def test_freshness_of_a_copy_on_write_table_is_one_for_both_views() -> None:
    """There are no logs; what came in counts, not what the rewritten file had."""
    world = EventWorld(table_type="COPY_ON_WRITE")
    world.upsert((0, "07:00"), (1, "07:00"))
    world.upsert((0, "09:00"))
    report = world.open().freshness()
    assert report.rt == report.ro
    assert (report.ro.completion_ms, report.ro.freshness_ms) == (at("09:00"), at("09:00"))
    assert [each.path for each in report.partitions] == [D0, D1]
    check_stored(world)


def test_freshness_of_logs_without_statistics_reads_them_once() -> None:
    """Another writer's log is read, and what was found is remembered: never taken for no log."""
    world = EventWorld()
    world.upsert((0, "07:00"))
    foreign = world.upsert((0, "08:00"))
    forget_statistics(world, foreign)
    assert world.open().freshness().ro.completion_ms == at("08:00") - 1
    assert world.storage.exists(CACHE_FILE)
    (log,) = (s.logs[0].path for s in world.open().files())
    counting = FaultyStorage(world.storage, clock=world.clock)
    assert world.open(counting).freshness().ro.completion_ms == at("08:00") - 1
    assert log not in {operation.path for operation in counting.journal}
    world.upsert((0, "09:00"))
    check_stored(world)


def test_freshness_of_a_log_that_cannot_be_read_is_unknown_with_the_reason() -> None:
    """Unknown is unknown: also in the next commit, which is true all the same."""
    world = EventWorld()
    world.upsert((0, "07:00"))
    foreign = world.upsert((0, "08:00"))
    forget_statistics(world, foreign)
    (log,) = (s.logs[0] for s in world.open().files())
    world.storage.put(log.path, b"x" * log.size_bytes)
    report = world.open().freshness()
    assert report.ro.completion_ms is None
    assert "read-optimised completion is not known: 1 log(s)" in "".join(report.reasons)
    (held,) = report.holding
    assert held.min_event_ms is None
    world.upsert((1, "09:00"))
    assert "tidelake.ro.completion" not in world.stored()
    assert world.stored()["tidelake.rt.completion"] == at("09:00")


def test_freshness_costs_a_write_one_look_at_the_commit_before() -> None:
    """A write after one of ours reads no data and lists nothing more, however many files the table has."""

    def operations(**how: Any) -> Counter[tuple[str, str]]:
        world = EventWorld(**how)
        world.upsert(*((id, "07:00") for id in range(20)))
        world.upsert((0, "08:00"))
        world.clock.advance(60)
        counting = FaultyStorage(world.storage, clock=world.clock)
        world.open(counting).upsert(events((0, "09:00")))
        return Counter((operation.verb, operation.path.rpartition("/")[0]) for operation in counting.journal)

    assert operations() - operations(event_time_field=None) == {("get", ".hoodie/timeline"): 1}


def test_freshness_with_no_field_leaves_commits_as_they_were() -> None:
    """Without the feature a commit's metadata has the keys that it always had."""
    world = EventWorld(event_time_field=None)
    world.upsert((0, "07:00"))
    assert sorted(world.last_commit().extra_metadata or {}) == ["schema", "tidelake.writer"]


def test_freshness_metadata_of_callers_may_not_pass_for_ours() -> None:
    """Our keys are our own."""
    world = EventWorld()
    with pytest.raises(tl.InvalidError, match="the table's own"):
        world.open().upsert(events((0, "07:00")), metadata={"tidelake.ro.completion": "1"})


def test_freshness_of_a_write_that_lies_in_the_future_alone_counts_when_its_time_has_come() -> None:
    """Until then the write before it is the last one; what commits store in between is not taken for settled."""
    world = EventWorld(table_type="COPY_ON_WRITE")
    world.upsert((0, "08:00"))
    world.upsert((1, at("12:00")))
    assert world.open().freshness().rt.completion_ms == at("08:00")
    world.open().declare_complete(at("08:00"))
    check_stored(world)
    world.clock.advance(3_600)
    assert world.open().freshness().rt.completion_ms == at("12:00")
    world.open().declare_complete(at("08:00"))
    check_stored(world)


def test_freshness_deletes_that_a_compaction_keeps_hold_nothing_back() -> None:
    """They are no data: the read-optimised view is as complete as the snapshot, in the commit and worked out anew."""
    world = EventWorld({"tombstone.retention": "1d"})
    world.upsert((0, "07:00"), (2, "07:00"))
    world.upsert((0, "08:00"), (2, "08:00"))
    world.open().delete([0])
    world.upsert((2, "10:04"))
    world.open().compact()
    assert any(s.logs for s in world.open().files())
    report = world.open().freshness()
    assert report.ro.completion_ms == report.rt.completion_ms == at("10:04")
    check_stored(world)


def test_freshness_of_a_delete_of_a_row_of_the_future_counts_when_its_time_has_come() -> None:
    """No file of the commit is ahead, what it brought is: the commits after it must not take that for settled."""
    world = EventWorld(table_type="COPY_ON_WRITE")
    world.upsert((1, "09:00"), (3, "12:30"))
    world.upsert((2, "09:30"))
    world.open().delete([3])
    world.clock.advance(3600)
    assert world.open().freshness().rt.completion_ms == at("12:30")
    world.open().upsert(events())
    assert world.stored() == world.recomputed()


def test_freshness_after_a_compaction_that_ended_last_and_is_archived_already() -> None:
    """The timeline is archived by requests: what is left is older than what is known, and no longer what counts."""
    world = EventWorld()
    first = world.upsert((0, "07:00"))
    second = world.upsert((0, "08:00"))
    plan = world.open().schedule_compaction()
    assert plan is not None
    world.upsert((1, "09:00"))
    world.open().run_compaction(plan)
    done = world.stored()
    assert done["tidelake.ro.completion"] == at("09:00")
    archive(world, [first, second, plan])  # type: ignore[arg-type]
    report = world.open().freshness()
    assert report.ro.completion_ms == report.ro.completion_hwm_ms == at("09:00")
    world.upsert((3, "09:30"))
    check_stored(world)
