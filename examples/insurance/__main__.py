"""``python -m examples.insurance``: the Smiths' story on local Spark."""

from __future__ import annotations

import sys
import tempfile

import tidelake as tl
from examples.insurance.story import run


def main() -> int:
    settings = {"spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "2"}
    spark = tl.session("tidelake-insurance", "local[2]", settings)
    try:
        with tempfile.TemporaryDirectory() as folder:
            right = run(spark, folder)
    finally:
        spark.stop()
    print("John, and Plan C, whatever comes when." if right else "SOMETHING IS WRONG: see above.")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
