"""``tidelake timeline``: one line for each instant, with a bar from requested to completed.

Only names are read, and the few files that say which operation the shown instants are. Neither Arrow nor an engine is
loaded (``--archived`` alone needs Arrow: archived instants lie in parquet files).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final

from tidelake._clock import utc_from_ms
from tidelake.cli import text
from tidelake.cli.picture import ASCII_MARKS, UNICODE_MARKS, Marks, Scale, Span, make_scale
from tidelake.cli.text import Cell, Column
from tidelake.errors import CorruptError
from tidelake.format.names import State
from tidelake.storage import open_storage
from tidelake.timeline import Instant, TimelineReader, load_config, load_timeline, parse_instant, timeline_zone

_COLOURS: Final = {
    "commit": "green",
    "deltacommit": "cyan",
    "replacecommit": "magenta",
    "compaction": "yellow",
    "logcompaction": "yellow",
    "clustering": "blue",
    "clean": "dim",
    "rollback": "red",
    "restore": "red",
    "savepoint": "bold",
    "indexing": "blue",
}
_LEAST_BAR: Final = 16
_MOST_BAR: Final = 100
_OPTIONAL: Final = ("completed", "operation", "state")
"""Columns that a narrow terminal goes without, in this order."""


@dataclass(frozen=True, slots=True)
class Line:
    """One instant to be shown."""

    instant: Instant
    operation: str | None
    is_archived: bool
    span: Span | None
    zone: tzinfo | None

    @property
    def action(self) -> str:
        """What a person calls it: a compaction completes as a commit, but is a compaction."""
        return self.instant.pending_action or self.instant.action

    @property
    def duration_ms(self) -> int | None:
        if self.span is None or self.span.end_ms is None:
            return None
        return self.span.end_ms - self.span.start_ms


def run(path: str, options: dict[str, str], *, limit: int | None, archived: bool, pending: bool, as_json: bool) -> int:
    """Show the timeline of a table."""
    storage = open_storage(path, options)
    config = load_config(storage)
    timeline = load_timeline(storage, config)
    reader = TimelineReader(storage, config)
    past = _archived(reader) if archived else ()
    active = {(i.requested_time, i.action) for i in timeline.instants}
    found = [(i, True) for i in past if (i.requested_time, i.action) not in active]
    found.extend((i, False) for i in timeline.instants)
    found.sort(key=lambda pair: (pair[0].requested_time, pair[0].action))
    wanted = [pair for pair in found if not (pending and pair[0].is_completed)]
    shown = wanted if limit is None else wanted[-limit:]
    lines = _lines(shown, reader, timeline_zone(config.timezone_is_utc))
    if as_json:
        text.write_json([_plain(line) for line in lines])
        return 0
    text.write(f"{config.name}: {_summary(len(lines), len(wanted), len(timeline), pending)}")
    if lines:
        _draw(lines)
    return 0


def _archived(reader: TimelineReader) -> list[Instant]:
    history = reader.load_history(("instantTime", "completionTime", "action"))
    return [Instant(past.requested_time, past.action, State.COMPLETED, past.completion_time) for past in history]


def _lines(shown: Sequence[tuple[Instant, bool]], reader: TimelineReader, zone: tzinfo | None) -> list[Line]:
    active = [instant for instant, is_archived in shown if not is_archived]
    operations = iter(reader.operations(active))
    return [
        Line(instant, None if is_archived else next(operations), is_archived, _span(instant, zone), zone)
        for instant, is_archived in shown
    ]


def _span(instant: Instant, zone: tzinfo | None) -> Span | None:
    start_ms = _epoch_ms(instant.requested_time, zone)
    end_ms = _epoch_ms(instant.completion_time, zone)
    if start_ms is None or (end_ms is None and instant.is_completed):
        return None
    return Span(start_ms, None if end_ms is None else max(start_ms, end_ms))


def _epoch_ms(instant_time: str | None, zone: tzinfo | None) -> int | None:
    """Apache Hudi also has times that are none (all zeros, for bootstraps): these have no place on a scale."""
    if instant_time is None:
        return None
    try:
        return parse_instant(instant_time, zone)
    except CorruptError:
        return None


def _plain(line: Line) -> dict[str, object]:
    instant, span = line.instant, line.span
    return {
        "requested_time": instant.requested_time,
        "completion_time": instant.completion_time,
        "action": instant.action,
        "requested_as": instant.pending_action,
        "state": instant.state.name.lower(),
        "operation": line.operation,
        "requested_at": None if span is None else _iso(span.start_ms),
        "completed_at": None if span is None or span.end_ms is None else _iso(span.end_ms),
        "duration_ms": line.duration_ms,
        "archived": line.is_archived,
    }


def _iso(epoch_ms: int) -> str:
    return utc_from_ms(epoch_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _summary(shown: int, wanted: int, active: int, pending: bool) -> str:
    kind = "pending instant" if pending else "instant"
    told = text.counted(wanted, kind)
    if shown < wanted:
        told = f"the last {shown:,} of {told} (--all shows all)"
    return told if wanted else f"no {kind}s" + (f" among {active:,}" if pending and active else "")


def _draw(lines: Sequence[Line]) -> None:
    marks = UNICODE_MARKS if text.has_unicode() else ASCII_MARKS
    columns, rows = _columns(lines)
    width = text.width_limit() or text.PIPED_WIDTH
    while width - text.table_width(columns, rows) < _LEAST_BAR and (dropped := _first_optional(columns)) is not None:
        columns = [*columns[:dropped], *columns[dropped + 1 :]]
        rows = [[*row[:dropped], *row[dropped + 1 :]] for row in rows]
    bar_width = min(_MOST_BAR, max(_LEAST_BAR, width - text.table_width(columns, rows)))
    scale = make_scale([line.span for line in lines if line.span is not None], bar_width)
    columns.append(Column(scale.axis(marks)))
    for line, row in zip(lines, rows, strict=True):
        row.append(Cell(scale.bar(line.span, marks), _COLOURS.get(line.action), is_clean=True))
    for drawn in text.table_lines(columns, rows, rule=False):
        text.write(drawn)
    text.write(text.coloured(_legend(scale, marks, lines), "dim"))


def _columns(lines: Sequence[Line]) -> tuple[list[Column], list[list[str | Cell]]]:
    columns = [
        Column("requested"),
        Column("action"),
        Column("state"),
        Column("operation", max_width=22),
        Column("completed"),
        Column("duration", is_number=True),
    ]
    rows: list[list[str | Cell]] = [
        [
            line.instant.requested_time,
            Cell(line.action, _COLOURS.get(line.action)),
            "archived" if line.is_archived else line.instant.state.name.lower(),
            line.operation or "-",
            _completed(line.instant),
            "-" if line.duration_ms is None else text.human_duration(line.duration_ms),
        ]
        for line in lines
    ]
    return columns, rows


def _completed(instant: Instant) -> str:
    """The time of day, after the date if it is another one than that of the request."""
    completion = instant.completion_time
    if completion is None or len(completion) != 17:
        return completion or "-"
    clock = f"{completion[8:10]}:{completion[10:12]}:{completion[12:14]}.{completion[14:]}"
    is_same_day = completion[:8] == instant.requested_time[:8]
    return clock if is_same_day else f"{completion[:4]}-{completion[4:6]}-{completion[6:8]} {clock}"


def _first_optional(columns: Sequence[Column]) -> int | None:
    titles = [column.title for column in columns]
    return next((titles.index(title) for title in _OPTIONAL if title in titles), None)


def _legend(scale: Scale, marks: Marks, lines: Sequence[Line]) -> str:
    parts = [f"one column is {text.human_duration(max(1, round(scale.busy_ms_per_column)))}"]
    if scale.gaps:
        longest = text.human_duration(scale.longest_gap_ms)
        gaps = text.counted(len(scale.gaps), "idle gap")
        parts.append(f"{gaps} (longest {longest}) cut to one column each, at {marks.gap}")
    if any(line.span is not None and line.span.end_ms is None for line in lines):
        parts.append(f"{marks.open_end} not completed")
    return "scale: " + "; ".join(parts)
