"""Exact tables: what is logged, how an exact compaction splits, and what readers see."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake as tl
from exact_world import OPTIONS, SCHEMA, ExactWorld, events, plan_exact
from tidelake.errors import InvalidError
from tidelake.format.commit_metadata import WriteStat
from tidelake.format.names import parse_log_name
from tidelake.query import TableSource
from tidelake.storage import MemoryStorage


def last_commit(world: ExactWorld) -> dict[str, str]:
    source = TableSource.load(world.storage)
    return dict(source.reader.commit(source.timeline.completed_writes[-1]).extra_metadata or {})


def logs_of(commit: tl.Commit | None) -> list[WriteStat]:
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
    world.open().compact()
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
