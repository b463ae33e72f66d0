"""Both engines write at the same time, under the lock that both know."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import tidelake as tl
from interop.jvm.both import make, rows
from interop.jvm.hudi_client import Hudi
from tidelake.errors import UnavailableError

pytestmark = pytest.mark.hudi_jvm

PROVIDER = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
SHARED = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": PROVIDER,
    "hoodie.write.lock.wait_time_ms": "20000",
    "hoodie.write.lock.client.num_retries": "20",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "200",
}
OURS = {
    "hoodie.write.lock.provider": PROVIDER,
    "hoodie.write.lock.wait_time_ms": "60000",
    "hoodie.write.lock.wait_time_ms_between_retry": "20",
}


def test_writers_of_both_engines_at_once_lose_nothing(hudi: Hudi, tmp_path: Path) -> None:
    both = make(hudi, tmp_path / "table", partition_by="day", ordering_fields="ts")
    both.ours.upsert(rows(*((i, "first", 1) for i in range(30))))
    ended, written, failed = threading.Event(), [], []

    def ours() -> None:
        table = tl.open_table(str(both.path), options=OURS)
        number = 0
        try:
            while not ended.is_set():
                number += 1
                table.upsert(rows((1, f"ours {number}", number + 1), (1_000 + 3 * number + 1, "ours", 1)))
                written.append(number)
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=ours)
    thread.start()
    try:
        for number in range(1, 5):
            both.theirs(rows((3, f"theirs {number}", number + 1), (2_000 + 3 * number, "theirs", 1)), **SHARED)
    finally:
        ended.set()
        thread.join()
    assert not failed
    assert len(written) > 4
    expected = dict.fromkeys(range(30), "first") | {1: f"ours {written[-1]}", 3: "theirs 4"}
    expected |= {1_000 + 3 * n + 1: "ours" for n in written} | {2_000 + 3 * n: "theirs" for n in range(1, 5)}
    assert both.state() == expected
    times = [t for i in both.ours.timeline.instants for t in (i.requested_time, i.completion_time) if t]
    assert len(times) == len(set(times))
    assert not both.ours.timeline.pending
    assert not (both.path / ".hoodie" / "lock").exists()
    both.check()


def test_the_lock_of_apache_hudi_keeps_ours_waiting(hudi: Hudi, tmp_path: Path) -> None:
    """A lock file as Apache Hudi leaves it: empty."""
    both = make(hudi, tmp_path / "table", partition_by="day", ordering_fields="ts")
    (both.path / ".hoodie" / "lock").touch()
    impatient = {**OURS, "hoodie.write.lock.wait_time_ms": "100"}
    with pytest.raises(UnavailableError, match="lock"):
        tl.open_table(str(both.path), options=impatient).upsert(rows((1, "ours", 1)))
    (both.path / ".hoodie" / "lock").unlink()
    tl.open_table(str(both.path), options=impatient).upsert(rows((1, "ours", 1)))
    assert both.state() == {1: "ours"}
