"""The service runner: looks at a table, decides by its policy what to do next, does it, and says why.

One round asks each service in turn: plans that wait for an executor first, since they hold file groups, then what is due.
Rounds are repeated by ``tidelake services run --continuous``. Several runners, and writers that compact inline, may work
on one table: claims and the head keep them apart, and what another is at is left to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tidelake.config import (
    CLEAN_AUTOMATIC,
    CLUSTER_ASYNC,
    CLUSTER_INLINE,
    COMPACTION_LOG_BYTES_DUE,
    COMPACTION_STRATEGY,
    EVENT_TIME_TARGET_LAG,
    TableType,
    clean_options,
)
from tidelake.errors import ConflictError
from tidelake.query import TableSource
from tidelake.services.clean import Cleaner, clean
from tidelake.services.clustering import StalePlanError, run_clustering, schedule_clustering
from tidelake.services.clustering.trigger import clustering_due
from tidelake.services.compaction import run_compaction, schedule_compaction
from tidelake.services.compaction.target_lag import lag_due, lag_options
from tidelake.services.compaction.trigger import compaction_due
from tidelake.services.context import ServiceCall
from tidelake.services.execution import pending_plans
from tidelake.services.kinds import CLUSTERING, COMPACTION


@dataclass(frozen=True, slots=True)
class Decision:
    """What a round did about a service, and why."""

    service: str
    reason: str
    outcome: str
    did_work: bool = False

    def __str__(self) -> str:
        return f"{self.service}: {self.reason}; {self.outcome}"


Step = Callable[[ServiceCall], Iterator[Decision]]


def run_round(call: ServiceCall) -> Iterator[Decision]:
    """One round over all services; each decision is given as soon as it was carried out."""
    for step in STEPS:
        yield from step(call)


def _compaction(call: ServiceCall) -> Iterator[Decision]:
    source = call.source()
    if source.config.table_type is TableType.COPY_ON_WRITE:
        return
    for pending in pending_plans(source.timeline, COMPACTION):
        reason = f"the plan {pending.requested_time} waits"
        try:
            done = run_compaction(call, pending.requested_time)
        except ConflictError as error:
            yield Decision("compaction", reason, f"left alone: {error.message}")
            continue
        if done is not None:
            yield Decision("compaction", reason, f"{len(done.stats)} file groups compacted", True)
    source = call.source()
    config = call.config(source)
    if EVENT_TIME_TARGET_LAG.of(call.options):
        # The lag says what is compacted, and nothing else does: that is the least rewriting.
        due = lag_due(source, config)
        call = replace(
            call, options={**call.options, **lag_options(source, config, COMPACTION_STRATEGY.of(call.options))}
        )
    else:
        due = compaction_due(source, config) or _many_bytes(call, source)
    if due is None:
        yield Decision("compaction", "not due", "nothing to do")
        return
    plan = schedule_compaction(call)
    if plan is None or plan.instant is None:
        told = "" if plan is None or plan.event_time is None else f": {plan.event_time.reason}"
        yield Decision("compaction", due, f"nothing to compact{told}")
        return
    done = run_compaction(call, plan.instant)
    files = 0 if done is None else len(done.stats)
    left = f", {len(plan.left)} partitions left for later" if plan.left else ""
    yield Decision("compaction", due, f"{files} file groups compacted ({plan.partition_source}){left}", True)


def _many_bytes(call: ServiceCall, source: TableSource) -> str | None:
    """Whether the logs that writers made since the last compaction are large."""
    due = COMPACTION_LOG_BYTES_DUE.of(call.options)
    if due == 0:
        return None
    services = [i for i in source.timeline.instants if i.pending_action == COMPACTION.action]
    since = max((i.requested_time for i in services), default="")
    later = tuple(
        i for i in source.timeline.completed_writes if (i.completion_time or "") > since and i not in services
    )
    stats = (stat for commit in source.reader.commits(later).values() for stat in commit.stats if stat.log_version)
    total = sum(stat.file_size_in_bytes or 0 for stat in stats)
    return f"{total:,} bytes of logs since the last compaction (due after {due:,})" if total >= due else None


def _clustering(call: ServiceCall) -> Iterator[Decision]:
    """Plans that wait are carried out for any table; new ones are made only where that is asked for."""
    source = call.source()
    for pending in pending_plans(source.timeline, CLUSTERING):
        reason = f"the plan {pending.requested_time} waits"
        try:
            done = run_clustering(call, pending.requested_time)
        except StalePlanError as error:
            yield Decision("clustering", reason, f"withdrawn: {error.message}", True)
            continue
        except ConflictError as error:
            yield Decision("clustering", reason, f"left alone: {error.message}")
            continue
        if done is not None:
            yield Decision("clustering", reason, f"{len(done.stats)} file groups made", True)
    config = call.config(source)
    if not (CLUSTER_ASYNC.of(config.options) or CLUSTER_INLINE.of(config.options)):
        return
    due = clustering_due(source, config)
    if due is None:
        yield Decision("clustering", "not due", "nothing to do")
        return
    plan = schedule_clustering(call)
    if plan is None or plan.instant is None:
        yield Decision("clustering", due, "nothing to cluster")
        return
    done = run_clustering(call, plan.instant)
    files = 0 if done is None else len(done.stats)
    left = f", {len(plan.left)} partitions left for later" if plan.left else ""
    yield Decision(
        "clustering",
        due,
        f"{len(plan.operations)} file groups became {files} ({plan.partition_source}){left}",
        True,
    )


def _clean(call: ServiceCall) -> Iterator[Decision]:
    if not CLEAN_AUTOMATIC.of(call.options):
        return
    options = clean_options(call.options)
    reason = f"{options.policy} {options.retain}"
    result = clean(Cleaner(call.storage, call.source().config, call.clock, options, call.writer, call.lock()))
    if result is None:
        yield Decision("clean", reason, "nothing to clean")
        return
    done = f"{len(result.files)} files removed, {result.size_bytes:,} bytes ({result.partition_source})"
    yield Decision("clean", reason, done, True)


STEPS: tuple[Step, ...] = (_compaction, _clustering, _clean)
