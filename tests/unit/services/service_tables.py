"""Tables in memory that tests of services share."""

from __future__ import annotations

from typing import Any

import tidelake as tl
from tidelake.storage import MemoryStorage, Storage
from tidelake.testing import ManualClock

SCHEMA = "id bigint, name string, ts bigint, day string"
GLOBAL = {"hoodie.index.type": "GLOBAL_SIMPLE"}
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
EXPIRED_S = 600.0


class World:
    """A table in memory and its clock; every call opens the table anew, as another process would."""

    def __init__(self, options: dict[str, str] | None = None, **how: Any) -> None:
        self.clock = ManualClock(seed=1)
        self.storage = MemoryStorage(clock=self.clock)
        given: dict[str, Any] = {"partition_by": "day", "ordering_fields": "ts", **how}
        tl.create_table(
            "memory", SCHEMA, name="services", options=options, storage=self.storage, clock=self.clock, **given
        )

    def open(self, storage: Storage | None = None) -> tl.Table:
        return tl.open_table("memory", storage=storage or self.storage, clock=self.clock)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """What a snapshot shows, by key."""
        return rows_of(self.open())


def rows_of(table: tl.Table, mode: str = "snapshot") -> list[tuple[Any, ...]]:
    """The rows with the instant that wrote each, by key."""
    columns = ["id", "name", "ts", "day", "_hoodie_commit_time"]
    found = table.scan(columns=columns, mode=mode).to_arrow().to_pylist()
    return sorted(tuple(row[name] for name in columns) for row in found)
