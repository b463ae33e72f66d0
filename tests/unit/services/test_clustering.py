"""Clustering: what is planned, that rows never change, and what happens beside writers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelake as tl
from small_rows import rows
from tidelake.errors import ColumnNotFoundError, ConflictError, InvalidError
from tidelake.format.avro_record import decode_record
from tidelake.format.commit_metadata import ReplaceCommitMetadata
from tidelake.format.names import State, TimelineName
from tidelake.format.plans import ClusteringPlan, RequestedReplaceMetadata
from tidelake.index import bucket_of
from tidelake.services.clustering import StalePlanError
from tidelake.services.report import ServicePlan
from tidelake.services.runner import Decision
from tidelake.storage import MemoryStorage, open_input
from tidelake.testing import ManualClock
from tidelake.timeline import TimelineReader
from tidelake.timeline.claim import take_claim
from tidelake.timeline.transitions import Transitions
from tidelake.write.transaction import Commit

SCHEMA = "id bigint, name string, ts bigint, day string"
MOR, COW = "MERGE_ON_READ", "COPY_ON_WRITE"
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}


def table(kind: str = MOR, options: dict[str, str] | None = None, **more: Any) -> tl.Table:
    clock = ManualClock(seed=3)
    settings = {"record_key": "id", "partition_by": "day", "ordering_fields": "ts", "table_type": kind, **more}
    return tl.create_table(
        "memory", SCHEMA, name="t", options=options or {}, storage=MemoryStorage(clock=clock), clock=clock, **settings
    )


def filled(kind: str = MOR, options: dict[str, str] | None = None, **more: Any) -> tl.Table:
    """Two partitions of several file groups, with updates and deletes."""
    made = table(kind, options, **more)
    for start in range(0, 30, 10):
        made.bulk_insert(rows(*((at, f"n{(at * 7) % 31}", at) for at in range(start, start + 10))))
    made.upsert(rows((3, "late", 1), (4, "newer", 99), (100, "new", 1)))
    made.delete([5, 26])
    return made


def stored(of: tl.Table) -> list[dict[str, Any]]:
    """Every row with its meta columns, except where it is."""
    found = of.scan().to_arrow().drop_columns(["_hoodie_file_name"]).to_pylist()
    return sorted(found, key=lambda row: row["id"])


def plan_of(of: tl.Table, instant: str) -> ClusteringPlan:
    name = TimelineName(instant, "clustering", State.REQUESTED)
    data = of._source.storage.get(f".hoodie/timeline/{name}")
    plan = decode_record(RequestedReplaceMetadata, data).clustering_plan
    assert plan is not None
    return plan


def reopened(of: tl.Table, **options: str) -> tl.Table:
    return tl.open_table("memory", storage=of._source.storage, clock=of._clock, options=options)


CASES = {
    "mor": (MOR, {}, {}),
    "cow": (COW, {}, {}),
    "mor-bucket": (MOR, BUCKETS, {}),
    "cow-bucket": (COW, BUCKETS, {}),
    "mor-unpartitioned": (MOR, {}, {"partition_by": ()}),
    "mor-commit-time": (MOR, {}, {"ordering_fields": ()}),
    "mor-event-time": (MOR, {"hoodie.payload.event.time.unit": "s"}, {"event_time_field": "ts"}),
    "mor-global": (MOR, {"hoodie.index.type": "GLOBAL_SIMPLE"}, {}),
}


@pytest.mark.parametrize(
    ("case", "order"),
    [("mor", "z-order"), ("mor", "hilbert"), *((case, order) for case in CASES for order in ("linear", None))],
)
def test_clustering_changes_no_row(case: str, order: str | None) -> None:
    """Rows, keys, commit times and sequence numbers are what they were; later writes find every key."""
    kind, options, more = CASES[case]
    made = filled(kind, options, **more)
    before = stored(made)
    sort_by = None if order is None else ["name", "ts"]
    done = made.cluster(sort_by=sort_by, order=order)
    assert stored(made) == before
    if case.endswith("bucket") and order is None:
        assert done is None
        return
    assert isinstance(done, Commit)
    assert done.operation == "CLUSTER"
    assert all(not file_slice.logs for file_slice in made.files())
    made.upsert(rows((1, "again", 1000), (3, "again", 0), (200, "fresh", 1)))
    made.delete([2])
    names = {row["id"]: row["name"] for row in stored(made)}
    assert names[1] == "again"
    assert names[200] == "fresh"
    assert 2 not in names
    assert names[3] == ("again" if case == "mor-commit-time" else "n21")
    assert len(names) == len(before)


@pytest.mark.parametrize("kind", [MOR, COW])
def test_small_files_become_one_for_each_partition(kind: str) -> None:
    """Without sort columns, file groups are put together, and then there is nothing more to do."""
    made = table(kind)
    for start in range(0, 30, 10):
        made.bulk_insert(rows(*((at, "n", at) for at in range(start, start + 10))))
    old = {(s.partition_path, s.file_id) for s in made.files()}
    assert len(old) == 6
    done = made.cluster()
    assert isinstance(done, Commit)
    now = {(s.partition_path, s.file_id) for s in made.files()}
    assert len(now) == 2
    assert not now & old
    instant = made.timeline.by_time[done.requested_time]
    assert (instant.action, instant.pending_action) == ("replacecommit", "clustering")
    commit = TimelineReader(made._source.storage, made.config).commit(instant)
    assert isinstance(commit, ReplaceCommitMetadata)
    replaced = {
        (part, file_id) for part, ids in (commit.partition_to_replace_file_ids or {}).items() for file_id in ids
    }
    assert replaced == old
    assert made.cluster() is None
    assert made.cluster(options={"hoodie.table.services.incremental.enabled": "false"}) is None


def test_rows_of_a_sorted_clustering_are_in_order() -> None:
    """Files hold rows by the columns asked for, nulls first, and their ranges do not overlap."""
    made = filled()
    made.upsert(pa.table({"id": [41], "name": pa.array([None], pa.string()), "ts": [1], "day": ["d1"]}))
    made.cluster(sort_by=["name", "id"], options={"hoodie.clustering.plan.strategy.target.file.max.bytes": "5000"})
    for part in ("day=d0", "day=d1"):
        files = sorted((s for s in made.files() if s.partition_path == part), key=lambda s: s.file_id)
        assert len(files) > 1
        found = []
        for file_slice in files:
            assert file_slice.base is not None
            with open_input(made._source.storage, file_slice.base.path, file_slice.base.size_bytes) as source:
                read = pq.read_table(source, columns=["name", "id", "_hoodie_file_name"]).to_pylist()
            assert {row["_hoodie_file_name"] for row in read} == {str(file_slice.base.name)}
            found += [(row["name"] is not None, row["name"] or "", row["id"]) for row in read]
        assert found == sorted(found)


def test_bucket_of_every_file_is_kept() -> None:
    """On a BUCKET table a file group is sorted by itself, and its new id begins with the same bucket."""
    made = filled(MOR, BUCKETS)
    before = {(s.partition_path, bucket_of(s.file_id)): s.file_id for s in made.files()}
    made.cluster(sort_by="name")
    after = {(s.partition_path, bucket_of(s.file_id)): s.file_id for s in made.files()}
    assert before.keys() == after.keys()
    assert all(before[key] != after[key] for key in before)


def test_plan_is_as_apache_hudi_reads_it() -> None:
    """Full paths, five metrics, the strategy's class and sort columns, our mark, and what is left."""
    made = filled()
    instant = made.schedule_clustering(sort_by=["name", "ts"], order="z-order", partitions=["day=d0"])
    assert instant is not None
    plan = plan_of(made, instant)
    assert plan.strategy is not None
    assert plan.strategy.strategy_class_name is not None
    assert plan.strategy.strategy_class_name.endswith(".SparkSortAndSizeExecutionStrategy")
    params = plan.strategy.strategy_params or {}
    assert params["hoodie.clustering.plan.strategy.sort.columns"] == "name,ts"
    assert params["hoodie.layout.optimize.strategy"] == "z-order"
    assert plan.preserve_hoodie_metadata is True
    assert plan.missing_schedule_partitions == ("day=d1",)
    assert "tidelake.planner" in (plan.extra_metadata or {})
    (group,) = plan.input_groups or ()
    assert group.num_output_file_groups == 1
    assert set(group.metrics or {}) == {
        "TOTAL_LOG_FILES",
        "TOTAL_IO_READ_MB",
        "TOTAL_LOG_FILES_SIZE",
        "TOTAL_IO_WRITE_MB",
        "TOTAL_IO_MB",
    }
    slices = group.slices or ()
    assert {s.partition_path for s in slices} == {"day=d0"}
    assert all("://" in (s.data_file_path or "") for s in slices)
    assert any(s.delta_file_paths for s in slices)


