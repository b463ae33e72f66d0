"""A small exact table of two groups of columns, each with its own event time, and a naive model of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

import tidelake as tl
from exact_world import OPTIONS, plan_exact
from tidelake._clock import utc_from_ms
from tidelake.storage import MemoryStorage, Storage
from tidelake.testing import ManualClock
from tidelake.write import Commit

SCHEMA = "id bigint, a string, a_ts bigint, b string, b_ts bigint, day string, `_hoodie_is_deleted` boolean"
FIELDS = ("a_ts", "b_ts")
GROUP_OPTIONS = {
    **OPTIONS,
    "multiple.eventime.latest.verification.enable": "true",
    "hoodie.eventime.latest.verification.fields": "a_ts,b_ts",
    "hoodie.eventime.latest.verification.mode": "per_group",
    "fields.a_ts.sequence-group": "a",
    "fields.b_ts.sequence-group": "b",
}
Time = int | None
Value = tuple[str | None, Time]
Row = tuple[Value, Value]
"""The values and event times of both groups."""


@dataclass(frozen=True)
class Entry:
    """A record or, with ``is_delete``, a delete; a group without an event time has no value."""

    key: int
    name: str
    a_ts: Time
    b_ts: Time
    is_delete: bool = False

    @property
    def times(self) -> tuple[Time, Time]:
        return self.a_ts, self.b_ts


def entries_table(entries: list[Entry]) -> pa.Table:
    def named(prefix: str, time: Time, entry: Entry) -> str | None:
        return None if time is None or entry.is_delete else f"{prefix}{entry.name}"

    return pa.table(
        {
            "id": pa.array([e.key for e in entries], pa.int64()),
            "a": pa.array([named("a", e.a_ts, e) for e in entries], pa.string()),
            "a_ts": pa.array([e.a_ts for e in entries], pa.int64()),
            "b": pa.array([named("b", e.b_ts, e) for e in entries], pa.string()),
            "b_ts": pa.array([e.b_ts for e in entries], pa.int64()),
            "day": pa.array([f"d{e.key % 2}" for e in entries], pa.string()),
            "_hoodie_is_deleted": pa.array([e.is_delete for e in entries], pa.bool_()),
        }
    )


def create_groups(storage: Storage, clock: ManualClock | None, path: str = "memory", **options: str) -> tl.Table:
    return tl.create_table(
        path,
        SCHEMA,
        name="groups",
        partition_by="day",
        event_time_field="a_ts",
        options={**GROUP_OPTIONS, **options},
        storage=storage,
        clock=clock,
    )


@dataclass
class GroupsWorld:
    """The table; times are seconds."""

    clock: ManualClock = field(default_factory=ManualClock)
    options: dict[str, str] = field(default_factory=dict)
    storage: Storage | None = None
    path: str = "memory"

    def __post_init__(self) -> None:
        self.files: Storage = self.storage or MemoryStorage(clock=self.clock)
        self.table = create_groups(self.files, self.clock, self.path, **self.options)

    def open(self, storage: Storage | None = None) -> tl.Table:
        return tl.open_table(self.path, storage=storage or self.files, clock=self.clock)

    def write(self, *entries: Entry) -> str:
        self.clock.advance(1)
        return self.table.upsert(entries_table(list(entries))).requested_time

    def compact(self, threshold_s: int) -> Commit | None:
        """Split every slice with logs."""
        self.clock.advance(1)
        planned = plan_exact(self.files, self.clock, threshold_s, ",".join(FIELDS))
        return None if planned is None else self.open().run_compaction(planned)

    def schedule_and_run(self, threshold_s: int) -> Commit | None:
        """Compact by the strategy, when late data has waited long enough."""
        self.clock.advance(1200)
        done = self.open().compact(threshold=f"{utc_from_ms(threshold_s * 1000):%Y-%m-%dT%H:%M:%S}Z")
        assert done is None or isinstance(done, Commit)
        return done

    def rows(self, mode: str = "snapshot") -> dict[int, Row]:
        return rows_of(self.open(), mode)


def rows_of(table: tl.Table, mode: str = "snapshot") -> dict[int, Row]:
    return as_rows(table.scan(columns=["id", "a", "a_ts", "b", "b_ts"], mode=mode).to_arrow())


def as_rows(table: pa.Table) -> dict[int, Row]:
    found = table.to_pylist()
    assert len({row["id"] for row in found}) == len(found), "a key stands twice"
    return {row["id"]: ((row["a"], row["a_ts"]), (row["b"], row["b_ts"])) for row in found}


class GroupsModel:
    """Versions of groups as plain values: a compaction forgets what lost, and deletes, before its threshold."""

    def __init__(self) -> None:
        self.base: dict[tuple[int, int], tuple[str, int]] = {}
        """The value and time of each key and group that has them."""
        self.log: list[tuple[int, int, str | None, int]] = []
        """Key, group, value (None is a delete) and time of all versions since, in the order in which they came."""

    def write(self, *entries: Entry) -> None:
        for entry in entries:
            for group, (prefix, time) in enumerate(zip("ab", entry.times, strict=True)):
                if time is not None:
                    self.log.append((entry.key, group, None if entry.is_delete else f"{prefix}{entry.name}", time))

    def compact(self, threshold: int) -> None:
        self.base = self._applied(threshold)
        self.log = [each for each in self.log if each[3] >= threshold]

    def rows(self, threshold: int = 10**9) -> dict[int, Row]:
        """All before a time, merged."""
        held = self._applied(threshold)
        keys = {key for key, _ in held}
        return {key: (held.get((key, 0), (None, None)), held.get((key, 1), (None, None))) for key in keys}

    def _applied(self, threshold: int) -> dict[tuple[int, int], tuple[str, int]]:
        newest: dict[tuple[int, int], tuple[str | None, int]] = dict(self.base)
        for key, group, value, time in self.log:
            old = newest.get((key, group))
            if time < threshold and (old is None or time >= old[1]):
                newest[key, group] = (value, time)
        return {place: (value, time) for place, (value, time) in newest.items() if value is not None}
