"""Tables that we wrote at random and compacted, read by hudi-rs: snapshot and read-optimised."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hudi import HudiTable, HudiTableBuilder

import tidelake as tl
from interop.test_hudi_rs_reads_ours import READABLE, OnDisk, cases, rows_of
from model.deep import IS_DEEP
from model.write_machine import BUCKET_SHAPES, Shape

COUNT = 100 if IS_DEEP else 10
LOGGED = [s for s in (*READABLE, *BUCKET_SHAPES) if s.is_merge_on_read and len(s.ordering) < 2]


@pytest.mark.parametrize("number", range(COUNT))
def test_hudi_rs_table_compacted_by_us_reads_equal(number: int, tmp_path: Path) -> None:
    """After a compaction hudi-rs reads the rows of before it, and all of them from base files alone."""
    seed = cases()[0][1]
    shape: Shape = LOGGED[(int(seed) + number) % len(LOGGED)]
    print(f"TIDELAKE_SEED={seed} {shape}")
    path = tmp_path / "table"
    machine = OnDisk(shape, random.Random(f"{shape}/{seed}/{number}"), path=path)
    machine.fill()
    table = tl.open_table(str(path), storage=machine.storage, clock=machine.clock)
    has_logs = any(file_slice.logs for file_slice in table.files())
    assert (table.compact() is not None) == has_logs
    assert rows_of(table.scan().to_arrow().to_batches()) == machine.oracle.rows()
    if not machine.commits:
        return
    assert rows_of(HudiTable(str(path)).read()) == machine.oracle.rows()
    optimised = HudiTableBuilder.from_base_uri(str(path)).with_options({"hoodie.read.use.read_optimized.mode": "true"})
    assert rows_of(optimised.build().read()) == machine.oracle.rows()
