"""When a clustering is due: after so many writes since the last one, where the table or the caller asks for it at all."""

from __future__ import annotations

from tidelake.config import CLUSTER_COMMITS
from tidelake.query import TableSource
from tidelake.services.kinds import CLUSTERING
from tidelake.services.strategy import ServiceConfig
from tidelake.timeline import WRITE_ACTIONS


def clustering_due(source: TableSource, config: ServiceConfig) -> str | None:
    """Why a clustering is due; None if it is not."""
    plans = [i.requested_time for i in source.timeline.instants if i.pending_action == CLUSTERING.action]
    since = max(plans, default="")
    writes = [
        i
        for i in source.timeline.completed_writes
        if (i.completion_time or "") > since and i.pending_action in WRITE_ACTIONS
    ]
    enough = CLUSTER_COMMITS.of(config.options)
    if len(writes) < enough:
        return None
    return f"{len(writes)} writes since the last clustering (due after {enough})"
