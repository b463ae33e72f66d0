"""Make the golden tables: small tables written by Apache Hudi itself, and the rows it reads from them.

For each recipe (modules ``recipes_*``) the script makes ``tables/<name>.zip``, the table's directory without
checksum files, and ``tables/<name>.expected.json``:

* ``name``, ``description``, ``sql_or_steps``: what the table is and how it was made;
* ``instants``: the completed instants of the active timeline (``requested``, ``completed``, ``action``);
* ``reads``: what Hudi returns for a snapshot, for a read-optimised query (merge-on-read) and for time travel
  to every completed write: ``mode``, ``as_of``, ``columns``, ``schema`` (Spark type names), ``rows``; or
  ``refused`` with Hudi's message; ``known_wrong`` gives the reason where Hudi's answer is not to be followed.

Rows hold all columns with the meta columns, in the encoding that ``encoding.py`` documents.
The names of files and the instant times are new in every run; all else is the same.

Needs Spark 3.5 and the Hudi bundle: ``make_golden.sh`` brings both.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from expected import describe
from lake import Table, open_session
from pyspark.sql import SparkSession
from recipe import RECIPES, Recipe

HERE = Path(__file__).resolve().parent
ZIP_TIME = (1980, 1, 1, 0, 0, 0)


def load_recipes() -> None:
    """Import every recipe module, in the order of their names."""
    for module in sorted(HERE.glob("recipes_*.py")):
        importlib.import_module(module.stem)


def choose(only: str) -> list[Recipe]:
    """Return the recipes named in a comma list (a trailing ``*`` matches a prefix), or all."""
    wanted = [name for name in only.split(",") if name]
    chosen = [r for r in RECIPES.values() if not wanted or any(_matches(r.name, name) for name in wanted)]
    if not chosen:
        raise SystemExit(f"no recipe is named {only}")
    return chosen


def make(spark: SparkSession, recipe: Recipe, scratch: Path, out: Path) -> None:
    """Build one table, read it back, and write its two files."""
    table = Table(spark, recipe.name, scratch / recipe.name)
    try:
        recipe.build(table)
        content = describe(table, recipe.description)
        write_zip(table.path, out / f"{recipe.name}.zip")
        text = json.dumps(content, ensure_ascii=False, indent=1)
        (out / f"{recipe.name}.expected.json").write_text(text + "\n", encoding="utf-8")
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {recipe.name}")
        shutil.rmtree(table.path, ignore_errors=True)


def write_zip(root: Path, target: Path) -> None:
    """Zip a directory's files by sorted name with a fixed time, without checksum files."""
    files = sorted(p for p in root.rglob("*") if p.is_file() and p.suffix != ".crc")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in files:
            info = zipfile.ZipInfo(file.relative_to(root).as_posix(), ZIP_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, file.read_bytes())


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Make golden tables with Apache Hudi.")
    parser.add_argument("--jar", default=os.environ.get("HUDI_BUNDLE_JAR"), help="the Hudi Spark bundle")
    parser.add_argument("--only", default="", help="comma list of names; a trailing * matches a prefix")
    parser.add_argument("--out", type=Path, default=HERE / "tables")
    parser.add_argument("--list", action="store_true", help="list the recipes and stop")
    arguments = parser.parse_args()
    if not arguments.jar and not arguments.list:
        parser.error("give --jar or set HUDI_BUNDLE_JAR")
    return arguments


def main() -> int:
    """Make the chosen tables; return 1 if any failed."""
    arguments = parse_arguments()
    load_recipes()
    chosen = choose(arguments.only)
    if arguments.list:
        print("\n".join(f"{r.name}: {r.description}" for r in chosen))
        return 0
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
        return make_all(chosen, arguments.jar, Path(scratch), arguments.out)


def make_all(chosen: list[Recipe], jar: str, scratch: Path, out: Path) -> int:
    """Make the recipes one after the other in one session; return 1 if any failed."""
    spark = open_session(jar, scratch)
    failed = 0
    for recipe in chosen:
        started = time.monotonic()
        try:
            make(spark, recipe, scratch, out)
        except Exception as error:
            failed += 1
            print(f"FAILED {recipe.name}: {error}", file=sys.stderr, flush=True)
        else:
            print(f"{recipe.name} {time.monotonic() - started:.0f}s", flush=True)
    spark.stop()
    return 1 if failed else 0


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


if __name__ == "__main__":
    sys.exit(main())
