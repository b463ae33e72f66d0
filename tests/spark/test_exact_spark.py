"""Exact tables on Spark: the same rows in the same views as in process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from exact_world import create_exact, events, plan_exact, rows_of
from tidelake.errors import NotExactError
from tidelake.storage import LocalStorage

pytestmark = pytest.mark.spark


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
