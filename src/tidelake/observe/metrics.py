"""Metrics in Prometheus' text format: as text, as a file for a text-file collector, and behind an HTTP endpoint.

Values are worked out when they are asked for, and ages by the clock of that moment: the ages of a pipeline that has stopped grow.
``commitLatencyInMs`` and ``commitFreshnessInMs`` are named as Apache Hudi names them; the others as Prometheus would.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tidelake.errors import TidelakeError, UnavailableError
from tidelake.observe.freshness import FreshnessReport, ViewFreshness

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]
Sample = tuple[str, Labels, float]
_HELP = {
    "tidelake_up": "Whether the table could be looked at.",
    "tidelake_table_completion_timestamp_seconds": "The event time up to which the view holds what arrived.",
    "tidelake_table_completion_hwm_timestamp_seconds": "The greatest completion so far.",
    "tidelake_table_completion_age_seconds": "How far completion is behind the clock.",
    "tidelake_table_freshness_timestamp_seconds": "The greatest event time of the view.",
    "tidelake_table_freshness_hwm_timestamp_seconds": "The greatest freshness so far.",
    "tidelake_table_freshness_age_seconds": "How far freshness is behind the clock.",
    "tidelake_table_watermark_timestamp_seconds": "The event time up to which an input has declared to be complete.",
    "tidelake_table_last_write_timestamp_seconds": "When the last write that brought events completed.",
    "tidelake_table_last_write_age_seconds": "How long ago that was.",
    "tidelake_table_holding_file_groups": "File groups whose logs hold the read-optimised view back.",
    "tidelake_table_future_files": "Files with event times more than an hour ahead of the clock, which do not count.",
    "commitLatencyInMs": "Completion of the last write less its least event time.",
    "commitFreshnessInMs": "Completion of the last write less its greatest event time.",
}


def metrics_text(report: FreshnessReport) -> str:
    """A report as metrics."""
    return _rendered([("tidelake_up", {"table": report.table}, 1.0), *_samples(report)])


def down_text(table: str) -> str:
    """What is said of a table that cannot be looked at."""
    return _rendered([("tidelake_up", {"table": table}, 0.0)])


def write_metrics_file(path: str, text: str) -> None:
    """Replace a file at once, so that a collector never reads a half of it."""
    target = Path(path)
    try:
        handle, made = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(made).chmod(0o644)
        Path(made).replace(target)
    except OSError as error:
        raise UnavailableError(f"the metrics cannot be written: {error}", file=str(target)) from error


@contextmanager
def serving_metrics(look: Callable[[], FreshnessReport], table: str, port: int, host: str = "") -> Iterator[int]:
    """Answer ``GET /metrics`` from a thread until the block ends; gives the port, which may be asked for as 0."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] not in ("/", "/metrics"):
                self.send_error(404)
                return
            try:
                content = metrics_text(look())
            except TidelakeError:
                content = down_text(table)
            data = content.encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            with suppress(ConnectionError):  # who asked has gone
                self.wfile.write(data)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nobody reads a line for each scrape."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise UnavailableError(f"port {port} cannot be listened to: {error}", value=port) from error
    thread = threading.Thread(target=server.serve_forever, name="tidelake-metrics", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _samples(report: FreshnessReport) -> Iterator[Sample]:
    table = {"table": report.table}
    for name, view in (("rt", report.rt), ("ro", report.ro)):
        yield from _view_samples(report.at_ms, view, {**table, "view": name})
    for name, time_ms in sorted(report.inputs.items()):
        yield "tidelake_table_watermark_timestamp_seconds", {**table, "input": name}, time_ms / 1000
    if report.last_completion_ms is not None:
        yield "tidelake_table_last_write_timestamp_seconds", table, report.last_completion_ms / 1000
        yield "tidelake_table_last_write_age_seconds", table, (report.at_ms - report.last_completion_ms) / 1000
    yield "tidelake_table_holding_file_groups", table, len(report.holding)
    yield "tidelake_table_future_files", table, report.future_files
    if report.commit_latency_ms is not None:
        yield "commitLatencyInMs", table, report.commit_latency_ms
    if report.commit_freshness_ms is not None:
        yield "commitFreshnessInMs", table, report.commit_freshness_ms


def _view_samples(at_ms: int, view: ViewFreshness, labels: Labels) -> Iterator[Sample]:
    values = (
        ("completion", view.completion_ms, view.completion_hwm_ms),
        ("freshness", view.freshness_ms, view.freshness_hwm_ms),
    )
    for what, literal, high in values:
        if literal is not None:
            yield f"tidelake_table_{what}_timestamp_seconds", labels, literal / 1000
            yield f"tidelake_table_{what}_age_seconds", labels, (at_ms - literal) / 1000
        if high is not None:
            yield f"tidelake_table_{what}_hwm_timestamp_seconds", labels, high / 1000


def _rendered(samples: list[Sample]) -> str:
    by_name: dict[str, list[str]] = {}
    for name, labels, value in samples:
        shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        by_name.setdefault(name, []).append(f"{name}{{{shown}}} {value!r}")
    lines = []
    for name, found in by_name.items():
        lines += [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} gauge", *found]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
