"""Rows of an upsert, or of many small files, are copied once, in the order of their files; others file by file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
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


def loaded(index: str, operation: str, table_type: str, **options: str) -> list[Any]:
    """What the files of a load into many partitions hold, name by name but for their ids: rows, and footers."""
    clock = ManualClock(seed=5)
    storage = MemoryStorage(clock=clock)
    new = pa.table(
        {
            "id": pa.array([f"key-{number * 7919 % 1000}" for number in range(300)]),
            "ts": pa.array(range(300), pa.int64()),
            "day": [f"d{number % 37}" for number in range(300)],
        }
    )
    table = tl.create_table(
        "memory",
        new.schema,
        name="loaded",
        record_key="id",
        partition_by="day",
        table_type=table_type,
        ordering_fields="ts",
        options={**INDEXES[index], **options},
        storage=storage,
        clock=clock,
    )
    commit = getattr(table, operation)(new)
    found: list[Any] = []
    for stat in sorted(commit.stats, key=lambda stat: (stat.partition_path, stat.file_id)):
        file = pq.ParquetFile(pa.BufferReader(storage.get(stat.path)))
        rows_of = file.read().to_pylist()
        numbers = [row.pop("_hoodie_commit_seqno") for row in rows_of]
        footer = {key: value for key, value in file.metadata.metadata.items() if key != b"ARROW:schema"}
        found.append((replace(stat, total_write_bytes=0, file_size_in_bytes=0), rows_of, footer, numbers))
    seen = [number for *_, numbers in found for number in numbers]
    assert len(set(seen)) == len(seen) == 300
    return [each[:3] for each in found]


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("operation", ["bulk_insert", "insert", "insert_overwrite"])
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_rows_of_many_small_files_become_the_same_files_as_rows_copied_file_by_file(
    monkeypatch: pytest.MonkeyPatch, index: str, operation: str, table_type: str
) -> None:
    """The same rows in the same order, the same statistics, key ranges and bloom filters; no number stands twice."""
    arranged = loaded(index, operation, table_type)
    monkeypatch.setattr("tidelake.write.job.is_scattered", lambda *_: False)
    assert loaded(index, operation, table_type) == arranged
    assert len(arranged) >= 37


def test_rows_of_many_small_files_are_cut_by_size_as_rows_copied_file_by_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only helps to write a row does not make it larger."""
    small = {"hoodie.parquet.max.file.size": "100", "hoodie.parquet.small.file.limit": "0"}
    arranged = loaded("simple", "bulk_insert", "MERGE_ON_READ", **small)
    monkeypatch.setattr("tidelake.write.job.is_scattered", lambda *_: False)
    assert loaded("simple", "bulk_insert", "MERGE_ON_READ", **small) == arranged
    assert 37 < len(arranged) < 300
