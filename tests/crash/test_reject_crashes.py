"""Rejected records on the side: each once, with its reason and both vectors, whatever the writer dies of."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tidelake as tl
from clock_tables import rows, smiths, upsert
from crash.crash_points import EXPIRED_S
from model.deep import IS_DEEP
from model.one_thread import in_one_thread
from tidelake.storage import Fault, FaultyStorage, MemoryStorage, SimulatedCrash
from tidelake.testing import ManualClock

STEP = 1 if IS_DEEP else 4
HOW: dict[str, dict[str, Any]] = {
    "compaction": {},
    "copy-on-write": {"table_type": "COPY_ON_WRITE"},
    "eager": {"options": {"write.resolve": "eager"}},
}


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_thread(monkeypatch)


def begun(kind: str, folder: Path) -> tuple[MemoryStorage, ManualClock]:
    clock = ManualClock(seed=1)
    storage = MemoryStorage("rejects", clock=clock)
    how = HOW[kind]
    options = {**how.get("options", {}), "hoodie.eventime.latest.verification.rejects.path": str(folder)}
    table = smiths("all", storage=storage, clock=clock, **{**how, "options": options})
    upsert(table, ("Mike", 1, "C", 3))
    if kind == "compaction":
        upsert(table, ("John", 2, "A", 1))
    return storage, clock


def act(table: tl.Table, kind: str) -> None:
    """What rejects a record: a compaction, or the write itself."""
    if kind == "compaction":
        table.compact()
    else:
        table.upsert(rows(("John", 2, "A", 1)), txn=("app", 1))


def kept(folder: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize("kind", HOW)
def test_rejected_records_are_kept_with_reason_and_vectors(kind: str, tmp_path: Path) -> None:
    """The commit counts them, the folder has them."""
    storage, clock = begun(kind, tmp_path)
    table = tl.open_table("memory", storage=storage, clock=clock)
    act(table, kind)
    (row,) = kept(tmp_path)
    assert (row["key"], row["reason"]) == ("smith", "incomparable")
    assert row["incoming"] == {"a_ts": 2, "p_ts": 1}
    assert row["stored"] == {"a_ts": 1, "p_ts": 3}
    writes = table.timeline.completed_writes
    assert row["commit"] == writes[-1 if kind != "compaction" else -2].requested_time
    extra = table._refreshed().reader.commit(writes[-1]).extra_metadata or {}
    assert extra["tidelake.rejected"] == '{"incomparable": 1}'


@pytest.mark.parametrize("kind", HOW)
def test_rejected_records_are_kept_once_after_any_crash(kind: str, tmp_path: Path) -> None:
    """Dead at any storage operation, then done again: one record, of a commit that is there."""
    storage, clock = begun(kind, tmp_path / "counted")
    counted = FaultyStorage(storage, clock=clock)
    table = tl.open_table("memory", storage=counted, clock=clock)
    first = counted.operations
    act(table, kind)
    for number in range(first + 1, counted.operations + 1, STEP):
        folder = tmp_path / str(number)
        storage, clock = begun(kind, folder)
        faulty = FaultyStorage(storage, clock=clock, faults=[Fault(number, "crash_after")])
        with suppress(SimulatedCrash):
            act(tl.open_table("memory", storage=faulty, clock=clock), kind)
        clock.advance(EXPIRED_S)
        again = tl.open_table("memory", storage=storage, clock=clock)
        act(again, kind)
        upsert(again, ("Mike", 1, "C", 3))
        found = kept(folder)
        assert len({(row["key"], row["commit"], row["seqno"]) for row in found}) == len(found) == 1, number
        assert found[0]["commit"] in {i.requested_time for i in again.timeline.completed_writes}


@pytest.mark.parametrize("kind", HOW)
def test_rejected_records_wait_for_a_folder_that_cannot_be_reached(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The write or compaction is done, it is said, and the next one brings them."""
    folder = tmp_path / "taken" / "rejects"
    folder.parent.write_text("a file where a folder should be")
    storage, clock = begun(kind, folder)
    table = tl.open_table("memory", storage=storage, clock=clock)
    act(table, kind)
    assert "wait for the folder" in caplog.text
    folder.parent.unlink()
    upsert(table, ("John", 3, "C", 3))
    assert [row["key"] for row in kept(folder)] == ["smith"]
