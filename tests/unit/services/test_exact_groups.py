"""Exact tables whose groups of columns have their own event times: each group is split at the threshold by its own."""

from __future__ import annotations

import os
import random

import pyarrow as pa
import pytest

import tidelake as tl
from exact_groups_world import (
    GROUP_OPTIONS,
    SCHEMA,
    Entry,
    GroupsModel,
    GroupsWorld,
    create_groups,
    entries_table,
)
from tidelake.errors import InvalidError, NotExactError, UnsupportedError
from tidelake.format.commit_metadata import WriteStat
from tidelake.format.names import parse_log_name
from tidelake.query import TableSource
from tidelake.storage import MemoryStorage
from tidelake.testing import ManualClock
from tidelake.write import Commit

SEED = os.environ.get("TIDELAKE_SEED", "1")
NOTHING = (None, None)


def logs_of(commit: Commit | None) -> list[WriteStat]:
    assert commit is not None
    return [s for s in commit.stats if parse_log_name((s.path or "").rpartition("/")[2])]


def last_commit(world: GroupsWorld) -> dict[str, str]:
    source = TableSource.load(world.files)
    return dict(source.reader.commit(source.timeline.completed_writes[-1]).extra_metadata or {})


def test_exact_groups_record_on_both_sides_becomes_two_halves() -> None:
    world = GroupsWorld()
    world.write(Entry(2, "1", 1, 9))
    done = world.compact(5)
    assert world.rows("read_optimized") == {2: (("a1", 1), NOTHING)}
    assert world.rows() == {2: (("a1", 1), ("b1", 9))}
    (left,) = logs_of(done)
    assert (left.num_writes, left.min_event_time, left.max_event_time) == (1, 9_000, 9_000)
    world.compact(10)
    assert world.rows("read_optimized") == world.rows() == {2: (("a1", 1), ("b1", 9))}
    assert not any(s.logs for s in world.open().files())


def test_exact_groups_versions_left_over_are_found_at_a_later_time() -> None:
    world = GroupsWorld()
    world.write(Entry(2, "1", 1, 6), Entry(2, "2", 6, 1))
    world.write(Entry(2, "3", 9, 2))
    done = world.compact(5)
    assert world.rows("read_optimized") == {2: (("a1", 1), ("b3", 2))}
    assert sum(s.num_writes or 0 for s in logs_of(done)) == 3, "no version is folded"
    world.compact(8)
    assert world.rows("read_optimized") == {2: (("a2", 6), ("b1", 6))}
    assert world.rows() == {2: (("a3", 9), ("b1", 6))}


def test_exact_groups_halves_keep_their_commit() -> None:
    world = GroupsWorld()
    world.write(Entry(4, "x", 1, 1))
    second = world.write(Entry(2, "1", 1, 9), Entry(4, "y", 2, 9))
    columns = ["id", "_hoodie_commit_time"]
    world.compact(5)
    found = world.open().scan(columns=columns).to_arrow().to_pylist()
    assert {row["_hoodie_commit_time"] for row in found} == {second}


def test_exact_groups_row_keeps_the_commit_of_its_last_change_whichever_half_it_was() -> None:
    """The later half came first: what came last is in the base file, and a reader of changes must still find it."""
    world = GroupsWorld()
    world.write(Entry(2, "1", None, 9))
    second = world.write(Entry(2, "2", 1, None))
    for _ in range(2):
        (row,) = world.open().scan(columns=["_hoodie_commit_time"]).to_arrow().to_pylist()
        assert row["_hoodie_commit_time"] == second
        world.compact(5)


def test_exact_groups_delete_on_both_sides_ends_each_group_in_its_time() -> None:
    world = GroupsWorld()
    world.write(Entry(2, "1", 1, 1))
    world.write(Entry(2, "", 2, 9, is_delete=True))
    assert world.rows() == {}
    world.compact(5)
    assert world.rows("read_optimized") == {2: (NOTHING, ("b1", 1))}
    assert world.rows() == {}
    world.compact(10)
    assert world.rows("read_optimized") == world.rows() == {}


def test_exact_groups_delete_of_keys_carries_the_times_of_all_groups() -> None:
    world = GroupsWorld()
    world.write(Entry(2, "1", 1, 1), Entry(2, "2", 9, None), Entry(4, "x", 1, None))
    world.table.delete([2, 4])
    world.compact(5)
    assert world.rows() == {}
    assert world.rows("read_optimized") == {2: (("a1", 1), NOTHING)}
    world.write(Entry(2, "late", 8, None))
    assert world.rows() == {}
    world.write(Entry(2, "new", 9, None))
    world.compact(7)
    assert world.rows() == {2: (("anew", 9), NOTHING)}


