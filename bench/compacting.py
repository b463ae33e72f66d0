"""Compaction: in process beside reading and writing the same bytes, and on Spark beside Apache Hudi on the same table."""

from __future__ import annotations

import shutil
import statistics
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq

import tidelake as tl
from bench.measure import Results, apache_hudi, timed
from bench.tables import make_batches, new_table

REPEATS = 3


def compaction(results: Results, work: Path, rows: int) -> None:
    """A table of ``rows`` rows, a fifth of which have a newer version in a log."""
    batches = make_batches(work / "input", rows, upserts=1, share=0.2)
    table = new_table(work / "table", "BUCKET")
    table.bulk_insert(batches.table("base"))
    table.upsert(batches.table("upsert_0"))
    ours, floor = [], []
    for _ in range(REPEATS):
        path = _copy(work)
        ours.append(timed(lambda path=path: tl.open_table(str(path)).compact()))  # type: ignore[misc]
        floor.append(timed(lambda path=path: _rewrite(path, work / "plain")))  # type: ignore[misc]
    results.report(
        "compaction in process / pyarrow reading and writing the result",
        statistics.median(ours),
        statistics.median(floor),
        1.5,
    )
    _on_spark(results, work)


def _on_spark(results: Results, work: Path) -> None:
    spark = tl.session("bench", master="local[2]")
    times = []
    for _ in range(REPEATS + 1):
        path = _copy(work)
        times.append(timed(lambda path=path: tl.open_table(str(path), spark=spark).compact()))  # type: ignore[misc]
    spark.stop()
    theirs = apache_hudi("compact", str(_copy(work)))
    if theirs is None:
        print("Apache Hudi on Spark: not measured here; `make interop` sets its environment up", flush=True)
        return
    results.report(
        "compaction on Spark / Apache Hudi on the same table", statistics.median(times[1:]), theirs["seconds"], 0.2
    )


def _copy(work: Path) -> Path:
    path = work / "copy"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(work / "table", path)
    return path


def _rewrite(path: Path, target: Path) -> None:
    """The base files of a compacted table, read and written again on two threads."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    files = [path / s.base.path for s in tl.open_table(str(path)).files() if s.base is not None]

    def one(file: Path) -> None:
        pq.write_table(
            pq.read_table(file, use_threads=False, partitioning=None), target / file.name, compression="zstd"
        )

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, files))
