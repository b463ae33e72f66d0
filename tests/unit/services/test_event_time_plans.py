"""Compaction by event time: the cases of scheduling, each with the time of day."""

from __future__ import annotations

import hashlib

import pytest

import tidelake as tl
from tidelake.config import UnknownOptionWarning
from tidelake.errors import InvalidError
from tidelake.format.avro_record import decode_record
from tidelake.format.event_marks import ROWS_AFTER_KEY, decode_event_marks
from tidelake.format.plans import CompactionPlan, EventTimeOperation
from tidelake.services.kinds import COMPACTION
from tidelake.services.withdraw import withdraw
from unit.filegroup.test_event_times import forget
from unit.services.event_tables import ANY, AT_THRESHOLD, EVENT, During, EventWorld, instant, iso, ms, rows
from unit.services.hand_made import archive
from unit.services.service_tables import World, rows_of

BARRIER = {**AT_THRESHOLD, **ANY}


def begun(**options: str) -> EventWorld:
    """A table whose rows 1 and 2 were inserted at nine."""
    world = EventWorld(options).at("09:00")
    world.insert((1, "08:00"), (2, "08:00"))
    return world


def test_at_the_threshold_the_plan_has_what_completed_before_it() -> None:
    """L1 done 10:00, L2 requested 10:12 and done 10:20, T=10:10, now 10:30."""
    world = begun().at("09:59")
    first = world.upsert((1, "09:50"), until="10:00").requested_time
    second = world.at("10:12").upsert((1, "10:05"), until="10:20").requested_time
    world.at("10:30")
    before = world.rows
    requested = world.schedule("10:10", BARRIER)
    assert requested == instant("10:10")
    assert world.planned_logs(requested) == [first]
    assert {op.next_base_instant_time for op in world.plan(requested).operations or ()} == {requested}
    assert world.rows == before
    done = world.open().run_compaction()
    assert done is not None
    assert done.requested_time == requested
    assert world.slices == [(requested, [second])]
    assert world.rows == before
    assert {row[2] for row in rows_of(world.open(), "read_optimized")} == {ms("09:50"), ms("08:00")}


def test_a_threshold_in_the_future_gives_no_instant_in_the_future() -> None:
    """The threshold is 11:00 and now is 10:30; a log done at 10:45 is still seen."""
    world = begun().at("10:00")
    world.upsert((1, "09:50"))
    for options in (BARRIER, {}):
        assert world.at("10:30").dry("11:00", options).instant <= instant("10:30")
    requested = world.schedule("11:00", BARRIER)
    assert requested is not None
    assert requested <= instant("10:30:00.001")
    world.at("10:40").upsert((1, "10:35"), until="10:45")
    world.open().run_compaction()
    assert [row[2] for row in world.rows] == [ms("10:35"), ms("08:00")]
    assert [len(logs) for _, logs in world.slices] == [1]


def test_a_threshold_in_milliseconds() -> None:
    """Numbers are what they are for event times elsewhere; digits of an instant are an instant."""
    world = begun().at("10:00")
    world.upsert((1, "09:50"))
    world.at("10:30")
    for given in (ms("10:10"), int(instant("10:10"))):
        plan = world.open().compact(threshold=given, dry_run=True)
        assert plan is not None
        assert iso("10:10").removesuffix("Z") in str(plan)
    for wrong in (10**15, "99999999"):
        with pytest.raises(InvalidError):
            world.open().compact(threshold=wrong, dry_run=True)


def test_options_of_a_call_are_checked_also_where_they_are_not_needed() -> None:
    """A wrong value is refused, and a name that no service knows is said."""
    world = begun().at("10:30")
    with pytest.raises(InvalidError, match=r"event\.time\.delay"):
        world.open().compact(threshold=iso("10:10"), options={"hoodie.compaction.event.time.delay": "soon"})
    with pytest.warns(UnknownOptionWarning, match=r"event\.time\.polcy"):
        world.open().compact(threshold=iso("10:10"), options={"hoodie.compaction.event.time.polcy": "LAG"})