@pytest.mark.parametrize("is_deleted_last", [True, False])
def test_exact_groups_left_over_delete_and_record_of_one_time_keep_their_order_in_each_group(
    is_deleted_last: bool,
) -> None:
    """The delete of a key ties with a record before it in one group and with one after it in the other."""
    world = GroupsWorld()
    world.write(Entry(2, "0", 7, 8))
    world.write(Entry(4, "other", 1, 1))
    world.table.delete([2])
    if not is_deleted_last:
        world.write(Entry(2, "again", 7, None))
    expected = world.rows()
    assert (2 in expected) != is_deleted_last
    done = world.compact(5)
    assert sum(s.num_deletes or 0 for s in logs_of(done)) == (1 if is_deleted_last else 2)
    assert world.rows() == expected
    world.compact(9)
    assert world.rows() == world.rows("read_optimized") == expected


def test_exact_groups_of_a_base_after_the_threshold_go_back_to_the_log() -> None:
    world = GroupsWorld()
    world.write(Entry(2, "1", 1, 9), Entry(4, "x", 9, 9), Entry(6, "y", 1, 1))
    world.open().compact(strategy="unbounded")
    assert world.rows("read_optimized") == world.rows()
    expected = world.rows()
    world.write(Entry(8, "z", 1, 9))
    world.compact(5)
    assert world.rows() == {**expected, 8: (("az", 1), ("bz", 9))}
    assert world.rows("read_optimized") == {2: (("a1", 1), NOTHING), 6: expected[6], 8: (("az", 1), NOTHING)}
    said = last_commit(world)
    assert said["tidelake.event.time.superseded_before_T"] == "2"
    assert said["tidelake.event.time.left_over"] == "3"


def test_exact_groups_view_as_of_a_time_looks_at_every_event_time() -> None:
    world = GroupsWorld()
    world.write(Entry(2, "1", 9, 1))
    world.write(Entry(2, "2", 1, 9))
    world.schedule_and_run(5)
    found = world.open().scan(columns=["id", "a", "b"], mode="read_optimized", as_of_event_time=5_000).to_arrow()
    assert found.to_pylist() == [{"id": 2, "a": "a2", "b": "b1"}]
    with pytest.raises(NotExactError, match=r"00:00:10"):
        world.open().scan(mode="read_optimized", as_of_event_time=10_000).to_arrow()
    world.write(Entry(2, "late", 20, 4))
    with pytest.raises(NotExactError, match="1 log holds events before it"):
        world.open().scan(mode="read_optimized", as_of_event_time=5_000).to_arrow()


def test_exact_groups_that_lost_are_counted_when_they_are_merged() -> None:
    world = GroupsWorld()
    world.write(Entry(2, "1", 3, 9))
    world.write(Entry(2, "2", 2, 8))
    world.compact(5)
    assert last_commit(world)["tidelake.rejected"] == '{"older": 1}'


REFUSED = {
    "mode all": (
        {
            "hoodie.eventime.latest.verification.mode": "all",
            "fields.a_ts.sequence-group": None,
            "fields.b_ts.sequence-group": None,
        },
        "mode all",
    ),
    "eager": ({"write.resolve": "eager"}, "when it is written"),
    "untimed": ({"hoodie.eventime.latest.verification.untimed": "accept"}, "without any event time"),
    "kept deletes": ({"tombstone.retention": "7d"}, "keeps deletes"),
    "loose column": ({"fields.b_ts.sequence-group": None}, "'b' is in no group"),
    "index": ({"hoodie.index.type": "SIMPLE", "hoodie.bucket.index.num.buckets": None}, "base files"),
    "other event time": ({"hoodie.payload.event.time.field": "c_ts"}, "none of its event times"),
    "no unit": ({"hoodie.payload.event.time.unit": None}, "no stated unit"),
    "no time": (
        {"hoodie.eventime.latest.verification.fields": "a_ts,b", "fields.b_ts.sequence-group": None},
        "no time",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_exact_groups_table_that_could_not_be_exact_is_refused(case: str) -> None:
    changed, reason = REFUSED[case]
    options = {k: v for k, v in {**GROUP_OPTIONS, **changed}.items() if v is not None}
    field = options.pop("hoodie.payload.event.time.field", "a_ts")
    schema = f"{SCHEMA}, c_ts bigint" if field == "c_ts" else SCHEMA
    with pytest.raises(InvalidError, match=reason):
        tl.create_table("memory", schema, name="no", event_time_field=field, options=options, storage=MemoryStorage())


def test_exact_groups_writes_that_no_split_could_place_are_refused() -> None:
    world = GroupsWorld()
    world.write(Entry(2, "1", 1, 1))
    data = entries_table([Entry(4, "x", 1, 1)])
    with pytest.raises(InvalidError, match="'c' is in no group"):
        world.table.upsert(data.append_column("c", pa.array([1])))
    with pytest.raises(InvalidError, match=r"'b' has values without its event time 'b_ts'.*keys 4"):
        world.table.upsert(data.set_column(4, "b_ts", pa.array([None], pa.int64())))
    with pytest.raises(InvalidError, match="'b_ts' is outside the years"):
        world.table.upsert(data.set_column(4, "b_ts", pa.array([10**13])))
    with pytest.raises(UnsupportedError, match="unconditional"):
        world.table.delete([2], unconditional=True)
    world.table.upsert(entries_table([Entry(4, "x", None, None)]))
    assert set(world.rows()) == {2}


def test_exact_groups_of_other_types_split_by_their_own_unit() -> None:
    """One event time is a timestamp, the other a date: T is the begin of the second day."""
    day = 86_400
    storage = MemoryStorage()
    options = {k: v for k, v in GROUP_OPTIONS.items() if k != "hoodie.payload.event.time.unit"}
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("a", pa.string()),
            ("a_ts", pa.timestamp("us")),
            ("b", pa.string()),
            ("b_ts", pa.date32()),
        ]
    )
    table = tl.create_table("memory", schema, name="t", event_time_field="b_ts", options=options, storage=storage)
    columns = [
        pa.array([1, 1, 2]),
        pa.array(["early", "late", "x"]),
        pa.array([day * 10**6 * 2 - 1, day * 10**6 * 2, 0]).cast(pa.timestamp("us")),
        pa.array(["late", "early", "x"]),
        pa.array([2, 1, 1], pa.int32()).cast(pa.date32()),
    ]
    table.upsert(pa.Table.from_arrays(columns, schema=schema))
    table.delete([2])
    table.compact(threshold="1970-01-03T00:00:00Z")
    found = table.scan(columns=["id", "a", "b"], mode="read_optimized").to_arrow().to_pylist()
    assert found == [{"id": 1, "a": "early", "b": "early"}]
    found = table.scan(columns=["id", "a", "b"]).to_arrow().to_pylist()
    assert found == [{"id": 1, "a": "late", "b": "late"}]


