"""Back-dating is dangerous: for each rule of choosing P, what happens without it, and that it does not happen with it."""

from __future__ import annotations

import pytest

from tidelake.errors import ConflictError, MissingFileError, UnavailableError
from tidelake.services.compaction import barrier
from tidelake.services.kinds import COMPACTION
from tidelake.services.withdraw import withdraw
from unit.services.event_tables import ANY, AT_THRESHOLD, During, EventWorld, instant, rows
from unit.services.hand_made import archive
from unit.services.service_tables import BUCKET

BARRIER = {**AT_THRESHOLD, **ANY}
WITH_AND_WITHOUT = pytest.mark.parametrize("is_there", [True, False], ids=["with the rule", "without it"])
EXACT = {"hoodie.compaction.event.time.exact": "true", **BUCKET, "hoodie.bucket.index.num.buckets": "1"}


def remove(monkeypatch: pytest.MonkeyPatch, rule: str, answer: object) -> None:
    monkeypatch.setattr(barrier, rule, lambda *_: answer)


@WITH_AND_WITHOUT
def test_rule_1_a_barrier_in_the_future_stops_all_writers(monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    if not is_there:
        remove(monkeypatch, "not_after_now", "99999999999999999")
    world = EventWorld(BARRIER).at("09:00")
    world.insert((1, "08:00"))
    world.at("10:00").upsert((1, "09:50"))
    world.at("10:30").schedule("11:00")
    world.at("10:40")
    if is_there:
        world.upsert((1, "10:39"))
    else:
        with pytest.raises(UnavailableError, match="ahead of this machine's clock"):
            world.upsert((1, "10:39"))


@WITH_AND_WITHOUT
def test_rule_2_a_barrier_below_archived_commits_hides_their_files(
    monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    if not is_there:
        remove(monkeypatch, "after_archived", None)
    world = EventWorld(BARRIER).at("09:40")
    old = [world.insert((1, "08:00"), (2, "08:00")), world.at("09:41").upsert((1, "09:30"))]
    old.append(world.at("09:50").upsert((2, "09:48")))
    world.at("10:00").upsert((1, "09:55"))
    archive(world, [write.requested_time for write in old])
    before = world.rows
    made = world.at("10:30").schedule("09:45")
    assert (made is None) == is_there
    assert (world.rows == before) == is_there


def kept_by_hudi(world: EventWorld, retained: int) -> set[str]:
    """The base files of the one group that Apache Hudi's cleaner keeps: all from the earliest commit that is retained on,
    and the last one before it."""
    commits = [i.requested_time for i in world.open().timeline.completed_writes]
    bases = sorted(
        info.path.rpartition("_")[2].removesuffix(".parquet")
        for info in world.storage.list_files("")
        if info.path.endswith(".parquet")
    )
    if len(commits) <= retained:
        return set(bases)
    earliest = commits[-retained]
    return {base for base in bases if base >= earliest} | {max(base for base in bases if base < earliest)}


@WITH_AND_WITHOUT
def test_rule_3_apache_hudis_cleaner_takes_the_previous_slice_from_its_readers(
    monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """Five commits are retained and eight are later than T: the previous slice survives the next two commits."""
    if not is_there:
        remove(monkeypatch, "after_cleaner_horizon", None)
    world = EventWorld({"hoodie.clean.commits.retained": "5"}).at("09:00")
    first = world.insert((1, "08:00"), (2, "08:00")).requested_time
    world.at("10:00").upsert((1, "09:50"))
    for minute in range(8):
        world.at(f"10:{20 + minute}").upsert((2, f"10:{10 + minute}"))
    assert world.at("10:30").compact("10:10") is not None
    survives = []
    for minute in (31, 32):
        survives.append(first in kept_by_hudi(world, 5))
        world.at(f"10:{minute}").upsert((1, f"10:{minute}"))
    survives.append(first in kept_by_hudi(world, 5))
    assert all(survives) == is_there


@WITH_AND_WITHOUT
def test_rule_4_a_barrier_below_a_service_forgets_what_was_compacted(
    monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """The last service is the one of the greatest instant: with two that lie the wrong way round, late data does not wait."""
    if not is_there:
        remove(monkeypatch, "after_services", None)
    world = EventWorld(ANY).at("09:00")
    world.insert((1, "08:00"), day="a")
    world.insert((2, "08:00"), day="b")
    world.at("10:00").upsert((2, "10:35"), day="b")
    world.at("10:20").upsert((1, "10:15"), day="a")
    first = world.at("10:30").compact("10:30")
    assert first is not None
    second = world.at("10:45").compact("10:40")
    assert second is not None
    assert (second.requested_time > first.requested_time) == is_there
    world.at("10:46").upsert((1, "10:36"), day="a")
    assert (world.compact("10:40") is None) == is_there


@WITH_AND_WITHOUT
def test_rule_5_a_time_that_the_table_has_had_names_two_things(monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    """Taking the plan back removes the files that carry its instant: those of the write that has the same time, too."""
    if not is_there:
        remove(monkeypatch, "taken_times", frozenset())
    world = EventWorld({**BUCKET, **BARRIER}).at("09:00")
    world.insert((1, "08:00"))
    world.insert((2, "08:00"))
    assert len(world.slices) == 2
    world.at("10:00").upsert((1, "09:50"))
    world.at("10:10").upsert((2, "10:05"))
    requested = world.at("10:30").schedule("10:10")
    assert requested == instant("10:09:59.999" if is_there else "10:10")
    before = world.rows
    withdraw(world.open()._service_call(None), COMPACTION, requested)
    if is_there:
        assert world.rows == before
    else:
        with pytest.raises(MissingFileError):
            _ = world.rows


@WITH_AND_WITHOUT
def test_rule_6_a_barrier_within_a_write_changes_the_order_of_logs(
    monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """Two writes of one group that overlap (as Apache Hudi's non-blocking writers make them): the later one wins, before
    and after."""
    if not is_there:
        remove(monkeypatch, "spans_of", [])
    monkeypatch.setattr("tidelake.write.transaction.check_conflicts", lambda *_: None)
    world = EventWorld(BARRIER, ordering_fields=()).at("09:00")
    world.insert((1, "08:00"))

    def meanwhile() -> None:
        world.at("10:05").beat()
        world.upsert((1, "09:51"), until="10:08")
        world.at("10:20").beat()

    world.at("10:00")
    world.open(During(world.storage, meanwhile)).upsert(rows((1, "09:50")))  # type: ignore[arg-type]
    before = world.rows
    assert before[0][1] == "1 at 09:51"
    done = world.at("10:30").compact("10:10")
    assert (done is None) == is_there
    assert (world.rows == before) == is_there
    if is_there:
        refused = world.dry("10:10")
        assert refused.instant is None
        assert "within a write" in refused.reason
        assert "would do is 20260101102000" in refused.reason


@WITH_AND_WITHOUT
def test_rule_6_exact_groups_that_a_write_under_way_may_touch_are_left_out(
    monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    if not is_there:
        remove(monkeypatch, "is_begun_before", False)
    world = EventWorld({**EXACT, **BARRIER}).at("09:00")
    world.insert((1, "08:00"))
    world.at("10:00").upsert((1, "09:50"))
    made: list[str | None] = []

    def meanwhile() -> None:
        world.at("10:20").beat()
        made.append(world.schedule("10:10"))

    world.at("10:05")
    table = world.open(During(world.storage, meanwhile))  # type: ignore[arg-type]
    if is_there:
        slow = table.upsert(rows((1, "10:04")))
        (requested,) = made
        assert requested is None or requested < slow.requested_time
    else:
        with pytest.raises(ConflictError, match="was planned after this write began"):
            table.upsert(rows((1, "10:04")))


def test_rule_6_a_write_that_began_below_an_exact_plan_is_refused_and_may_be_redone() -> None:
    """Its inflight file said that it would touch another partition; what it touches in the end counts."""
    world = EventWorld({**EXACT, **BARRIER}).at("09:00")
    world.insert((1, "08:00"))
    world.at("10:00").upsert((1, "09:50"))

    def meanwhile() -> None:
        world.at("10:20").beat()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(barrier, "is_begun_before", lambda *_: False)
            assert world.schedule("10:10") == instant("10:10")

    world.at("10:05")
    with pytest.raises(ConflictError, match="was planned after this write began") as refused:
        world.open(During(world.storage, meanwhile)).upsert(rows((1, "10:04")))  # type: ignore[arg-type]
    assert refused.value.retryable
    world.open().run_compaction()
    world.at("10:21").upsert((1, "10:04"))
    assert [row[1] for row in world.rows] == ["1 at 10:04"]


def test_rule_6_a_write_that_began_below_a_compaction_that_keeps_deletes_is_refused() -> None:
    """The deletes that it keeps carry its instant, and would be read after the write's own log."""
    for retention, is_refused in (("1d", True), ("0", False)):
        world = EventWorld({"tombstone.retention": retention}).at("09:00")
        world.insert((1, "08:00"), (2, "08:00"))
        world.at("10:00").open().delete([1])

        def meanwhile(world: EventWorld = world) -> None:
            world.at("10:20").beat()
            assert world.open().schedule_compaction() is not None

        table = world.at("10:05").open(During(world.storage, meanwhile))  # type: ignore[arg-type]
        if is_refused:
            with pytest.raises(ConflictError, match="was planned after this write began"):
                table.upsert(rows((2, "10:04")))
        else:
            table.upsert(rows((2, "10:04")))


def test_deletes_that_a_compaction_kept_are_no_data_to_compact() -> None:
    """Else each pass would compact the group anew for them."""
    world = EventWorld({"tombstone.retention": "1d", **ANY}).at("09:00")
    world.insert((1, "08:00"), (2, "08:00"))
    world.at("10:00").open().delete([1])
    assert world.at("10:05").compact("10:00") is not None
    assert [len(logs) for _, logs in world.slices] == [1]
    world.at("10:10").upsert((2, "10:09"))
    assert "no log" in world.at("10:40").dry("10:05").reason
    done = world.compact("10:30")
    assert done is not None
    assert world.marks(done.requested_time).covers
    assert [row[:2] for row in world.rows] == [(2, "2 at 10:09")]
