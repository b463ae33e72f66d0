"""Rows of an upsert are copied once, in the order of their files; a large write's are copied file by file."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from small_rows import rows
from tidelake._clock import ManualClock
from tidelake._limits import MIB
from tidelake.index.key_cache import KeyCache
from tidelake.storage import MemoryStorage

INDEXES: dict[str, dict[str, str]] = {
    "simple": {},
    "bucket": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"},
    "global": {"hoodie.index.type": "GLOBAL_SIMPLE"},
}


def written(monkeypatch: pytest.MonkeyPatch, index: str, *, forgets: bool) -> tuple[pa.Table, list[Any]]:
    """A table after upserts that insert, update, move and delete; and what each commit says of its files."""
    clock = ManualClock(seed=3)
    table = tl.create_table(
        "memory",
        rows((1, "a", 1)).schema,
        name="arranged",
        record_key="id",
        partition_by="day",
        ordering_fields="ts",
        event_time_field="ts",
        options={"hoodie.payload.event.time.unit": "s", **INDEXES[index]},
        storage=MemoryStorage(clock=clock),
        clock=clock,
    )
    said = []
    for step in range(1, 6):
        if forgets:
            monkeypatch.setattr("tidelake.index.simple.KEPT", KeyCache(MIB))
        new = rows(*((key, f"of step {step}", step) for key in range(7 * step, 0, -1) if key % (step + 1)))
        if index == "global" and step == 4:
            new = new.set_column(3, "day", pa.array(["moved"] * new.num_rows))
        said.append(table.upsert(new).stats)
        said.append(table.delete([step, 2 * step]).stats)
    facts = [
        sorted((s.partition_path, s.num_writes, s.num_inserts, s.num_deletes, s.min_event_time) for s in stats)
        for stats in said
    ]
    return table.scan(columns=["id", "name", "ts", "day"]).to_arrow().sort_by("id"), facts


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("forgets", [False, True])
def test_arranged_rows_become_the_same_files_as_rows_copied_file_by_file(
    monkeypatch: pytest.MonkeyPatch, index: str, forgets: bool
) -> None:
    """The same rows, in the same number of files, whichever way they were copied and whether keys were kept."""
    arranged = written(monkeypatch, index, forgets=forgets)
    monkeypatch.setattr("tidelake.write.job.ARRANGED_BYTES", -1)
    assert written(monkeypatch, index, forgets=forgets) == arranged
    assert arranged[0].num_rows > 10