@pytest.mark.parametrize("options", [BARRIER, {}])
def test_the_same_threshold_again_does_nothing(options: dict[str, str]) -> None:
    world = begun().at("10:00")
    world.upsert((1, "09:50"))
    world.at("10:30")
    world.compact("10:10", **options)
    names = world.names
    assert world.compact("10:10", **options) is None
    assert "no log" in world.dry("10:10", options).reason
    assert world.names == names


def test_a_write_under_way_comes_on_top_and_is_read_once() -> None:
    """Requested 10:05, under way when T=10:10 is scheduled at 10:20, done 10:25."""
    world = begun().at("10:00")
    world.upsert((1, "09:50"))
    made: list[str | None] = []

    def schedule() -> None:
        world.at("10:20").beat()
        made.append(world.schedule("10:10", BARRIER))
        world.at("10:25")

    world.at("10:05")
    slow = world.open(During(world.storage, schedule)).upsert(rows((2, "10:04")))  # type: ignore[arg-type]
    (requested,) = made
    assert requested == instant("10:10")
    assert slow.requested_time < requested < slow.completion_time
    assert slow.requested_time not in world.planned_logs(requested)
    before = world.rows
    assert [row[2] for row in before] == [ms("09:50"), ms("10:04")]
    world.open().run_compaction()
    assert world.rows == before
    assert world.slices == [(requested, [slow.requested_time])]
    seen = world.open().scan(as_of_completion=slow.completion_time, columns=["id", "ts"]).to_arrow().to_pylist()
    assert {row["id"]: row["ts"] for row in seen}[2] == ms("10:04")


def test_no_barrier_below_what_is_archived() -> None:
    """Writes of 09:40 and 09:50 are archived, the first active instant is 10:00, T=09:30."""
    world = EventWorld(ANY).at("09:40")
    old = [world.insert((1, "08:00")).requested_time, world.at("09:50").upsert((1, "09:00")).requested_time]
    world.at("10:00").upsert((1, "09:20"))
    archive(world, old)
    before = world.rows
    world.at("10:30")
    refused = world.dry("09:30", AT_THRESHOLD)
    assert refused.instant is None
    for word in ("archived", instant("10:00"), "COVERING", "backdate"):
        assert word in refused.reason
    assert world.schedule("09:30", AT_THRESHOLD) is None
    oldest = refused.reason.split("threshold that would do is ")[1].split(",")[0]
    assert world.dry(f"{oldest[8:10]}:{oldest[10:12]}:{oldest[12:14]}.{oldest[14:]}", AT_THRESHOLD).instant == oldest
    done = world.compact("09:30")
    assert done is not None
    assert done.requested_time > instant("10:00")
    assert world.rows == before
    assert world.marks(done.requested_time).covers


def test_the_cleaner_leaves_the_slice_before_a_backdated_one() -> None:
    """Five commits are retained and eight are later than T: P is among the two newest, unless only we clean."""
    world = begun(**{"hoodie.clean.commits.retained": "5"}).at("10:00")
    world.upsert((1, "09:50"))
    for minute in range(8):
        newest = world.at(f"10:{20 + minute}").upsert((2, f"10:{10 + minute}")).requested_time
    world.at("10:30")
    refused = world.dry("10:10", AT_THRESHOLD)
    assert refused.instant is None
    assert "2 of the newest commits" in refused.reason
    assert world.dry("10:10", BARRIER).instant == instant("10:10")
    done = world.compact("10:10")
    assert done is not None
    assert instant("10:26") < done.requested_time < newest
    assert world.marks(done.requested_time).covers


