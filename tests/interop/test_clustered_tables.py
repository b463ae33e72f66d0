"""Clustered tables of ours, read by hudi-rs; and plans that Apache Hudi made, carried out by us."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hudi import HudiReadOptions, HudiTable

import tidelake as tl
from interop.test_hudi_rs_reads_ours import rows_of
from model.write_oracle import multiset
from small_rows import rows
from tidelake.write.transaction import Commit

BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}


@pytest.mark.parametrize("options", [{}, BUCKETS], ids=["simple", "bucket"])
@pytest.mark.parametrize("kind", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_hudi_rs_reads_a_clustered_table_equal(kind: str, options: dict[str, str], tmp_path: Path) -> None:
    """Now, before the clustering, and after a write on top of it."""
    made = tl.create_table(
        str(tmp_path / "t"),
        "id bigint, name string, ts bigint, day string",
        record_key="id",
        partition_by="day",
        ordering_fields="ts",
        table_type=kind,
        options=options,
    )
    for start in (0, 10):
        made.bulk_insert(rows(*((at, f"n{at * 7 % 13}", at) for at in range(start, start + 10))))
    made.upsert(rows((3, "late", 1), (4, "newer", 99)))
    last = made.delete([5])
    assert last is not None
    before = snapshot(made)
    done = made.cluster(sort_by=["name", "ts"], order="hilbert")
    assert isinstance(done, Commit)
    assert snapshot(made) == before
    assert rows_of(HudiTable(made.path).read()) == before
    read = HudiTable(made.path).read(HudiReadOptions().with_as_of_timestamp(last.requested_time))
    assert rows_of(read) == before
    made.upsert(rows((4, "last", 100), (77, "new", 1)))
    assert rows_of(HudiTable(made.path).read()) == snapshot(made) != before


@pytest.mark.parametrize("name", ["mor_v9_clustering_pending", "cow_v9_clustering_pending"])
def test_plan_that_apache_hudi_made_is_carried_out(name: str, golden: Callable[[str], Path], tmp_path: Path) -> None:
    """A clustering that Apache Hudi scheduled completes here, and changes no row."""
    path = tmp_path / name
    shutil.copytree(golden(name), path)
    table = tl.open_table(str(path))
    before = snapshot(table)
    (planned,) = table.clusterings()
    assert (planned.state, planned.is_ours) == ("REQUESTED", False)
    done = table.run_clustering()
    assert done is not None
    assert done.requested_time == planned.instant
    assert snapshot(table) == before
    assert rows_of(HudiTable(str(path)).read()) == before
    assert not table.timeline.pending


def snapshot(table: tl.Table) -> Counter[str]:
    """The rows, as the helpers of hudi-rs count them."""
    meta = [name for name in table.schema.names if name.startswith("_hoodie_")]
    return multiset(table.scan().to_arrow().drop_columns(meta).to_pylist())
