"""Exact tables, written at random and compacted at several event times, read by hudi-rs: snapshot and read-optimised."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiTable, HudiTableBuilder

import tidelake as tl
from exact_groups_world import Entry, as_rows, create_groups, entries_table
from exact_groups_world import rows_of as group_rows_of
from exact_world import create_exact, events, plan_exact, rows_of
from interop.test_hudi_rs_reads_ours import cases
from model.deep import IS_DEEP
from tidelake.storage import LocalStorage
from tidelake.testing import ManualClock

COUNT = 40 if IS_DEEP else 4


def theirs(path: Path, *, is_optimised: bool) -> dict[int, tuple[str, int]]:
    builder = HudiTableBuilder.from_base_uri(str(path))
    if is_optimised:
        builder = builder.with_options({"hoodie.read.use.read_optimized.mode": "true"})
    batches = builder.build().read() if is_optimised else HudiTable(str(path)).read()
    found = [row for batch in batches for row in pa.Table.from_batches([batch]).to_pylist()]
    assert len({row["id"] for row in found}) == len(found), "a key stands twice"
    return {row["id"]: (row["name"], row["ts"]) for row in found}


def check(path: Path, table: tl.Table) -> None:
    for mode in ("snapshot", "read_optimized"):
        assert theirs(path, is_optimised=mode != "snapshot") == rows_of(table, mode), mode


@pytest.mark.parametrize("number", range(COUNT))
def test_hudi_rs_exact_table_reads_equal_at_every_step(number: int, tmp_path: Path) -> None:
    """Versions, ties and deletes on both sides of thresholds; while a plan is pending, after it, and with late data."""
    seed = cases()[0][1]
    print(f"TIDELAKE_SEED={seed}")
    choice = random.Random(f"exact/{seed}/{number}")
    path, clock = tmp_path / "table", ManualClock(seed=number)
    storage = LocalStorage(path)
    blocks = choice.choice(["avro", "parquet"])
    table = create_exact(storage, clock, str(path), **{"hoodie.logfile.data.block.format": blocks})
    threshold = 0
    for step in range(6):
        for n in range(2):
            clock.advance(1)
            entries = [
                (choice.randrange(4), f"{step}.{n}.{i}", choice.randrange(1, 10), choice.random() < 0.3)
                for i in range(choice.randrange(1, 6))
            ]
            table.upsert(events(*entries))
        threshold += choice.randrange(3)
        clock.advance(1200)  # late data has waited long enough
        if number % 2:
            planned = table.schedule_compaction(threshold=f"1970-01-01T00:00:{threshold:02d}Z")
        else:
            planned = plan_exact(storage, clock, threshold)
        table.upsert(events((step, f"later {step}", 10 + step)))
        check(path, table)
        before = rows_of(table)
        if planned is not None:
            table.run_compaction(planned)
        assert rows_of(table) == before
        check(path, table)


def test_hudi_rs_exact_groups_are_read_equal_read_optimised_and_refused_as_snapshot(tmp_path: Path) -> None:
    """Groups of their own event times are no merge that hudi-rs knows: base files it reads, logs it does not merge."""
    seed = cases()[0][1]
    print(f"TIDELAKE_SEED={seed}")
    choice = random.Random(f"exact groups/{seed}")
    path, clock = tmp_path / "table", ManualClock(seed=1)
    storage = LocalStorage(path)
    table = create_groups(storage, clock, str(path))
    for step in range(5):
        times = [(choice.randrange(1, 9), choice.choice([None, *range(1, 9)])) for _ in range(4)]
        entries = [Entry(key, f"{step}", a, b, choice.random() < 0.2) for key, (a, b) in enumerate(times)]
        clock.advance(1)
        table.upsert(entries_table(entries))
        clock.advance(1200)
        planned = plan_exact(storage, clock, 2 * step, "a_ts,b_ts")
        table.run_compaction(planned)
        options = {"hoodie.read.use.read_optimized.mode": "true"}
        batches = HudiTableBuilder.from_base_uri(str(path)).with_options(options).build().read()
        read = pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches]) if batches else None
        found = {} if read is None else as_rows(read.select(["id", "a", "a_ts", "b", "b_ts"]))
        assert found == group_rows_of(table, "read_optimized")
    assert found
    with pytest.raises(Exception, match=r"(?i)custom|merge"):
        HudiTable(str(path)).read()
