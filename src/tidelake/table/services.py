"""The services of a table: compact, cluster, clean, savepoint, restore, and what runs and audits them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, overload

from tidelake._clock import utc_from_ms
from tidelake._progress import progress
from tidelake.config import (
    CLUSTERING_FILTER,
    CLUSTERING_ORDER,
    CLUSTERING_PARTITIONS,
    CLUSTERING_SORT_COLUMNS,
    CLUSTERING_STRATEGY,
    COMPACTION_PARTITIONS,
    COMPACTION_STRATEGY,
    EVENT_TIME_POLICY,
    EVENT_TIME_THRESHOLD,
    OptionValue,
    checked_service_options,
    clean_options,
    given_options,
    name_list_text,
    service_options,
)
from tidelake.engine import LocalRunner, TaskRunner
from tidelake.errors import InvalidError
from tidelake.format.names import parse_timeline_name
from tidelake.query import PointInTime
from tidelake.services.audit import AuditReport, audit_table
from tidelake.services.clean import Cleaner, CleanResult, CleanRun, clean, cleans_of
from tidelake.services.clustering import cluster, run_clustering, schedule_clustering
from tidelake.services.compaction import compact, run_compaction, schedule_compaction
from tidelake.services.compaction.trigger import goes_by_event_time
from tidelake.services.context import ServiceCall
from tidelake.services.kinds import CLUSTERING, COMPACTION
from tidelake.services.report import ServicePlan
from tidelake.services.restore import RestoreResult, restore
from tidelake.services.runner import Decision, run_round
from tidelake.services.runs import RunSummary, runs_of
from tidelake.services.savepoint import Savepoint, drop_savepoint, list_savepoints, make_savepoint
from tidelake.services.withdraw import withdraw
from tidelake.table.handle import TableHandle, names_of, paths_of, positive
from tidelake.timeline import as_epoch_ms
from tidelake.write import (
    Commit,
)

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class _Named:
    """How a service names its strategy, the partitions it is to take, and the strategy that takes them."""

    strategy_key: str
    partitions_key: str
    partitions_strategy: str


_COMPACTION = _Named(COMPACTION_STRATEGY.key, COMPACTION_PARTITIONS.key, "partitions")
_CLUSTERING = _Named(CLUSTERING_STRATEGY.key, CLUSTERING_PARTITIONS.key, "selected_partitions")


def _instant_or_ms(threshold: PointInTime | int) -> str:
    """A threshold as text; a number that is no instant time is milliseconds since 1970, as event times are elsewhere."""
    if isinstance(threshold, int) and not isinstance(threshold, bool) and len(str(threshold)) not in (8, 14, 17):
        return utc_from_ms(as_epoch_ms(threshold)).isoformat(timespec="milliseconds")
    return str(threshold)


def _plan_instant(instant: object) -> str | None:
    """The instant that names a plan; None is whichever waits."""
    if instant is None or parse_timeline_name(f"{instant}.compaction.requested") is not None:
        return None if instant is None else str(instant)
    raise InvalidError(f"{instant!r} is no instant of a plan", value=instant, hint="such as 20260131093000000")


class TableServices(TableHandle):
    """The verbs that keep a table in shape. Each hands on to the module that knows."""

    def clean(
        self,
        policy: str | None = None,
        retain: int | None = None,
        *,
        dry_run: bool = False,
        options: Mapping[str, OptionValue] | None = None,
    ) -> CleanResult | None:
        """Remove superseded files that the policy does not keep; None if there is nothing to remove.

        ``policy`` is KEEP_LATEST_COMMITS, KEEP_LATEST_BY_HOURS or KEEP_LATEST_FILE_VERSIONS, ``retain`` how many of these;
        both have options (``hoodie.clean.policy``...). ``dry_run`` shows what would go, and why, and writes nothing.
        """
        chosen = clean_options(self._service_call(options).options, policy, retain)
        with progress(f"clean of {self.name}"):
            return clean(Cleaner(*self._parts, chosen, self._options, self._lock()), dry_run=dry_run)

    def cleans(self, limit: int | None = 20) -> tuple[CleanRun, ...]:
        """The last completed cleans, newest first; None for all."""
        return cleans_of(self._refreshed(), positive(limit))

    def savepoint(self, instant: str | None = None, user: str = "", comment: str = "") -> Savepoint:
        """Keep the state as of a completed write, by default the last one: its files stay, and it can be restored."""
        chosen = None if instant is None else str(instant)
        for role, text in (("user", user), ("comment", comment)):
            if not isinstance(text, str):
                raise InvalidError(f"{role} is {text!r} and not a text", value=text)
        return make_savepoint(*self._parts, chosen, user, comment, self._options, self._lock())

    def savepoints(self) -> tuple[Savepoint, ...]:
        """The savepoints, by the commit that each keeps."""
        return list_savepoints(self._source.storage, self._source.config)

    def drop_savepoint(self, instant: str) -> None:
        """Let go of what a savepoint keeps; the next clean removes what nothing else needs."""
        drop_savepoint(*self._parts, str(instant), self._lock())

    def restore(self, instant: str, *, dry_run: bool = False) -> RestoreResult | None:
        """Go back to a savepoint, named by its commit; None if the table is there.

        Everything that completed after the savepoint was made is undone, services included, and so is what is pending.
        ``dry_run`` shows what would go, and writes nothing.
        """
        with progress(f"restore of {self.name}"):
            return restore(*self._parts, str(instant), self._options, self._lock(), dry_run=dry_run)

    @overload
    def compact(
        self,
        *,
        dry_run: Literal[False] = False,
        strategy: str | Sequence[str] | None = None,
        threshold: PointInTime | int | None = None,
        partitions: Sequence[str] | None = None,
        options: Mapping[str, OptionValue] | None = None,
    ) -> Commit | None: ...

    @overload
    def compact(
        self,
        *,
        dry_run: bool,
        strategy: str | Sequence[str] | None = None,
        threshold: PointInTime | int | None = None,
        partitions: Sequence[str] | None = None,
        options: Mapping[str, OptionValue] | None = None,
    ) -> Commit | ServicePlan | None: ...

    def compact(
        self,
        *,
        dry_run: bool = False,
        strategy: str | Sequence[str] | None = None,
        threshold: PointInTime | int | None = None,
        partitions: Sequence[str] | None = None,
        options: Mapping[str, OptionValue] | None = None,
    ) -> Commit | ServicePlan | None:
        """Fold logs into new base files: plans that wait first, then what else there is. None if there is nothing to do.

        ``strategy`` names which file groups to take (``docs/services.md``); ``partitions`` takes those alone; ``options``
        are those of the service. ``strategy="event_time"`` compacts the data before ``threshold``
        (``docs/event-time.md``). A dry run returns the plan and writes nothing.
        """
        call = self._compaction_call(options, strategy, threshold, partitions)
        if dry_run:
            return schedule_compaction(call, dry_run=True)
        with progress(f"compaction of {self.name}"):
            return compact(call)

    def schedule_compaction(
        self,
        *,
        strategy: str | Sequence[str] | None = None,
        threshold: PointInTime | int | None = None,
        partitions: Sequence[str] | None = None,
        options: Mapping[str, OptionValue] | None = None,
    ) -> str | None:
        """Publish a plan for ``run_compaction``, here or elsewhere; returns its instant, None if there is nothing to do."""
        plan = schedule_compaction(self._compaction_call(options, strategy, threshold, partitions))
        return None if plan is None else plan.instant

    def run_compaction(self, instant: str | None = None) -> Commit | None:
        """Carry out a plan: that of an instant, or the oldest one that nobody is at; None if none waits."""
        with progress(f"compaction of {self.name}"):
            return run_compaction(self._service_call(None), _plan_instant(instant))

    @overload
    def cluster(
        self,
        *,
        dry_run: Literal[False] = False,
        sort_by: str | Sequence[str] | None = None,
        order: str | None = None,
        strategy: str | Sequence[str] | None = None,
        partitions: Sequence[str] | None = None,
        filter: str | None = None,
        options: Mapping[str, OptionValue] | None = None,
    ) -> Commit | None: ...

    @overload
    def cluster(
        self,
        *,
        dry_run: bool,
        sort_by: str | Sequence[str] | None = None,
        order: str | None = None,
        strategy: str | Sequence[str] | None = None,
        partitions: Sequence[str] | None = None,
        filter: str | None = None,
        options: Mapping[str, OptionValue] | None = None,
    ) -> Commit | ServicePlan | None: ...

    def cluster(
        self,
        *,
        dry_run: bool = False,
        sort_by: str | Sequence[str] | None = None,
        order: str | None = None,
        strategy: str | Sequence[str] | None = None,
        partitions: Sequence[str] | None = None,
        filter: str | None = None,
        options: Mapping[str, OptionValue] | None = None,
    ) -> Commit | ServicePlan | None:
        """Put small files together, and sort: plans that wait first, then what else there is. None if there is no work.

        ``sort_by`` names columns, ``order`` how several of them sort (``"linear"``, ``"z-order"``, ``"hilbert"``);
        ``strategy`` which partitions to look at (``docs/services.md``); ``partitions`` takes those alone, ``filter``
        those that a SQL condition on partition columns leaves; ``options`` are those of the service. A dry run returns
        the plan and writes nothing.
        """
        call = self._clustering_call(options, sort_by, order, strategy, partitions, filter)
        if dry_run:
            return schedule_clustering(call, dry_run=True)
        with progress(f"clustering of {self.name}"):
            return cluster(call)

    def schedule_clustering(
        self,
        *,
        sort_by: str | Sequence[str] | None = None,
        order: str | None = None,
        strategy: str | Sequence[str] | None = None,
        partitions: Sequence[str] | None = None,
        filter: str | None = None,
        options: Mapping[str, OptionValue] | None = None,
    ) -> str | None:
        """Publish a plan for ``run_clustering``, here or elsewhere; returns its instant, None if there is nothing to do."""
        plan = schedule_clustering(self._clustering_call(options, sort_by, order, strategy, partitions, filter))
        return None if plan is None else plan.instant

    def run_clustering(self, instant: str | None = None) -> Commit | None:
        """Carry out a plan: that of an instant, or the oldest one that nobody is at; None if none waits."""
        with progress(f"clustering of {self.name}"):
            return run_clustering(self._service_call(None), _plan_instant(instant))

    def clusterings(self, limit: int | None = 20) -> tuple[RunSummary, ...]:
        """The clustering plans on the timeline, newest first, and how far each is; None for all."""
        return runs_of(self._refreshed(), CLUSTERING, positive(limit))

    def withdraw_clustering(self, instant: str) -> None:
        """Take a pending plan off the timeline, so that writers may change its file groups; its executor, if any, fails."""
        withdraw(self._service_call(None), CLUSTERING, _plan_instant(str(instant)) or "")

    def _clustering_call(
        self,
        options: Mapping[str, OptionValue] | None,
        sort_by: str | Sequence[str] | None,
        order: str | None,
        strategy: str | Sequence[str] | None,
        partitions: Sequence[str] | None,
        condition: str | None,
    ) -> ServiceCall:
        given = given_options(options)
        if sort_by is not None:
            given[CLUSTERING_SORT_COLUMNS.key] = ",".join(names_of(sort_by, "sort_by"))
        if order is not None:
            given[CLUSTERING_ORDER.key] = order
        if condition is not None:
            given[CLUSTERING_FILTER.key] = condition
        return self._service_call(given, strategy, partitions, _CLUSTERING)

    def _compaction_call(
        self,
        options: Mapping[str, OptionValue] | None,
        strategy: str | Sequence[str] | None,
        threshold: PointInTime | int | None,
        partitions: Sequence[str] | None,
    ) -> ServiceCall:
        if threshold is None:
            return self._service_call(options, strategy, partitions)
        said = _instant_or_ms(threshold)
        given = {**given_options(options), EVENT_TIME_THRESHOLD.key: said, EVENT_TIME_POLICY.key: "FIXED"}
        call = self._service_call(given, "event_time" if strategy is None else strategy, partitions)
        if not goes_by_event_time(call.config(self._source)):
            raise InvalidError(
                "a threshold is for a compaction by event time", value=str(threshold), hint="strategy='event_time'"
            )
        return call

    def compactions(self, limit: int | None = 20) -> tuple[RunSummary, ...]:
        """The compaction plans on the timeline, newest first, and how far each is; None for all."""
        return runs_of(self._refreshed(), COMPACTION, positive(limit))

    def run_services(self, *, options: Mapping[str, OptionValue] | None = None) -> Iterator[Decision]:
        """One round of the service runner: what is due is done; each decision comes with its reason when it was made."""
        return run_round(self._service_call(options))

    def audit_services(self, repair: bool = False) -> AuditReport:
        """Prove, by looking at the whole table, that the next plans will see all work; ``repair`` heals what they would not."""
        return audit_table(self._service_call(None), repair=repair)

    def _service_call(
        self,
        options: Mapping[str, OptionValue] | None,
        strategy: str | Sequence[str] | None = None,
        partitions: Sequence[str] | None = None,
        named: _Named | None = None,
    ) -> ServiceCall:
        given = checked_service_options(given_options(options))
        named = named or _COMPACTION
        strategies = [] if strategy is None else list(names_of(strategy, "strategy", "strategies"))
        if partitions is not None:
            given[named.partitions_key] = name_list_text(paths_of(partitions))
            strategies.insert(0, named.partitions_strategy)
        if strategies:
            given[named.strategy_key] = "+".join(strategies)
        return ServiceCall(
            self._source.storage,
            self._clock,
            self._file_options(),
            self._options,
            service_options(self._source.config.properties, self._service_options, given),
            self._runner(),
        )

    def _runner(self) -> TaskRunner:
        if self._spark is None:
            return LocalRunner()
        from tidelake.spark.tasks import SparkRunner  # noqa: PLC0415 - an optional dependency

        return SparkRunner(self._spark)
