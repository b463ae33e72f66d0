"""Exact tables: what is logged, how an exact compaction splits, and what readers see."""

from __future__ import annotations

import os
import random

import pyarrow as pa
import pytest

import tidelake as tl
from exact_world import OPTIONS, SCHEMA, ExactWorld, create_exact, events, plan_exact
from tidelake.errors import ConflictError, InvalidError, UnsupportedError
from tidelake.format.commit_metadata import WriteStat
from tidelake.format.event_marks import EventTimeMarks
from tidelake.format.names import parse_log_name
from tidelake.query import TableSource, plan_slices
from tidelake.services.compaction.exact import compact_exact, exact_job
from tidelake.services.execution import Executing, Token, write_context
from tidelake.services.report import ServicePlan
from tidelake.storage import FaultyStorage, MemoryStorage, SimulatedCrash
from tidelake.testing import ManualClock
from tidelake.timeline.claim import Claim
from tidelake.write import Commit
from unit.services.hand_made import archive

SEED = os.environ.get("TIDELAKE_SEED", "1")


def last_commit(world: ExactWorld) -> dict[str, str]:
    source = TableSource.load(world.storage)
    return dict(source.reader.commit(source.timeline.completed_writes[-1]).extra_metadata or {})


def logs_of(commit: Commit | None) -> list[WriteStat]:
    assert commit is not None
    return [s for s in commit.stats if parse_log_name((s.path or "").rpartition("/")[2])]


def test_exact_split_shows_the_older_version_before_the_threshold() -> None:
    """Versions 1 and 9 of a key, T=5: read-optimised shows 1, the snapshot 9, one record is left over."""
    world = ExactWorld()
    world.upsert((2, "one", 1))
    world.upsert((2, "nine", 9))
    done = world.compact(5)
    assert world.rows("read_optimized") == {2: ("one", 1)}
    assert world.rows() == {2: ("nine", 9)}
    (left,) = logs_of(done)
    assert (left.num_writes, left.num_deletes) == (1, 0)
    assert (left.min_event_time, left.max_event_time) == (9_000, 9_000)


def test_exact_split_again_at_a_later_time_finds_the_version_in_between() -> None:
    """Versions 6 and 9 are left at T=5; at T=8 read-optimised shows 6."""
    world = ExactWorld()
    world.upsert((2, "one", 1), (2, "six", 6), (2, "nine", 9))
    world.compact(5)
    assert world.rows("read_optimized") == {2: ("one", 1)}
    world.compact(8)
    assert world.rows("read_optimized") == {2: ("six", 6)}
    assert world.rows() == {2: ("nine", 9)}
    world.compact(10)
    assert world.rows("read_optimized") == world.rows() == {2: ("nine", 9)}
    assert not any(s.logs for s in world.open().files())


def test_exact_left_over_versions_keep_their_commit() -> None:
    world = ExactWorld()
    world.upsert((2, "one", 1), (4, "x", 7))
    second = world.upsert((2, "nine", 9))
    columns = ["id", "_hoodie_commit_time", "_hoodie_commit_seqno"]
    before = sorted(map(str, world.table.scan(columns=columns).to_arrow().to_pylist()))
    world.compact(5)
    after = world.open().scan(columns=columns).to_arrow().to_pylist()
    assert sorted(map(str, after)) == before
    assert {row["_hoodie_commit_time"] for row in after if row["id"] == 2} == {second}


def test_exact_delete_after_the_threshold_is_left_over_with_its_time() -> None:
    world = ExactWorld()
    world.upsert((2, "one", 1), (4, "x", 2))
    world.upsert((2, "", 7, True))
    done = world.compact(5)
    assert world.rows("read_optimized") == {2: ("one", 1), 4: ("x", 2)}
    assert world.rows() == {4: ("x", 2)}
    (left,) = logs_of(done)
    assert (left.num_writes, left.num_deletes, left.min_event_time, left.max_event_time) == (0, 1, 7_000, 7_000)
    world.upsert((2, "late", 6))
    assert world.rows() == {4: ("x", 2)}
    world.upsert((2, "new", 8))
    assert world.rows() == {2: ("new", 8), 4: ("x", 2)}
    world.compact(9)
    assert world.rows("read_optimized") == world.rows() == {2: ("new", 8), 4: ("x", 2)}


