"""Compaction on Spark: what it leaves is what a compaction in process leaves; attempts that go wrong leave nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake.format.event_marks import ROWS_AFTER_KEY
from tidelake.format.names import parse_base_name
from tidelake.query import TableSource
from tidelake.storage import LocalStorage
from unit.services.hand_made import work_left
from unit.services.service_tables import BUCKET, GLOBAL, SCHEMA, rows_of

pytestmark = pytest.mark.spark
JOB = Path(__file__).with_name("compaction_job.py")


def rows(*entries: tuple[int, str, int]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([e[0] for e in entries], pa.int64()),
            "name": [e[1] for e in entries],
            "ts": pa.array([e[2] for e in entries], pa.int64()),
            "day": [f"d{e[0] % 3}" for e in entries],
        }
    )


def logged(path: Path, options: dict[str, str] | None = None) -> tl.Table:
    table = tl.create_table(str(path), SCHEMA, name="t", partition_by="day", ordering_fields="ts", options=options)
    table.upsert(rows(*((i, "first", 1) for i in range(60))))
    table.upsert(rows(*((i, "second", 2) for i in range(0, 80, 2))))
    table.delete(list(range(0, 60, 5)))
    return table


def bases(path: Path, instant: str) -> list[str]:
    """The base files on storage that carry an instant."""
    parsed = ((str(p.relative_to(path)), parse_base_name(p.name)) for p in path.rglob("*.parquet"))
    return sorted(name for name, base in parsed if base is not None and base.instant == instant)


def test_compaction_spark_by_event_time_counts_what_is_after_the_threshold(spark: Any, tmp_path: Path) -> None:
    options = {"hoodie.payload.event.time.unit": "s", "hoodie.table.timeline.timezone": "UTC"}
    how: dict[str, Any] = {"partition_by": "day", "ordering_fields": "ts", "event_time_field": "ts"}
    table = tl.create_table(str(tmp_path / "t"), SCHEMA, name="t", options=options, spark=spark, **how)
    table.insert(rows(*((i, "first", 1) for i in range(6))))
    table.upsert(rows((0, "early", 3), (1, "late", 9), (3, "late", 5)))
    expected = rows_of(table)
    done = table.compact(strategy="event_time", threshold="1970-01-01T00:00:05Z")
    assert done is not None
    assert rows_of(table) == expected
    assert [stat.partition_path for stat in done.stats] == ["day=d0"]
    instant = table.timeline.by_time[done.requested_time]
    commit = TableSource.load(LocalStorage(tmp_path / "t")).reader.commit(instant)
    assert (commit.extra_metadata or {})[ROWS_AFTER_KEY] == "1"


@pytest.mark.parametrize("options", [{}, BUCKET], ids=["simple", "bucket"])
def test_compaction_spark_equals_that_in_process(spark: Any, tmp_path: Path, options: dict[str, str]) -> None:
    expected = rows_of(logged(tmp_path / "here", options))
    shutil.copytree(tmp_path / "here", tmp_path / "spark")
    here = tl.open_table(str(tmp_path / "here"))
    there = tl.open_table(str(tmp_path / "spark"), spark=spark)
    done = [here.compact(), there.compact()]
    for table, commit in zip((here, there), done, strict=True):
        assert commit is not None
        assert rows_of(table) == expected
        assert rows_of(table, "read_optimized") == expected
        assert work_left(table) == {}
    counts = [sorted((s.partition_path, s.file_id, s.num_writes) for s in commit.stats) for commit in done if commit]
    assert counts[0] == counts[1]
    for name, commit in zip(("here", "spark"), done, strict=True):
        assert commit is not None
        assert bases(tmp_path / name, commit.requested_time) == sorted(stat.path or "" for stat in commit.stats)


@pytest.mark.parametrize("options", [{}, GLOBAL], ids=["simple", "global"])
def test_compaction_spark_key_that_came_back_is_found_by_upserts(
    spark: Any, tmp_path: Path, options: dict[str, str]
) -> None:
    """Key 1 was deleted, and stands in a log alone on top of the compaction that took the delete in."""
    table = tl.create_table(
        str(tmp_path / "t"), SCHEMA, name="t", partition_by="day", ordering_fields="ts", options=options
    )
    table.upsert(rows((1, "one", 1), (4, "four", 1)))
    table.delete([1])
    plan = table.schedule_compaction()
    table.upsert(rows((1, "back", 5)))
    tl.open_table(table.path, spark=spark).run_compaction(plan)
    table.upsert(spark.createDataFrame(rows((1, "again", 6)).to_pandas()))
    assert [row[:3] for row in rows_of(table)] == [(1, "again", 6), (4, "four", 1)]


def test_compaction_spark_attempts_that_go_wrong_leave_no_second_base_file(tmp_path: Path) -> None:
    table = logged(tmp_path / "t")
    expected = rows_of(table)
    flags = tmp_path / "flags"
    flags.mkdir()
    command = [sys.executable, str(JOB), "local[2,4]", table.path, str(flags)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    wasted = {flag.read_text() for flag in flags.iterdir()}
    last = tl.open_table(table.path).timeline.completed_writes[-1]
    left = bases(tmp_path / "t", last.requested_time)
    assert wasted
    assert not wasted & set(left)
    assert len(left) == len({parse_base_name(path.rpartition("/")[2]).file_id for path in left})  # type: ignore[union-attr]
    assert rows_of(table) == rows_of(table, "read_optimized") == expected
