"""Golden tables, written by Apache Hudi: every read equals the rows that Apache Hudi itself returned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiReadOptions, HudiTable

import tidelake as tl
from golden.support import GOLDEN, expected_of, golden_names, rows_of, without_null_fields

READS = [(name, number) for name in golden_names() for number in range(len(expected_of(name)["reads"]))]


def _label(case: tuple[str, int]) -> str:
    read = expected_of(case[0])["reads"][case[1]]
    return f"{case[0]}-{read['mode']}-{read.get('as_of') or 'now'}"


def is_gone(read: dict[str, Any]) -> bool:
    """Whether the files of that time were cleaned; Apache Hudi refuses, or silently returns nothing."""
    return "refused" in read or "cleaned" in read.get("known_wrong", "")


def right_rows(read: dict[str, Any], path: Path) -> list[dict[str, Any]]:
    """Apache Hudi's rows; hudi-rs's where those are known to be wrong."""
    if "known_wrong" not in read:
        return read["rows"]
    options = HudiReadOptions().with_as_of_timestamp(read["as_of"]) if read["as_of"] else None
    batches = [pa.record_batch(batch) for batch in HudiTable(str(path)).read(options)]
    return rows_of(pa.Table.from_batches(batches), read["schema"])


def assert_read_is_right(table: pa.Table, read: dict[str, Any], path: Path) -> None:
    ours, theirs = rows_of(table, read["schema"]), right_rows(read, path)
    if read["as_of"] is None:
        assert table.column_names == read["columns"]
        assert ours == theirs
    else:
        assert without_null_fields(ours) == without_null_fields(theirs)


@pytest.mark.parametrize("case", READS, ids=_label)
def test_golden_table_read_in_process_equals_apache_hudi(case: tuple[str, int], golden) -> None:
    """A golden table read in process gives the rows and columns that Apache Hudi gives."""
    name, number = case
    read = expected_of(name)["reads"][number]
    table = tl.open_table(str(golden(name)))
    if is_gone(read):
        with pytest.raises(tl.errors.MissingFileError):
            table.scan(mode=read["mode"], as_of=read["as_of"]).to_arrow()
    else:
        assert_read_is_right(table.scan(mode=read["mode"], as_of=read["as_of"]).to_arrow(), read, golden(name))


def test_golden_folder_is_complete() -> None:
    """Each table has its expectation, and there are many of them."""
    zips = {path.stem for path in GOLDEN.glob("*.zip")}
    assert zips == {path.name.removesuffix(".expected.json") for path in GOLDEN.glob("*.expected.json")}
    assert len(zips) > 100
    assert all(json.loads(path.read_text())["reads"] for path in GOLDEN.glob("*.expected.json"))
    assert len(READS) > 1000
