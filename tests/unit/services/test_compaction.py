"""Compaction: rows stay as they are, dry runs write nothing, strategies leave nothing behind unrecorded."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake.errors import ConflictError, InvalidError
from tidelake.format.avro_record import decode_record
from tidelake.format.plans import CompactionPlan
from tidelake.services.strategy import Candidate, ServiceConfig
from tidelake.storage import MemoryStorage
from tidelake.testing import FaultyStorage, ManualClock

SCHEMA = "id bigint, day string, ts bigint, v string"
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
DAYS = 4


def rows(ids: range | list[int], ts: int, mark: str = "v") -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "day": [f"2026-01-0{i % DAYS + 1}" for i in ids],
            "ts": pa.array([ts] * len(ids), pa.int64()),
            "v": [f"{mark}{i}-{ts}" for i in ids],
        }
    )


def make(storage: MemoryStorage | None = None, **settings: object) -> tl.Table:
    given: dict = {"partition_by": "day", "ordering_fields": "ts", **settings}
    return tl.create_table(
        "mem", SCHEMA, name="t", storage=storage or MemoryStorage("mem"), clock=ManualClock(), **given
    )


def content(table: tl.Table, mode: str = "snapshot") -> list[dict]:
    """All rows with their meta columns, but for the file that they lie in."""
    found = table.scan(mode=mode).to_arrow().drop_columns(["_hoodie_file_name"])
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def names(table: tl.Table) -> set[str]:
    return {str(name) for name in table.timeline.names}


@pytest.mark.parametrize("options", [{}, BUCKETS, {"hoodie.logfile.data.block.format": "avro"}])
@pytest.mark.parametrize("partitioned", [True, False])
def test_rows_stay_and_the_read_optimised_view_has_them_all(options: dict, partitioned: bool) -> None:
    """Updates, inserts and deletes are in the base files afterwards; commit times and sequence numbers are kept."""
    table = make(options=options, **({} if partitioned else {"partition_by": ()}))
    table.bulk_insert(rows(range(40), 1))
    table.upsert(rows(range(30, 50), 2))
    table.upsert(rows([1, 2, 60], 3))
    table.delete([5, 6])
    before = content(table)
    assert content(table, "read_optimized") != before
    done = table.compact()
    assert done is not None
    assert done.operation == "COMPACT"
    assert content(table) == before
    assert content(table, "read_optimized") == before
    assert not any(s.logs for s in table.files())
    assert table.compact() is None
    table.upsert(rows([1, 5, 70], 4))
    expected = {row["id"]: row["v"] for row in before} | {i: f"v{i}-4" for i in (1, 5, 70)}
    assert {row["id"]: row["v"] for row in content(table)} == expected


def test_dry_run_says_what_and_why_and_writes_nothing() -> None:
    """The plan of a dry run is the one that a real run then makes."""
    storage = MemoryStorage("mem")
    table = make(storage)
    table.insert(rows(range(8), 1))
    table.upsert(rows([0, 1], 2))
    before = {info.path for info in storage.list_files("")}
    plan = table.compact(dry_run=True)
    assert {info.path for info in storage.list_files("")} == before
    assert plan is not None
    assert plan.partition_source == "incremental"
    assert [op.partition_path for op in plan.operations] == ["day=2026-01-01", "day=2026-01-02"]
    assert all(len(op.logs) == 1 and op.base_file and "1 log" in op.reason for op in plan.operations)
    assert "day=2026-01-01" in str(plan)
    done = table.compact()
    assert {(s.partition_path, s.file_id) for s in done.stats} == {
        (op.partition_path, op.file_id) for op in plan.operations
    }
    assert table.compact(dry_run=True) is None


def test_schedule_then_run_elsewhere() -> None:
    """A plan waits for whoever runs it; writes that complete meanwhile stay on top of it."""
    storage = MemoryStorage("mem")
    table = make(storage)
    table.insert(rows(range(8), 1))
    table.upsert(rows([0, 1], 2))
    instant = table.schedule_compaction()
    assert [(r.instant, r.state, r.file_groups) for r in table.compactions()] == [(instant, "REQUESTED", 2)]
    table.upsert(rows([0], 3))
    before = content(table)
    other = tl.open_table("mem", storage=storage, clock=ManualClock(seed=7))
    done = other.run_compaction()
    assert done.requested_time == instant
    assert content(table) == before
    assert [len(s.logs) for s in table.files() if s.partition_path == "day=2026-01-01"] == [1]
    assert other.run_compaction() is None
    assert table.run_compaction(instant).completion_time == done.completion_time
    with pytest.raises(InvalidError, match="no plan"):
        table.run_compaction("20200101000000000")


def test_empty_file_groups_and_log_only_deletes() -> None:
    """A group whose rows are all deleted becomes an empty base file."""
    table = make()
    table.insert(rows([0, 4], 1))
    table.delete([0, 4])
    table.compact()
    assert content(table) == []
    assert content(table, "read_optimized") == []
    table.upsert(rows([0], 5))
    assert [row["id"] for row in content(table)] == [0]


def drain(table: tl.Table, most: int = 20, **settings: object) -> list[set[str]]:
    """Compact until nothing is left; the partitions of each plan."""
    done = []
    for _ in range(most):
        commit = table.compact(**settings)
        if commit is None:
            return done
        done.append({stat.partition_path for stat in commit.stats})
    raise AssertionError("never done")


def test_bounded_io_takes_some_and_the_rest_later() -> None:
    """One group at a time by a tiny target: the others are recorded, and the next runs take them."""
    table = make()
    table.insert(rows(range(8), 1))
    table.upsert(rows(range(8), 2))
    options = {"hoodie.compaction.target.io": "1", "hoodie.compaction.strategy": "one"}
    first = table.compact(dry_run=True, options=options)
    assert len(first.operations) == 1
    assert set(first.missing_partitions) == {f"day=2026-01-0{n}" for n in (2, 3, 4)}
    assert [len(found) for found in drain(table, options=options)] == [1, 1, 1, 1]
    assert content(table, "read_optimized") == content(table)


class One(tl.ServiceStrategy, tl.IncrementalPartitionAwareStrategy):
    """The first file group alone."""

    def choose(self, config: ServiceConfig, candidates: list[Candidate]) -> list[Candidate]:
        return list(candidates)[:1]


class Everything(tl.ServiceStrategy):
    """Does not declare itself incremental, and remembers what it was given."""

    seen: tuple[str, ...] = ()

    def filter_partition_paths(self, config: ServiceConfig, partitions: list[str]) -> tuple[list[str], list[str]]:
        Everything.seen = tuple(partitions)
        return partitions, []


tl.register_strategy("one", One)
tl.register_strategy("everything", Everything)


@pytest.mark.parametrize(
    ("strategy", "options", "taken", "left"),
    [
        ("unbounded", {}, {1, 2, 3, 4}, set()),
        ("bounded_io", {}, {1, 2, 3, 4}, set()),
        ("log_file_num", {"hoodie.compaction.logfile.num.threshold": "2"}, {1, 2}, {3, 4}),
        ("log_file_size", {"hoodie.compaction.logfile.size.threshold": "1000000"}, set(), {1, 2, 3, 4}),
        ("day_based", {"hoodie.compaction.daybased.target.partitions": "2"}, {3, 4}, {1, 2}),
        ("partition_regex", {"hoodie.compaction.partition.path.regex": ".*0[14]"}, {1, 4}, {2, 3}),
        ("partitions", {"hoodie.compaction.plan.partitions": "day=2026-01-03"}, {3}, {1, 2, 4}),
        ("log_file_num+one", {"hoodie.compaction.logfile.num.threshold": "2"}, {1}, {2, 3, 4}),
        (["day_based", "one"], {"hoodie.compaction.daybased.target.partitions": "2"}, {4}, {1, 2, 3}),
        ("org.apache.hudi.table.action.compact.strategy.LogFileSizeBasedCompactionStrategy", {}, {1, 2, 3, 4}, set()),
    ],
)
def test_strategies_take_some_and_record_the_rest(
    strategy: str | list[str], options: dict, taken: set[int], left: set[int]
) -> None:
    """What a strategy leaves out is in the plan's list, and a later run without it takes exactly that."""
    table = make()
    table.insert(rows(range(8), 1))
    table.upsert(rows(range(8), 2))
    table.upsert(rows([0, 1, 4, 5], 3))
    plan = table.compact(dry_run=True, strategy=strategy, options=options)

    def paths(days: set[int]) -> set[str]:
        return {f"day=2026-01-0{day}" for day in days}

    assert {op.partition_path for op in plan.operations} == paths(taken) if taken else plan is None
    if plan is not None:
        assert set(plan.missing_partitions) == paths(left)
    done = table.compact(strategy=strategy, options=options)
    assert {s.partition_path for s in done.stats} == paths(taken) if taken else done is None
    again = table.compact(dry_run=True)
    assert {op.partition_path for op in again.operations} == paths(left) if left else again is None
    if again is not None:
        assert again.partition_source == "incremental"
    assert table.audit_services().is_clean


