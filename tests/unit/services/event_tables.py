"""Tables with an event time, on a clock that is told the time of day, that tests of event-time compaction share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

import tidelake as tl
from tidelake.config import is_service_option
from tidelake.format.event_marks import EventTimeMarks, decode_event_marks
from tidelake.format.plans import CompactionPlan, EventTimePlan
from tidelake.query import TableSource
from tidelake.storage import Storage
from tidelake.write import Commit
from unit.services.service_tables import World

EVENT = {
    "hoodie.payload.event.time.field": "ts",
    "hoodie.payload.event.time.unit": "ms",
    "hoodie.table.timeline.timezone": "UTC",
}
AT_THRESHOLD = {"hoodie.compaction.event.time.barrier": "AT_THRESHOLD"}
ANY = {"hoodie.compaction.event.time.backdate": "any"}


def ms(clock: str) -> int:
    """A time of the first of January, such as 10:00 or 10:00:00.001, or of another day as 02T10:00."""
    day, _, time = clock.rpartition("T")
    moment = datetime.fromisoformat(f"2026-01-{day or '01'}T{time}").replace(tzinfo=timezone.utc)
    return round(moment.timestamp() * 1000)


def instant(clock: str) -> str:
    """The same as an instant time."""
    moment = datetime.fromtimestamp(ms(clock) / 1000, timezone.utc)
    return f"{moment:%Y%m%d%H%M%S}{ms(clock) % 1000:03d}"


def iso(clock: str) -> str:
    """The same as a user writes it."""
    return datetime.fromtimestamp(ms(clock) / 1000, timezone.utc).isoformat().replace("+00:00", "Z")


def rows(*entries: tuple[int, str | None], day: str = "d") -> pa.Table:
    """Rows of (id, event time)."""
    return pa.table(
        {
            "id": pa.array([e[0] for e in entries], pa.int64()),
            "name": [f"{e[0]} at {e[1]}" for e in entries],
            "ts": pa.array([None if e[1] is None else ms(e[1]) for e in entries], pa.int64()),
            "day": [day] * len(entries),
        }
    )


class During:
    """A storage that does something else once, when a write puts its first marker: between its request and completion."""

    def __init__(self, inner: Storage, act: Callable[[], object]) -> None:
        self._inner = inner
        self._act: Callable[[], object] | None = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put(self, path: str, data: bytes) -> Any:
        act = self._act
        if act is not None and path.startswith(".hoodie/.temp/"):
            self._act = None
            act()
        return self._inner.put(path, data)


class EventWorld(World):
    """A table in memory whose clock stands at a time of day."""

    def __init__(self, options: dict[str, str] | None = None, **how: Any) -> None:
        given = options or {}
        self.options = {key: value for key, value in given.items() if is_service_option(key)}
        super().__init__({**EVENT, **{key: given[key] for key in given if key not in self.options}}, **how)

    def open(self, storage: Storage | None = None) -> tl.Table:
        return tl.open_table("memory", storage=storage or self.storage, clock=self.clock, options=self.options)

    def beat(self) -> None:
        """Let all writers that are under way show that they live."""
        for info in list(self.storage.list_files(".hoodie/.heartbeat")):
            self.storage.put(info.path, b"")

    def at(self, clock: str) -> EventWorld:
        """Let it be that time."""
        self.clock.advance((ms(clock) - self.clock.now_ms()) / 1000)
        return self

    def insert(self, *entries: tuple[int, str | None], day: str = "d") -> Commit:
        return self.open().insert(rows(*entries, day=day))

    def upsert(self, *entries: tuple[int, str | None], day: str = "d", until: str | None = None) -> Commit:
        """A write that begins now, and completes at another time."""
        act = (lambda: self.at(until)) if until else (lambda: None)
        return self.open(During(self.storage, act)).upsert(rows(*entries, day=day))  # type: ignore[arg-type]

    def compact(self, threshold: str | None = None, **options: str) -> Commit | None:
        return self.open().compact(
            strategy="event_time", threshold=None if threshold is None else iso(threshold), options=options
        )

    def schedule(self, threshold: str | None = None, options: dict[str, str] | None = None) -> str | None:
        return self.open().schedule_compaction(
            strategy="event_time", threshold=None if threshold is None else iso(threshold), options=options
        )

    def dry(self, threshold: str | None = None, options: dict[str, str] | None = None) -> Any:
        """What a dry run says of event time."""
        plan = self.open().compact(
            dry_run=True,
            strategy="event_time",
            threshold=None if threshold is None else iso(threshold),
            options=options,
        )
        assert plan is not None
        assert not isinstance(plan, Commit)
        return plan.event_time

    @property
    def source(self) -> TableSource:
        return TableSource.load(self.storage)

    def plan(self, requested: str) -> EventTimePlan:
        """A plan with what only event-time plans say."""
        return self.source.reader.record(EventTimePlan, f"{requested}.compaction.requested")

    def marks(self, requested: str) -> EventTimeMarks:
        found = decode_event_marks(
            self.source.reader.record(CompactionPlan, f"{requested}.compaction.requested").extra_metadata
        )
        assert found is not None
        return found

    def planned_logs(self, requested: str) -> list[str]:
        """The instants of the logs in a plan."""
        names = [name for op in self.plan(requested).operations or () for name in op.delta_file_paths or ()]
        return sorted(name.rpartition(".log")[0].rpartition("_")[2] for name in names)

    @property
    def names(self) -> set[str]:
        return {str(name) for name in self.open().timeline.names}

    @property
    def slices(self) -> list[tuple[str, list[str]]]:
        """Each slice as (instant of its base file, instants of its logs)."""
        return sorted((s.base_instant, [log.name.instant for log in s.logs]) for s in self.open().files())
