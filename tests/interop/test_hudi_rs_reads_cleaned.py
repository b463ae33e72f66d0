"""Tables that we compacted, cleaned and restored on local disk, read by hudi-rs: now, and as of what is retained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hudi import HudiReadOptions, HudiTable

import tidelake as tl
from small_rows import rows
from small_world import COW, MOR, SCHEMA
from tidelake.errors import MissingFileError


def names(batches: list[Any]) -> dict[int, str]:
    found = [row for batch in batches for row in batch.to_pylist()]
    assert len(found) == len({row["id"] for row in found})
    return {row["id"]: row["name"] for row in found}


def check(path: Path) -> None:
    """Now, and as of every write that we can read."""
    table = tl.open_table(str(path))
    theirs = HudiTable(str(path))
    assert names(theirs.read()) == names(table.scan().to_arrow().to_batches())
    for instant in table.timeline.completed_writes:
        try:
            ours = table.scan(as_of=instant.requested_time).to_arrow()
        except MissingFileError:
            continue
        options = HudiReadOptions().with_as_of_timestamp(instant.requested_time)
        assert names(theirs.read(options)) == names(ours.to_batches()), instant


@pytest.mark.parametrize("table_type", [COW, MOR])
def test_hudi_rs_table_cleaned_and_restored_by_us_reads_equal(table_type: str, tmp_path: Path) -> None:
    """After each clean by each policy, and after a restore, hudi-rs reads what we read."""
    path = tmp_path / "table"
    table = tl.create_table(str(path), SCHEMA, partition_by="day", table_type=table_type)
    table.upsert(rows((1, "a", 1), (2, "b", 1), (3, "c", 1)))
    table.insert_overwrite(rows((2, "over", 1)))
    for turn in range(4):
        table.upsert(rows((1, f"a{turn}", turn + 2), (2, f"b{turn}", turn + 2)))
        table.compact() if table_type == MOR else None
    assert table.clean(retain=3) is not None
    check(path)
    kept = table.savepoint().instant
    table.upsert(rows((1, "later", 9), (4, "later", 9)))
    table.compact() if table_type == MOR else None
    assert table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1) is not None
    check(path)
    assert table.restore(kept) is not None
    check(path)
    table.upsert(rows((1, "after", 10)))
    check(path)
