"""Log files and their blocks keep their bounds, and rows spread over several read as one."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTable

import tidelake as tl
from tidelake.format.log_block import read_blocks
from tidelake.storage import MemoryStorage

SIZES = {"hoodie.logfile.max.size": "40000", "hoodie.logfile.data.block.max.size": "12000"}
COUNT = 500


def rows(name: str, ids: range, gone: bool = False) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"{name} {i} " + "x" * 50 for i in ids],
            "ts": pa.array([1_705_320_000 + i for i in ids], pa.int64()),
            "_hoodie_is_deleted": [gone] * len(ids),
        }
    )


def make(path: Path, **options: str) -> tl.Table:
    return tl.create_table(
        str(path),
        "id bigint, name string, ts bigint, _hoodie_is_deleted boolean",
        name="sizes",
        ordering_fields="ts",
        event_time_field="ts",
        options={**SIZES, "hoodie.payload.event.time.unit": "s", **options},
    )


def blocks(path: Path) -> list[tuple[str, int, list[int]]]:
    """Each log file with its version, size and the content sizes of its blocks."""
    found = []
    for file in sorted(path.glob(".*.log.*")):
        data = file.read_bytes()
        version = file.name.rpartition(".log.")[2].partition("_")[0]
        found.append((version, len(data), [len(block.content) for block in read_blocks(data, len(data))]))
    return found


@pytest.mark.parametrize("log_format", ["parquet", "avro"])
def test_log_sizes_many_rows_become_bounded_blocks_and_files_that_read_as_one(tmp_path: Path, log_format: str) -> None:
    """Files of one instant have versions 1, 2, ..., each its own statistic; all readers see the rows once."""
    path = tmp_path / "t"
    table = make(path, **{"hoodie.logfile.data.block.format": log_format})
    table.upsert(rows("old", range(COUNT)))
    commit = table.upsert(rows("new", range(COUNT)))
    files = blocks(path)
    assert len(files) > 2
    assert sorted(int(version) for version, _, _ in files) == list(range(1, len(files) + 1))
    assert all(size <= int(SIZES["hoodie.logfile.max.size"]) for _, size, _ in files)
    sizes = [size for _, _, contents in files for size in contents]
    assert max(sizes) <= int(SIZES["hoodie.logfile.data.block.max.size"])
    assert len(sizes) > len(files), "no file has several blocks"
    stats = sorted(commit.stats, key=lambda stat: stat.log_version or 0)
    assert [stat.log_version for stat in stats] == list(range(1, len(files) + 1))
    assert sum(stat.num_writes or 0 for stat in stats) == COUNT
    for before, after in pairwise(stats):
        assert (before.max_event_time or 0) < (after.min_event_time or 0)
    found = table.scan().to_arrow().sort_by("id")
    assert found["name"].to_pylist() == rows("new", range(COUNT))["name"].to_pylist()
    assert len(set(found["_hoodie_commit_seqno"].to_pylist())) == COUNT
    theirs = [row for batch in HudiTable(str(path)).read() for row in batch.to_pylist()]
    assert sorted((r["id"], r["name"]) for r in theirs) == list(
        zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True)
    )


@pytest.mark.parametrize("verb", ["delete", "upsert"])
def test_log_sizes_many_deletes_are_bounded_too(tmp_path: Path, verb: str) -> None:
    """Delete blocks keep the bounds; deletes and rows of one write may lie in different files."""
    path = tmp_path / "t"
    table = make(path, **{"hoodie.logfile.max.size": "6000", "hoodie.logfile.data.block.max.size": "2000"})
    table.upsert(rows("old", range(COUNT)))
    if verb == "delete":
        table.delete(list(range(10, COUNT)))
    else:
        table.upsert(pa.concat_tables([rows("new", range(10)), rows("", range(10, COUNT), gone=True)]))
    files = blocks(path)
    assert len(files) > 1
    assert max(size for _, _, contents in files for size in contents) <= 2_000
    assert table.scan().count() == 10
    assert sum(batch.num_rows for batch in HudiTable(str(path)).read()) == 10


def test_log_sizes_row_larger_than_a_block_has_its_own(tmp_path: Path) -> None:
    """A bound below one row's size is no endless loop."""
    table = make(tmp_path / "t", **{"hoodie.logfile.max.size": "1", "hoodie.logfile.data.block.max.size": "1"})
    for name in ("old", "new"):
        table.upsert(rows(name, range(3)))
    assert [len(contents) for _, _, contents in blocks(tmp_path / "t")] == [1, 1, 1]
    assert table.scan().count() == 3


def test_log_sizes_small_write_is_one_file_of_one_block(tmp_path: Path) -> None:
    """Within the bounds nothing is split."""
    table = make(tmp_path / "t")
    for name in ("old", "new"):
        table.upsert(rows(name, range(5)))
    assert [(version, len(contents)) for version, _, contents in blocks(tmp_path / "t")] == [("1", 1)]


@pytest.mark.parametrize("value", ["0", "-1", "many", ""])
@pytest.mark.parametrize("key", SIZES)
def test_log_sizes_wrong_option_is_refused_when_the_table_is_made(key: str, value: str) -> None:
    """A bound is a whole number of at least one."""
    options: dict[str, Any] = {key: value}
    with pytest.raises(tl.InvalidError, match=key.replace(".", r"\.")):
        tl.create_table("memory", "id bigint", name="t", options=options, storage=MemoryStorage())