def test_selected_partitions_once_leave_all_others_for_later() -> None:
    """The user runs once for one partition: everything else in the window is recorded, none is lost."""
    table = make()
    table.insert(rows(range(8), 1))
    table.upsert(rows(range(8), 2))
    done = table.compact(partitions=["day=2026-01-02"])
    assert {s.partition_path for s in done.stats} == {"day=2026-01-02"}
    assert sorted(set().union(*drain(table))) == [f"day=2026-01-0{n}" for n in (1, 3, 4)]


def test_a_strategy_that_is_not_incremental_is_given_all_partitions() -> None:
    """Even those that did not change."""
    table = make()
    table.insert(rows(range(8), 1))
    table.upsert(rows([0], 2))
    plan = table.compact(dry_run=True, strategy="everything")
    assert plan.partition_source == "full"
    assert Everything.seen == tuple(f"day=2026-01-0{n}" for n in (1, 2, 3, 4))


def test_unknown_strategies_and_wrong_options_are_refused() -> None:
    """With the name, and with nothing written."""
    table = make()
    table.insert(rows([0], 1))
    before = names(table)
    with pytest.raises(InvalidError, match="nonsense"):
        table.compact(strategy="nonsense")
    with pytest.raises(InvalidError, match=r"target\.io"):
        table.compact(strategy="bounded_io", options={"hoodie.compaction.target.io": "much"})
    with pytest.raises(InvalidError, match="regex"):
        table.compact(strategy="partition_regex", options={"hoodie.compaction.partition.path.regex": "("})
    with pytest.raises(InvalidError, match="list of paths"):
        table.compact(partitions="day=2026-01-01")
    with pytest.raises(InvalidError, match="ServiceStrategy"):
        tl.register_strategy("bad", dict)
    assert names(table) == before


