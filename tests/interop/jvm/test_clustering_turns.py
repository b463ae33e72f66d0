"""Clustering by turns: each engine clusters, carries out the other's plan, and goes on writing what the other clustered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interop.jvm.both import make, rows
from interop.jvm.hudi_client import Hudi
from tidelake.errors import ConflictError
from tidelake.write.transaction import Commit

pytestmark = pytest.mark.hudi_jvm

TABLES: dict[str, dict[str, Any]] = {
    "mor": {"partition_by": "day", "ordering_fields": "ts"},
    "cow": {"table_type": "COPY_ON_WRITE", "partition_by": "day", "ordering_fields": "ts"},
}


@pytest.mark.parametrize("name", TABLES)
def test_clustering_by_turns_reads_equal_after_every_turn(hudi: Hudi, tmp_path: Path, name: str) -> None:
    """Rows are equal for both engines after a clustering of ours, of our plan by theirs, and of their plan by ours."""
    both = make(hudi, tmp_path / name, **TABLES[name])
    for start in (0, 10, 20):
        both.ours.bulk_insert(rows(*((i, f"n{i * 7 % 31}", 10) for i in range(start, start + 10))))
    both.ours.upsert(rows((1, "newer", 20), (2, "late", 5)))
    both.ours.delete([3])
    expected = both.state()

    assert isinstance(both.ours.cluster(sort_by=["name", "ts"], order="z-order"), Commit)
    assert both.state() == expected
    both.check()

    # Apache Hudi writes into the groups that we made, and finds their keys.
    both.theirs(rows((1, "theirs", 30), (2, "late again", 4), (40, "fresh", 1)), hoodie__index__type="BLOOM")
    expected |= {1: "theirs", 40: "fresh"}
    assert both.state() == expected
    both.check()

    # It carries out a plan of ours.
    both.ours.bulk_insert(rows((50, "m", 1), (51, "a", 1), (52, "z", 1)))
    expected |= {50: "m", 51: "a", 52: "z"}
    planned = both.ours.schedule_clustering(sort_by="name")
    assert planned is not None
    with pytest.raises(ConflictError, match="clustering"):
        both.ours.upsert(rows((1, "refused", 90)))
    call(both, f"op => 'execute', instants => '{planned}'")
    done = both.ours.timeline.by_time[planned]
    assert done.action == "replacecommit"
    assert both.state() == expected
    both.check()

    # We carry out a plan of its.
    both.theirs(rows((60, "q", 1), (61, "b", 1), (62, "y", 1)))
    expected |= {60: "q", 61: "b", 62: "y"}
    call(both, "op => 'schedule', order => 'name'")
    (pending,) = both.ours.timeline.pending
    assert pending.pending_action == "clustering"
    done = both.ours.run_clustering(pending.requested_time)
    assert isinstance(done, Commit)
    assert done.stats
    assert both.state() == expected
    both.check()

    # Both go on writing.
    both.theirs(rows((1, "last", 99), (70, "new", 1)))
    both.ours.upsert(rows((2, "last", 99), (71, "new", 1)))
    expected |= {1: "last", 70: "new", 2: "last", 71: "new"}
    assert both.state() == expected
    both.check()
    both.ours.cluster()
    assert both.state() == expected
    both.check_snapshot()


def test_withdrawn_and_rolled_back_plans_leave_apache_hudi_a_working_table(hudi: Hudi, tmp_path: Path) -> None:
    """A plan of ours that was withdrawn is gone for it too; one that we rolled back it carries out."""
    both = make(hudi, tmp_path / "mor", **TABLES["mor"])
    both.ours.bulk_insert(rows(*((i, "a", 10) for i in range(9))))
    both.ours.bulk_insert(rows(*((i, "a", 10) for i in range(10, 19))))
    first = both.ours.schedule_clustering()
    assert first is not None
    both.ours.withdraw_clustering(first)
    both.theirs(rows((1, "theirs", 30)))
    assert both.state()[1] == "theirs"
    second = both.ours.schedule_clustering()
    assert second is not None
    both.ours.rollback(second)
    before = both.state()
    call(both, f"op => 'execute', instants => '{second}'")
    assert second in both.ours.timeline.by_time
    assert both.state() == before
    both.check()


def call(both: Any, arguments: str) -> None:
    """Let Apache Hudi run its clustering procedure."""
    both.sql(f"CALL run_clustering(table => '{{t}}', {arguments})")
