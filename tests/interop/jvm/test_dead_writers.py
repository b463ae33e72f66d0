"""Writers that die: whoever comes next, we or Apache Hudi, takes the dead write back by its markers and leaves no orphan."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import tidelake as tl
from interop.jvm.both import Both, make, rows
from interop.jvm.hudi_client import Hudi, HudiError
from tidelake.index import simple
from tidelake.index.key_cache import KeyCache
from tidelake.storage import LocalStorage
from tidelake.testing import Fault, FaultyStorage, SimulatedCrash

pytestmark = pytest.mark.hudi_jvm

EXPIRED_S = 600
BATCH = rows((1, "dead", 50), (2, "dead", 50), (30, "dead", 50))
LAZY = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.clean.automatic": "true",
}
EAGER = {"hoodie.clean.failed.writes.policy": "EAGER"}


@pytest.fixture(autouse=True)
def _no_keys_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations are counted on a copy of the table: keys that the process keeps of the table itself would spoil it."""
    monkeypatch.setattr(simple, "KEPT", KeyCache(0))


def table_of(hudi: Hudi, path: Path, table_type: str) -> Both:
    both = make(hudi, path, table_type=table_type, partition_by="day", ordering_fields="ts")
    both.ours.upsert(rows(*((i, f"first {i}", 10) for i in range(6))))
    return both


def die_writing(path: Path, scratch: Path, kind: str, operation: str = "upsert") -> str:
    """Crash a writer of ours, within its second data file or just before its commit; returns its instant."""
    copy = scratch / "copy"
    shutil.copytree(path, copy)
    counted = FaultyStorage(LocalStorage(copy))
    getattr(tl.open_table(str(copy), storage=counted), operation)(BATCH)
    commit = next(o.number for o in counted.journal if o.verb == "put_if_match")
    data = [o.number for o in counted.journal if o.verb == "put" and not o.path.startswith(".hoodie/")]
    fault = Fault(data[1], "tear") if kind == "torn file" else Fault(commit, "crash_before")
    with pytest.raises(SimulatedCrash):
        getattr(tl.open_table(str(path), storage=FaultyStorage(LocalStorage(path), [fault])), operation)(BATCH)
    (pending,) = tl.open_table(str(path)).timeline.pending
    return pending.requested_time


def expire(path: Path, instant: str) -> None:
    """Make the last sign of life of an instant's writer an old one."""
    signs = [path / ".hoodie" / ".heartbeat" / instant, *(path / ".hoodie" / "timeline").glob(f"{instant}.*")]
    for sign in signs:
        if sign.exists():
            old = sign.stat().st_mtime - EXPIRED_S
            os.utime(sign, (old, old))


def traces(path: Path, instant: str) -> list[str]:
    """Every file that still belongs to an instant: data, markers, heartbeat, staged bytes."""
    found = (file for file in path.rglob("*") if file.is_file() and not file.name.endswith(".crc"))
    return sorted(
        name for name in (str(f.relative_to(path)) for f in found) if instant in name and "/timeline/" not in name
    )


@pytest.mark.parametrize(
    "next_writer, table_type, kind, operation",
    [
        ("apache lazy", "MERGE_ON_READ", "torn file", "upsert"),
        ("apache lazy", "COPY_ON_WRITE", "before commit", "upsert"),
        ("apache lazy", "MERGE_ON_READ", "before commit", "insert_overwrite"),
        ("apache eager", "MERGE_ON_READ", "before commit", "upsert"),
        ("ours", "MERGE_ON_READ", "torn file", "upsert"),
        ("ours", "COPY_ON_WRITE", "before commit", "upsert"),
    ],
)
def test_dead_writer_of_ours_is_taken_back_without_orphans(
    hudi: Hudi, tmp_path: Path, next_writer: str, table_type: str, kind: str, operation: str
) -> None:
    """The next writer of either engine removes the dead write's files, and its own rows are there for both."""
    both = table_of(hudi, tmp_path / "table", table_type)
    dead = die_writing(both.path, tmp_path, kind, operation)
    assert traces(both.path, dead)
    both.check_snapshot()
    if next_writer != "apache eager":
        expire(both.path, dead)
    batch = rows((1, "next", 60), (40, "next", 1))
    if next_writer == "ours":
        both.ours.upsert(batch)
    else:
        hudi.write(both.path, batch, "upsert", LAZY if next_writer == "apache lazy" else EAGER)
    # Apache Hudi does not know what we have staged (our next turn removes it), and its EAGER rollback keeps heartbeats.
    unknown = {"ours": (), "apache lazy": (".hoodie/.tidelake/",)}.get(
        next_writer, (".hoodie/.tidelake/", ".hoodie/.hea")
    )
    assert [name for name in traces(both.path, dead) if not name.startswith(unknown)] == []
    assert not both.ours.timeline.pending
    assert both.state() == {**{i: f"first {i}" for i in range(6)}, 1: "next", 40: "next"}
    both.check()
    both.ours.upsert(rows((1, "after", 70)))
    assert [name for name in traces(both.path, dead) if not name.startswith(".hoodie/.heartbeat/")] == []
    both.theirs(rows((2, "after", 70)))
    assert both.state() == {**{i: f"first {i}" for i in range(6)}, 1: "after", 2: "after", 40: "next"}
    both.check()


def test_living_writer_of_ours_is_left_alone_by_a_lazy_writer(hudi: Hudi, tmp_path: Path) -> None:
    """A fresh heartbeat keeps Apache Hudi's LAZY rollback away from our files."""
    both = table_of(hudi, tmp_path / "table", "MERGE_ON_READ")
    living = die_writing(both.path, tmp_path, "before commit")
    before = traces(both.path, living)
    hudi.write(both.path, rows((40, "next", 1)), "upsert", LAZY)
    assert traces(both.path, living) == before


@pytest.mark.parametrize("markers", ["DIRECT", "TIMELINE_SERVER_BASED"])
def test_dead_writer_of_theirs_is_taken_back_by_ours(hudi: Hudi, tmp_path: Path, markers: str) -> None:
    """A write of Apache Hudi that failed before its commit is rolled back by our next writer, by either kind of marker."""
    both = table_of(hudi, tmp_path / "table", "MERGE_ON_READ")
    failing = {
        **LAZY,
        "hoodie.write.markers.type": markers,
        "hoodie.embed.timeline.server": "true",
        "hoodie.precommit.validators": "org.apache.hudi.client.validator.SqlQuerySingleResultPreCommitValidator",
        "hoodie.precommit.validators.single.value.sql.queries": "select count(*) from <TABLE_NAME>#-1",
    }
    with pytest.raises(HudiError):
        hudi.write(both.path, BATCH, "upsert", failing)
    (pending,) = both.ours.timeline.pending
    dead = pending.requested_time
    assert [t for t in traces(both.path, dead) if not t.startswith(".hoodie")]
    expire(both.path, dead)
    both.ours.upsert(rows((1, "next", 60)))
    assert traces(both.path, dead) == []
    assert not both.ours.timeline.pending
    assert both.state() == {**{i: f"first {i}" for i in range(6)}, 1: "next"}
    both.theirs(rows((2, "after", 70)), hoodie__metadata__enable="true")
    both.check(options={})
