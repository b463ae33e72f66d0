"""Apache Hudi's metadata table and our writes: what its default read sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.jvm.both import Both, make, rows
from interop.jvm.hudi_client import Hudi

pytestmark = pytest.mark.hudi_jvm

DEFAULT_READ: dict[str, str] = {}


@pytest.fixture
def both(hudi: Hudi, tmp_path: Path) -> Both:
    """A table on which Apache Hudi has just built its metadata table."""
    made = make(hudi, tmp_path / "table", partition_by="day", ordering_fields="ts")
    made.ours.upsert(rows(*((i, f"first {i}", 10) for i in range(6))))
    made.theirs(rows((1, "theirs", 20)), hoodie__metadata__enable="true")
    assert "files" in made.ours.config.properties["hoodie.table.metadata.partitions"]
    return made


def names(both: Both) -> dict[int, str]:
    """Ids and names as Apache Hudi reads them by default."""
    return {row["id"]: row["name"] for row in both.hudi.read(both.path, DEFAULT_READ)["rows"]}


def test_metadata_table_retired_default_read_sees_our_rows_again_and_again(both: Both) -> None:
    """Each write of ours retires the metadata table that Apache Hudi's last write built, and its default read is right."""
    for turn in range(2):
        both.ours.upsert(rows((1, f"ours {turn}", 100 + 2 * turn), (40 + turn, "new", 1)))
        both.check(options=DEFAULT_READ)
        both.theirs(rows((2, f"theirs {turn}", 101 + 2 * turn)), hoodie__metadata__enable="true")
        both.check(options=DEFAULT_READ)
    both.ours.insert_overwrite(rows((0, "over", 1)))
    both.ours.delete_partitions(["day=2026-01-03"])
    both.check(options=DEFAULT_READ)
    assert names(both) == {0: "over", 1: "ours 1", 4: "first 4", 40: "new"}


def test_metadata_table_left_in_place_default_read_misses_our_rows(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: without the retirement Apache Hudi's default read does not see our write, and this suite would."""
    monkeypatch.setattr("tidelake.write.transaction.retire_metadata_table", lambda *_: False)
    both.ours.upsert(rows((1, "ours", 100), (40, "new", 1)))
    assert names(both)[1] == "theirs"
    assert 40 not in names(both)
    with pytest.raises(AssertionError):
        both.check(options=DEFAULT_READ)