def test_exact_delete_of_keys_carries_the_event_time_of_the_row() -> None:
    world = ExactWorld()
    world.upsert((2, "one", 1), (2, "nine", 9), (4, "x", 3))
    world.table.delete([2, 4])
    assert world.rows() == {}
    world.compact(5)
    assert world.rows("read_optimized") == {2: ("one", 1)}
    assert world.rows() == {}


@pytest.mark.parametrize("is_deleted_last", [True, False])
def test_exact_delete_and_row_of_one_time_keep_their_order(is_deleted_last: bool) -> None:
    """Of a delete and a row with one event time the later one wins, also when both were left over."""
    world = ExactWorld()
    world.upsert((4, "other", 1))
    both = [(2, "row", 7, False), (2, "", 7, True)]
    for entry in both if is_deleted_last else both[::-1]:
        world.upsert(entry)
    expected = {4: ("other", 1)} if is_deleted_last else {2: ("row", 7), 4: ("other", 1)}
    assert world.rows() == expected
    world.compact(5)
    assert world.rows() == expected
    assert world.rows("read_optimized") == {4: ("other", 1)}
    world.compact(8)
    assert world.rows() == world.rows("read_optimized") == expected


def test_exact_rows_of_a_base_after_the_threshold_go_back_to_the_log() -> None:
    """A plain compaction folded a later version in: an exact one takes it out again, and says what was lost."""
    world = ExactWorld()
    world.upsert((2, "one", 1), (2, "nine", 9), (4, "x", 2))
    world.open().compact(strategy="unbounded")
    assert world.rows("read_optimized") == {2: ("nine", 9), 4: ("x", 2)}
    world.upsert((4, "y", 8))
    world.compact(5)
    assert world.rows("read_optimized") == {4: ("x", 2)}
    assert world.rows() == {2: ("nine", 9), 4: ("y", 8)}
    said = last_commit(world)
    assert said["tidelake.event.time.superseded_before_T"] == "1"
    assert said["tidelake.event.time.left_over"] == "2"
    assert said["tidelake.event.time.rows_after_threshold"] == "0"
    assert said["tidelake.event.time.threshold"] == "5000"


def test_exact_new_group_begins_with_an_empty_base_file_and_a_log() -> None:
    world = ExactWorld()
    for write in (world.table.insert, world.table.upsert, world.table.bulk_insert, world.table.insert_overwrite):
        world = ExactWorld()
        done = getattr(world.table, write.__name__)(events((2, "a", 1), (2, "b", 2), (2, "gone", 3, True), (3, "c", 1)))
        kinds = sorted((s.partition_path, s.path.rpartition("/")[2].startswith("."), s.num_writes) for s in done.stats)
        assert kinds == [("day=d0", False, 0), ("day=d0", True, 2), ("day=d1", False, 0), ("day=d1", True, 1)]
        assert world.rows("read_optimized") == {}
        assert world.rows() == {3: ("c", 1)}
        world.compact(3)
        assert world.rows("read_optimized") == {2: ("b", 2), 3: ("c", 1)}
        assert world.rows() == {3: ("c", 1)}


def test_exact_versions_of_one_time_in_a_batch_are_one_whatever_their_order() -> None:
    for entries in ([(2, "a", 1), (2, "b", 1)], [(2, "b", 1), (2, "a", 1)]):
        for operation in ("upsert", "insert"):
            world = ExactWorld()
            done = getattr(world.table, operation)(events(*entries))
            assert world.rows() == {2: ("b", 1)}
            assert [s.num_writes for s in logs_of(done)] == [1]


