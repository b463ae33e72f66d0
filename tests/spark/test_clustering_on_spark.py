"""Clustering on Spark's workers: the same files and rows as in process; and CALL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidelake as tl
from small_rows import rows
from tidelake.write.transaction import Commit

pytestmark = pytest.mark.spark


def make(path: Path, kind: str) -> tl.Table:
    table = tl.create_table(
        str(path),
        "id bigint, name string, ts bigint, day string",
        record_key="id",
        partition_by="day",
        ordering_fields="ts",
        table_type=kind,
    )
    for start in (0, 10, 20):
        table.bulk_insert(rows(*((at, f"n{at * 7 % 13}", at) for at in range(start, start + 10))))
    table.upsert(rows((3, "late", 1), (4, "newer", 99)))
    table.delete([5])
    return table


def stored(table: tl.Table) -> list[dict[str, Any]]:
    found = table.scan().to_arrow().drop_columns(["_hoodie_file_name"]).to_pylist()
    return sorted(found, key=lambda row: row["id"])


@pytest.mark.parametrize("kind", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_clustering_on_spark_is_that_in_process(spark, tmp_path: Path, kind: str) -> None:
    """Rows are as before, in as many files as in process, each in order."""
    here, there = make(tmp_path / "here", kind), make(tmp_path / "there", kind)
    before = stored(there)
    target = {"hoodie.clustering.plan.strategy.target.file.max.bytes": "6000"}
    local = here.cluster(sort_by="name", options=target)
    done = tl.open_table(there.path, spark=spark).cluster(sort_by="name", options=target)
    assert isinstance(local, Commit)
    assert isinstance(done, Commit)
    assert len(done.stats) == len(local.stats) > 2
    assert stored(there) == before
    for file_slice in there.files():
        assert file_slice.base is not None
        read = spark.read.parquet(str(Path(there.path) / file_slice.base.path)).select("name").collect()
        names = [row["name"] for row in read]
        assert names == sorted(names)
    assert not there.timeline.pending
    assert not list((Path(there.path) / ".hoodie/.temp").glob("*/*"))


def test_call_run_clustering_and_show_clustering(spark, tmp_path: Path) -> None:
    """Apache Hudi's arguments and columns: schedule, execute, both, and what there is."""
    tl.enable(spark)
    table = make(tmp_path / "t", "MERGE_ON_READ")
    before = stored(table)

    def call(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(f"CALL {text}").collect()]

    name = f"table => '{table.path}'"
    planned = call(f"run_clustering({name}, op => 'schedule', predicate => 'day = \"d1\"', order => 'name,ts')")
    assert [row[1:] for row in planned] == [(3, "REQUESTED", "*")]
    assert call(f"show_clustering({name}, show_involved_partition => true)") == [(*planned[0][:3], "day=d1")]
    done = call(f"run_clustering({name}, op => 'execute', instants => '{planned[0][0]}')")
    assert done == [(planned[0][0], 3, "COMPLETED", "*")]
    rest = call(
        f"run_clustering({name}, order => 'name', order_strategy => 'z-order', show_involved_partition => true)"
    )
    assert [row[2:] for row in rest] == [("COMPLETED", "day=d0,day=d1")]
    assert stored(table) == before
    shown = spark.sql(f"CALL show_clustering({name}, limit => 1)")
    assert shown.columns == ["timestamp", "input_group_size", "state", "involved_partitions"]
    assert shown.count() == 1
    with pytest.raises(tl.InvalidError, match="scheduleAndExecute"):
        call(f"run_clustering({name}, op => 'nonsense')")
