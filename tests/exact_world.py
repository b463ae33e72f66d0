"""A small exact table in memory, or on disk, and exact plans published by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

import tidelake as tl
from tidelake._clock import SystemClock, utc_from_ms
from tidelake.format.event_marks import EventTimeMarks
from tidelake.format.names import State
from tidelake.format.plans import CompactionOperation, CompactionPlan
from tidelake.query import TableSource
from tidelake.services.kinds import MARK
from tidelake.storage import MemoryStorage, Storage
from tidelake.testing import ManualClock
from tidelake.timeline import Timeline
from tidelake.timeline.transitions import Publication, Published, Transitions
from tidelake.write import Commit

SCHEMA = "id bigint, name string, ts bigint, day string, `_hoodie_is_deleted` boolean"
OPTIONS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.payload.event.time.unit": "s",
    "hoodie.compaction.event.time.exact": "true",
}
Event = tuple[int, str, int] | tuple[int, str, int, bool]


def events(*entries: Event) -> pa.Table:
    """Rows of (id, name, ts) and, if they are deletes, True, in a day that follows from the id."""
    return pa.table(
        {
            "id": pa.array([e[0] for e in entries], pa.int64()),
            "name": pa.array([e[1] for e in entries], pa.string()),
            "ts": pa.array([e[2] for e in entries], pa.int64()),
            "day": pa.array([f"d{e[0] % 2}" for e in entries], pa.string()),
            "_hoodie_is_deleted": pa.array([len(e) > 3 and e[3] for e in entries], pa.bool_()),
        }
    )


def create_exact(storage: Storage, clock: ManualClock | None = None, path: str = "memory", **options: str) -> tl.Table:
    return tl.create_table(
        path,
        SCHEMA,
        name="exact",
        partition_by="day",
        ordering_fields="ts",
        event_time_field="ts",
        options={**OPTIONS, **options},
        storage=storage,
        clock=clock,
    )


@dataclass
class ExactWorld:
    """An exact table; ids that are even lie in the partition d0, odd ones in d1. Times are seconds."""

    clock: ManualClock = field(default_factory=ManualClock)
    options: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.storage: Storage = MemoryStorage(clock=self.clock)
        self.table = create_exact(self.storage, self.clock, **self.options)

    def open(self, storage: Storage | None = None) -> tl.Table:
        return tl.open_table("memory", storage=storage or self.storage, clock=self.clock)

    def upsert(self, *entries: Event) -> str:
        self.clock.advance(1)
        return self.table.upsert(events(*entries)).requested_time

    def plan(self, threshold_s: int) -> str | None:
        self.clock.advance(1)
        return plan_exact(self.storage, self.clock, threshold_s)

    def compact(self, threshold_s: int) -> Commit | None:
        planned = self.plan(threshold_s)
        return None if planned is None else self.open().run_compaction(planned)

    def schedule_and_run(self, threshold_s: int) -> Commit | None:
        """Compact by the strategy, when late data has waited long enough."""
        self.clock.advance(1200)
        done = self.open().compact(threshold=f"{utc_from_ms(threshold_s * 1000):%Y-%m-%dT%H:%M:%S}Z")
        assert done is None or isinstance(done, Commit)
        return done

    def files(self) -> set[str]:
        """The data files on storage."""
        names = (info.path for info in self.storage.list_files() if not info.path.startswith(".hoodie"))
        return {path for path in names if path.endswith(".parquet") or ".log." in path}

    def rows(self, mode: str = "snapshot") -> dict[int, tuple[str, int]]:
        return rows_of(self.open(), mode)


def rows_of(table: tl.Table, mode: str = "snapshot") -> dict[int, tuple[str, int]]:
    found = table.scan(columns=["id", "name", "ts"], mode=mode).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found), "a key stands twice"
    return {row["id"]: (row["name"], row["ts"]) for row in found}


def plan_exact(storage: Storage, clock: ManualClock | None, threshold_s: int, fields: str = "ts") -> str | None:
    """Publish a plan of every slice with logs, to be split at a time; its instant, None if there are no logs."""
    source = TableSource.load(storage)
    marks = EventTimeMarks(threshold_s * 1000, "FIXED", "COVERING", True, fields, "s", True)

    def decide(timeline: Timeline) -> Publication | Published:
        now = TableSource(storage, source.config, timeline, source.reader)
        chosen = [s for s in now.view().slices() if s.logs]
        operations = tuple(
            CompactionOperation(
                s.base_instant,
                tuple(str(log.name) for log in s.logs),
                None if s.base is None else str(s.base.name),
                s.file_id,
                s.partition_path,
                dict.fromkeys(METRICS, 0.0),
            )
            for s in chosen
        )
        if not operations:
            return Published("", None, "")
        left = tuple(sorted({s.partition_path for s in chosen}))  # in which logs may be left
        plan = CompactionPlan(operations, {MARK: "1", **marks.encode()}, 2, None, False, left)
        return Publication("compaction", State.REQUESTED, None, lambda _: plan.encode(bytes(16)))

    moves = Transitions(storage, source.config, clock or SystemClock())
    return moves.publish(decide).instant or None


METRICS = ("TOTAL_LOG_FILES", "TOTAL_IO_READ_MB", "TOTAL_LOG_FILES_SIZE", "TOTAL_IO_WRITE_MB", "TOTAL_IO_MB")
