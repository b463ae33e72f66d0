"""``make bench``: prints each data path beside its floor, from one run.

``python -m bench [--rows N] [PART...]`` runs only some parts: in_process, on_spark, memory.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from bench import reading
from bench.measure import Results
from bench.tables import make_one_slice, make_trips

PARTS = ("in_process", "on_spark", "memory")


def main() -> None:
    """Make the tables, run the parts, say how it went."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--rows", type=int, default=2_000_000)
    given = parser.parse_args()
    results = Results()
    with tempfile.TemporaryDirectory() as folder:
        trips = make_trips(Path(folder) / "trips", given.rows)
        print(f"{given.rows:,} rows x 10 columns (and 5 meta columns), made by our own writer (bench/tables.py);")
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; medians of runs in turns: ours, floor, ratio\n")
        for part in given.parts or PARTS:
            if part == "in_process":
                reading.in_process(results, trips)
            elif part == "on_spark":
                reading.on_spark(results, trips)
            elif part == "memory":
                make_one_slice(Path(folder) / "one_slice", given.rows)
                reading.memory(trips, Path(folder) / "one_slice")
            else:
                parser.error(f"no part {part!r}")
    missed = [row[0] for row in results.rows if row[3] > row[4]]
    print(
        f"\n{len(results.rows) - len(missed)} of {len(results.rows)} aims met"
        + "".join(f"\n  missed: {m}" for m in missed)
    )


if __name__ == "__main__":
    main()
