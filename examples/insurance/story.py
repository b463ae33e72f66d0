"""Two streams, out of order, joined and sunk.

The stream of *customers* says who cares for a family: first Mike (a1), then John (a2). The stream of *plans* says what it
has: Plan A (p1), then B (p2), then C (p3). Each message is joined, as it comes, with what has come of the other stream
last, and the joined row is upserted. So a message of one stream brings along what is late in the other.

The Smiths' messages come in the order Mike, B, C, A, John. Their neighbours are 120 families with the same messages in
every order there is. Right is John and Plan C, for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import tidelake as tl

SCHEMA = "family string, agent string, a_ts bigint, plan string, p_ts bigint"
COLUMNS = ["family", "agent", "a_ts", "plan", "p_ts"]
SEVERAL_CLOCKS = {
    "multiple.eventime.latest.verification.enable": "true",
    "hoodie.eventime.latest.verification.fields": "a_ts,p_ts",
    "hoodie.eventime.latest.verification.mode": "per_group",
    "fields.a_ts.sequence-group": "agent",
    "fields.p_ts.sequence-group": "plan",
}
CUSTOMERS = (("Mike", 1), ("John", 2))
PLANS = (("A", 1), ("B", 2), ("C", 3))
MESSAGES = (*CUSTOMERS, *PLANS)
SMITHS = (("Mike", 1), ("B", 2), ("C", 3), ("A", 1), ("John", 2))


def families() -> dict[str, tuple[tuple[str, int], ...]]:
    """The messages of each family, in the order in which they come."""
    neighbours = {f"neighbour {number}": order for number, order in enumerate(permutations(MESSAGES))}
    return {"smith": SMITHS, **neighbours}


def streams(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """The customers and the plans of all families, each message with the moment at which it comes."""
    customers, plans = [], []
    for family, order in families().items():
        for moment, (value, time) in enumerate(order):
            (customers if (value, time) in CUSTOMERS else plans).append((family, value, time, moment))
    return (
        spark.createDataFrame(customers, "family string, agent string, a_ts bigint, moment int"),
        spark.createDataFrame(plans, "family string, plan string, p_ts bigint, moment int"),
    )


def joined(customers: DataFrame, plans: DataFrame) -> DataFrame:
    """Each message with what has come of the other stream last; null if nothing has."""
    so_far = Window.partitionBy("family").orderBy("moment")
    messages = customers.unionByName(plans, allowMissingColumns=True)
    known = {name: F.last(name, ignorenulls=True).over(so_far) for name in ("agent", "a_ts", "plan", "p_ts")}
    return messages.withColumns(known).select(*COLUMNS, "moment")


def make_table(spark: SparkSession, folder: str, ordering: str | None) -> tl.Table:
    """A table with one ordering field, or, without it, with the two event times."""
    return tl.create_table(
        folder,
        SCHEMA,
        name="policies",
        record_key="family",
        ordering_fields=() if ordering is None else ordering,
        options=SEVERAL_CLOCKS if ordering is None else {},
        spark=spark,
    )


def run(spark: SparkSession, folder: str, say: Callable[[str], None] = print) -> bool:
    """Sink the streams into a table of each kind; whether two event times give John and Plan C to every family."""
    rows = joined(*streams(spark)).persist()
    right = False
    for name, ordering in (("ordered by a_ts", "a_ts"), ("ordered by p_ts", "p_ts"), ("with both clocks", None)):
        table = make_table(spark, f"{folder}/{ordering}", ordering)
        # An ordering field may not be null: 0 where nothing has come of its stream.
        sunk = rows if ordering is None else rows.fillna(0, [ordering])
        for moment in range(len(MESSAGES)):
            table.upsert(sunk.filter(F.col("moment") == moment).select(*COLUMNS))
        if ordering is None:
            say(_indented(table.explain_value("smith", "plan")))
        table.compact()
        found = table.scan(columns=COLUMNS).to_arrow().to_pylist()
        agent, plan = next((row["agent"], row["plan"]) for row in found if row["family"] == "smith")
        is_right = [(row["agent"], row["plan"]) == ("John", "C") for row in found]
        say(f"  {name}: the Smiths have {agent} and Plan {plan}; right for {sum(is_right)} of {len(is_right)} families")
        right = all(is_right) and len(is_right) == len(families())
    return right


def _indented(told: object) -> str:
    return "\n".join(f"    {line}" for line in str(told).splitlines())