def test_dry_run_writes_nothing_and_says_why() -> None:
    """A dry run returns the plan with reasons; storage is as before."""
    made = filled()
    before = {info.path: info.modified_ms for info in made._source.storage.list_files()}
    plan = made.cluster(dry_run=True, sort_by="name")
    assert isinstance(plan, ServicePlan)
    assert plan.instant is None
    assert "sorted by linear(name)" in str(plan)
    assert {info.path: info.modified_ms for info in made._source.storage.list_files()} == before


def test_group_limit_leaves_partitions_for_the_next_plans() -> None:
    """A plan takes so many groups; the others are recorded, and the next plans take them without new writes."""
    made = filled()
    limit = {"hoodie.clustering.plan.strategy.max.num.groups": "1"}
    plan = made.cluster(dry_run=True, options=limit)
    assert isinstance(plan, ServicePlan)
    assert plan.missing_partitions == ("day=d1",)
    assert isinstance(made.cluster(options=limit), Commit)
    second = made.cluster(dry_run=True, options=limit)
    assert isinstance(second, ServicePlan)
    assert second.partition_source == "incremental"
    assert {op.partition_path for op in second.operations} == {"day=d1"}
    assert isinstance(made.cluster(options=limit), Commit)
    assert made.cluster(options=limit) is None
    assert len(made.files()) == 2


