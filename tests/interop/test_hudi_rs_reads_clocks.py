"""Tables with several event times, and kept deletes, in the eyes of hudi-rs: right rows or a refusal, never wrong ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTable, HudiTableBuilder

import tidelake as tl
from clock_tables import shown, smiths, told

COLUMNS = ("agent", "a_ts", "plan", "p_ts")


def read(path: Path, **options: str) -> list[tuple[Any, ...]]:
    batches = HudiTableBuilder.from_base_uri(str(path)).with_options(options).build().read()
    found = [row for batch in batches for row in pa.record_batch(batch).to_pylist()]
    return [tuple(row[name] for name in COLUMNS) for row in found]


@pytest.mark.parametrize("mode", ["all", "per_group"])
def test_hudi_rs_refuses_the_snapshot_of_a_mode_it_does_not_know(mode: str, tmp_path: Path) -> None:
    """It must not merge by another rule; the read-optimised view is right."""
    table = told(smiths(mode, str(tmp_path / "t")))
    with pytest.raises(Exception, match=r"(?i)custom|merge"):
        HudiTable(str(tmp_path / "t")).read()
    table.compact()
    wanted = [("John", 2, "C", 3)] if mode == "per_group" else [("Mike", 1, "C", 3)]
    assert shown(table) == wanted
    assert read(tmp_path / "t", **{"hoodie.read.use.read_optimized.mode": "true"}) == wanted


@pytest.mark.parametrize("how", [{"options": {"write.resolve": "eager"}}, {"table_type": "COPY_ON_WRITE"}])
@pytest.mark.parametrize("mode", ["all", "per_group"])
def test_hudi_rs_reads_what_was_resolved_at_the_write(mode: str, how: dict[str, Any], tmp_path: Path) -> None:
    """Logs and base files hold whole rows: its snapshot is ours."""
    table = told(smiths(mode, str(tmp_path / "t"), **how))
    wanted = [("John", 2, "C", 3)] if mode == "per_group" else [("Mike", 1, "C", 3)]
    assert shown(table) == wanted
    assert read(tmp_path / "t") == wanted


def test_hudi_rs_does_not_show_what_a_kept_delete_hides(tmp_path: Path) -> None:
    """After compaction a late 55 stays hidden, 61 returns, and the read-optimised view is clean."""
    path = str(tmp_path / "t")
    table = tl.create_table(
        path,
        "id string, v string, ts bigint",
        record_key="id",
        ordering_fields="ts",
        options={"tombstone.retention": "7d"},
    )

    def put(value: str, ts: int, key: str = "a") -> None:
        table.upsert(pa.table({"id": [key], "v": [value], "ts": [ts]}))

    def seen(**options: str) -> set[str]:
        batches = HudiTableBuilder.from_base_uri(path).with_options(options).build().read()
        return {row["v"] for batch in batches for row in pa.record_batch(batch).to_pylist()}

    put("old", 60)
    put("kept", 1, "b")
    table.delete(["a"])
    table.compact()
    assert seen() == seen(**{"hoodie.read.use.read_optimized.mode": "true"}) == {"kept"}
    put("late", 55)
    assert seen() == {"kept"}
    put("new", 61)
    assert seen() == {"kept", "new"}


@pytest.mark.parametrize("index", ["SIMPLE", "BUCKET"])
def test_hudi_rs_does_not_show_what_a_delete_before_any_record_hides(tmp_path: Path, index: str) -> None:
    """The delete comes first, into a file group that begins with it: 55 stays hidden, 61 is there."""
    path = str(tmp_path / "t")
    table = tl.create_table(
        path,
        "id string, v string, ts bigint, _hoodie_is_deleted boolean",
        record_key="id",
        ordering_fields="ts",
        options={"tombstone.retention": "7d", "hoodie.index.type": index},
    )
    both = [("a", "", 60, True), ("b", "kept", 1, False)]
    for versions, wanted in (
        (both, {"kept"}),
        ([("a", "late", 55, False)], {"kept"}),
        ([("a", "new", 61, False)], {"kept", "new"}),
    ):
        columns = zip(*versions, strict=True)
        table.upsert(pa.table(dict(zip(table.schema.names[-4:], map(list, columns), strict=True))))
        found = HudiTable(path).read()
        assert {row["v"] for batch in found for row in pa.record_batch(batch).to_pylist()} == wanted
        assert set(table.scan().to_arrow().column("v").to_pylist()) == wanted