def test_copy_on_write_tables_have_nothing_to_compact() -> None:
    """A clear word instead of an empty plan."""
    table = make(table_type="COPY_ON_WRITE")
    table.insert(rows([0], 1))
    with pytest.raises(InvalidError, match="copy-on-write"):
        table.compact()


def test_inline_compaction_after_so_many_delta_commits() -> None:
    """Every third delta commit is followed by a compaction, and the write's own result is unchanged."""
    table = make(options={"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"})
    for number in range(6):
        assert table.upsert(rows([0, 1, 2], number + 1)).operation == "UPSERT"
    kinds = ["c" if i.pending_action == "compaction" else "d" for i in table.timeline.completed_writes]
    assert "".join(kinds) == "dddcdddc"


def test_runner_says_what_it_does_and_why() -> None:
    """Not due, due by commits, a plan that waits, due by bytes."""
    table = make()
    table.insert(rows(range(8), 1))
    assert [str(d) for d in table.run_services() if d.service == "compaction"] == ["compaction: not due; nothing to do"]
    for number in range(5):
        table.upsert(rows([0], number + 2))
    (decision,) = (d for d in table.run_services() if d.service == "compaction" and d.did_work)
    assert "delta commits since the last compaction" in decision.reason
    table.upsert(rows([1], 9))
    instant = table.schedule_compaction()
    waiting = next(d for d in table.run_services() if d.service == "compaction")
    assert instant in waiting.reason
    assert waiting.did_work
    table.upsert(rows([1], 10))
    options = {"tidelake.services.compaction.log.bytes": "1"}
    (decision,) = (d for d in table.run_services(options=options) if d.service == "compaction")
    assert "bytes of logs" in decision.reason