def test_group_bytes_bound_what_is_rewritten_together() -> None:
    """Groups stay below the bound, and a lone small file that fits nowhere is left alone for good."""
    made = filled()
    biggest = max(s.size_bytes for s in made.files())
    bound = {"hoodie.clustering.plan.strategy.max.bytes.per.group": str(biggest * 2)}
    instant = made.schedule_clustering(options=bound)
    assert instant is not None
    sizes = {s.file_id: s.size_bytes for s in made.files()}
    groups = plan_of(made, instant).input_groups or ()
    assert all(sum(sizes[s.file_id or ""] for s in group.slices or ()) <= biggest * 2 for group in groups)
    made.run_clustering()
    passes = 0
    while made.cluster(options=bound) is not None:
        passes += 1
        assert passes < 5
    assert made.cluster(dry_run=True, options=bound) is None


def test_large_files_are_left_alone() -> None:
    """A file group whose base file is at the limit or above is no work, sorted or not."""
    made = filled()
    limit = {"hoodie.clustering.plan.strategy.small.file.limit": "10"}
    assert made.cluster(options=limit) is None
    assert made.cluster(options=limit, sort_by="name") is None


def test_another_order_looks_at_the_whole_table_and_the_same_one_at_what_changed() -> None:
    """Who asks for an order that the table does not have gets it, though nothing changed; then only changes count."""
    made = filled()
    made.cluster()
    first = made.cluster(dry_run=True, sort_by="name")
    assert isinstance(first, ServicePlan)
    assert (first.partition_source, len(first.operations)) == ("full", 2)
    made.cluster(sort_by="name")
    assert made.cluster(sort_by="name") is None
    assert made.cluster(sort_by="name", options={"hoodie.table.services.incremental.enabled": "false"}) is None
    made.upsert(rows((1, "zz", 1000)))
    again = made.cluster(dry_run=True, sort_by="name")
    assert isinstance(again, ServicePlan)
    assert again.partition_source == "incremental"
    assert {op.partition_path for op in again.operations} == {"day=d1"}
    other = made.cluster(dry_run=True, sort_by="name", order="hilbert")
    assert isinstance(other, ServicePlan)
    assert {op.partition_path for op in other.operations} == {"day=d0", "day=d1"}


@pytest.mark.parametrize(
    ("strategy", "options", "taken"),
    [
        ("recent_days", {"hoodie.clustering.plan.strategy.daybased.lookback.partitions": "1"}, {"day=d1"}),
        (
            "recent_days",
            {
                "hoodie.clustering.plan.strategy.daybased.lookback.partitions": "1",
                "hoodie.clustering.plan.strategy.daybased.skipfromlatest.partitions": "1",
            },
            {"day=d0"},
        ),
        ("regex", {"hoodie.clustering.plan.strategy.partition.regex.pattern": "day=.1"}, {"day=d1"}),
        (
            "org.apache.hudi.client.clustering.plan.strategy.SparkSelectedPartitionsClusteringPlanStrategy",
            {"hoodie.clustering.plan.strategy.cluster.end.partition": "day=d0"},
            {"day=d0"},
        ),
        ("size_based+regex", {"hoodie.clustering.plan.strategy.partition.regex.pattern": "x"}, set()),
        (
            None,
            {
                "hoodie.clustering.plan.partition.filter.mode": "RECENT_DAYS",
                "hoodie.clustering.plan.strategy.daybased.lookback.partitions": "1",
            },
            {"day=d1"},
        ),
    ],
)
def test_strategy_filters_partitions_and_loses_none(
    strategy: str | None, options: dict[str, str], taken: set[str]
) -> None:
    """What a strategy leaves out, the next plan without it finds."""
    made = filled()
    plan = made.cluster(dry_run=True, strategy=strategy, options=options)
    assert (set() if plan is None else {op.partition_path for op in plan.operations}) == taken  # type: ignore[union-attr]
    made.cluster(strategy=strategy, options=options)
    rest = made.cluster(dry_run=True)
    assert isinstance(rest, ServicePlan)
    assert {op.partition_path for op in rest.operations} == {"day=d0", "day=d1"} - taken