def test_late_data_is_compacted_after_the_delay() -> None:
    """T = midnight is compacted; a log with one event of 23:50 completes at 00:40."""
    world = EventWorld().at("23:00")
    world.insert((1, "22:00"), (2, "22:00"))
    world.at("23:30").upsert((1, "23:20"))
    assert world.at("02T00:05").compact("02T00:00") is not None
    late = world.at("02T00:40").upsert((2, "23:50"))
    names = world.names
    world.at("02T00:45")
    assert world.compact("02T00:00") is None
    assert "299 of 600 s" in world.dry("02T00:00").reason
    assert world.names == names
    done = world.at("02T00:50").at("02T00:51").compact("02T00:00")
    assert done is not None
    assert world.planned_logs(done.requested_time) == [late.requested_time]


def test_late_data_is_not_waited_for_when_the_threshold_moves_on() -> None:
    world = begun().at("10:00")
    world.upsert((1, "09:50"))
    world.at("10:20").compact("10:00")
    world.at("10:30").upsert((2, "09:55"))
    assert world.at("10:31").compact("10:00") is None
    assert world.compact("10:15") is not None


def test_what_was_left_out_is_not_waited_for() -> None:
    """The last plan did not cover: what it left is taken at once, at the same threshold."""
    world = begun().at("10:00")
    world.upsert((1, "09:50"))
    world.at("10:20").upsert((2, "09:55"))
    world.at("10:21")
    requested = world.schedule("10:10", BARRIER)
    assert requested is not None
    assert not world.marks(requested).covers
    assert "barrier" in world.marks(requested).reason
    world.open().run_compaction()
    assert world.compact("10:10") is not None


def test_a_rolled_back_barrier_is_not_used_again() -> None:
    world = begun().at("10:00")
    world.upsert((1, "09:50"))
    world.at("10:30")
    requested = world.schedule("10:10", BARRIER)
    assert requested == instant("10:10")

    withdraw(world.open()._service_call(None), COMPACTION, requested)
    again = world.schedule("10:10", BARRIER)
    assert again == instant("10:09:59.999")
    before = world.rows
    world.open().run_compaction()
    assert world.rows == before


def test_the_covering_barrier_is_just_after_the_last_log_with_early_events() -> None:
    world = begun(**ANY).at("10:00")
    world.upsert((1, "09:50"))
    last = world.at("10:05").upsert((2, "09:55"), until="10:06")
    later = world.at("10:20").upsert((1, "10:15"))
    notes = world.at("10:30").dry("10:10")
    assert notes.covers
    done = world.compact("10:10")
    assert done is not None
    assert int(done.requested_time) == int(last.completion_time) + 1 == int(notes.instant)
    assert world.slices == [(done.requested_time, [later.requested_time])]
    marks = world.marks(done.requested_time)
    assert (marks.threshold_ms, marks.policy, marks.barrier, marks.covers) == (ms("10:10"), "FIXED", "COVERING", True)
    commit = world.source.reader.commit(world.source.timeline.by_time[done.requested_time])
    assert decode_event_marks(commit.extra_metadata) == marks
    assert (commit.extra_metadata or {})[ROWS_AFTER_KEY] == "0"


def test_rows_at_or_after_the_threshold_are_counted() -> None:
    world = begun(**ANY).at("10:20")
    world.upsert((1, "09:50"), (2, "10:10"))
    done = world.at("10:30").compact("10:10")
    assert done is not None
    commit = world.source.reader.commit(world.source.timeline.by_time[done.requested_time])
    assert (commit.extra_metadata or {})[ROWS_AFTER_KEY] == "1"


def test_only_groups_with_early_data_are_planned_and_the_others_carried() -> None:
    world = EventWorld(ANY).at("09:00")
    world.insert((1, "08:00"), day="a")
    world.insert((2, "08:00"), day="b")
    world.at("10:00").upsert((1, "09:50"), day="a")
    world.upsert((2, "10:15"), day="b")
    requested = world.at("10:30").schedule("10:10")
    assert requested is not None
    plan = world.plan(requested)
    assert [op.partition_path for op in plan.operations or ()] == ["day=a"]
    assert plan.missing_schedule_partitions == ("day=b",)
    world.open().run_compaction()
    # Nothing of b was written since: the next plan finds it all the same.
    done = world.at("10:40").compact("10:30")
    assert done is not None
    assert [stat.partition_path for stat in done.stats] == ["day=b"]


