"""The report of a table's completion and freshness: per table, clock and partition, and what holds completion back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from tidelake._cached import cached
from tidelake._clock import utc_from_ms
from tidelake.config import TableConfig, TableType
from tidelake.format.freshness_marks import FreshnessMarks, ViewTimes
from tidelake.query import TableSource
from tidelake.query.freshness import Arrival, Freshness, clipped, freshness
from tidelake.query.live_times import table_state
from tidelake.timeline import parse_instant

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ViewFreshness:
    """One view: up to which event time it holds what arrived, its greatest event time, and the high-water marks of both."""

    completion_ms: int | None
    freshness_ms: int | None
    completion_hwm_ms: int | None = None
    freshness_hwm_ms: int | None = None

    @property
    def completion(self) -> datetime | None:
        return _moment(self.completion_ms)

    @property
    def freshness(self) -> datetime | None:
        return _moment(self.freshness_ms)

    @property
    def completion_hwm(self) -> datetime | None:
        return _moment(self.completion_hwm_ms)

    @property
    def freshness_hwm(self) -> datetime | None:
        return _moment(self.freshness_hwm_ms)


@dataclass(frozen=True, slots=True)
class ClockFreshness:
    """Both views by one clock: an event-time field."""

    field: str
    rt: ViewFreshness
    ro: ViewFreshness


@dataclass(frozen=True, slots=True)
class PartitionFreshness:
    """Both views of one partition. RT is that of the last write that brought events into it."""

    path: str
    rt: ViewFreshness
    ro: ViewFreshness


@dataclass(frozen=True, slots=True)
class HoldingGroup:
    """A file group whose logs hold the read-optimised view back."""

    partition_path: str
    file_id: str
    min_event_ms: int | None
    """The least event time in its logs; None if that is not known."""
    since: str
    """The completion time of the log that holds that event."""
    logs: int


@dataclass(frozen=True)
class FreshnessReport:
    """How complete and how fresh a table is. Values are milliseconds since 1970 UTC; None: not known, see ``reasons``."""

    table: str
    path: str
    at_ms: int
    clocks: tuple[ClockFreshness, ...]
    inputs: Mapping[str, int]
    """The watermark that each input has declared."""
    watermark_ms: int | None
    """The least of those."""
    future_files: int
    """Files with event times more than an hour ahead of the clock, which do not count."""
    reasons: tuple[str, ...]
    last_write: Arrival | None
    last_completion_ms: int | None
    _found: Freshness | None = field(repr=False, default=None)
    _statistics: pa.Table | None = field(repr=False, default=None)

    @property
    def rt(self) -> ViewFreshness:
        """The snapshot view, by all clocks: the least of each."""
        marks = None if self._found is None else self._found.marks
        return ViewFreshness(None, None) if marks is None else _view(marks.rt, marks.rt_hwm)

    @property
    def ro(self) -> ViewFreshness:
        """The read-optimised view, by all clocks: its completion is the least of each."""
        marks = None if self._found is None else self._found.marks
        return ViewFreshness(None, None) if marks is None else _view(marks.ro, marks.ro_hwm)

    @property
    def commit_latency_ms(self) -> int | None:
        """How long the oldest event of the last write took: its completion less its least event time."""
        return self._since_last(self.last_write.times.completion if self.last_write else None)

    @property
    def commit_freshness_ms(self) -> int | None:
        """How long the newest event of the last write took."""
        return self._since_last(self.last_write.times.freshness if self.last_write else None)

    def _since_last(self, event_ms: int | None) -> int | None:
        return None if event_ms is None or self.last_completion_ms is None else self.last_completion_ms - event_ms

    @cached
    def partitions(self) -> tuple[PartitionFreshness, ...]:
        """Each partition with files, by path."""
        if self._found is None or self._statistics is None:
            return ()
        return tuple(_partitions(self._found, self._statistics))

    @cached
    def holding(self) -> tuple[HoldingGroup, ...]:
        """The file groups that hold the read-optimised view back, the one with the least event time first."""
        if self._found is None or self._found.live is None:
            return ()
        return tuple(_holding(self._found))

    def __str__(self) -> str:
        named = ", ".join(clock.field for clock in self.clocks) or "none"
        lines = [f"{self.table}: event time {named}, as of {time_text(self.at_ms)}"]
        for name, view in (("snapshot (rt)", self.rt), ("read-optimised (ro)", self.ro)):
            lines.append(
                f"  {name:<20} complete to {time_text(view.completion_ms)} (highest so far {time_text(view.completion_hwm_ms)}), "
                f"fresh to {time_text(view.freshness_ms)} (highest so far {time_text(view.freshness_hwm_ms)})"
            )
        if self.inputs:
            told = ", ".join(f"{name} {time_text(time_ms)}" for name, time_ms in sorted(self.inputs.items()))
            lines.append(f"  declared complete: {told}")
        if self.holding:
            lines.append(f"  held back by {len(self.holding)} file group(s): {held_text(self.holding)}")
        if self.future_files:
            lines.append(f"  {self.future_files} file(s) have event times more than an hour ahead, which do not count")
        return "\n".join([*lines, *(f"  {reason}" for reason in self.reasons)])

    __repr__ = __str__


def freshness_report(source: TableSource, now_ms: int) -> FreshnessReport:
    """Work a table's completion and freshness out anew."""
    config = source.config
    about = (config.name, source.storage.uri, now_ms)
    if config.event_time_field is None:
        nothing = ("the table has no event-time field (hoodie.payload.event.time.field)",)
        return FreshnessReport(*about, (), {}, None, 0, nothing, None, None)
    found = freshness(source, now_ms)
    marks, last = found.marks, found.last
    statistics = _statistics(source, found)
    completed_ms = parse_instant(last.completion_time, source.zone) if last is not None else None
    return FreshnessReport(
        *about,
        _clocks(config, marks),
        dict(marks.memory.declared),
        found.watermark,
        found.future_files,
        found.reasons,
        last,
        completed_ms,
        found,
        statistics,
    )


