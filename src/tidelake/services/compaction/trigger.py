"""When a compaction is due: after so many delta commits, or so much time, since the last one.

A compaction by event time goes by its threshold and by what has arrived: whether it is due its planner says.
"""

from __future__ import annotations

from dataclasses import replace

from tidelake.config import (
    COMPACT_DELTA_COMMITS,
    COMPACT_DELTA_SECONDS,
    COMPACT_TRIGGER,
    COMPACTION_STRATEGY,
    EVENT_TIME_POLICY,
    EVENT_TIME_THRESHOLD,
)
from tidelake.query import TableSource
from tidelake.services.compaction.strategies import HUDI_NAMES, Unbounded
from tidelake.services.compaction.thresholds import EVENT_TIME, finder_of
from tidelake.services.kinds import COMPACTION
from tidelake.services.strategy import ServiceConfig, ServiceStrategy, make_strategy
from tidelake.timeline import parse_instant

BY_EVENT_TIME = "compaction goes by event time"


def goes_by_event_time(config: ServiceConfig) -> bool:
    """Whether the table's strategy is one of event time."""
    return finder_of(compaction_strategy(config)) is not None


def compaction_strategy(config: ServiceConfig) -> ServiceStrategy:
    """The strategy that the options ask for."""
    return make_strategy(strategy_name(config), HUDI_NAMES)


def strategy_name(config: ServiceConfig) -> str:
    """The name of the strategy that the options ask for.

    An exact table compacts by event time: what else is asked for filters that. Only ``unbounded``, if it is named, folds
    everything in, and with it versions that would be asked for later.
    """
    if not config.table.is_exact:
        return COMPACTION_STRATEGY.of(config.options)
    named = replace(COMPACTION_STRATEGY, default=EVENT_TIME).of(config.options)
    strategy = make_strategy(named, HUDI_NAMES)
    has_threshold = finder_of(strategy) is not None
    return named if has_threshold or isinstance(strategy, Unbounded) else f"{EVENT_TIME}+{named}"


def _waits_for_a_threshold(config: ServiceConfig) -> bool:
    """Whether the table is exact and has no policy: it is compacted by calls that give a threshold, and not by itself."""
    is_fixed = EVENT_TIME_POLICY.of(config.options) == "FIXED" and not EVENT_TIME_THRESHOLD.of(config.options)
    return config.table.is_exact and is_fixed


def compaction_due(source: TableSource, config: ServiceConfig) -> str | None:
    """Why a compaction is due by the table's trigger; None if it is not."""
    if goes_by_event_time(config):
        return None if _waits_for_a_threshold(config) else BY_EVENT_TIME
    services = [i for i in source.timeline.instants if i.pending_action == COMPACTION.action]
    since = max((i.requested_time for i in services), default="")
    deltas = [
        i
        for i in source.timeline.completed_writes
        if i.action == "deltacommit" and (i.completion_time or "") > since and i.pending_action == "deltacommit"
    ]
    if not deltas:
        return None
    first = since or deltas[0].requested_time
    seconds = config.now.timestamp() - parse_instant(first, source.zone) / 1000
    enough = COMPACT_DELTA_COMMITS.of(config.options)
    long = COMPACT_DELTA_SECONDS.of(config.options)
    by_number = f"{len(deltas)} delta commits since the last compaction (due after {enough})"
    by_time = f"{seconds:.0f} s since the last compaction (due after {long})"
    many, old = len(deltas) >= enough, seconds >= long
    reasons = {
        "NUM_COMMITS": by_number if many else None,
        "TIME_ELAPSED": by_time if old else None,
        "NUM_OR_TIME": by_number if many else by_time if old else None,
        "NUM_AND_TIME": f"{by_number}, {by_time}" if many and old else None,
    }
    return reasons[COMPACT_TRIGGER.of(config.options)]
