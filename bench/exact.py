"""Exact compaction beside a plain one of the same table: the split, and writing back what is left over."""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidelake as tl
from bench.measure import Results

REPEATS = 3
SCHEMA = "id bigint, name string, amount double, at bigint"
OPTIONS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "8",
    "hoodie.payload.event.time.unit": "ms",
    "hoodie.compaction.event.time.exact": "true",
}
FIRST_MS = 1_767_225_600_000
DAY_MS = 86_400_000


def exact(results: Results, work: Path, rows: int) -> None:
    """Two days of events: the first day in base files, a fifth of the keys anew in logs, half of it before midnight."""
    path = work / "exact"
    table = tl.create_table(
        str(path), SCHEMA, name="exact", ordering_fields="at", event_time_field="at", options=OPTIONS
    )
    some = np.random.default_rng(1)
    table.bulk_insert(_rows(np.arange(rows), some.integers(0, DAY_MS // 2, rows)))
    table.compact(strategy="unbounded")
    table.upsert(_rows(some.integers(0, rows, rows // 5), some.integers(DAY_MS // 2, 3 * DAY_MS // 2, rows // 5)))
    plain: list[float] = []
    split: list[float] = []
    for _ in range(REPEATS):
        for times, how in ((plain, {"strategy": "unbounded"}), (split, {"threshold": "2026-01-02T00:00:00Z"})):
            copy = work / "exact_copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(path, copy)
            opened = tl.open_table(str(copy))
            began = time.perf_counter()
            assert opened.compact(**how) is not None  # type: ignore[call-overload]
            times.append(time.perf_counter() - began)
    results.report(
        "exact compaction / a plain one of the same table", statistics.median(split), statistics.median(plain), 1.4
    )


def _rows(ids: np.ndarray, times: np.ndarray) -> pa.Table:  # type: ignore[type-arg]
    keys = pa.array(ids, pa.int64())
    names = pc.binary_join_element_wise("customer of the number", pc.cast(keys, pa.string()), " ")
    return pa.table({"id": keys, "name": names, "amount": ids * 0.25, "at": pa.array(times + FIRST_MS, pa.int64())})
