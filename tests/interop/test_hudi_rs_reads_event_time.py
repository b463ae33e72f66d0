"""Compactions by event time, whose instants lie in the past, read by hudi-rs: pending, done, with later logs on top."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import tidelake as tl
from interop.test_hudi_rs_reads_exact import check
from model.deep import IS_DEEP
from tidelake.storage import LocalStorage
from tidelake.testing import ManualClock
from unit.services.event_tables import During

COUNT = 40 if IS_DEEP else 4
OPTIONS = {"hoodie.payload.event.time.unit": "s", "hoodie.table.timeline.timezone": "UTC"}
PREFIX = "hoodie.compaction.event.time."


def rows(choice: random.Random, now_s: int, day: int) -> pa.Table:
    ids = choice.sample(range(6), choice.randint(1, 4))
    return pa.table(
        {
            "id": pa.array([10 * day + i for i in ids], pa.int64()),
            "name": [f"{i} at {now_s} {choice.random()}" for i in ids],
            "ts": pa.array([now_s - choice.randrange(600) for _ in ids], pa.int64()),
            "day": [f"d{day}"] * len(ids),
        }
    )


@pytest.mark.parametrize("number", range(COUNT))
def test_hudi_rs_event_time_plans_read_equal_at_every_step(number: int, tmp_path: Path) -> None:
    choice = random.Random(number)
    path, clock = tmp_path / "table", ManualClock(seed=number)
    storage = LocalStorage(path)
    options = {**OPTIONS, "hoodie.logfile.data.block.format": choice.choice(["avro", "parquet"])}
    schema = "id bigint, name string, ts bigint, day string"
    table = tl.create_table(
        str(path),
        schema,
        partition_by="day",
        ordering_fields="ts",
        event_time_field="ts",
        options=options,
        storage=storage,
        clock=clock,
    )
    for step in range(4):
        for _ in range(2):
            clock.advance(60)
            table.upsert(rows(choice, clock.now_ms() // 1000, choice.randrange(2)))
        threshold = tl_time(clock.now_ms() // 1000 - choice.randrange(400))
        how = {
            PREFIX + "barrier": choice.choice(["COVERING", "AT_THRESHOLD"]),
            PREFIX + "backdate": "any",
            PREFIX + "late.delay": "0s",
        }
        clock.advance(30)
        made: list[str | None] = []

        def schedule(threshold: str = threshold, how: dict[str, str] = how, made: list[str | None] = made) -> None:
            made.append(table.schedule_compaction(strategy="event_time", threshold=threshold, options=how))

        if step % 2:
            # A write is under way: requested before P, perhaps, and completed after it.
            slow = tl.open_table(str(path), storage=During(storage, schedule), clock=clock)  # type: ignore[arg-type]
            slow.upsert(rows(choice, clock.now_ms() // 1000, choice.randrange(2)))
        else:
            schedule()
        check(path, table)
        before = table.scan().to_arrow().drop_columns(["_hoodie_file_name"]).sort_by("id")
        if made[0] is not None:
            table.run_compaction(made[0])
        assert table.scan().to_arrow().drop_columns(["_hoodie_file_name"]).sort_by("id") == before
        check(path, table)


def tl_time(seconds: int) -> str:
    return pa.scalar(seconds, pa.timestamp("s")).as_py().isoformat() + "Z"