def test_compaction_counts_as_a_change_for_clustering() -> None:
    """A partition that a compaction alone touched since the last clustering is looked at."""
    made = filled()
    made.cluster()
    made.upsert(rows((1, "x", 1000)))
    assert made.cluster() is None
    done = made.compact()
    assert isinstance(done, Commit)
    plan = made.cluster(dry_run=True, options={"hoodie.clustering.plan.strategy.sort.columns": ""})
    assert plan is None
    made.insert(rows((51, "a", 1)))
    plan = made.cluster(dry_run=True)
    assert isinstance(plan, ServicePlan)
    assert done.requested_time in plan.commits


def test_groups_of_a_pending_compaction_are_left_and_recorded() -> None:
    """A file group is in one pending plan at most; the partition is carried until the other plan is done."""
    made = filled()
    made.schedule_compaction()
    done = made.cluster()
    held = {s.file_id for s in made.files() if s.logs}
    assert held
    plan = made.cluster(dry_run=True)
    assert isinstance(done, Commit)
    assert plan is None
    made.run_compaction()
    assert isinstance(made.cluster(), Commit)
    assert len(made.files()) == 2


@pytest.mark.parametrize("case", ["mor", "cow", "mor-bucket"])
@pytest.mark.parametrize(
    "verb",
    [
        lambda t: t.upsert(rows((1, "x", 1000))),
        lambda t: t.delete([1]),
        lambda t: t.insert_overwrite(rows((1, "x", 1))),
        lambda t: t.insert_overwrite_table(rows((1, "x", 1))),
        lambda t: t.delete_partitions(["day=d1"]),
    ],
    ids=["upsert", "delete", "insert_overwrite", "insert_overwrite_table", "delete_partitions"],
)
def test_write_into_a_group_of_a_pending_clustering_is_refused(case: str, verb: Any) -> None:
    """Reject is the default; the table is as before, the clustering completes, and then the write goes through."""
    kind, options, more = CASES[case]
    made = filled(kind, options, **more)
    before = stored(made)
    instant = made.schedule_clustering(sort_by="name")
    with pytest.raises(ConflictError, match="clustering"):
        verb(reopened(made))
    assert stored(made) == before
    assert made.run_clustering(instant) is not None
    assert stored(made) == before
    verb(made)
    assert stored(made) != before


@pytest.mark.parametrize("kind", [MOR, COW])
def test_inserts_go_on_beside_a_pending_clustering(kind: str) -> None:
    """New rows do not go into file groups that are about to be rewritten."""
    made = filled(kind)
    before = stored(made)
    made.schedule_clustering()
    made.insert(rows((300, "n", 1), (301, "n", 1)))
    made.upsert(rows((302, "n", 1)))
    made.run_clustering()
    assert len(stored(made)) == len(before) + 3


@pytest.mark.parametrize("case", ["mor", "cow", "mor-bucket"])
def test_clustering_that_completes_under_a_writer_refuses_it(case: str) -> None:
    """A writer that looked up its keys before a clustering completed would write into groups that are no more."""
    kind, options, more = CASES[case]
    made = filled(kind, options, **more)
    other = reopened(made)
    instant = made.schedule_clustering(sort_by="name")
    hits: list[int] = []

    from tidelake.write import job

    real = job.finish

    def finish(*given: Any) -> Any:
        if not hits:
            hits.append(1)
            made.run_clustering(instant)
        return real(*given)

    before = stored(made)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "finish", finish)
        with pytest.raises(ConflictError):
            other.upsert(rows((1, "x", 1000)))
    assert hits
    assert stored(made) == before


