"""``tidelake freshness`` and ``tidelake metrics``: how complete and fresh a table is, drawn, or as metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from tidelake._clock import SystemClock
from tidelake.cli import text
from tidelake.cli.text import Cell, Column
from tidelake.errors import TidelakeError
from tidelake.observe.freshness import FreshnessReport, ViewFreshness, time_text
from tidelake.observe.metrics import down_text, metrics_text, serving_metrics, write_metrics_file
from tidelake.table import open_table

_BAR_WIDTH = 40
_LONG_S = 3_600.0


def run(path: str, options: dict[str, str], *, limit: int | None, as_json: bool) -> int:
    """Show both views of the table and of its partitions, those that are furthest behind first."""
    report = open_table(path, storage_options=options).freshness()
    if as_json:
        text.write_json(_plain(report, limit))
        return 0
    for line in str(report).splitlines():
        text.write(text.clean(line))
    rows = [("table", report.rt, report.ro)]
    behind = sorted(report.partitions, key=lambda each: (each.ro.completion_ms is not None, each.ro.completion_ms or 0))
    if [each.path for each in behind] != [""]:
        rows += [(each.path, each.rt, each.ro) for each in behind[:limit]]
    if report.rt.freshness_ms is None and report.ro.freshness_ms is None:
        return 0
    text.write()
    for line in _picture(rows):
        text.write(line)
    left = len(report.partitions) - len(rows) + 1
    if left > 0:
        text.write(f"... and {text.counted(left, 'partition')} that are further on (--limit)")
    return 0


def metrics(path: str, options: dict[str, str], *, port: int | None, file: str | None, every_s: int | None) -> int:
    """Print metrics, keep a file of them, or answer who scrapes."""
    table = open_table(path, storage_options=options)
    clock = SystemClock()
    if port is not None:
        with serving_metrics(table.freshness, table.name, port) as chosen:
            text.complain(f"metrics of {table.name} at http://localhost:{chosen}/metrics")
            while True:
                clock.sleep(_LONG_S)
    while True:
        try:
            told = metrics_text(table.freshness())
        except TidelakeError:
            if every_s is None:
                raise
            told = down_text(table.name)
        if file is None:
            text.write(told.rstrip("\n"))
        else:
            write_metrics_file(file, told)
        if every_s is None:
            return 0
        clock.sleep(every_s)


def _plain(report: FreshnessReport, limit: int | None) -> dict[str, object]:
    return {
        "table": report.table,
        "path": report.path,
        "at_ms": report.at_ms,
        "rt": asdict(report.rt),
        "ro": asdict(report.ro),
        "clocks": [asdict(clock) for clock in report.clocks],
        "inputs": dict(report.inputs),
        "future_files": report.future_files,
        "reasons": list(report.reasons),
        "partitions": [asdict(each) for each in report.partitions[:limit]],
        "holding": [asdict(each) for each in report.holding[:limit]],
    }


def _picture(rows: Sequence[tuple[str, ViewFreshness, ViewFreshness]]) -> list[str]:
    """A bar for each view: solid up to completion, light up to freshness, on one scale of event time."""
    times = [
        time
        for _, rt, ro in rows
        for view in (rt, ro)
        for time in (view.completion_ms, view.freshness_ms)
        if time is not None
    ]
    start, end = min(times), max(times)
    start -= max(1, (end - start) // 10)
    solid, light = ("█", "░") if text.has_unicode() else ("#", "-")

    def column(time_ms: int | None) -> int:
        return 0 if time_ms is None else round((time_ms - start) / (end - start) * _BAR_WIDTH)

    lines: list[list[str | Cell]] = []
    for path, rt, ro in rows:
        for name, view in (("rt", rt), ("ro", ro)):
            whole = column(view.completion_ms)
            bar = solid * whole + light * max(0, column(view.freshness_ms) - whole)
            lines.append(
                [
                    path if name == "rt" else "",
                    name,
                    Cell(bar.ljust(_BAR_WIDTH), "green" if name == "rt" else "cyan", is_clean=True),
                    time_text(view.completion_ms),
                    time_text(view.freshness_ms),
                ]
            )
    columns = [
        Column("", max_width=40),
        Column("view"),
        Column("event time"),
        Column("complete to"),
        Column("fresh to"),
    ]
    return text.table_lines(columns, lines)
