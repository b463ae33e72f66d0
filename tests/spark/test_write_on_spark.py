"""Writes on Spark leave what writes in process leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelake as tl
from tidelake.format.avro_record import decode_record
from tidelake.format.commit_metadata import CommitMetadata
from tidelake.write.looked import looked_groups

pytestmark = pytest.mark.spark
EVENT_TIMES = {
    "multiple.eventime.latest.verification.enable": "true",
    "hoodie.eventime.latest.verification.fields": "ts,name",
    "hoodie.eventime.latest.verification.mode": "all",
}
COLUMNS = ("id", "name", "ts", "day")


def rows(*entries: tuple[int, str, int, str]) -> pa.Table:
    ids, names, times, days = zip(*entries, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "name": names, "ts": pa.array(times, pa.int64()), "day": days})


def frame(spark: Any, data: pa.Table) -> Any:
    return spark.createDataFrame(data.to_pandas())


def make(path: Path, **how: Any) -> tl.Table:
    given: dict[str, Any] = {"partition_by": "day", "ordering_fields": "ts", **how}
    return tl.create_table(str(path), "id bigint, name string, ts bigint, day string", name="t", **given)


def state(table: tl.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(r[c] for c in COLUMNS) for r in table.scan(columns=list(COLUMNS)).to_arrow().to_pylist())


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_spark_moves_between_partitions_equal_those_in_process(spark, tmp_path: Path, table_type: str) -> None:
    """A global index on Spark: rows move, older ones are dropped, and versions in several partitions are one key."""
    batches = [
        rows(*((i, "first", 5, f"d{i % 3}") for i in range(30))),
        rows(*((i, "moved", 4 + i % 3, f"d{i % 2}") for i in range(0, 40, 2)), *((i, "also", 9, "d9") for i in (2, 4))),
        rows(*((i, "back", 9, f"d{i % 3}") for i in range(0, 30, 3))),
    ]
    how = {"table_type": table_type, "options": {"hoodie.index.type": "GLOBAL_SIMPLE"}}
    on_spark, here = make(tmp_path / "spark", **how), make(tmp_path / "here", **how)
    for batch in batches:
        on_spark.upsert(frame(spark, batch).repartition(3))
        here.upsert(batch)
        assert state(on_spark) == state(here)
    assert len(state(here)) == len({row[0] for row in state(here)}) == 35
    last = rows((1, "old", 1, "a"), (1, "new", 2, "b"), (2, "two", 1, "a"))
    on_spark.insert_overwrite_table(frame(spark, last).repartition(3))
    assert state(on_spark) == [(1, "new", 2, "b"), (2, "two", 1, "a")]


def test_spark_late_rows_name_the_file_groups_that_they_lost_in(spark, tmp_path: Path) -> None:
    """On a copy-on-write table with a global index they leave no file, and yet the commit tells what it went by."""
    how = {"table_type": "COPY_ON_WRITE", "options": {"hoodie.index.type": "GLOBAL_SIMPLE"}}
    on_spark = make(tmp_path / "spark", **how)
    on_spark.upsert(rows((1, "one", 9, "a"), (2, "two", 9, "b"), (3, "three", 9, "c")))
    groups = {s.partition_path: s.file_id for s in on_spark.files()}
    done = on_spark.upsert(
        frame(spark, rows((1, "late", 5, "b"), (2, "late", 5, "c"), (4, "new", 1, "c"))).repartition(2)
    )
    timeline = tl.open_table(str(tmp_path / "spark")).timeline
    path = tmp_path / "spark" / ".hoodie" / "timeline" / timeline.by_time[done.requested_time].file_name
    commit = decode_record(CommitMetadata, path.read_bytes())
    assert sorted(looked_groups(commit)) == [("day=a", groups["day=a"]), ("day=b", groups["day=b"])]
    assert state(on_spark) == [(1, "one", 9, "a"), (2, "two", 9, "b"), (3, "three", 9, "c"), (4, "new", 1, "c")]


def test_spark_partitions_made_of_times_equal_those_in_process(spark, tmp_path: Path) -> None:
    """A time becomes the same folder on Spark, and a text that is no time is refused with its key."""
    data = rows(*((i, "n", 1, f"2024{1 + i % 12:02d}15") for i in range(24)))
    how = {
        "partition_by": {"day": "yyyy/MM"},
        "options": {"hoodie.keygen.timebased.input.dateformat": "yyyyMMdd"},
    }
    on_spark, here = make(tmp_path / "spark", **how), make(tmp_path / "here", **how)
    for _ in range(2):
        on_spark.upsert(frame(spark, data))
        here.upsert(data)
    paths = [
        sorted((r["id"], r["_hoodie_partition_path"]) for r in table.scan().to_arrow().to_pylist())
        for table in (on_spark, here)
    ]
    assert paths[0] == paths[1]
    assert paths[0][0] == (0, "day=2024/01")
    instants = on_spark.timeline.completed_writes
    with pytest.raises(tl.InvalidError, match=r"'day' holds no time .*'?soon'?.* keys 7"):
        on_spark.upsert(frame(spark, rows((7, "n", 1, "soon"))))
    assert on_spark.timeline.completed_writes == instants


def test_spark_event_time_of_another_unit_is_refused_with_its_keys(spark, tmp_path: Path) -> None:
    """Implausible event times are refused in the tasks, with column and keys, and leave nothing."""
    table = make(tmp_path / "t", event_time_field="ts", options={"hoodie.payload.event.time.unit": "s"})
    with pytest.raises(tl.InvalidError, match=r"'ts' is outside the years .* keys 3.*as ms.*2024"):
        table.upsert(frame(spark, rows((1, "a", 1, "d"), (3, "b", 1_705_320_000_000, "d"))))
    assert not table.timeline.completed_writes
    assert not table.timeline.pending


BAD_ON_SPARK = {
    "null key": ("select cast(null as bigint) id, 'a' name, 1L ts, 'd' day", "null or empty record key .id."),
    "null ordering": (
        "select 7L id, 'a' name, cast(null as bigint) ts, 'd' day",
        "'ts' is null in 1 rows, for the keys 7",
    ),
    "up": ("select 7L id, 'a' name, 1L ts, '..' day", r"'day' has the value '\.\.'.* for the keys 7"),
    "slash": ("select 7L id, 'a' name, 1L ts, 'a/b' day", "'day' has the value 'a/b'.* for the keys 7"),
    "doubled column": ("select 7L id, 'a' name, 'b' name, 1L ts, 'd' day", "more than once.*: name"),
    "reserved name": ("select 7L id, 'a' name, 1L ts, 'd' day, 'x' _hoodie_thing", "'_hoodie_thing' is reserved"),
    "text for numbers": ("select 7L id, 'a' name, 'soon' ts, 'd' day", "'ts'"),
    "added column without a type": ("select 7L id, 'a' name, 1L ts, 'd' day, null more", "'more' has no type"),
    "added column but for case": (
        "select 7L id, 'a' name, 1L ts, 'd' day, 'x' NAME",
        "'name'.*'NAME'|'NAME'.*more than once",
    ),
    "no key column": ("select 'a' name, 1L ts, 'd' day", "lacks the record key column 'id'"),
}


@pytest.mark.parametrize("case", BAD_ON_SPARK)
def test_spark_bad_rows_are_refused_by_column_and_key(spark, tmp_path: Path, case: str) -> None:
    """What is refused in process is refused on Spark, by the same words, and nothing is left."""
    query, match = BAD_ON_SPARK[case]
    table = make(tmp_path / "t")
    with pytest.raises(tl.InvalidError, match=match):
        table.upsert(spark.sql(query))
    assert not table.timeline.completed_writes
    assert not table.timeline.pending


def key_ranges(path: Path) -> dict[str, list[tuple[str, str]]]:
    """The least and the greatest key of each base file, by partition."""
    found: dict[str, list[tuple[str, str]]] = {}
    for file in path.rglob("*.parquet"):
        keys = pq.read_table(file, columns=["_hoodie_record_key"], partitioning=None).column(0).to_pylist()
        found.setdefault(file.parent.name, []).append((min(keys), max(keys)))
    return found


@pytest.fixture
def several_tasks(spark) -> Iterator[None]:
    """Little data, and yet several tasks."""
    settings = {"spark.sql.shuffle.partitions": "5", "spark.sql.adaptive.coalescePartitions.enabled": "false"}
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key, value in before.items():
        spark.conf.set(key, value)


@pytest.mark.usefixtures("several_tasks")
@pytest.mark.parametrize("sort", ["global", "partition", None])
def test_spark_bulk_insert_sorts_as_asked(spark, tmp_path: Path, sort: str | None) -> None:
    """A global sort leaves files of one partition with ranges that do not overlap; None keeps rows in their tasks."""
    count = 3_000
    data = rows(*(((i * 7_919) % count, "n", 1, f"d{i % 2}") for i in range(count)))
    table = make(tmp_path / "t")
    commit = table.bulk_insert(frame(spark, data).repartition(3), sort=sort)
    assert [row[0] for row in state(table)] == list(range(count))
    ranges = key_ranges(tmp_path / "t")
    assert all((len(files) > 1) is (sort != "partition") for files in ranges.values())
    overlaps = any(first[1] >= second[0] for files in ranges.values() for first, second in pairwise(sorted(files)))
    assert overlaps is (sort is None)
    if sort is None:
        assert len(commit.stats) == 6, "three tasks write files of their own into two partitions"
    for file in (tmp_path / "t").rglob("*.parquet"):
        keys = pq.read_table(file, columns=["_hoodie_record_key"], partitioning=None).column(0).to_pylist()
        assert (keys == sorted(keys)) is (sort is not None)


@pytest.mark.usefixtures("several_tasks")
@pytest.mark.parametrize("is_adaptive", [True, False])
def test_spark_bulk_insert_shares_a_hot_partition_out_and_leaves_small_ones_whole(
    spark, tmp_path: Path, is_adaptive: bool
) -> None:
    """A partition larger than a task should have is written by several; without adaptive execution every one is."""
    spark.conf.set("spark.sql.adaptive.enabled", str(is_adaptive).lower())
    spark.conf.set("spark.sql.adaptive.advisoryPartitionSizeInBytes", "20k")
    try:
        data = spark.range(0, 20_000, 1, 4).selectExpr(
            "id", "uuid() AS name", "1L AS ts", "if(id % 50 = 0, concat('d', id / 50 % 3), 'hot') AS day"
        )
        table = make(tmp_path / "t")
        commit = table.bulk_insert(data)
        files = Counter(stat.partition_path for stat in commit.stats)
        assert files["day=hot"] > 1
        assert all((count > 1) is not is_adaptive for day, count in files.items() if day != "day=hot")
        assert table.scan(columns=["id"]).to_arrow().num_rows == 20_000
        assert spark.conf.get("spark.sql.adaptive.advisoryPartitionSizeInBytes") == "20k", "the user's setting stays"
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
        spark.conf.unset("spark.sql.adaptive.advisoryPartitionSizeInBytes")


@pytest.mark.usefixtures("several_tasks")
def test_spark_upsert_makes_as_many_groups_of_new_rows_as_its_size_asks_for(spark, tmp_path: Path, monkeypatch) -> None:
    """A small upsert makes one file group of its new rows in each partition, whatever number of tasks there is; a large one several."""
    unsized = frame(spark, rows(*((i, "n", 1, f"d{i % 2}") for i in range(400))))
    unsized.write.parquet(str(tmp_path / "rows"))
    data = spark.read.parquet(str(tmp_path / "rows"))
    small, large, unknown = (make(tmp_path / name) for name in ("small", "large", "unknown"))
    assert len(small.upsert(data).stats) == 2
    assert len(unknown.upsert(unsized).stats) <= 2 * spark.sparkContext.defaultParallelism
    monkeypatch.setattr("tidelake.spark.write._SALT_BYTES", 100)
    assert len(large.upsert(data).stats) > 4
    assert state(small) == state(large) == state(unknown)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"},
        EVENT_TIMES,
        {**EVENT_TIMES, "write.resolve": "eager"},
    ],
    ids=["simple", "bucket", "event-times", "eager"],
)
def test_spark_no_two_rows_of_a_write_have_one_sequence_number(spark, tmp_path: Path, options: dict[str, str]) -> None:
    """A task writes several files of several partitions: each row is told from all others of its commit."""
    ordering = None if options.keys() & EVENT_TIMES.keys() else "ts"
    table = make(tmp_path / "t", options=options, ordering_fields=ordering)
    for step in range(1, 3):
        new = rows(*((i, "n", step, f"d{i % 7}") for i in range(40 * step)))
        table.upsert(frame(spark, new).repartition(2))
        found = table.scan(columns=["_hoodie_commit_time", "_hoodie_commit_seqno"]).to_arrow()
        assert found.num_rows == 40 * step
        assert len(set(found["_hoodie_commit_seqno"].to_pylist())) == 40 * step
