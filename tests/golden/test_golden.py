"""Golden tables, written by Apache Hudi: every read equals the rows that Apache Hudi itself returned."""

from __future__ import annotations

import json

import pytest

import tidelake as tl
from golden.support import GOLDEN, expected_of, golden_names, rows_of

READS = [(name, number) for name in golden_names() for number in range(len(expected_of(name)["reads"]))]


def _label(case: tuple[str, int]) -> str:
    read = expected_of(case[0])["reads"][case[1]]
    return f"{case[0]}-{read['mode']}-{read.get('as_of') or 'now'}"


@pytest.mark.parametrize("case", READS, ids=_label)
def test_golden_table_read_in_process_equals_apache_hudi(case: tuple[str, int], golden) -> None:
    """A golden table read in process gives the rows, columns and types that Apache Hudi gives."""
    name, number = case
    read = expected_of(name)["reads"][number]
    scan = lambda: tl.open_table(str(golden(name))).scan(mode=read["mode"], as_of=read.get("as_of"))  # noqa: E731
    if "refused" in read:
        with pytest.raises(tl.TidelakeError):
            scan().to_arrow()
        return
    table = scan().to_arrow()
    assert table.column_names == read["columns"]
    assert rows_of(table) == read["rows"]


def test_golden_folder_holds_tables_and_expectations() -> None:
    """The folder is complete: each table has its expectation, and there are many of them."""
    zips = {path.stem for path in GOLDEN.glob("*.zip")}
    assert zips == {path.name.removesuffix(".expected.json") for path in GOLDEN.glob("*.expected.json")}
    assert len(zips) > 100
    assert all(json.loads(path.read_text())["reads"] for path in GOLDEN.glob("*.expected.json"))
