"""Keeping the read-optimised view complete to within a lag, at the least rewriting that does it.

A file group holds the view back by the oldest event in its logs. It is compacted when that event is nearly as old as the lag,
with all its logs, and no sooner: a base file is rewritten about once in a lag, whatever comes in between. The groups that are
furthest behind come first, so that a bounded compaction (``target_lag+bounded_io``) does most for completion.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.config import EVENT_TIME_TARGET_LAG, EVENT_TIME_THRESHOLD
from tidelake.errors import InvalidError
from tidelake.query import TableSource
from tidelake.query.event_column import event_times_of
from tidelake.query.freshness import FUTURE_MS, freshness
from tidelake.services.compaction.thresholds import EventTimeConfig, in_words
from tidelake.services.strategy import (
    Candidate,
    IncrementalPartitionAwareStrategy,
    ServiceConfig,
    ServiceStrategy,
    register_strategy,
)

_MARGIN = 5
"""A group is compacted when a fifth of the lag is left: rounds are to come at least that often."""
_FIRST = -(2**63)


class TargetLag(ServiceStrategy, IncrementalPartitionAwareStrategy):
    """File groups whose logs hold events that are about to be older than the lag, the furthest behind first."""

    def choose(self, config: ServiceConfig, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Those that are needed; one whose event times are not known is."""
        if not isinstance(config, EventTimeConfig) or config.source is None:
            raise InvalidError("target_lag is a strategy of compaction")
        due = due_before_ms(config)
        times = event_times_of(config.source).of_files(log for c in candidates for log in c.file_slice.logs)

        def oldest(candidate: Candidate) -> int | None:
            ranges = [times[log.path] for log in candidate.file_slice.logs]
            if not all(found.is_known for found in ranges):
                return _FIRST
            return min((found.minimum for found in ranges if found.minimum is not None), default=None)

        found = [(low, candidate) for candidate in candidates if (low := oldest(candidate)) is not None and low < due]
        return [candidate for _, candidate in sorted(found, key=lambda pair: pair[0])]


def due_before_ms(config: ServiceConfig) -> int:
    """Up to which event time logs are to be compacted now."""
    lag_ms = EVENT_TIME_TARGET_LAG.of(config.options)
    if lag_ms == 0:
        raise InvalidError(
            "the strategy target_lag needs a lag", table=config.table.name, hint=f"set {EVENT_TIME_TARGET_LAG.key}=15m"
        )
    return round(config.now.timestamp() * 1000) - lag_ms + lag_ms // _MARGIN


def lag_due(source: TableSource, config: ServiceConfig) -> str | None:
    """Why the lag asks for a compaction now; None if it does not."""
    if EVENT_TIME_TARGET_LAG.of(config.options) == 0 or source.config.event_time_field is None:
        return None
    now_ms = round(config.now.timestamp() * 1000)
    found = freshness(source, now_ms)
    low = found.marks.memory.log_min
    if found.live is not None and found.marks.ro.completion is None and found.last is not None:
        return "the event times of some logs are not known"
    if low is None or low >= min(due_before_ms(config), now_ms + FUTURE_MS):
        return None
    lag_s = EVENT_TIME_TARGET_LAG.of(config.options) // 1000
    return f"logs hold events from {in_words(low)}, {(now_ms - low) // 1000} s ago (target lag {lag_s} s)"


def lag_options(source: TableSource, config: ServiceConfig, strategy: str) -> dict[str, str]:
    """The options of the compaction that the lag asks for: exact tables are compacted at a threshold."""
    if source.config.is_exact:
        threshold = {
            EVENT_TIME_THRESHOLD.key: in_words(due_before_ms(config)),
            "hoodie.compaction.event.time.policy": "FIXED",
        }
        return {**threshold, "hoodie.compaction.strategy": "event_time"}
    kept = [part for part in strategy.split("+") if part not in ("unbounded", "target_lag")]
    return {"hoodie.compaction.strategy": "+".join(["target_lag", *kept])}


register_strategy("target_lag", TargetLag)
