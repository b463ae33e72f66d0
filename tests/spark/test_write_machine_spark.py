"""The write machine of ``tests/model`` with Spark as the engine: rows come as DataFrames, tasks write the files.

The driver's storage operations crash and are interleaved as in process; the table lies on a local disk, where workers
find it. Few steps, since each is a Spark job: the rules themselves are tried at length in process.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from model.deep import IS_DEEP
from model.write_machine import EXPIRED_S, Machine, Shape
from tidelake.storage import LocalStorage

STEPS = 40 if IS_DEEP else 6
SHAPES = [
    Shape("MERGE_ON_READ", ("ts",), ("day",), "parquet"),
    Shape("COPY_ON_WRITE", ("ts",), ("day",), "parquet", buckets=3),
    Shape("MERGE_ON_READ", (), ("day",), "avro", buckets=3),
    Shape("COPY_ON_WRITE", (), (), "parquet"),
]


@dataclass
class SparkMachine(Machine):
    """Writes DataFrames into a table on a local disk."""

    spark: Any = None
    root: Path = Path()

    def make_storage(self) -> LocalStorage:
        return LocalStorage(self.root, clock=self.clock)

    def expire(self) -> None:
        self.clock.advance(EXPIRED_S)
        for folder in (".hoodie/.heartbeat", ".hoodie/timeline"):
            for path in (self.root / folder).glob("*"):
                old_s = path.stat().st_mtime - EXPIRED_S
                os.utime(path, (old_s, old_s))

    def table(self, rows: list[dict[str, Any]]) -> Any:
        made: pa.Table = super().table(rows)
        return self.spark.createDataFrame(made)


@pytest.mark.spark
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_write_machine_on_spark_equals_the_oracle(shape: Shape, spark: Any, tmp_path: Path) -> None:
    """Whatever Spark wrote, over crashes of the driver, a second writer and clock jumps, the table holds what the dict holds."""
    seed = os.environ.get("TIDELAKE_SEED") or str(random.SystemRandom().randrange(10**9))
    machine = SparkMachine(shape, random.Random(f"{shape}/{seed}"), spark=spark, root=tmp_path / "table")
    try:
        for _ in range(STEPS):
            machine.step()
    except BaseException:
        print(f"TIDELAKE_SEED={seed}", *machine.told, sep="\n  ")
        raise