def test_exact_pending_compaction_loses_no_row_of_either_view() -> None:
    world = ExactWorld()
    world.upsert((2, "one", 1), (4, "x", 2))
    world.compact(5)
    world.upsert((2, "nine", 9), (4, "three", 3))
    optimised, snapshot = world.rows("read_optimized"), world.rows()
    world.plan(5)
    assert (world.rows("read_optimized"), world.rows()) == (optimised, snapshot)
    world.upsert((6, "during", 4))
    assert world.rows("read_optimized") == optimised
    assert world.rows() == {**snapshot, 6: ("during", 4)}
    world.open().run_compaction()
    assert world.rows("read_optimized") == {2: ("one", 1), 4: ("three", 3)}
    assert world.rows() == {**snapshot, 6: ("during", 4)}


REFUSED = {
    "copy-on-write": ({"table_type": "COPY_ON_WRITE"}, {}, "copy-on-write"),
    "index": ({}, {"hoodie.index.type": "SIMPLE"}, "base files"),
    "no event time": ({"event_time_field": None}, {"hoodie.payload.event.time.unit": None}, "event-time field"),
    "no ordering": ({"ordering_fields": ()}, {}, "which version wins"),
    "other ordering": ({"ordering_fields": "id"}, {}, "orders versions by id"),
    "kept deletes": ({}, {"tombstone.retention": "7d"}, "keeps deletes"),
    "two orderings": ({"ordering_fields": ["ts", "id"]}, {}, "orders versions by ts, id"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_exact_table_that_could_not_be_exact_is_refused(case: str) -> None:
    arguments, changed, reason = REFUSED[case]
    given = {**OPTIONS, **changed}
    if changed.get("hoodie.index.type") == "SIMPLE":
        given.pop("hoodie.bucket.index.num.buckets")
    options = {key: value for key, value in given.items() if value is not None}
    common = {"ordering_fields": "ts", "event_time_field": "ts", "partition_by": "day", **arguments}
    with pytest.raises(InvalidError, match=reason):
        tl.create_table("memory", SCHEMA, name="no", options=options, storage=MemoryStorage(), **common)


@pytest.mark.parametrize("kind", ["timestamp[ms]", "timestamp[us]", "date32", "int32", "int64 us"])
def test_exact_event_times_of_every_type_split_right(kind: str) -> None:
    """One day is 86,400 seconds; T is the begin of the second day."""
    day = 86_400
    numbers = {"date32": 1, "int32": day, "int64 us": day * 10**6}
    types = {"timestamp[ms]": pa.timestamp("ms", "UTC"), "timestamp[us]": pa.timestamp("us", "UTC")}
    arrow = {**types, "date32": pa.date32(), "int32": pa.int32(), "int64 us": pa.int64()}[kind]
    unit = {"int32": "s", "int64 us": "us"}.get(kind)
    options = {**OPTIONS, "hoodie.payload.event.time.unit": unit}
    schema = pa.schema([("id", pa.int64()), ("ts", arrow)])
    storage = MemoryStorage()
    table = tl.create_table(
        "memory",
        schema,
        name="typed",
        ordering_fields="ts",
        event_time_field="ts",
        options={key: value for key, value in options.items() if value is not None},
        storage=storage,
    )
    one = numbers.get(kind, day * (1_000 if kind == "timestamp[ms]" else 10**6))

    def rows(*entries: tuple[int, int]) -> pa.Table:
        times = pa.array([e[1] for e in entries], pa.int32() if kind in ("date32", "int32") else pa.int64())
        return pa.table({"id": pa.array([e[0] for e in entries], pa.int64()), "ts": times.cast(arrow)})

    table.upsert(rows((1, one), (1, 2 * one), (2, one), (3, 2 * one)))
    table.upsert(rows((2, 3 * one)))
    table.delete([3])
    table.delete([2])
    table.run_compaction(plan_exact(storage, None, 2 * day))
    found = {row["id"]: row["ts"] for row in table.scan(mode="read_optimized").to_arrow().to_pylist()}
    assert set(found) == {1, 2}
    assert found[1] == found[2] == rows((1, one)).column("ts")[0].as_py()
    assert [row["id"] for row in table.scan().to_arrow().to_pylist()] == [1]
    table.upsert(rows((3, one), (2, 2 * one)))
    assert sorted(row["id"] for row in table.scan().to_arrow().to_pylist()) == [1]


def test_exact_write_that_began_before_the_plan_is_refused_and_can_retry() -> None:
    """A log requested before P and completed after it would be applied before what the compaction leaves over."""
    for on_conflict in ("fail", "retry"):
        world = ExactWorld()
        world.upsert((2, "one", 1), (2, "first", 7))
        planning = PlansOnce(world)
        table = world.open(FaultyStorage(world.storage, clock=world.clock, on_operation=planning))
        if on_conflict == "fail":
            with pytest.raises(ConflictError, match="exact compaction"):
                table.upsert(events((2, "second", 7)))
            assert world.rows() == {2: ("first", 7)}
        else:
            table.upsert(events((2, "second", 7)), on_conflict="retry")
            assert world.rows() == {2: ("second", 7)}
        assert planning.planned is not None
        expected = world.rows()
        world.open().run_compaction()
        assert world.rows() == expected
        assert world.rows("read_optimized") == {2: ("one", 1)}


class PlansOnce:
    """Publishes an exact plan in the midst of a write: when it names the files that it is about to make."""

    def __init__(self, world: ExactWorld) -> None:
        self.world = world
        self.planned: str | None = None

    def __call__(self, number: int, verb: str, path: str) -> None:
        if self.planned is None and "/MARKERS0" in path:
            self.planned = self.world.plan(5)


def test_exact_leftovers_are_found_by_the_next_plan() -> None:
    """The partitions in which a compaction leaves logs are looked at by the next one; the others are not."""
    world = ExactWorld()
    world.upsert((2, "one", 1), (2, "nine", 9), (3, "x", 1))
    assert world.schedule_and_run(5) is not None
    table = world.open()
    dry = table.compact(dry_run=True, threshold="1970-01-01T00:01:00Z")
    assert isinstance(dry, ServicePlan)
    assert dry.partition_source == "incremental"
    assert [op.partition_path for op in dry.operations] == ["day=d0"]
    assert table.audit_services().is_clean
    assert world.schedule_and_run(6) is None, "nothing of what is left is before it"
    assert world.open().audit_services().is_clean
    assert world.schedule_and_run(20) is not None
    assert world.rows("read_optimized") == world.rows()
    assert world.open().schedule_compaction(strategy="unbounded") is None
    assert world.open().audit_services().is_clean


def test_exact_table_compacts_by_event_time_whatever_else_is_asked_for() -> None:
    """Only ``unbounded``, by its name, folds later events in; other strategies filter what the event time chooses."""
    threshold = {"hoodie.compaction.event.time.threshold": "1970-01-01T00:00:05Z"}
    for asked in ({}, {"strategy": "bounded_io"}, {"partitions": ["day=d0"]}):
        world = ExactWorld()
        world.upsert((2, "one", 1), (2, "nine", 9), (3, "x", 1))
        with pytest.raises(InvalidError, match="threshold"):
            world.open().compact(**asked)  # type: ignore[call-overload]
        assert world.open().compact(options=threshold, **asked) is not None  # type: ignore[call-overload]
        expected = {2: ("one", 1)} if "partitions" in asked else {2: ("one", 1), 3: ("x", 1)}
        assert world.rows("read_optimized") == expected
    assert world.open().compact(strategy="unbounded") is not None
    assert world.rows("read_optimized") == world.rows() == {2: ("nine", 9), 3: ("x", 1)}


def test_exact_table_without_a_policy_waits_for_a_call_with_a_threshold() -> None:
    world = ExactWorld()
    world.upsert((2, "one", 1), (2, "nine", 9))
    assert [d.outcome for d in world.open().run_services() if d.service == "compaction"] == ["nothing to do"]
    lagging = {"hoodie.compaction.event.time.policy": "LAG", "hoodie.compaction.event.time.lag": "4s"}
    done = [d for d in world.open().run_services(options=lagging) if d.service == "compaction"]
    assert [d.did_work for d in done] == [True]
    assert (world.rows("read_optimized"), world.rows()) == ({2: ("one", 1)}, {2: ("nine", 9)})


def test_exact_leftovers_of_an_archived_compaction_are_found_by_the_next_plan() -> None:
    world = ExactWorld()
    world.upsert((2, "one", 1), (2, "nine", 9), (3, "x", 1))
    world.schedule_and_run(5)
    instants = [i.requested_time for i in world.open().timeline.instants]
    world.upsert((5, "y", 1))
    archive(world, instants)  # type: ignore[arg-type]
    dry = world.open().compact(dry_run=True, threshold="1970-01-01T00:01:00Z")
    assert isinstance(dry, ServicePlan)
    assert sorted(op.partition_path for op in dry.operations) == ["day=d0", "day=d1"]
    assert world.rows() == {2: ("nine", 9), 3: ("x", 1), 5: ("y", 1)}


def test_exact_clustering_takes_slices_without_logs_alone() -> None:
    world = ExactWorld()
    world.upsert((2, "one", 1), (2, "nine", 9), (3, "b", 1), (5, "a", 1), (7, "c", 2))
    world.compact(5)
    planned = world.open().cluster(sort_by="name", dry_run=True)
    assert isinstance(planned, ServicePlan)
    assert {op.partition_path for op in planned.operations} == {"day=d1"}
    expected = world.rows(), world.rows("read_optimized")
    assert world.open().cluster(sort_by="name") is not None
    assert (world.rows(), world.rows("read_optimized")) == expected
    assert world.open().cluster(sort_by="name") is None


def test_exact_rollback_of_a_compaction_removes_base_and_leftover() -> None:
    """The base file goes first, so that none is ever without what was left out of it."""
    world = ExactWorld()
    world.upsert((2, "one", 1), (2, "nine", 9))
    expected = world.rows()
    files = world.files()
    planned = world.plan(5)
    put = []

    def die_at_the_end(number: int, verb: str, path: str) -> None:
        put.extend([path] if verb == "put" and "day=" in path else [])
        if verb == "put_if_match" and len(put) == 2:
            raise SimulatedCrash(number, verb, path)

    with pytest.raises(SimulatedCrash):
        world.open(FaultyStorage(world.storage, clock=world.clock, on_operation=die_at_the_end)).run_compaction(planned)
    assert world.files() - files == set(put)
    assert [".log." in path for path in put] == [True, False], "the log is written first"
    assert world.rows() == expected
    journal = FaultyStorage(world.storage, clock=world.clock)
    world.open(journal).rollback(str(planned))
    gone = [o.path for o in journal.journal if o.verb == "delete" and o.path in put]
    assert gone == put[::-1]
    assert world.files() == files
    world.open().run_compaction(planned)
    assert len(world.files() - files) == 2
    assert world.rows() == expected
    assert world.rows("read_optimized") == {2: ("one", 1)}


def test_exact_clean_keeps_what_is_left_over() -> None:
    world = ExactWorld()
    world.upsert((2, "one", 1), (2, "nine", 9), (4, "x", 6))
    for threshold in (2, 5, 7, 8):
        world.upsert((4, f"at {threshold}", threshold))
        world.compact(threshold)
        expected = world.rows(), world.rows("read_optimized")
        world.open().clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1)
        assert (world.rows(), world.rows("read_optimized")) == expected
    assert expected == ({2: ("nine", 9), 4: ("at 8", 8)}, {2: ("one", 1), 4: ("at 7", 7)})
    assert len(world.files()) == 2


def test_exact_plan_carried_out_by_a_table_that_is_not_exact_is_refused() -> None:
    storage, clock = MemoryStorage(), ManualClock()
    table = create_exact(storage, clock, **{"hoodie.compaction.event.time.exact": "false"})
    table.upsert(events((2, "one", 1)))
    table.upsert(events((2, "nine", 9)))
    planned = plan_exact(storage, clock, 5)
    with pytest.raises(UnsupportedError, match="not exact"):
        table.run_compaction(planned)


@pytest.mark.parametrize("number", range(6))
def test_exact_random_histories_keep_both_views(number: int) -> None:
    """Snapshot rows are the same before and after each compaction; read-optimised ones are the merge of all before T."""
    choice = random.Random(f"{SEED}/{number}")
    world = ExactWorld(options={"hoodie.logfile.data.block.format": choice.choice(["avro", "parquet"])})
    model = Model()
    has_deletes = number > 1
    every: list[Event] = []
    threshold = 0
    for step in range(10):
        share = 0.2 if has_deletes else 0
        batch = [made_event(choice, f"{step}.{n}", share) for n in range(choice.randrange(1, 7))]
        unique = {(e[0], e[2]): e for e in batch}  # what wins of one time in one batch is another test's
        world.upsert(*unique.values())
        model.write(list(unique.values()))
        every += unique.values()
        if has_deletes and choice.random() < 0.3 and world.rows():
            key = choice.choice(sorted(world.rows()))
            model.write([(key, "", world.rows()[key][1], True)])
            world.table.delete([key])
        assert world.rows() == model.snapshot(), (SEED, number, step)
        if choice.random() < 0.6:
            threshold += choice.randrange(4)
            before = world.rows()
            # Plans by the strategy, which takes no group in which nothing is before the threshold, and plans of all.
            done = world.schedule_and_run(threshold) if number % 2 else world.compact(threshold)
            assert done is not None or not any(event[2] < threshold for event in model.log)
            model.compact(threshold)
            assert world.rows() == before == model.snapshot(), (SEED, number, step)
            assert world.rows("read_optimized") == model.base, (SEED, number, step)
            if not has_deletes:
                assert model.base == latest_of([event for event in every if event[2] < threshold])
    assert world.open().audit_services().is_clean


Event = tuple[int, str, int, bool]


def made_event(choice: random.Random, name: str, deletes: float) -> Event:
    return choice.randrange(5), name, choice.randrange(1, 14), choice.random() < deletes


def latest_of(some: list[Event]) -> dict[int, tuple[str, int]]:
    """Of all events of a key the latest, and of equal times the one that came last."""
    by_time = sorted(some, key=lambda event: event[2])
    return {key: (name, ts) for key, name, ts, _ in by_time}


class Model:
    """Rows and logs as plain Python values: a compaction applies what is before its threshold, one after the other."""

    def __init__(self) -> None:
        self.base: dict[int, tuple[str, int]] = {}
        self.log: list[Event] = []

    def write(self, batch: list[Event]) -> None:
        """Deletes of one batch come after its rows; no two are of one key and time."""
        self.log += batch

    def snapshot(self) -> dict[int, tuple[str, int]]:
        return self._applied(self.log)

    def compact(self, threshold: int) -> None:
        self.base = self._applied([e for e in self.log if e[2] < threshold])
        self.log = [e for e in self.log if e[2] >= threshold]

    def _applied(self, log: list[Event]) -> dict[int, tuple[str, int]]:
        newest: dict[int, Event] = {}
        for event in log:
            old = newest.get(event[0])
            if old is None or event[2] >= old[2]:
                newest[event[0]] = event
        shown = dict(self.base)
        for key, (_, name, ts, is_deleted) in newest.items():
            if key not in self.base or ts >= self.base[key][1]:
                shown.pop(key, None)
                if not is_deleted:
                    shown[key] = (name, ts)
        return shown


def test_exact_task_that_ends_after_its_plan_was_carried_out_leaves_no_file() -> None:
    """A straggler's leftover log would be read as well, since names decide what is visible."""
    world = ExactWorld()
    world.upsert((2, "one", 1), (2, "nine", 9))
    planned = str(world.plan(5))
    source = TableSource.load(world.storage)
    slices = list(source.view().slices())
    claim = Claim(planned, 1, "straggler")
    executing = Executing(source, planned, b"", claim, Token.of(claim))
    context = write_context(world.open()._service_call(None), executing)
    marks = EventTimeMarks(5_000, "FIXED", "COVERING", True, "ts", "s", True)
    job = exact_job(plan_slices(source, slices).only(()), context, claim, executing.token, marks)
    world.open().run_compaction(planned)
    files, expected = world.files(), world.rows()
    for file_slice in slices:
        with pytest.raises(ConflictError, match="carried out"):
            compact_exact(job, world.storage, file_slice, 7)
    assert world.files() == files
    assert world.rows() == expected