def test_nothing_to_do_writes_nothing_and_keeps_what_is_left() -> None:
    world = begun().at("10:00")
    world.upsert((1, "09:50"))
    names = world.names
    assert world.at("10:30").compact("09:00") is None
    assert world.names == names
    assert "09:00" in world.dry("09:00").reason
    assert world.open().audit_services().is_clean
    # The carry list holds the partition, though no commit is in the window of the next pass.
    assert world.compact("10:00") is not None


def test_a_group_in_a_pending_plan_is_left_and_the_plan_does_not_cover() -> None:
    world = EventWorld(ANY).at("09:00")
    world.insert((1, "08:00"), day="a")
    world.insert((2, "08:00"), day="b")
    world.at("10:00").upsert((1, "09:50"), day="a")
    first = world.at("10:01").schedule("10:00")
    assert first is not None
    world.at("10:02").upsert((2, "09:55"), day="b")
    second = world.at("10:03").schedule("10:01")
    assert second is not None
    assert second > first
    assert first in world.marks(second).reason
    assert not world.marks(second).covers


def test_a_log_of_another_writer_is_read_and_one_that_cannot_be_counts_as_early() -> None:

    world = begun(**ANY).at("10:20")
    done = world.upsert((1, "10:15"))
    forget(world, done.requested_time)
    assert "no log" in world.at("10:30").dry("10:10").reason
    world.storage.delete(".hoodie/.tidelake/event-times")
    (log,) = [log for s in world.open().files() for log in s.logs]
    good = world.storage.get(log.path)
    world.storage.put(log.path, b"x" * len(good))
    plan = world.open().compact(dry_run=True, strategy="event_time", threshold=iso("10:10"))
    assert plan is not None
    assert "cannot be read" in plan.operations[0].reason


def test_a_strategy_that_bounds_the_work_goes_with_event_time() -> None:
    world = EventWorld(ANY).at("09:00")
    for number, day in enumerate("abc"):
        world.insert((number, "08:00"), day=day)
    for number, day in enumerate("abc"):
        world.at(f"10:0{number}").upsert((number, "09:50"), day=day)
    table = world.at("10:30").open()
    made = table.schedule_compaction(
        strategy="event_time+partitions",
        threshold=iso("10:10"),
        options={"hoodie.compaction.plan.partitions": "day=a,day=b"},
    )
    assert made is not None
    assert [op.partition_path for op in world.plan(made).operations or ()] == ["day=a", "day=b"]
    assert not world.marks(made).covers
    assert "day=c" in world.marks(made).reason
    world.open().run_compaction()
    done = world.compact("10:10")
    assert done is not None
    assert [stat.partition_path for stat in done.stats] == ["day=c"]


def test_an_instant_that_a_writer_is_taking_is_left_to_it() -> None:
    world = begun(**ANY).at("10:00")
    world.upsert((1, "09:50"))
    world.at("10:30")
    world.storage.put(f".hoodie/.heartbeat/{instant('10:10')}", b"")
    assert world.schedule("10:10", BARRIER) == instant("10:09:59.999")
    left = {info.path.rpartition("/")[2] for info in world.storage.list_files(".hoodie/.heartbeat")}
    assert left == {instant("10:10")}


def test_what_it_is_not_for() -> None:
    cow = EventWorld(table_type="COPY_ON_WRITE")
    cow.insert((1, "08:00"))
    with pytest.raises(InvalidError, match="copy-on-write"):
        cow.compact("10:00")
    bare = World({"hoodie.table.timeline.timezone": "UTC"})
    bare.open().insert(rows((1, "08:00")))
    bare.open().upsert(rows((1, "08:00")))
    with pytest.raises(InvalidError, match="event-time field"):
        bare.open().compact(strategy="event_time", threshold=iso("10:00"))
    world = begun().at("10:00")
    world.upsert((1, "09:50"))
    with pytest.raises(InvalidError, match="threshold"):
        world.compact()
    with pytest.raises(InvalidError, match="event time"):
        world.open().compact(strategy="unbounded", threshold=iso("10:00"))
    with pytest.raises(InvalidError, match="point in time"):
        world.open().compact(strategy="event_time", threshold="tomorrow")


