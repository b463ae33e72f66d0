"""Clustering: on Spark beside Spark's own sort and write of the same rows, and the orders in process."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

import tidelake as tl
from bench.measure import Results
from bench.tables import make_batches, new_table
from tidelake.services.clustering.order import ORDERS, row_order

COLUMNS = ("city", "fare")
INSERTS = 4


def clustering(results: Results, work: Path, rows: int) -> None:
    """A table of ``rows`` rows, in four file groups for each partition, brought into the order of two columns."""
    base = make_batches(work / "input", rows, upserts=0).table("base")
    table = new_table(work / "table")
    step = -(-rows // INSERTS)
    for start in range(0, rows, step):
        table.bulk_insert(base.slice(start, step))
    spark = tl.session("bench", master="local[2]")
    files = [str(work / "table" / s.base.path) for s in table.files() if s.base is not None]

    def ours() -> None:
        tl.open_table(str(work / "copy"), spark=spark).cluster(sort_by=COLUMNS)

    def theirs() -> None:
        frame = spark.read.parquet(*files).repartition(2, "part").sortWithinPartitions("part", *COLUMNS)
        written = frame.write.mode("overwrite").option("compression", "zstd")
        written.partitionBy("_hoodie_partition_path").parquet(str(work / "plain"))

    results.compare(
        "clustering on Spark / Spark's own sort and write", _afresh(work, ours), _afresh(work, theirs), 1.3, repeats=3
    )
    spark.stop()
    results.compare(
        "clustering in process / pyarrow sort and write of the same rows",
        _afresh(work, lambda: tl.open_table(str(work / "copy")).cluster(sort_by=COLUMNS)),
        _afresh(work, lambda: _sorted_and_written(files, work / "plain")),
        1.5,
        repeats=3,
    )
    for order in ORDERS[1:]:
        results.compare(
            f"{order} of {rows:,} rows / linear",
            lambda order=order: row_order(base, COLUMNS, order),  # type: ignore[misc]
            lambda: row_order(base, COLUMNS, "linear"),
            3.0,
            repeats=3,
        )


def _afresh(work: Path, task: Callable[[], object]) -> Callable[[], object]:
    """The task on a copy of the table; both sides pay for the copy."""

    def run() -> None:
        shutil.rmtree(work / "copy", ignore_errors=True)
        shutil.copytree(work / "table", work / "copy")
        task()

    return run


def _sorted_and_written(files: list[str], target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    by_folder: dict[str, list[str]] = {}
    for file in files:
        by_folder.setdefault(str(Path(file).parent), []).append(file)
    for number, some in enumerate(by_folder.values()):
        table = pq.read_table(some, partitioning=None).sort_by([(name, "ascending") for name in COLUMNS])
        pq.write_table(table, target / f"{number}.parquet", compression="zstd")
