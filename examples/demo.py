"""``make demo``: open a table that Apache Hudi wrote, see its time, and read it in process and on Spark.

The table is one of the golden tables of the tests; the rows that Apache Hudi itself returned for it stand beside it, so
the demo ends by checking that all three readings are equal.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

import tidelake as tl
from tidelake.cli.main import main as tidelake_command

GOLDEN = Path(__file__).parent.parent / "tests" / "golden" / "tables"
NAME = "mor_v9_compaction_after_writes"


def say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def names_by_id(rows: Iterable[dict[str, object]]) -> list[tuple[object, object]]:
    return sorted((row["id"], row["name"]) for row in rows)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(GOLDEN / f"{NAME}.zip") as archive:
            archive.extractall(folder)
        say("The table, and when things happened to it (instants as bars from requested to completed):")
        tidelake_command(["show", folder])
        tidelake_command(["timeline", folder])

        say("Its rows, merged in this process, without a JVM:")
        table = tl.open_table(folder)
        tidelake_command(["read", folder, "--limit", "8"])
        snapshot = table.scan().to_arrow()

        say("The same table as of its second commit, and its read-optimised view:")
        second = table.timeline.completed_writes[1].requested_time
        print(f"  as of {second}: {table.scan(as_of=second).count()} rows")
        print(f"  read-optimised: {table.scan(mode='read_optimized').count()} rows")

        say("The same rows, merged by Spark's workers:")
        spark = tl.session("tidelake-demo", master="local[2]", config={"spark.log.level": "ERROR"})
        frame = tl.open_table(folder, spark=spark).scan().to_spark()
        frame.select("id", "name", "ts", "_hoodie_commit_time").orderBy("id").show(8, truncate=False)
        on_spark = [row.asDict() for row in frame.select("id", "name").collect()]
        spark.stop()

        expected = json.loads((GOLDEN / f"{NAME}.expected.json").read_text())["reads"][0]["rows"]
        readings = [names_by_id(snapshot.to_pylist()), names_by_id(on_spark), names_by_id(expected)]
        equal = readings[0] == readings[1] == readings[2]
        say(f"In process, on Spark, by Apache Hudi itself: {'equal' if equal else 'NOT EQUAL'} ({len(expected)} rows).")
        return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