def has_data(source: TableSource, found: Freshness, partition: str) -> bool:
    """Whether a partition has live files."""
    return bool(pc.any(pc.equal(_statistics(source, found)["path"], partition), min_count=0).as_py())


def _statistics(source: TableSource, found: Freshness) -> pa.Table:
    """Each partition with live files."""
    return table_state(source).statistics() if found.live is None else found.live.brought


def _clocks(config: TableConfig, marks: FreshnessMarks) -> tuple[ClockFreshness, ...]:
    """Each event time; of several, logs hold all of them back alike, since files' statistics do not tell them apart."""
    fields = config.event_time_fields
    if len(fields) == 1:
        return (ClockFreshness(fields[0], _view(marks.rt, marks.rt_hwm), _view(marks.ro, marks.ro_hwm)),)
    made = []
    for name in fields:
        times = marks.memory.clocks.get(name, ViewTimes())
        low, log_min = times.completion, marks.memory.log_min
        completion = low if low is None or log_min is None else min(low, log_min - 1)
        ro = ViewTimes(None if marks.ro.completion is None else completion, marks.ro.freshness)
        if config.table_type is TableType.COPY_ON_WRITE:
            ro = times  # the views are one
        made.append(ClockFreshness(name, _view(times, ViewTimes()), _view(ro, ViewTimes())))
    return tuple(made)


def held_text(groups: tuple[HoldingGroup, ...]) -> str:
    """The first of some file groups, in words."""
    shown = [
        f"{group.partition_path or '.'}/{group.file_id} from {time_text(group.min_event_ms)} since {group.since}"
        for group in groups[:_SHOWN]
    ]
    return "; ".join(shown) + ("; ..." if len(groups) > _SHOWN else "")


def _partitions(found: Freshness, statistics: pa.Table) -> list[PartitionFreshness]:
    brought = clipped(
        pa.table({"low": statistics["data_min_event_ms"], "high": statistics["data_max_event_ms"]}), found.bound_ms
    )
    columns = (statistics["path"], brought["low"], brought["high"])
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    if found.live is None:
        return [PartitionFreshness(path, view := ViewFreshness(low, high), view) for path, low, high in rows]
    live = found.live
    files = pa.table({"partition": live.files["partition"], **_columns(clipped(live.files, found.bound_ms))})
    is_log = live.files["is_log"]
    logs = _by_partition(files.filter(is_log), "low", "min")
    bases = _by_partition(files.filter(pc.invert(is_log)), "high", "max")
    unknown = live.files.filter(pc.invert(live.files["is_known"]))
    no_logs = set(unknown.filter(unknown["is_log"])["partition"].to_pylist())
    no_bases = set(unknown["partition"].to_pylist()) - no_logs
    made = []
    for path, low, high in rows:
        log_min = logs.get(path)
        completion = None if path in no_logs else low if log_min is None else log_min - 1
        fresh = None if path in no_bases else bases.get(path)
        made.append(PartitionFreshness(path, ViewFreshness(low, high), ViewFreshness(completion, fresh)))
    return made


def _holding(found: Freshness) -> list[HoldingGroup]:
    assert found.live is not None
    files = found.live.files
    logs = files.append_column("counted", clipped(files, found.bound_ms)["low"]).filter(files["is_log"])
    logs = logs.filter(pc.or_(pc.is_valid(logs["counted"]), pc.invert(logs["is_known"])))
    logs = logs.sort_by([("counted", "ascending")])
    by_group = logs.group_by(["partition", "file_id"], use_threads=False).aggregate(
        [("counted", "min"), ("completion", "first"), ("is_known", "min"), ("file_id", "count")]
    )
    rows = zip(
        *(by_group[name].to_pylist() for name in ("partition", "file_id", "counted_min", "completion_first")),
        by_group["is_known_min"].to_pylist(),
        by_group["file_id_count"].to_pylist(),
        strict=True,
    )
    made = [
        HoldingGroup(partition, file_id, low if is_known else None, since or "", count)
        for partition, file_id, low, since, is_known, count in rows
    ]
    return sorted(made, key=lambda each: (each.min_event_ms is not None, each.min_event_ms or 0))


def _by_partition(files: pa.Table, name: str, how: str) -> dict[str, int | None]:
    found = files.group_by("partition", use_threads=False).aggregate([(name, how)])
    return dict(zip(found["partition"].to_pylist(), found[f"{name}_{how}"].to_pylist(), strict=True))


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return {name: table[name] for name in table.column_names}


def _view(times: ViewTimes, high: ViewTimes) -> ViewFreshness:
    return ViewFreshness(times.completion, times.freshness, high.completion, high.freshness)


def _moment(time_ms: int | None) -> datetime | None:
    return None if time_ms is None else utc_from_ms(time_ms)


def time_text(time_ms: int | None) -> str:
    """A time as a person writes it, in UTC."""
    return (
        "unknown" if time_ms is None else utc_from_ms(time_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
