"""Which commits, and so which partitions, a service has to look at: what changed since the last one, and what was left.

Words
- *the last service*: the completed one of the kind with the greatest requested time.
- *overlapping*: it, every pending one, and every one that completed after the last one was requested.
- *window*: completion times from the least requested time of the overlapping ones on. Services that complete out of order
  leave no hole, because the window starts at the earliest of them.
- *carried*: partitions in which the overlapping plans say that they left work.

A last service that is not ours makes the plan look at the whole table: what it left out it did not record. So does an
undone restore or overwrite, which brings back file groups whose commits lie before the window.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tidelake.config import TableConfig
from tidelake.errors import NotFoundError, TidelakeError
from tidelake.format.avro_record import decode_record
from tidelake.format.commit_metadata import CommitMetadata, ReplaceCommitMetadata
from tidelake.format.history import ArchivedInstant
from tidelake.format.names import State, TimelineName
from tidelake.format.plans import RollbackPlan
from tidelake.format.service_metadata import RollbackMetadata
from tidelake.services.cursor import Cursor
from tidelake.services.kinds import COMPACTION, PlanFacts, ServiceKind
from tidelake.storage import Storage
from tidelake.timeline import WRITE_ACTIONS, Instant, Timeline, TimelineReader
from tidelake.write.conflicts import is_log
from tidelake.write.intent import only_bases

INCREMENTAL, FULL = "incremental", "full"


@dataclass(frozen=True, slots=True)
class ServiceRun:
    """A service of the kind: pending (no completion) or completed, on the timeline or archived."""

    requested: str
    completion: str | None
    facts: PlanFacts | None
    """None if its plan cannot be read."""


@dataclass(frozen=True, slots=True)
class Window:
    """What a plan has to look at. ``partitions`` is None for all of them; ``source`` says why."""

    source: str
    partitions: frozenset[str] | None
    left: str | None
    last: ServiceRun | None
    instants: tuple[str, ...] = ()
    """The commits in the window, by requested time."""
    read: frozenset[str] = frozenset()
    """Those of them that had to be read."""

    @property
    def last_times(self) -> tuple[str, str] | None:
        """The last completed service, as a cursor names it."""
        return None if self.last is None else (self.last.requested, self.last.completion or "")


class WindowFinder:
    """Finds the window of one kind of service on one timeline."""

    def __init__(
        self, storage: Storage, config: TableConfig, timeline: Timeline, reader: TimelineReader, kind: ServiceKind
    ) -> None:
        self._storage = storage
        self._config = config
        self._timeline = timeline
        self._reader = reader
        self._kind = kind
        self._archived: tuple[ArchivedInstant, ...] | None = None

    def find(self, cursor: Cursor | None, *, incremental: bool = True) -> Window:
        """The window; the whole table if there is nothing to start from, or ``incremental`` is off."""
        runs = self._active_runs()
        if not any(run.completion for run in runs):
            runs = [*self._archived_runs(), *runs]
        completed = [run for run in runs if run.completion is not None]
        last = max(completed, key=lambda run: run.requested, default=None)
        whole = Window(FULL, None, None, last)
        if not incremental:
            return whole
        if cursor is not None and cursor.last == whole.last_times:
            left, carried = cursor.upto, cursor.carry
        elif last is None:
            return whole
        else:
            runs = [*self._late_archived_runs(last, runs), *runs]
            overlapping = [run for run in runs if run.completion is None or run.completion > last.requested]
            unreadable = next((run for run in overlapping if run.facts is None), None)
            if unreadable is not None:
                return self._fallback(f"the plan {unreadable.requested} cannot be read", last)
            if last.facts is None or not last.facts.is_ours:
                return self._fallback("foreign plan", last)
            left = min(run.requested for run in overlapping)
            carried = frozenset(part for run in overlapping if run.facts for part in run.facts.missing)
        undone = self._undone_since(left)
        if undone is not None:
            return self._fallback(f"{undone} took writes back", last)
        try:
            touched, instants, read = self._touched_since(left)
        except TidelakeError as error:
            return self._fallback(f"a commit cannot be read: {error.message}", last)
        return Window(INCREMENTAL, carried | touched, left, last, instants, read)

    def _fallback(self, reason: str, last: ServiceRun | None) -> Window:
        return Window(f"full_fallback:{reason}", None, None, last)

    def _active_runs(self) -> list[ServiceRun]:
        found = []
        for instant in self._timeline.instants:
            if instant.pending_action == self._kind.action and instant.action == self._kind.completed_action:
                found.append(ServiceRun(instant.requested_time, instant.completion_time, self._facts(instant)))
        return found

    def _facts(self, instant: Instant) -> PlanFacts | None:
        path = f"{self._config.timeline_dir}/{instant.requested_file_name}"
        try:
            return self._kind.facts(self._storage.get(path))
        except NotFoundError:
            return None

    def _history(self) -> tuple[ArchivedInstant, ...]:
        """The archived instants with their plans and what they did; read once, if asked for."""
        if self._archived is None:
            columns = ("instantTime", "completionTime", "action", "plan", "metadata")
            self._archived = self._reader.load_history(columns) if self._reader.history else ()
        return self._archived

    def _archived_runs(self) -> list[ServiceRun]:
        runs = []
        for archived in self._history():
            is_kind = archived.action in (self._kind.completed_action, self._kind.action)
            facts = self._kind.facts(archived.plan) if is_kind and archived.plan else None
            if facts is not None:
                runs.append(ServiceRun(archived.requested_time, archived.completion_time, facts))
        return runs

    def _late_archived_runs(self, last: ServiceRun, known: Iterable[ServiceRun]) -> list[ServiceRun]:
        """Archived services that completed after the last one, which is on the timeline, was requested."""
        seen = {run.requested for run in known}
        if not any((old.completion_time or "") > last.requested for old in self._reader.history):
            return []
        return [run for run in self._archived_runs() if run.requested not in seen]

    def _undone_since(self, left: str) -> str | None:
        for taker in self._timeline.takers:
            if (taker.completion_time or taker.requested_time) < left:
                continue
            if taker.action == "restore" or self._takes_replacement(taker):
                return str(taker)
        for archived in self._archived_since(left, ("rollback", "restore")):
            if archived.action == "restore" or _took_replacement(archived):
                return f"{archived.requested_time}.{archived.action}"
        return None

    def _archived_since(self, left: str, actions: Collection[str]) -> list[ArchivedInstant]:
        """The archived instants of some actions that completed since; their contents are read only if there are any."""

        def counts(old: ArchivedInstant) -> bool:
            return old.action in actions and (old.completion_time or "") >= left

        return [old for old in self._history() if counts(old)] if any(map(counts, self._reader.history)) else []

    def _takes_replacement(self, taker: Instant) -> bool:
        try:
            target = self._reader.record(RollbackPlan, taker.requested_file_name).instant_to_rollback
        except TidelakeError:
            return True  # what it took back is not known
        return target is not None and target.action == "replacecommit"

    def _touched_since(self, left: str) -> tuple[frozenset[str], tuple[str, ...], frozenset[str]]:
        touched: set[str] = set()
        instants: list[str] = []
        read: set[str] = set()
        for instant in self._timeline.completed_writes:
            if (instant.completion_time or "") < left or instant.pending_action == self._kind.action:
                continue
            instants.append(instant.requested_time)
            if self._makes_no_work(instant):
                continue
            read.add(instant.requested_time)
            touched |= self._partitions_of(instant.requested_time, self._reader.commit(instant))
        for archived in self._archived_since(left, WRITE_ACTIONS):
            if archived.plan is not None and self._kind.facts(archived.plan) is not None:
                continue
            instants.append(archived.requested_time)
            cls = ReplaceCommitMetadata if archived.action == "replacecommit" else CommitMetadata
            touched |= self._partitions_of(archived.requested_time, decode_record(cls, archived.metadata or b""))
        return frozenset(touched), tuple(instants), frozenset(read)

    def _makes_no_work(self, instant: Instant) -> bool:
        """Whether a write said, when it began, that it would make no log: told without reading what it did."""
        if self._kind is not COMPACTION or instant.pending_action not in WRITE_ACTIONS:
            return False
        name = TimelineName(instant.requested_time, instant.pending_action, State.INFLIGHT)
        try:
            return only_bases(self._storage.get(f"{self._config.timeline_dir}/{name}"))
        except NotFoundError:
            return False

    def _partitions_of(self, instant: str, commit: CommitMetadata) -> set[str]:
        """The partitions in which a commit may have made work; statistics of ours say exactly which files it wrote."""
        needs_logs = self._kind is COMPACTION and commit.is_ours(instant)
        found = {stat.partition_path or "" for stat in commit.stats if not needs_logs or is_log(stat)}
        if isinstance(commit, ReplaceCommitMetadata):
            found |= set(commit.partition_to_replace_file_ids or {})
        return found


def _took_replacement(archived: ArchivedInstant) -> bool:
    """Whether an archived rollback took back a write that had replaced file groups, or does not say what it took back."""
    try:
        taken = decode_record(RollbackMetadata, archived.metadata or b"").instants_rollback
    except TidelakeError:
        return True
    return not taken or any(target.action == "replacecommit" for target in taken)
