"""``make bench``: prints each data path beside its floor, from one run.

``python -m bench [--rows N] [PART...]`` runs only some parts: in_process, on_spark, memory (of reading), write_in_process,
write_on_spark, write_growth, write_memory, writers, compaction, exact, clustering, services_planning, freshness, merging,
daily_snapshot.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import clustering, compacting, daily, exact, freshness, merging, reading, services_planning, writing
from bench.measure import Results
from bench.tables import make_batches, make_one_slice, make_trips

READING = ("in_process", "on_spark", "memory")
WRITING = ("write_in_process", "write_on_spark", "write_growth", "write_memory", "writers")
SERVICES = ("compaction", "exact", "clustering", "services_planning", "freshness", "merging", "daily_snapshot")
PARTS = (*READING, *WRITING, *SERVICES)


def main() -> None:
    """Make the tables, run the parts, say how it went."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--rows", type=int, help="2,000,000 for reading and 3,000,000 for writing by default")
    given = parser.parse_args()
    parts = given.parts or PARTS
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]!r}")
    results = Results()
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; medians, ours and floor in turns: ours, floor, ratio"
    )
    with tempfile.TemporaryDirectory() as folder:
        _reading(results, Path(folder), [part for part in parts if part in READING], given.rows or 2_000_000)
    with tempfile.TemporaryDirectory() as folder:
        _writing(results, Path(folder), [part for part in parts if part in WRITING], given.rows or 3_000_000)
    with tempfile.TemporaryDirectory() as folder:
        _services(results, Path(folder), [part for part in parts if part in SERVICES], given.rows or 3_000_000)
    missed = [row[0] for row in results.rows if row[3] > row[4]]
    print(
        f"\n{len(results.rows) - len(missed)} of {len(results.rows)} aims met"
        + "".join(f"\n  missed: {m}" for m in missed)
    )


def _reading(results: Results, folder: Path, parts: Sequence[str], rows: int) -> None:
    if not parts:
        return
    trips = make_trips(folder / "trips", rows)
    print(f"\nreading: {rows:,} rows x 10 columns (and 5 meta columns), made by our own writer")
    for part in parts:
        if part == "in_process":
            reading.in_process(results, trips)
        elif part == "on_spark":
            reading.on_spark(results, trips)
        else:
            make_one_slice(folder / "one_slice", rows)
            reading.memory(trips, folder / "one_slice")


def _services(results: Results, folder: Path, parts: Sequence[str], rows: int) -> None:
    for part in parts:
        if part == "compaction":
            print(f"\nservices: {rows:,} rows in 20 partitions, a fifth of them newer in logs")
            compacting.compaction(results, folder, rows)
        elif part == "exact":
            print(f"\nexact tables: {rows:,} rows in 8 file groups, a fifth of them newer in logs")
            exact.exact(results, folder, rows)
        elif part == "clustering":
            print(f"\nclustering: {rows:,} rows in 20 partitions, by two columns")
            clustering.clustering(results, folder / "clustering", rows)
        elif part == "merging":
            print(
                f"\nmerging: {merging.BASE_ROWS:,} base rows, {merging.LOG_ROWS:,} log rows x {merging.VALUES} columns"
            )
            merging.merging(results, folder)
        elif part == "freshness":
            print("\ncompletion and freshness: no rows are read")
            freshness.freshness(results, folder)
        elif part == "daily_snapshot":
            print(f"\nthe day at midnight: {rows // 3:,} events of three days, hourly, on Spark")
            daily.daily(results, folder, rows // 3)
        else:
            services_planning.planning(results, folder)


def _writing(results: Results, folder: Path, parts: Sequence[str], rows: int) -> None:
    if not parts:
        return
    print(f"\nwriting: {rows:,} rows x 10 columns in 20 partitions, then 5 x (5 % updates + 1 % inserts)")
    batches = make_batches(folder / "input", rows)
    for part in parts:
        if part == "write_in_process":
            writing.in_process(results, batches, folder)
        elif part == "write_on_spark":
            writing.on_spark(results, batches, folder)
        elif part == "write_growth":
            writing.growth(results, folder, rows)
        elif part == "write_memory":
            writing.memory(folder, rows // 3)
        else:
            writing.writers(folder)


if __name__ == "__main__":
    main()