def foreign_write(made: tl.Table, verb: Any) -> None:
    """A write by an engine that does not look for pending clusterings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidelake.write.conflicts._check_clustering", lambda *_: None)
        verb(reopened(made))


@pytest.mark.parametrize(
    "verb",
    [
        lambda t: t.upsert(rows((1, "x", 1000))),
        lambda t: t.insert_overwrite(rows((1, "x", 1))),
        lambda t: t.delete_partitions(["day=d1"]),
    ],
    ids=["upsert", "insert_overwrite", "delete_partitions"],
)
@pytest.mark.parametrize("case", ["mor", "cow", "mor-bucket"])
def test_plan_whose_groups_changed_is_withdrawn_and_made_anew(case: str, verb: Any) -> None:
    """A plan that can never complete fails typed, goes, lets writers on, and its work is found again."""
    kind, options, more = CASES[case]
    made = filled(kind, options, **more)
    instant = made.schedule_clustering(sort_by="name")
    assert instant is not None
    foreign_write(made, verb)
    after = stored(made)
    with pytest.raises(StalePlanError):
        made.run_clustering(instant)
    assert stored(made) == after
    assert not made.timeline.pending
    assert all(instant not in info.path for info in made._source.storage.list_files() if ".rollback" not in info.path)
    made.upsert(rows((3, "y", 1000)))
    expected = stored(made)
    assert isinstance(made.cluster(sort_by="name"), Commit)
    assert stored(made) == expected
    assert made.cluster(sort_by="name") is None


@pytest.mark.parametrize("case", ["mor", "cow", "mor-bucket"])
def test_write_that_completes_while_the_files_are_written_makes_the_plan_stale(case: str) -> None:
    """The check is made again within the turn that would complete the clustering."""
    kind, options, more = CASES[case]
    made = filled(kind, options, **more)
    instant = made.schedule_clustering(sort_by="name")
    from tidelake.services.clustering import execute

    real = execute.cluster_slices
    hits: list[int] = []

    def late(*given: Any) -> Any:
        if not hits:
            hits.append(1)
            foreign_write(made, lambda t: t.upsert(rows((1, "x", 1000))))
        return real(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execute, "cluster_slices", late)
        with pytest.raises(StalePlanError):
            made.run_clustering(instant)
    assert hits
    assert {row["name"] for row in stored(made) if row["id"] == 1} == {"x"}
    assert not made.timeline.pending


def test_next_clustering_completes_the_plan_of_a_dead_executor() -> None:
    """A claim whose heartbeat expired is taken over; a live one is left."""
    made = filled()
    before = stored(made)
    instant = made.schedule_clustering()
    assert instant is not None
    storage = made._source.storage
    moves = Transitions(storage, made.config, made._clock)
    take_claim(storage, made._clock, moves, instant, 120_000, lambda: 0, lambda _: None)
    with pytest.raises(ConflictError, match="being carried out"):
        made.run_clustering(instant)
    assert made.cluster() is None
    made._clock.advance(600)  # type: ignore[attr-defined]
    done = made.cluster()
    assert isinstance(done, Commit)
    assert done.requested_time == instant
    assert stored(made) == before


def test_user_withdraws_a_plan_and_writers_go_on() -> None:
    """A rollback keeps a plan, as Apache Hudi does; a withdrawal removes it."""
    made = filled()
    instant = made.schedule_clustering()
    assert instant is not None
    made.rollback(instant)
    with pytest.raises(ConflictError):
        made.upsert(rows((1, "x", 1000)))
    made.withdraw_clustering(instant)
    assert not made.timeline.pending
    made.upsert(rows((1, "x", 1000)))
    with pytest.raises(ConflictError):
        made.withdraw_clustering(instant)
    with pytest.raises(ConflictError):
        made.run_clustering(instant)
    assert isinstance(made.cluster(), Commit)


def test_all_rows_deleted_leave_no_file() -> None:
    """A group without rows is retired, and nothing comes in its place; keys can come back."""
    made = table()
    made.bulk_insert(rows((1, "a", 1)))
    made.bulk_insert(rows((3, "a", 1)))
    made.delete([1, 3])
    assert isinstance(made.cluster(), Commit)
    assert made.files() == []
    made.upsert(rows((1, "b", 2)))
    assert [row["name"] for row in stored(made)] == ["b"]


def test_unknown_sort_column_is_refused_before_anything_is_written() -> None:
    """A wrong name is an error of the call, and no plan is left."""
    made = filled()
    with pytest.raises(ColumnNotFoundError, match="nmae"):
        made.cluster(sort_by="nmae")
    assert not made.timeline.pending


def test_column_added_while_a_plan_waits_is_kept() -> None:
    """The clustering takes the table's schema of when it completes."""
    made = filled()
    instant = made.schedule_clustering()
    made.insert(pa.table({"id": [400], "name": ["n"], "ts": [1], "day": ["d9"], "extra": ["e"]}))
    made.run_clustering(instant)
    found = {row["id"]: row.get("extra") for row in stored(made)}
    assert found[400] == "e"
    assert found[1] is None


