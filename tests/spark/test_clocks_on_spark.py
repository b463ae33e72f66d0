"""Several event times on Spark: the same rows and counts as in process, from any order and any spread of messages."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import functions as F

import tidelake as tl
from clock_tables import shown, smiths
from model.clock_cases import random_case
from model.clock_world import KINDS, ClockWorld

pytestmark = pytest.mark.spark
GROUPS = 6


@pytest.mark.parametrize("kind", ["merge-on-read", "buckets", "eager", "copy-on-write"])
def test_histories_on_spark_give_what_the_rules_give(spark: Any, tmp_path: Path, kind: str) -> None:
    """Batches as DataFrames of several partitions, with compactions on Spark between them."""
    seed = 3 + list(KINDS).index(kind)
    case = random_case(seed, count=24)
    random = Random(seed)
    world = ClockWorld(case, kind, str(tmp_path / "t"))
    world.table = tl.open_table(str(tmp_path / "t"), spark=spark)
    schema = spark.createDataFrame(case.table(case.changes[:1]).to_pandas().iloc[:0], world_ddl(case)).schema
    for start in range(0, len(case.changes), 6):
        batch = case.changes[start : start + 6]
        shuffled = list(batch)
        random.shuffle(shuffled)
        frame = spark.createDataFrame([tuple(r.values()) for r in case.table(tuple(shuffled)).to_pylist()], schema)
        world.write(batch, frame.repartition(3))
        world.check()
    world.compact()
    world.check()


def world_ddl(case: Any) -> str:
    names = {"long": "bigint", "int": "int", "double": "double", "string": "string", "date": "date"}
    names |= {"timestamp": "timestamp", "decimal": "decimal(12,3)"}
    clocks = [f"{n} {names[k]}" for n, k in zip(case.rules.fields, case.kinds, strict=True)]
    values = [f"{name} string" for name in case.rules.columns]
    return ", ".join(["id string", *values, *clocks, "_hoodie_is_deleted boolean"])


def test_the_smiths_story_in_every_order_of_arrival(spark: Any, tmp_path: Path) -> None:
    """Two streams, out of order, joined and sunk: John and Plan C; one ordering field alone gets it wrong."""
    messages = [("Mike", 1, None, None), ("John", 2, None, None)]
    messages += [(None, None, plan, time) for plan, time in (("A", 1), ("B", 2), ("C", 3))]
    orders = list(permutations(messages))
    rows = [(f"smith {n}", place, *message) for n, order in enumerate(orders) for place, message in enumerate(order)]
    frame = spark.createDataFrame(rows, "id string, place int, agent string, a_ts bigint, plan string, p_ts bigint")
    frame = frame.cache()
    path = str(tmp_path / "t")
    smiths("per_group", path)
    table = tl.open_table(path, spark=spark)
    for places in ((0, 1), (2,), (3, 4)):
        table.upsert(frame.where(F.col("place").isin(*places)).drop("place"))
    table.compact()
    found = shown(table)
    assert len(found) == len(orders)
    assert set(found) == {("John", 2, "C", 3)}