def test_audit_finds_and_heals_a_partition_taken_out_of_the_carry_list() -> None:
    """Each list that carries work: that of the last plan, and that of the cursor."""
    storage = MemoryStorage("mem")
    table = make(storage)
    table.insert(rows(range(8), 1))
    table.upsert(rows(range(8), 2))
    table.compact(partitions=["day=2026-01-01"])
    assert table.audit_services().is_clean
    _without_carry(table, storage, "day=2026-01-03")
    assert {op.partition_path for op in table.compact(dry_run=True).operations} == {"day=2026-01-02", "day=2026-01-04"}
    report = table.audit_services()
    assert report.lost == {**report.lost, "compaction": ("day=2026-01-03",)}
    assert "day=2026-01-03" in str(report)
    assert not table.audit_services(repair=True).is_clean
    assert table.audit_services().is_clean
    assert sorted(set().union(*drain(table))) == [f"day=2026-01-0{n}" for n in (2, 3, 4)]


def _without_carry(table: tl.Table, storage: MemoryStorage, lost: str) -> None:
    (run,) = table.compactions()
    path = f".hoodie/timeline/{run.instant}.compaction.requested"
    plan = decode_record(CompactionPlan, storage.get(path))
    kept = tuple(part for part in plan.missing_schedule_partitions if part != lost)
    storage.put(path, replace(plan, missing_schedule_partitions=kept).encode(b"0123456789abcdef"))


def test_audit_notices_a_table_state_that_is_wrong_and_makes_it_anew() -> None:
    """A state file that belongs to another day of the table is not believed for ever."""
    storage = MemoryStorage("mem")
    table = make(storage)
    table.insert(rows(range(8), 1))
    table.upsert(rows(range(8), 2))
    table.compact(strategy="everything")
    assert list(storage.list_files(".hoodie/.tidelake/state"))
    assert table.audit_services().is_clean
    victim = table.files()[0].base.path
    storage.put(victim + ".gone", storage.get(victim))
    storage.delete(victim)
    storage.put(victim, storage.get(victim + ".gone") + b"longer")
    report = table.audit_services(repair=True)
    assert report.state_is_wrong
    assert "table state" in str(report)
    assert table.audit_services().is_clean


def test_full_plans_start_from_the_table_state() -> None:
    """A strategy that wants all partitions lists none of them."""
    storage = FaultyStorage(MemoryStorage("mem"))
    table = make(storage)
    table.insert(rows(range(8), 1))
    table.upsert(rows(range(8), 2))
    table.compact(strategy="everything")
    table.upsert(rows([1], 3))
    storage.reset()
    plan = table.compact(dry_run=True, strategy="everything")
    assert plan.partition_source == "full"
    assert [op.partition_path for op in plan.operations] == ["day=2026-01-02"]
    assert storage.count("list_dir", prefix="day=") + storage.count("list_files", prefix="day=") == 0


@pytest.mark.parametrize("options", [{}, BUCKETS])
def test_a_load_of_many_partitions_is_not_looked_at(options: dict) -> None:
    """The first plan of a table reads and lists what has logs, however many partitions were loaded before."""
    storage = FaultyStorage(MemoryStorage("mem"))
    table = make(storage, options=options)
    table.bulk_insert(rows(range(40), 1))
    load = table.timeline.completed_writes[0]
    table.upsert(rows([0], 2))
    fresh = tl.open_table("mem", storage=storage, clock=ManualClock())
    storage.reset()
    assert len(fresh.compact(dry_run=True).operations) == 1
    assert storage.count("list_dir", prefix="day=") == 1
    assert storage.count("get", prefix=f".hoodie/timeline/{load.requested_time}_") == 0


def test_a_first_load_that_was_not_the_first_is_told() -> None:
    """With buckets the rows of a second load go to logs, which it had said it would not make: it is redone."""
    storage = MemoryStorage("mem")
    make(storage, options=BUCKETS)
    done: list[object] = []

    def meanwhile(number: int, verb: str, path: str) -> None:
        if verb == "put_if_absent" and "/.heartbeat/" in path and not done:
            done.append("begun")
            tl.open_table("mem", storage=storage, clock=ManualClock(seed=3)).bulk_insert(rows(range(8), 1))

    late = tl.open_table("mem", storage=FaultyStorage(storage, on_operation=meanwhile), clock=ManualClock(seed=4))
    with pytest.raises(ConflictError):
        late.bulk_insert(rows(range(8, 16), 1))
    assert late.bulk_insert(rows(range(8, 16), 1)).rows_written == 8
    assert len(content(late)) == 16
    assert late.compact() is not None
    assert late.audit_services().is_clean
