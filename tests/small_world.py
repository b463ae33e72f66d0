"""A small table in memory for tests of services."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import tidelake as tl
from small_rows import rows
from tidelake.storage import FaultyStorage, MemoryStorage
from tidelake.testing import ManualClock

SCHEMA = "id bigint, name string, ts bigint, day string"
COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"


@dataclass
class World:
    """A table in memory; ids that are even lie in the partition d0, odd ones in d1."""

    clock: ManualClock = field(default_factory=ManualClock)
    table_type: str = COW
    options: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.storage = MemoryStorage(clock=self.clock)
        self.table = tl.create_table(
            "memory",
            SCHEMA,
            name="cleaned",
            partition_by="day",
            table_type=self.table_type,
            options=self.options,
            storage=self.storage,
            clock=self.clock,
        )

    def upsert(self, *ids: int, advance_s: float = 60) -> str:
        """A commit of its own minute; returns its instant."""
        self.clock.advance(advance_s)
        now = self.clock.now_ms()
        return self.table.upsert(rows(*((id, f"at {now}", now) for id in ids))).requested_time

    def open(self, storage: object = None, **options: str) -> tl.Table:
        return tl.open_table("memory", storage=storage or self.storage, clock=self.clock, options=options)

    @property
    def files(self) -> set[str]:
        names = (info.path for info in self.storage.list_files() if not info.path.startswith(".hoodie"))
        return {path for path in names if path.endswith(".parquet") or ".log." in path}

    @property
    def instants_on_storage(self) -> list[str]:
        """The instants that the base files carry."""
        return sorted(
            path.rpartition("_")[2].removesuffix(".parquet") for path in self.files if path.endswith(".parquet")
        )

    def rows(self, **point: str) -> dict[int, str]:
        found = self.open().scan(columns=["id", "name"], **point).to_arrow().to_pylist()
        return {row["id"]: row["name"] for row in found}

    def names(self) -> set[str]:
        return {info.path for info in self.storage.list_files(".hoodie/timeline")}


def counted(world: World) -> tuple[tl.Table, Callable[[], list[str]]]:
    """The table through a storage that writes down which folders were listed."""
    seen = FaultyStorage(world.storage, clock=world.clock)
    table = world.open(seen)
    begun = len(seen.journal)

    def listed() -> list[str]:
        listings = [o.path for o in seen.journal[begun:] if o.verb.startswith("list")]
        return [path for path in listings if not path.startswith(".hoodie")]

    return table, listed
