"""Tables with several event times, and kept deletes, with Apache Hudi: right rows or a refusal, never wrong ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from clock_tables import shown, smiths, told
from interop.jvm.both import Both
from interop.jvm.hudi_client import NO_METADATA, Hudi, HudiError

pytestmark = pytest.mark.hudi_jvm
COLUMNS = ("agent", "a_ts", "plan", "p_ts")
OPTIMISED = {**NO_METADATA, "hoodie.datasource.query.type": "read_optimized"}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
WANTED = {"all": [("Mike", 1, "C", 3)], "per_group": [("John", 2, "C", 3)]}


def keeping_deletes(
    hudi: Hudi, path: Path, options: dict[str, str], write_options: dict[str, str]
) -> tuple[tl.Table, Both]:
    """A table that keeps deletes for a week, ours and Apache Hudi's."""
    made = tl.create_table(
        str(path),
        "id string, v string, ts bigint",
        name="t",
        record_key="id",
        ordering_fields="ts",
        options={"tombstone.retention": "7d", **options},
    )
    return made, Both(hudi, path, {"hoodie.write.table.version": "9", **write_options})


def read(hudi: Hudi, path: Path, options: dict[str, str] = NO_METADATA) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in COLUMNS) for row in hudi.read(path, options)["rows"]]


@pytest.mark.parametrize("mode", ["all", "per_group"])
def test_apache_hudi_refuses_the_snapshot_of_a_mode_it_does_not_know(hudi: Hudi, tmp_path: Path, mode: str) -> None:
    """It must not merge by another rule; the read-optimised view is right."""
    table = told(smiths(mode, str(tmp_path / "t")))
    with pytest.raises(HudiError, match="No valid spark merger"):
        hudi.read(tmp_path / "t")
    table.compact()
    assert shown(table) == WANTED[mode]
    assert read(hudi, tmp_path / "t", OPTIMISED) == WANTED[mode]


@pytest.mark.parametrize("how", [{"options": {"write.resolve": "eager"}}, {"table_type": "COPY_ON_WRITE"}])
@pytest.mark.parametrize("mode", ["all", "per_group"])
def test_apache_hudi_reads_what_was_resolved_at_the_write(
    hudi: Hudi, tmp_path: Path, mode: str, how: dict[str, Any]
) -> None:
    """Logs and base files hold whole rows: its snapshot is ours, before and after a compaction."""
    table = told(smiths(mode, str(tmp_path / "t"), **how))
    assert shown(table) == WANTED[mode]
    assert read(hudi, tmp_path / "t") == WANTED[mode]
    if "options" in how:
        table.compact()
        assert read(hudi, tmp_path / "t") == read(hudi, tmp_path / "t", OPTIMISED) == WANTED[mode]


@pytest.mark.parametrize("blocks", ["parquet", "avro"])
def test_apache_hudi_does_not_show_what_a_kept_delete_hides(hudi: Hudi, tmp_path: Path, blocks: str) -> None:
    """After compaction a late 55 stays hidden, 61 returns, the read-optimised view is clean; and so after its compaction."""
    path = tmp_path / "t"
    table, both = keeping_deletes(hudi, path, {"hoodie.logfile.data.block.format": blocks}, {})

    def put(value: str, ts: int, key: str = "a") -> None:
        table.upsert(pa.table({"id": [key], "v": [value], "ts": [ts]}))

    def seen(options: dict[str, str] = NO_METADATA) -> set[str]:
        return {row["v"] for row in hudi.read(path, options)["rows"]}

    def ours() -> set[str]:
        return set(both.ours.scan().to_arrow().column("v").to_pylist())

    put("old", 60)
    put("kept", 1, "b")
    table.delete(["a"])
    table.compact()
    assert seen() == seen(OPTIMISED) == ours() == {"kept"}
    put("late", 55)
    assert seen() == ours() == {"kept"}
    put("new", 61)
    assert seen() == ours() == {"kept", "new"}
    hudi.compact(path)
    assert seen() == seen(OPTIMISED) == ours() == {"kept", "new"}


def test_apache_hudi_meets_a_kept_delete_when_it_writes(hudi: Hudi, tmp_path: Path) -> None:
    """Its own late row stays hidden, its newer one returns, in its eyes and in ours."""
    path = tmp_path / "t"
    table, both = keeping_deletes(hudi, path, BUCKETS, BUCKETS)

    def seen() -> list[set[str]]:
        theirs = {row["v"] for row in hudi.read(path)["rows"]}
        return [theirs, set(both.ours.scan().to_arrow().column("v").to_pylist())]

    table.upsert(pa.table({"id": ["a", "b"], "v": ["old", "kept"], "ts": [60, 1]}))
    table.delete(["a"])
    table.compact()
    both.theirs(pa.table({"id": ["a"], "v": ["late"], "ts": [55]}))
    assert seen() == [{"kept"}, {"kept"}]
    both.theirs(pa.table({"id": ["a"], "v": ["new"], "ts": [61]}))
    assert seen() == [{"kept", "new"}, {"kept", "new"}]
    both.ours.compact()
    assert seen() == [{"kept", "new"}, {"kept", "new"}]


@pytest.mark.parametrize("index", [{}, BUCKETS])
def test_apache_hudi_does_not_show_what_a_delete_before_any_record_hides(
    hudi: Hudi, tmp_path: Path, index: dict[str, str]
) -> None:
    """The delete comes first, into a file group that begins with it: 55 stays hidden, 61 is there; also after its compaction."""
    path = tmp_path / "t"
    table, both = keeping_deletes(hudi, path, index, {})

    def put(*versions: tuple[str, str, int, bool]) -> list[set[str]]:
        names = ("id", "v", "ts", "_hoodie_is_deleted")
        table.upsert(pa.table(dict(zip(names, map(list, zip(*versions, strict=True)), strict=True))))
        return seen()

    def seen() -> list[set[str]]:
        theirs = {row["v"] for row in hudi.read(path)["rows"]}
        return [theirs, set(both.ours.scan().to_arrow().column("v").to_pylist())]

    assert put(("a", "", 60, True), ("b", "kept", 1, False)) == [{"kept"}, {"kept"}]
    assert put(("a", "late", 55, False)) == [{"kept"}, {"kept"}]
    assert put(("a", "new", 61, False)) == [{"kept", "new"}, {"kept", "new"}]
    hudi.compact(path)
    assert seen() == [{"kept", "new"}, {"kept", "new"}]
