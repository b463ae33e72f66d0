"""Tables with event times, in memory, that tests of completion and freshness share."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

import tidelake as tl
from tidelake.format.commit_metadata import CommitMetadata
from tidelake.query import TableSource
from tidelake.storage import MemoryStorage, Storage
from tidelake.testing import ManualClock

SCHEMA = "id bigint, name string, ts bigint, day string"
DAY_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""
MINUTE_MS = 60_000


def at(text: str) -> int:
    """An hour and minute of the first day, in milliseconds: ``at("09:30")``."""
    hours, minutes = text.split(":")
    return DAY_MS + (int(hours) * 60 + int(minutes)) * MINUTE_MS


def events(*entries: tuple[int, str | int | None]) -> pa.Table:
    """Rows of (id, event time); even ids lie in the partition day=d0, odd ones in day=d1."""
    times = [at(time) if isinstance(time, str) else time for _, time in entries]
    ids = [id for id, _ in entries]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": pa.array([f"{id} at {time}" for id, time in entries], pa.string()),
            "ts": pa.array(times, pa.int64()),
            "day": pa.array([f"d{id % 2}" for id in ids], pa.string()),
        }
    )


class EventWorld:
    """A table with the event-time field ``ts``; every call opens it anew."""

    def __init__(self, options: Mapping[str, str] | None = None, *, storage: Storage | None = None, **how: Any) -> None:
        self.clock = ManualClock(datetime(2026, 1, 1, 10, 30, tzinfo=timezone.utc), seed=1)
        self.storage = storage or MemoryStorage(clock=self.clock)
        given: dict[str, Any] = {"partition_by": "day", "ordering_fields": "ts", "event_time_field": "ts", **how}
        own = {"hoodie.payload.event.time.unit": "ms"} if given["event_time_field"] else {}
        tl.create_table(
            "memory",
            SCHEMA,
            name="events",
            options={**own, **(options or {})},
            storage=self.storage,
            clock=self.clock,
            **given,
        )

    def open(self, storage: Storage | None = None, **options: str) -> tl.Table:
        return tl.open_table("memory", storage=storage or self.storage, clock=self.clock, options=options)

    def upsert(self, *entries: tuple[int, str | int | None], **how: Any) -> str:
        """A commit of its own minute; returns its instant."""
        self.clock.advance(60)
        return self.open().upsert(events(*entries), **how).requested_time

    def last_commit(self) -> CommitMetadata:
        source = TableSource.load(self.storage)
        newest = max(source.timeline.completed_writes, key=lambda i: i.completion_time or "")
        return source.reader.commit(newest)

    def stored(self) -> dict[str, int]:
        """What the last commit stores of completion and freshness."""
        extra = self.last_commit().extra_metadata or {}
        return {key: int(value) for key, value in extra.items() if key.startswith(("tidelake.rt.", "tidelake.ro."))}

    def recomputed(self) -> dict[str, int]:
        """The same, worked out anew."""
        report = self.open().freshness()
        found = {}
        for name, view in (("rt", report.rt), ("ro", report.ro)):
            found[f"tidelake.{name}.completion"] = view.completion_ms
            found[f"tidelake.{name}.freshness"] = view.freshness_ms
            found[f"tidelake.{name}.completion.hwm"] = view.completion_hwm_ms
            found[f"tidelake.{name}.freshness.hwm"] = view.freshness_hwm_ms
        return {key: value for key, value in found.items() if value is not None}
