"""The example of the Smiths' insurance: John and Plan C, in whatever order the messages of two streams arrive."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from examples.insurance.story import CUSTOMERS, MESSAGES, run

from clock_tables import Message, rows, shown, smiths

KINDS: dict[str, dict[str, Any]] = {
    "merge-on-read": {},
    "bucket": {"options": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"}},
    "eager": {"options": {"write.resolve": "eager"}},
    "copy-on-write": {"table_type": "COPY_ON_WRITE"},
}
ORDERS = list(permutations(MESSAGES))


@pytest.mark.spark
def test_insurance_on_spark_two_clocks_are_right_and_one_is_wrong(spark: Any, tmp_path: Path) -> None:
    """The story on Spark: right for every order of arrival with two event times, wrong with either field alone."""
    told: list[str] = []
    assert run(spark, str(tmp_path), told.append), told
    by_agent, by_plan, why, by_both = told
    assert "the Smiths have John and Plan A" in by_agent
    assert "the Smiths have Mike and Plan C" in by_plan
    assert "the Smiths have John and Plan C; right for 121 of 121 families" in by_both
    assert "'C' (p_ts=3): wins" in why


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_joined", [True, False])
def test_insurance_in_every_order_of_arrival_gives_john_and_plan_c(kind: str, is_joined: bool) -> None:
    """All permutations of the messages, joined or not, a commit for each, with a compaction at each point."""
    for compacted in range(len(MESSAGES)):
        table = smiths("per_group", **KINDS[kind])
        for moment in range(len(MESSAGES)):
            arriving = [rows(_sunk(order, moment, is_joined), key=str(n)) for n, order in enumerate(ORDERS)]
            table.upsert(pa.concat_tables(arriving))
            if moment == compacted and kind != "copy-on-write":
                table.compact()
        assert shown(table) == [("John", 2, "C", 3)] * len(ORDERS)


def _sunk(order: tuple[tuple[str, int], ...], moment: int, is_joined: bool) -> Message:
    """What a message brings, joined with the last that came of the other stream, if anything is joined."""
    agent: tuple[str | None, int | None] = (None, None)
    plan: tuple[str | None, int | None] = (None, None)
    for message in order[0 if is_joined else moment : moment + 1]:
        if message in CUSTOMERS:
            agent = message
        else:
            plan = message
    return (*agent, *plan)