def made(choice: random.Random, name: str, deletes: float, highest: int = 14) -> Entry:
    times = [choice.randrange(1, highest) if choice.random() < 0.7 else None for _ in range(2)]
    if times == [None, None]:
        times[choice.randrange(2)] = choice.randrange(1, highest)
    return Entry(choice.randrange(5), name, times[0], times[1], choice.random() < deletes)


@pytest.mark.parametrize("number", range(8))
def test_exact_groups_random_histories_keep_both_views(number: int) -> None:
    """Snapshot rows are the same before and after each compaction; read-optimised ones are the merge of all before T."""
    choice = random.Random(f"{SEED}/groups/{number}")
    world = GroupsWorld(options={"hoodie.logfile.data.block.format": choice.choice(["avro", "parquet"])})
    model, every = GroupsModel(), GroupsModel()
    has_deletes = number > 2
    threshold = 0
    for step in range(9):
        batch = [made(choice, f"{step}.{n}", 0.25 if has_deletes else 0) for n in range(choice.randrange(1, 7))]
        batch = list({entry.key: entry for entry in batch}.values())  # the order in one batch is another test's
        world.write(*batch)
        for some in (model, every):
            some.write(*batch)
        if has_deletes and choice.random() < 0.3 and world.rows():
            key = choice.choice(sorted(world.rows()))
            row = world.rows()[key]
            model.write(Entry(key, "", row[0][1], row[1][1], is_delete=True))
            world.table.delete([key])
        assert world.rows() == model.rows(), (SEED, number, step)
        if choice.random() < 0.6:
            threshold += choice.randrange(4)
            done = world.schedule_and_run(threshold) if number % 2 else world.compact(threshold)
            early = [each for each in model.log if each[3] < threshold]
            assert done is not None or not early
            before = model.rows()
            model.compact(threshold)
            assert world.rows() == before, (SEED, number, step)
            assert world.rows("read_optimized") == model.rows(threshold), (SEED, number, step)
            if not has_deletes:
                assert world.rows("read_optimized") == every.rows(threshold)
    assert world.open().audit_services().is_clean


def test_exact_groups_file_statistics_hold_all_event_times() -> None:
    world = GroupsWorld()
    done = world.table.upsert(entries_table([Entry(2, "1", 3, 9), Entry(4, "2", None, 2)]))
    (log,) = logs_of(done)
    assert (log.min_event_time, log.max_event_time) == (2_000, 9_000)
    done = world.table.delete([2])
    (log,) = logs_of(done)
    assert (log.min_event_time, log.max_event_time) == (3_000, 9_000)
    plain = create_groups(MemoryStorage(), ManualClock(), **{"hoodie.compaction.event.time.exact": "false"})
    stats = plain.upsert(entries_table([Entry(2, "1", 3, 9)])).stats
    assert [(s.min_event_time, s.max_event_time) for s in stats] == [(3_000, 9_000)]
