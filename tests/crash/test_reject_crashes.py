"""Rejected records on the side: each once, with its reason and both vectors, whatever the writer dies of."""

from __future__ import annotations

import json
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
from tidelake.errors import UnavailableError
from tidelake.storage import Fault, FaultyStorage, MemoryStorage, SimulatedCrash, Storage
from tidelake.testing import ManualClock
from tidelake.write import rejects

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


def acted(kind: str, folder: Path) -> tuple[MemoryStorage, ManualClock, str, str]:
    """A table that rejected a record: also the savepoint from before, and what rejected it."""
    storage, clock = begun(kind, folder)
    table = tl.open_table("memory", storage=storage, clock=clock)
    saved = table.savepoint()
    act(table, kind)
    assert len(kept(folder)) == 1
    return storage, clock, saved.instant, table.timeline.completed_writes[-1].requested_time


def counted_in(table: tl.Table) -> int:
    """How many records the commits of the timeline say were rejected."""
    source = table._refreshed()
    told = [source.reader.commit(i).extra_metadata or {} for i in source.timeline.completed_writes]
    return sum(sum(json.loads(extra.get("tidelake.rejected", "{}")).values()) for extra in told)


def take_back(table: tl.Table, how: str, saved: str, last: str) -> None:
    if how == "restore":
        table.restore(saved)
    else:
        table.rollback(last)


UNDONE = [(kind, "restore") for kind in HOW] + [("copy-on-write", "rollback"), ("eager", "rollback")]


@pytest.mark.parametrize(("kind", "how"), UNDONE)
def test_rejected_records_go_with_what_rejected_them(kind: str, how: str, tmp_path: Path) -> None:
    """Taken back they are not kept any more, and the second time they are kept once."""
    storage, clock, saved, last = acted(kind, tmp_path)
    table = tl.open_table("memory", storage=storage, clock=clock)
    take_back(table, how, saved, last)
    assert kept(tmp_path) == []
    act(table, kind)
    (row,) = kept(tmp_path)
    assert row["commit"] in {i.requested_time for i in table.timeline.completed_writes}


@pytest.mark.parametrize(("kind", "how"), UNDONE)
def test_rejected_records_are_kept_once_after_a_crash_of_what_takes_them_back(
    kind: str, how: str, tmp_path: Path
) -> None:
    """Dead at any storage operation, then finished by the next writer: the folder has what the commits that are there counted."""
    storage, clock, saved, last = acted(kind, tmp_path / "counted")
    counted = FaultyStorage(storage, clock=clock)
    table = tl.open_table("memory", storage=counted, clock=clock)
    first = counted.operations
    take_back(table, how, saved, last)
    for number in range(first + 1, counted.operations + 1, STEP):
        folder = tmp_path / str(number)
        storage, clock, saved, last = acted(kind, folder)
        faulty = FaultyStorage(storage, clock=clock, faults=[Fault(number, "crash_after")])
        with suppress(SimulatedCrash):
            take_back(tl.open_table("memory", storage=faulty, clock=clock), how, saved, last)
        clock.advance(EXPIRED_S)
        again = tl.open_table("memory", storage=storage, clock=clock)
        upsert(again, ("Mike", 1, "C", 3))
        if kind == "compaction":
            again.compact()
        else:
            upsert(again, ("John", 2, "A", 1))
        found = kept(folder)
        assert len({(row["key"], row["commit"], row["seqno"]) for row in found}) == len(found) == counted_in(again), (
            number
        )
        assert {row["commit"] for row in found} <= {i.requested_time for i in again.timeline.completed_writes}


def test_rejected_records_go_when_the_folder_can_be_reached_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A restore is done without the folder, and the next write removes what was taken back."""
    storage, clock, saved, last = acted("compaction", tmp_path)
    table = tl.open_table("memory", storage=storage, clock=clock)

    def away(*_: object) -> Storage:
        raise UnavailableError("the folder is away")

    with monkeypatch.context() as patch:
        patch.setattr(rejects, "open_storage", away)
        take_back(table, "restore", saved, last)
    assert "wait for the folder" in caplog.text
    table.compact()
    assert [row["key"] for row in kept(tmp_path)] == ["smith"]
