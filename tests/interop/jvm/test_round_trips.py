"""We write, Apache Hudi reads and writes, we read and write, it reads again: the same rows for both after every turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interop.jvm.both import DAYS, Both, Entry, make, rows
from interop.jvm.hudi_client import Hudi

pytestmark = pytest.mark.hudi_jvm

NASTY_DAYS = ("a/b=c", '50% "off"?', "ünï cödé: #1")
DEFAULT_READ: dict[str, str] = {}
"""Apache Hudi's own default: believe the metadata table, if the table's properties name one."""

TABLES: dict[str, dict[str, Any]] = {
    "mor_parquet_logs": {"partition_by": "day", "ordering_fields": "ts", "event_time_field": "at"},
    "mor_avro_logs": {"ordering_fields": "ts", "options": {"hoodie.logfile.data.block.format": "avro"}},
    "cow_two_columns": {
        "table_type": "COPY_ON_WRITE",
        "partition_by": ["day", "kind"],
        "ordering_fields": "ts",
        "options": {"hoodie.datasource.write.partitionpath.urlencode": "true"},
    },
    "mor_version_8": {"partition_by": "day", "ordering_fields": "ts", "options": {"hoodie.table.version": "8"}},
    "cow_commit_time": {"table_type": "COPY_ON_WRITE", "partition_by": "day"},
}


class Model:
    """What a table must hold: id to (name, ts)."""

    def __init__(self, by_event_time: bool) -> None:
        self.by_event_time = by_event_time
        self.rows: dict[int, tuple[str | None, int]] = {}

    def upsert(self, *entries: Entry) -> tuple[Entry, ...]:
        """Merge rows; returns them."""
        for key, name, ts in entries:
            if not (self.by_event_time and key in self.rows and self.rows[key][1] > ts):
                self.rows[key] = (name, ts)
        return entries

    def drop(self, *keys: int) -> list[int]:
        """Delete rows; returns their keys."""
        for key in keys:
            self.rows.pop(key, None)
        return list(keys)

    @property
    def names(self) -> dict[int, str | None]:
        return {key: name for key, (name, _) in self.rows.items()}


@pytest.mark.parametrize("name", TABLES)
def test_table_written_in_turns_reads_equal_after_every_turn(hudi: Hudi, tmp_path: Path, name: str) -> None:
    """Both engines read the same rows, and the right ones, after each turn of either."""
    how = dict(TABLES[name])
    both = make(hudi, tmp_path / name, how.pop("options", None), **how)
    days = NASTY_DAYS if both.ours.config.url_encoded else DAYS
    model = Model("ordering_fields" in how)

    both.ours.upsert(rows(*model.upsert(*((i, f"first {i}", 10) for i in range(12))), days=days))
    both.ours.upsert(rows(*model.upsert((1, "newer", 20), (2, "late", 5), (20, None, 1)), days=days))
    both.ours.delete(model.drop(3))
    agree(both, model)

    late_index = {"hoodie__index__type": "BLOOM"}  # asks our bloom filters
    both.theirs(rows(*model.upsert((1, "theirs", 30), (2, "late again", 4), (30, "fresh", 1)), days=days), **late_index)
    model.drop(4)
    both.theirs(rows((4, None, 50), days=days), "delete")
    both.sql("UPDATE {t} SET name = 'by sql', ts = 60 WHERE id = 6")
    model.upsert((6, "by sql", 60))
    both.sql("DELETE FROM {t} WHERE id = 7")
    model.drop(7)
    agree(both, model)

    both.ours.upsert(rows(*model.upsert((6, "late", 59), (7, "back", 70), (41, "new", 1)), days=days, note="ours"))
    both.ours.delete(model.drop(30))
    agree(both, model)

    if both.is_merge_on_read:
        hudi.compact(both.path)
    both.theirs(rows(*model.upsert((1, "with note", 80), (42, "new", 1)), days=days, note="theirs"))
    hudi.clean(both.path)
    assert both.ours.timeline.of_action("clean"), "Apache Hudi cleaned nothing"
    agree(both, model)

    after_replace(both, model, days)
    assert both.ours.config.properties["hoodie.table.version"] == both.write_options["hoodie.write.table.version"]


def test_copy_on_write_file_emptied_by_ours_is_written_to_by_their_bloom_index(hudi: Hudi, tmp_path: Path) -> None:
    """A base file whose last row we deleted does not stop a writer that asks bloom filters."""
    both = make(hudi, tmp_path / "emptied", table_type="COPY_ON_WRITE", ordering_fields="ts")
    both.ours.upsert(rows((1, "gone", 1)))
    both.ours.delete([1])
    both.check()
    both.theirs(rows((1, "back", 2), (2, "new", 1)), hoodie__index__type="BLOOM")
    assert both.state() == {1: "back", 2: "new"}
    both.check()


def test_late_row_after_a_delete_brings_the_base_row_back_in_both_engines(hudi: Hudi, tmp_path: Path) -> None:
    """Apache Hudi's merge is followed where it surprises: an unconditional delete, then a row older than the base's."""
    both = make(hudi, tmp_path / "late", ordering_fields="ts")
    both.ours.upsert(rows((8, "base", 40)))
    both.sql("DELETE FROM {t} WHERE id = 8")
    assert both.state() == {}
    both.theirs(rows((8, "late", 35)))
    assert both.state() == {8: "base"}
    both.check()


def after_replace(both: Both, model: Model, days: tuple[str, ...]) -> None:
    """The second half: overwrites of ours, then a writer of theirs with a metadata table, and ours upon it."""
    first = both.ours.scan(columns=["_hoodie_partition_path"], filter="id = 0").to_arrow()[0][0].as_py()
    gone = [k for k in model.rows if not first or (k % 3 == 0 and (k % 2 == 0 or "kind=" not in first))]
    model.drop(*gone)
    both.ours.insert_overwrite(rows(*model.upsert((0, "overwritten", 1), (60, "overwritten", 1)), days=days, note="o"))
    if both.ours.config.is_partitioned:
        path = both.ours.scan(columns=["_hoodie_partition_path"], filter="id = 1").to_arrow()[0][0].as_py()
        both.ours.delete_partitions([path])
        model.drop(*(k for k in list(model.rows) if k % 3 == 1 and (k % 2 == 1 or "kind=" not in path)))
    agree(both, model)

    metadata = {"hoodie__metadata__enable": "true"}
    both.theirs(rows(*model.upsert((0, "again", 90), (1, "again", 90)), days=days, note="m"), **metadata)
    assert "files" in both.ours.config.properties["hoodie.table.metadata.partitions"]
    agree(both, model, DEFAULT_READ)

    both.ours.upsert(rows(*model.upsert((0, "last", 100), (61, "last", 1)), days=days))
    assert not both.ours.config.properties["hoodie.table.metadata.partitions"]
    agree(both, model, DEFAULT_READ)


def agree(both: Both, model: Model, options: dict[str, str] | None = None) -> None:
    """Both read the same, and it is what the model says."""
    assert both.state() == model.names
    both.check(**({} if options is None else {"options": options}))
