"""Tables of a global index, written by both engines in turn: a key stands once for both, wherever it moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.jvm.both import make, rows
from interop.jvm.hudi_client import Hudi

pytestmark = pytest.mark.hudi_jvm
GLOBAL = {"hoodie.index.type": "GLOBAL_SIMPLE"}


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_global_index_rows_moved_in_turns_read_equal(hudi: Hudi, tmp_path: Path, table_type: str) -> None:
    """What we moved, Apache Hudi reads once and moves on, and the other way round."""
    both = make(hudi, tmp_path / "t", GLOBAL, table_type=table_type, partition_by="day", ordering_fields="ts")
    both.write_options.update(GLOBAL)
    both.ours.upsert(rows((1, "a", 1), (2, "b", 1), (3, "c", 5)))
    both.ours.upsert(rows((1, "a2", 2), (3, "late", 4), days=("x", "y")))
    both.check_snapshot()
    assert both.state() == {1: "a2", 2: "b", 3: "c"}
    both.theirs(rows((1, "a3", 3), (2, "b3", 3), days=("z",)))
    both.check_snapshot()
    assert both.state() == {1: "a3", 2: "b3", 3: "c"}
    both.ours.upsert(rows((1, "a4", 4), (2, "late", 2), (3, "c6", 6)))
    both.ours.delete([2])
    both.check_snapshot()
    assert both.state() == {1: "a4", 3: "c6"}
    both.theirs(rows((1, "a5", 5), (2, "b5", 5), days=("y",)))
    both.check_snapshot()
    assert both.state() == {1: "a5", 2: "b5", 3: "c6"}
