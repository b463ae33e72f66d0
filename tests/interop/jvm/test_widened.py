"""An ordering column that becomes wider after deletes were written, read by Apache Hudi."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tidelake as tl
from interop.jvm.hudi_client import Hudi, HudiError

pytestmark = pytest.mark.hudi_jvm


def rows(kind: pa.DataType, *entries: tuple[int, str, int, bool]) -> pa.Table:
    ids, names, times, deleted = zip(*entries, strict=True)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": pa.array(names),
            "ts": pa.array(times, kind),
            "_hoodie_is_deleted": pa.array(deleted),
        }
    )


def test_table_with_deletes_from_before_the_ordering_column_was_widened_is_read_once_it_is_compacted(
    hudi: Hudi, tmp_path: Path
) -> None:
    """Before, Apache Hudi 1.2.0 does not compare the two classes, and fails: no row of it is a wrong one."""
    first = rows(pa.int32(), (1, "a", 5, False), (2, "b", 5, False))
    table = tl.create_table(str(tmp_path / "t"), first.schema, record_key="id", ordering_fields="ts")
    table.upsert(first)
    table.delete([2])
    table.upsert(rows(pa.int32(), (1, "gone", 3, True)))
    table.upsert(rows(pa.int64(), (1, "late", 4, False), (2, "back", 2**40, False)))
    expected = {1: ("a", 5), 2: ("back", 2**40)}
    assert {r["id"]: (r["name"], r["ts"]) for r in table.scan().to_arrow().to_pylist()} == expected
    with pytest.raises(HudiError, match="ClassCastException"):
        hudi.read(tmp_path / "t")
    table.compact()
    assert {r["id"]: (r["name"], r["ts"]) for r in hudi.read(tmp_path / "t")["rows"]} == expected
