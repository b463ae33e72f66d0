"""``tidelake rollback``: pending writes at once, completed ones with --yes, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tidelake as tl


@pytest.fixture
def table(tmp_path: Path) -> tl.Table:
    made = tl.create_table(str(tmp_path / "trips"), "id bigint")
    made.insert(pa.table({"id": [1]}))
    made.insert(pa.table({"id": [2]}))
    return made


def test_rollback_of_a_completed_write_needs_yes(tidelake, table):
    """Without --yes nothing is changed and the way is told; with it the rows are gone."""
    last = table.timeline.completed_writes[-1].requested_time
    ran = tidelake("rollback", table.path, last)
    assert ran.code == 1
    assert last in ran.err
    assert "--yes" in ran.err
    assert table.scan().count() == 2
    ran = tidelake("rollback", table.path, last, "--yes")
    assert (ran.code, ran.err) == (0, "")
    assert f"{last}, which was completed, is rolled back by " in ran.out
    assert table.scan().to_arrow()["id"].to_pylist() == [1]


def test_rollback_of_a_pending_write_needs_no_yes(tidelake, golden):
    """A write that Apache Hudi left behind is taken back; the JSON form says by which rollback."""
    path = golden("cow_v9_inflight")
    pending = tl.open_table(path).timeline.pending[0].requested_time
    rows = tl.open_table(path).scan().count()
    done = tidelake("rollback", path, pending, "--format", "json").json()
    assert (done["instant"], done["was_completed"]) == (pending, False)
    timeline = tl.open_table(path).timeline
    assert not timeline.pending
    assert [i.requested_time for i in timeline.of_action("rollback")] == [done["rollback"]]
    assert tl.open_table(path).scan().count() == rows


def test_rollback_that_is_refused_says_why(tidelake, table):
    """A write that is not the last, no write at all, and a wrong option: one sentence, exit code 1."""
    first, last = (i.requested_time for i in table.timeline.completed_writes)
    ran = tidelake("rollback", table.path, first, "--yes")
    assert ran.code == 1
    assert last in ran.err
    assert tidelake("rollback", table.path, "20200101000000000").code == 1
    ran = tidelake("rollback", table.path, last, "--yes", "--option", "hoodie.write.lock.provider=nonsense")
    assert ran.code == 1
    assert "nonsense" in ran.err
    assert tidelake("rollback", table.path).code == 2
    assert table.scan().count() == 2