def test_time_travel_to_before_a_clustering_reads_the_old_files() -> None:
    """As of an earlier completion the rows are those of then."""
    made = filled()
    before = stored(made)
    point = max(i.completion_time or "" for i in made.timeline.completed_writes)
    made.cluster(sort_by="name")
    made.upsert(rows((1, "x", 1000)))
    found = made.scan(as_of_completion=point).to_arrow().drop_columns(["_hoodie_file_name"]).to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == before


def test_completion_times_rise_over_clusterings() -> None:
    """A clustering is one more instant of the timeline, with times of its own."""
    made = filled()
    made.cluster()
    ends = sorted(i.completion_time or "" for i in made.timeline.completed_writes)
    assert all(a < b for a, b in pairwise(ends))


def test_filter_on_partition_columns_limits_the_plan() -> None:
    """Only partitions that the condition leaves are taken; the others are recorded. Other columns are refused."""
    made = filled()
    plan = made.cluster(dry_run=True, filter="day = 'd1'")
    assert isinstance(plan, ServicePlan)
    assert {op.partition_path for op in plan.operations} == {"day=d1"}
    assert plan.missing_partitions == ("day=d0",)
    with pytest.raises(InvalidError, match="partition columns"):
        made.cluster(filter="id > 3")


def test_inline_clustering_follows_a_write_when_it_is_due() -> None:
    """With the option on, a writer clusters after so many writes; without it, never."""
    made = table()
    plain, eager = (
        reopened(made),
        reopened(made, **{"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "3"}),
    )
    for at in range(4):
        plain.bulk_insert(rows((2 * at, "n", 1)))
    assert not made.clusterings()
    eager.bulk_insert(rows((20, "n", 1)))
    (done,) = made.clusterings()
    assert (done.state, done.file_groups, done.partitions) == ("COMPLETED", 5, ("day=d0",))
    eager.bulk_insert(rows((22, "n", 1)))
    assert len(made.clusterings()) == 1


def test_service_runner_completes_plans_that_wait_and_clusters_where_asked() -> None:
    """A round carries out a waiting plan for any table; it makes plans only with the option."""
    made = filled(COW)

    def decisions(options: dict[str, str] | None = None) -> list[Decision]:
        return [decision for decision in made.run_services(options=options) if decision.service == "clustering"]

    assert decisions() == []
    instant = made.schedule_clustering(partitions=["day=d0"])
    (first,) = decisions()
    assert first.did_work
    assert str(instant) in first.reason
    made.bulk_insert(rows((41, "n", 1)))
    asked = {"hoodie.clustering.async.enabled": "true", "hoodie.clustering.async.max.commits": "1"}
    (second,) = decisions(asked)
    assert "became 1" in second.outcome
    instant = made.schedule_clustering(sort_by="name")
    foreign_write(made, lambda t: t.upsert(rows((1, "x", 1000))))
    (third,) = decisions()
    assert "withdrawn" in third.outcome
    assert not made.timeline.pending


def test_audit_finds_a_partition_that_was_taken_out_of_the_carry_list() -> None:
    """What a plan left is in its carry list; without it the work is lost, and the repair brings it back."""
    made = filled()
    made.cluster(partitions=["day=d0"])
    assert made.audit_services().is_clean
    (instant,) = [i for i in made.timeline.completed_writes if i.pending_action == "clustering"]
    path = f".hoodie/timeline/{instant.requested_file_name}"
    storage = made._source.storage
    request = decode_record(RequestedReplaceMetadata, storage.get(path))
    assert request.clustering_plan is not None
    robbed = replace(request, clustering_plan=replace(request.clustering_plan, missing_schedule_partitions=()))
    storage.put(path, robbed.encode(b"0123456789abcdef"))
    assert made.audit_services().lost["clustering"] == ("day=d1",)
    assert made.cluster(dry_run=True) is None
    made.audit_services(repair=True)
    plan = made.cluster(dry_run=True)
    assert isinstance(plan, ServicePlan)
    assert {op.partition_path for op in plan.operations} == {"day=d1"}
