"""What makes no sense to completion, signals, durations and mergers is refused by an error that says what was given."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake.errors import OptionError
from tidelake.testing import MemoryStorage
from unit.observe.event_tables import EventWorld

CLOCKS = {
    "multiple.eventime.latest.verification.enable": "true",
    "hoodie.eventime.latest.verification.fields": "a,b",
    "hoodie.eventime.latest.verification.mode": "custom",
    "hoodie.eventime.latest.verification.merger": "fails",
}


@pytest.mark.parametrize("timeout", [float("nan"), "x", None, True])
def test_wait_for_no_number_of_seconds_is_refused(timeout: Any) -> None:
    with pytest.raises(tl.InvalidError, match="timeout_s"):
        EventWorld().open().wait_complete("2026-01-02T00:00:00Z", timeout_s=timeout)


@pytest.mark.parametrize(
    "how",
    [
        {"marker": 5},
        {"webhook": 5},
        {"webhook": "http://[bad"},
        {"webhook": "http://"},
        {"webhook": "http://x:port/"},
        {"marker": "_SUCCESS", "partition": 5},
    ],
)
def test_signal_to_nobody_is_refused(how: dict[str, Any]) -> None:
    with pytest.raises(tl.InvalidError):
        EventWorld().open().signal_complete("2026-01-01T00:00:00Z", **how)


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.compaction.event.time.delay",
        "hoodie.compaction.event.time.lag",
        "hoodie.compaction.event.time.lateness",
    ],
)
def test_duration_of_more_than_a_hundred_years_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match="36500d"):
        EventWorld().open().compact(strategy="event_time", options={name: "99999999999d"})


def test_deletes_are_not_kept_for_more_than_a_hundred_years() -> None:
    with pytest.raises((tl.InvalidError, OptionError), match="36500d"):
        EventWorld({"tombstone.retention": "99999999999999d"})


@pytest.mark.parametrize("name", [5, None, "", " x"])
def test_merger_without_a_name_is_refused(name: Any) -> None:
    with pytest.raises(tl.InvalidError, match="cannot name a merger"):
        tl.register_merger(name, type("M", (), {"merge": lambda *_: None}))


@pytest.mark.parametrize("act", [lambda t: t.scan().to_arrow(), lambda t: t.compact()])
def test_merger_that_fails_is_told_by_its_name(act: Callable[[tl.Table], object]) -> None:
    class Fails:
        def merge(self, stored: pa.Table, incoming: pa.Table) -> pa.Table:
            raise KeyError("no such thing")

    class Works:
        def merge(self, stored: pa.Table, incoming: pa.Table) -> pa.Table:
            return incoming.drop_columns([name for name in incoming.column_names if name not in stored.column_names])

    tl.register_merger("fails", Works)
    table = tl.create_table(
        "memory", "id string, v string, a bigint, b bigint", record_key="id", options=CLOCKS, storage=MemoryStorage()
    )
    row = pa.table({"id": ["1"], "v": ["x"], "a": [1], "b": [1]})
    table.upsert(row)
    table.upsert(row)
    tl.register_merger("fails", Fails)
    with pytest.raises(tl.InvalidError, match=r"the merger 'fails' failed: KeyError"):
        act(table)


def test_the_package_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "tidelake", "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "usage: tidelake" in done.stdout
