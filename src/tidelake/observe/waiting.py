"""Waiting until a view is complete up to an event time, and what to say if it does not become so."""

from __future__ import annotations

import math
from collections.abc import Callable

from tidelake._clock import Clock
from tidelake.errors import IncompleteError, InvalidError
from tidelake.observe.freshness import FreshnessReport, freshness_report, held_text, time_text
from tidelake.query import TableSource
from tidelake.query.freshness import freshness

VIEWS = {"rt": "rt", "snapshot": "rt", "ro": "ro", "read_optimized": "ro"}
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0


def view_named(view: str) -> str:
    """A view by one of its names, as ``rt`` or ``ro``."""
    if view not in VIEWS:
        raise InvalidError(f"view is {view!r}, known are {', '.join(VIEWS)}", value=view)
    return VIEWS[view]


def refuse_no_event_time(source: TableSource) -> None:
    """Only a table that has an event-time field is complete up to a time."""
    if source.config.event_time_field is None:
        raise InvalidError(
            "the table has no event-time field",
            table=source.storage.uri,
            hint="make it with event_time_field=..., or set hoodie.payload.event.time.field",
        )


def wait_complete(
    load: Callable[[], TableSource], clock: Clock, time_ms: int, view: str, timeout_s: float
) -> FreshnessReport:
    """Look until the view holds all data before the time; at once if it does already."""
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or math.isnan(timeout_s):
        raise InvalidError(f"timeout_s is {timeout_s!r} and not a number of seconds", value=timeout_s)
    refuse_no_event_time(load())
    began_s, pause_s = clock.monotonic_s(), _FIRST_PAUSE_S
    while True:
        source = load()
        if freshness(source, clock.now_ms()).is_complete(view, time_ms):
            return freshness_report(source, clock.now_ms())
        left_s = timeout_s - (clock.monotonic_s() - began_s)
        if left_s <= 0:
            raise _incomplete(freshness_report(source, clock.now_ms()), view, time_ms, timeout_s)
        clock.sleep(min(pause_s, left_s))
        pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)


def _incomplete(report: FreshnessReport, view: str, time_ms: int, timeout_s: float) -> IncompleteError:
    held = tuple(group for group in report.holding if group.min_event_ms is None or group.min_event_ms < time_ms)
    completion = (report.ro if view == "ro" else report.rt).completion_ms
    why = f"it is complete to {time_text(completion)}, declared {time_text(report.watermark_ms)}"
    if view == "ro" and held:
        why += f"; {len(held)} file group(s) hold it back: {held_text(held)}"
    return IncompleteError(
        f"the view {view} is not complete to {time_text(time_ms)} after {timeout_s:g} s: {why}",
        value=time_ms,
        table=report.path,
        hint="compact, or let the writers declare a watermark",
    )
