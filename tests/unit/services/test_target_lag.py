"""``hoodie.compaction.event.time.target.lag``: the read-optimised view complete to within a lag, at the least rewriting."""

from __future__ import annotations

from tidelake.format.commit_metadata import CommitMetadata
from tidelake.query import TableSource
from unit.observe.event_tables import EventWorld, at, events

LAG = {"hoodie.compaction.event.time.target.lag": "15m", "hoodie.clean.automatic": "false"}


def decisions(world: EventWorld, **options: str) -> list[str]:
    return [str(d) for d in world.open().run_services(options={**LAG, **options}) if d.service == "compaction"]


def rewritten(world: EventWorld) -> list[list[str]]:
    """The partitions of each compaction, in the order of completion."""
    source = TableSource.load(world.storage)
    commits: list[CommitMetadata] = [
        source.reader.commit(i) for i in sorted(source.timeline.completed_writes, key=lambda i: i.completion_time or "")
    ]
    return [[s.partition_path or "" for s in c.stats] for c in commits if c.operation_type == "COMPACT"]


def test_target_lag_compacts_the_groups_that_hold_completion_back_and_no_others() -> None:
    """d0 is 20 minutes behind and is compacted; d1, 5 minutes behind, is left for later."""
    world = EventWorld()
    world.upsert((0, "10:00"), (1, "10:00"))
    world.upsert((0, "10:12"), (1, "10:27"))
    (told,) = decisions(world)
    assert "logs hold events from 2026-01-01T10:12:00.000Z" in told
    assert "1 file groups compacted" in told
    assert rewritten(world) == [["day=d0"]]
    assert world.open().freshness().ro.completion_ms == at("10:27") - 1
    assert decisions(world) == ["compaction: not due; nothing to do"]
    world.clock.advance(8 * 60)
    assert "1 file groups compacted" in decisions(world)[0], "before it is 15 minutes behind"
    assert rewritten(world) == [["day=d0"], ["day=d1"]]


def test_target_lag_is_met_by_a_stream_and_rewrites_a_group_once_in_a_lag() -> None:
    """Two hours of writes each minute, a round every 3 minutes: completion is never further behind than the lag."""
    world = EventWorld()
    world.upsert((0, at("10:31")), (1, at("10:31")))
    for minute in range(120):
        world.clock.advance(60)
        now = world.clock.now_ms()
        world.open().upsert(events((0, now), (1, now)))
        if minute % 3 == 0:
            decisions(world)
        completion = world.open().freshness().ro.completion_ms
        assert completion is not None
        assert world.clock.now_ms() - completion <= 15 * 60_000
    assert len(rewritten(world)) <= 120 // 12


def test_target_lag_takes_the_furthest_behind_first() -> None:
    """So that a bound leaves out those that matter least; a group without old events is never taken."""
    world = EventWorld()
    world.upsert((0, "09:00"), (1, "09:00"))
    world.upsert((0, "09:40"), (1, "09:20"))
    plan = world.open().compact(dry_run=True, strategy="target_lag+bounded_io", options=LAG)
    assert plan is not None
    assert [op.partition_path for op in plan.operations] == ["day=d1", "day=d0"]  # type: ignore[union-attr]