def test_a_table_of_the_zone_local_needs_one() -> None:
    local = {**EVENT, "hoodie.table.timeline.timezone": "LOCAL"}
    world = World(local)
    world.open().insert(rows((1, "08:00")))
    world.open().upsert(rows((1, "09:00")))
    world.clock.advance(1)
    with pytest.raises(InvalidError, match="LOCAL"):
        world.open().compact(strategy="event_time", threshold=iso("10:00"))
    with pytest.raises(InvalidError, match="is not Pacific/Kiritimati"):
        world.open().compact(
            strategy="event_time",
            threshold=iso("10:00"),
            options={"hoodie.compaction.event.time.zone": "Pacific/Kiritimati"},
        )


def test_plans_without_event_time_do_not_change_by_a_byte() -> None:
    """The schema of operations has its further field in event-time plans alone."""
    world = begun().at("10:00")
    world.upsert((1, "09:50"))
    requested = world.at("10:30").open().schedule_compaction()
    data = world.storage.get(f"{world.open().config.timeline_dir}/{requested}.compaction.requested")
    assert b"nextBaseInstantTime" not in data
    assert b"tidelake.event.time" not in data
    plain = decode_record(CompactionPlan, data)
    assert plain.encode(b"tidelake-compact") == data
    world.open().run_compaction()
    world.at("10:40").upsert((1, "10:35"))
    later = world.at("10:50").schedule("10:40")
    timed = world.storage.get(f"{world.open().config.timeline_dir}/{later}.compaction.requested")
    assert b"nextBaseInstantTime" in timed
    assert all(isinstance(op, EventTimeOperation) for op in world.plan(later or "").operations or ())
    assert decode_record(CompactionPlan, timed).operations  # others read it as any plan


def test_the_runner_and_inline_compaction_go_by_event_time() -> None:
    options = {
        "hoodie.compaction.strategy": "event_time",
        "hoodie.compaction.event.time.policy": "FLOOR",
        "hoodie.compaction.event.time.floor": "hour",
    }
    world = begun(**options).at("09:30")
    world.upsert((1, "09:20"))
    said = [d for d in world.open().run_services() if d.service == "compaction"]
    assert not said[-1].did_work
    assert "no log" in str(said[-1])
    said = [d for d in world.at("10:01").open().run_services() if d.service == "compaction"]
    assert said[-1].did_work
    assert world.slices[0][1] == []


def test_a_users_own_strategy_gives_the_threshold() -> None:
    class AtTen(tl.ServiceStrategy):  # type: ignore[name-defined]
        def calc_event_time_threshold(self, compaction_instant: str, config: object) -> str:
            return instant("10:00")

    tl.register_strategy("at_ten", AtTen)
    world = begun().at("09:59")
    world.upsert((1, "09:58"))
    done = world.at("10:30").open().compact(strategy="at_ten")
    assert done is not None
    assert world.marks(done.requested_time).threshold_ms == ms("10:00")
    assert world.marks(done.requested_time).policy == "AtTen"


def test_a_plan_without_event_time_has_the_bytes_that_it_always_had() -> None:
    """Same clock, same ids: the digest is that of a plan from before there was event time. Avro logs have our own bytes."""
    world = World({"hoodie.logfile.data.block.format": "avro"})
    table = world.open()
    table.insert(rows((1, "08:00"), (2, "08:00")))
    world.clock.advance(60)
    table.upsert(rows((1, "09:00")))
    world.clock.advance(60)
    requested = table.schedule_compaction()
    data = world.storage.get(f"{table.config.timeline_dir}/{requested}.compaction.requested")
    assert hashlib.sha256(data).hexdigest() == "1d649f2abacc1a6b403fcca4ddf5f335921eb4d19a49e3633fdf86700671e1c3"
