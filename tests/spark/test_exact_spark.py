"""Exact tables on Spark: the same rows in the same views as in process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from exact_groups_world import Entry, create_groups, entries_table
from exact_groups_world import rows_of as group_rows_of
from exact_world import create_exact, events, plan_exact, rows_of
from tidelake.errors import NotExactError
from tidelake.storage import LocalStorage

pytestmark = pytest.mark.spark
KINDS = {pa.int64(): "bigint", pa.string(): "string", pa.bool_(): "boolean"}


def batches() -> list[tuple[str, pa.Table]]:
    return [
        ("upsert", events((2, "one", 1), (2, "nine", 9), (2, "nine too", 9), (3, "x", 1), (5, "y", 6))),
        ("insert", events((2, "three", 3), (4, "four", 4), (4, "", 8, True))),
        ("bulk_insert", events((7, "new", 2), (7, "newer", 7), (3, "late", 0))),
        ("insert_overwrite", events((9, "over", 3), (9, "", 6, True), (11, "z", 4))),
    ]


def test_exact_table_on_spark_equals_that_in_process(spark: Any, tmp_path: Path) -> None:
    tables = []
    for name in ("here", "spark"):
        path = tmp_path / name
        storage = LocalStorage(path)
        create_exact(storage, None, str(path))
        table = tl.open_table(str(path), spark=spark if name == "spark" else None)
        for operation, rows in batches():
            getattr(table, operation)(spark.createDataFrame(rows.to_pandas()) if name == "spark" else rows)
            if operation == "bulk_insert":
                table.delete([2])
        assert rows_of(table, "read_optimized") == {}
        assert table.run_compaction(plan_exact(storage, None, 5)) is not None
        tables.append(table)
    here, there = tables
    assert rows_of(here) == rows_of(there) == {11: ("z", 4)}
    assert rows_of(here, "read_optimized") == rows_of(there, "read_optimized")
    assert rows_of(there, "read_optimized") == {2: ("three", 3), 4: ("four", 4), 9: ("over", 3), 11: ("z", 4)}
    sizes = [
        sorted((s.partition_path, s.base is not None, len(s.logs)) for s in table.files()) for table in (here, there)
    ]
    assert sizes[0] == sizes[1]
    # The view as of an event time, by both readers on Spark.
    scan = there.scan(columns=["id"], mode="read_optimized", as_of_event_time=5_000)
    assert sorted(row.id for row in scan.to_spark().collect()) == [2, 4, 9, 11]
    read = spark.read.format("tidelake").option("tidelake.as.of.event.time", "1970-01-01T00:00:05Z")
    assert sorted(row.id for row in read.load(there.path).select("id").collect()) == [2, 4, 9, 11]
    with pytest.raises(NotExactError, match="hold events before it"):
        there.scan(mode="read_optimized", as_of_event_time=9_000).to_spark()


def test_exact_groups_on_spark_equal_those_in_process(spark: Any, tmp_path: Path) -> None:
    batches = [
        [Entry(2, "1", 1, 9), Entry(2, "2", 6, 2), Entry(3, "x", 1, None), Entry(4, "y", 7, 8)],
        [Entry(2, "3", None, 3), Entry(3, "", 2, 9, is_delete=True), Entry(5, "z", 8, 1)],
    ]
    shown = []
    for name in ("here", "spark"):
        path = tmp_path / name
        storage = LocalStorage(path)
        create_groups(storage, None, str(path))
        table = tl.open_table(str(path), spark=spark if name == "spark" else None)
        for batch in batches:
            rows = entries_table(batch)
            columns = ", ".join(f"`{field.name}` {KINDS[field.type]}" for field in rows.schema)
            frame = spark.createDataFrame([tuple(row.values()) for row in rows.to_pylist()], columns)
            table.upsert(frame if name == "spark" else rows)
        table.delete([4])
        before = group_rows_of(table)
        assert table.run_compaction(plan_exact(storage, None, 5, "a_ts,b_ts")) is not None
        assert group_rows_of(table) == before
        shown.append((before, group_rows_of(table, "read_optimized"), table.freshness().rt.completion_ms))
    assert shown[0] == shown[1]
    assert shown[0][2] == 7_000, "of b_ts the delete was the last to bring some, at 8"
    assert shown[0][0] == {2: (("a2", 6), ("b1", 9)), 5: (("az", 8), ("bz", 1))}
    assert shown[0][1] == {2: (("a1", 1), ("b3", 3)), 5: ((None, None), ("bz", 1))}
