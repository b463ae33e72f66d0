"""Deletes that outlive compaction: what comes late and is older stays hidden, what is newer returns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from clock_tables import SMITH_SCHEMA, rows, shown, smiths, upsert
from tidelake._clock import ManualClock
from tidelake.storage import MemoryStorage

DAY_SECONDS = 86_400


def ordered(retention: str, index: str = "SIMPLE", clock: ManualClock | None = None) -> tl.Table:
    return tl.create_table(
        "memory://ordered",
        "id string, v string, ts bigint",
        record_key="id",
        ordering_fields="ts",
        options={"tombstone.retention": retention, "hoodie.index.type": index},
        storage=MemoryStorage(),
        clock=clock,
    )


def put(table: tl.Table, *versions: tuple[str, str, int]) -> None:
    table.upsert(
        pa.table({"id": [v[0] for v in versions], "v": [v[1] for v in versions], "ts": [v[2] for v in versions]})
    )


def values(table: tl.Table, mode: str = "snapshot") -> dict[str, str]:
    found = table.scan(columns=["id", "v"], mode=mode).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["v"] for row in found}


@pytest.mark.parametrize("index", ["SIMPLE", "BUCKET"])
def test_late_older_records_stay_hidden_after_compaction(index: str) -> None:
    """On a table with event-time ordering; without retention they come back."""
    for retention, hidden in (("7d", True), ("0", False)):
        table = ordered(retention, index)
        put(table, ("a", "old", 60), ("b", "kept", 1))
        table.delete(["a"])
        table.compact()
        assert values(table) == values(table, "read_optimized") == {"b": "kept"}
        put(table, ("a", "late", 55))
        assert values(table) == ({"b": "kept"} if hidden else {"a": "late", "b": "kept"})
        put(table, ("a", "new", 61))
        assert values(table) == {"a": "new", "b": "kept"}
        put(table, ("a", "newer", 62))
        table.compact()
        assert values(table) == values(table, "read_optimized") == {"a": "newer", "b": "kept"}


def test_a_slice_of_kept_deletes_is_base_only_and_no_work() -> None:
    """Scans do not read the log, and there is nothing left to compact."""
    table = ordered("7d")
    put(table, ("a", "old", 60), ("b", "kept", 1))
    table.delete(["a"])
    table.compact()
    (file_slice,) = table.files()
    assert len(file_slice.logs) == 1
    assert all(not s.logs for s in table.scan().plan.slices)
    assert table.compact() is None


def test_deletes_are_kept_for_their_retention_and_no_longer() -> None:
    """Counted from the delete, however often it is compacted."""
    clock = ManualClock()
    table = ordered("8d", clock=clock)
    put(table, ("a", "old", 60), ("b", "kept", 1))
    table.delete(["a"])
    for day in range(1, 12):
        clock.advance(DAY_SECONDS)
        put(table, ("b", "kept", 1 + day))
        table.compact()
        (file_slice,) = table.files()
        assert bool(file_slice.logs) == (day < 8), day
        if not file_slice.logs:
            break
    put(table, ("a", "late", 55))
    assert values(table) == {"a": "late", "b": "kept"}


@pytest.mark.parametrize("mode", ["all", "per_group"])
def test_unconditional_deletes_are_not_kept(mode: str) -> None:
    """Apache Hudi's SQL delete ends what there is, and nothing that comes."""
    table = smiths(mode)
    upsert(table, ("Mike", 5, "C", 5))
    table.delete(["smith"], unconditional=True)
    assert shown(table) == []
    table.compact()
    upsert(table, ("Al", 1, "A", 1))
    assert shown(table) == [("Al", 1, "A", 1)]


def test_a_newer_group_brings_itself_back() -> None:
    """The others stay empty, and what is older than the delete stays hidden."""
    table = smiths("per_group")
    upsert(table, ("Mike", 5, "C", 5))
    table.delete(["smith"])
    table.compact()
    upsert(table, ("Al", 6, None, None))
    upsert(table, (None, None, "B", 4))
    for _ in range(2):
        assert shown(table) == [("Al", 6, None, 5)]
        table.compact()
    assert shown(table, "read_optimized") == [("Al", 6, None, 5)]


NO_DELETES_KEPT: dict[str, dict[str, Any]] = {
    "copy-on-write": {"table_type": "COPY_ON_WRITE"},
    "eager": {"options": {"write.resolve": "eager"}},
    "merge-on-read": {"options": {"tombstone.retention": "0"}},
}


def delete_groups(table: tl.Table, a_ts: int | None, p_ts: int | None) -> None:
    """Delete the groups of the Smiths whose event times are given."""
    gone = rows((None, a_ts, None, p_ts))
    table.upsert(gone.append_column("_hoodie_is_deleted", pa.array([True])))


@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize("kind", [*NO_DELETES_KEPT, "kept"])
def test_groups_deleted_one_after_the_other_leave_no_row(kind: str, compacts: bool) -> None:
    """The row is gone with its last group, also where the first delete was not kept."""
    schema = f"{SMITH_SCHEMA}, _hoodie_is_deleted boolean"
    table = smiths("per_group", schema=schema, **NO_DELETES_KEPT.get(kind, {}))
    upsert(table, ("Mike", 1, "C", 1))
    delete_groups(table, 5, None)
    if compacts and kind != "copy-on-write":
        table.compact()
    assert shown(table) == [(None, 5, "C", 1)]
    delete_groups(table, None, 5)
    for mode in ("snapshot", "read_optimized") if kind == "copy-on-write" else ("snapshot",):
        assert shown(table, mode) == []
    assert table.scan(columns=["id"]).to_arrow().num_rows == 0
    if kind != "copy-on-write":
        table.compact()
        assert shown(table) == shown(table, "read_optimized") == []


@pytest.mark.parametrize("kind", NO_DELETES_KEPT)
def test_rows_of_nulls_go_with_a_delete_where_none_is_kept(kind: str) -> None:
    """A record of nulls is a row; a delete that leaves nothing but nulls ends it, and a later record brings it back."""
    schema = f"{SMITH_SCHEMA}, _hoodie_is_deleted boolean"
    table = smiths("per_group", schema=schema, **NO_DELETES_KEPT[kind])
    upsert(table, (None, 1, "C", 1))
    upsert(table, (None, None, None, 2))
    assert shown(table) == [(None, 1, None, 2)]
    delete_groups(table, 0, None)  # older than what it meets
    assert shown(table) == [(None, 1, None, 2)]
    delete_groups(table, 3, None)
    assert shown(table) == []
    upsert(table, ("Al", 4, None, 4))
    assert shown(table) == [("Al", 4, None, 4)]
