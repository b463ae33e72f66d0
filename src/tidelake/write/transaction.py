"""A write, from its first file to the moment it is true.

``begin`` takes an instant and shows that it lives (heartbeat). Files are written under that instant, each behind a marker;
nobody sees them. ``commit`` removes what no statistic names (leftovers of repeated tasks: visibility is by name), checks
conflicts against the timeline as it is then, retires Apache Hudi's metadata table if there is one, and publishes the
completed instant by one turn of the head. ``abort`` rolls
the write back. A process that dies in between is rolled back by the next writer once its heartbeat has expired.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from tidelake._clock import Clock
from tidelake.config import TableConfig
from tidelake.errors import ConflictError, NotFoundError, TidelakeError, UnavailableError
from tidelake.format.commit_metadata import CommitMetadata, ReplaceCommitMetadata, WriteStat
from tidelake.format.names import State, TimelineName
from tidelake.format.plans import RequestedReplaceMetadata
from tidelake.storage import Storage
from tidelake.timeline import Instant, Timeline, TimelineReader
from tidelake.timeline.transitions import HEARTBEAT_DIR, Publication, Published, Transitions
from tidelake.write.conflicts import Footprint, check_conflicts, check_schema
from tidelake.write.metadata_table import retire_metadata_table
from tidelake.write.rollback import delete_markers, finish_rollback, marked_files, rollback
from tidelake.write.traces import heartbeats, sweep_traces

HEARTBEAT_INTERVAL_MS = 60_000
TOLERABLE_MISSES = 2
_SYNC = b"tidelake-commit!"
_JUDGE = ".hoodie/.tidelake/judge"


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed write."""

    requested_time: str
    completion_time: str
    operation: str
    stats: tuple[WriteStat, ...] = field(repr=False)

    @property
    def rows_written(self) -> int:
        """Rows in the files of the commit."""
        return sum(stat.num_writes or 0 for stat in self.stats)


class Transaction:
    """One write under way."""

    def __init__(
        self,
        storage: Storage,
        config: TableConfig,
        clock: Clock,
        action: str,
        operation: str,
        *,
        known: Timeline | None = None,
        schema_known: Timeline | None = None,
    ) -> None:
        """Begin a write.

        ``known`` is the timeline as of which its rows were read, if they were: what changed since conflicts.
        ``schema_known`` is the one as of which its schema was.
        """
        self._storage = storage
        self._config = config
        self._clock = clock
        self._action = action
        self._operation = operation
        self._known = known
        self._schema_known = schema_known
        self._stats: tuple[WriteStat, ...] = ()
        self._moves = Transitions(storage, config, clock)
        self._reader = TimelineReader(storage, config)
        profile = CommitMetadata({}, False, {}, 1, operation).encode(_SYNC)
        requested = RequestedReplaceMetadata(version=None).encode(_SYNC) if action == "replacecommit" else b""
        self.instant, self.start = self._moves.begin(action, requested, profile)

    def beat(self) -> None:
        """Show that the write lives."""
        self._storage.put(f"{HEARTBEAT_DIR}/{self.instant}", b"")

    def commit(
        self,
        stats: tuple[WriteStat, ...],
        footprint: Footprint,
        extra: Mapping[str, str],
        replaced: Mapping[str, tuple[str, ...]] | None = None,
        has_inserted_key: Callable[[WriteStat], str | None] = lambda _: None,
    ) -> Commit:
        """Make the write true, or raise ConflictError with nothing visible."""
        self._reconcile(stats)
        metadata = self._metadata(stats, extra, replaced)

        def decide(timeline: Timeline) -> Publication | Published:
            mine = next((i for i in timeline.instants if i.requested_time == self.instant and i.is_write), None)
            if mine is not None and mine.is_completed:
                return Published(self.instant, mine.completion_time, mine.file_name)
            began = timeline.states_of(self.instant, self._action)
            if not {State.REQUESTED, State.INFLIGHT} <= began or self._is_condemned(timeline):
                raise ConflictError(
                    "this write was rolled back by another writer, who took it for dead",
                    instant=self.instant,
                    table=self._storage.uri,
                    hint="redo the write; let long writes beat more often",
                )
            check_conflicts(footprint, self._known or self.start, timeline, self._reader, has_inserted_key)
            check_schema(extra.get("schema"), self._schema_known or self.start, timeline, self._reader)
            retire_metadata_table(self._storage, self._clock)
            return Publication(self._action, State.COMPLETED, self.instant, lambda _: metadata.encode(_SYNC))

        self._stats = stats
        return self._done(self._moves.publish(decide).completion)

    def abort(self) -> Commit | None:
        """Take the write back: its files and its instant. If it had its turn before the error, it is true: the commit.

        What cannot be taken back now is left to the next writer.
        """
        with suppress(TidelakeError):
            try:
                rollback(self._storage, self._config, self._clock, Instant(self.instant, self._action, State.INFLIGHT))
            except ConflictError:
                mine = self._moves.load().by_time.get(self.instant)
                if mine is not None:
                    return self._done(mine.completion_time)
        return None

    def _done(self, completion: str | None) -> Commit:
        # The write is true: what is left over of its making is no reason to say otherwise.
        with suppress(UnavailableError):
            delete_markers(self._storage, self.instant)
            self._storage.delete(f"{HEARTBEAT_DIR}/{self.instant}")
        return Commit(self.instant, completion or "", self._operation, self._stats)

    def _metadata(
        self, stats: tuple[WriteStat, ...], extra: Mapping[str, str], replaced: Mapping[str, tuple[str, ...]] | None
    ) -> CommitMetadata:
        by_partition: dict[str, tuple[WriteStat, ...]] = {}
        for stat in stats:
            part = stat.partition_path or ""
            by_partition[part] = (*by_partition.get(part, ()), stat)
        if self._action == "replacecommit":
            return ReplaceCommitMetadata(by_partition, False, dict(extra), 1, self._operation, dict(replaced or {}))
        return CommitMetadata(by_partition, False, dict(extra), 1, self._operation)

    def _reconcile(self, stats: tuple[WriteStat, ...]) -> None:
        """Delete files of this instant that the statistics do not name."""
        named = {stat.path for stat in stats}
        for path in marked_files(self._storage, self.instant) or ():
            if path not in named:
                self._storage.delete(path)

    def _is_condemned(self, timeline: Timeline) -> bool:
        """Whether a rollback or restore names this write, under way or done."""
        takers = (i for i in timeline.takers if i.requested_time > self.instant)
        return any(self.instant in self._reader.targets(taker) for taker in takers)


def recover(storage: Storage, config: TableConfig, clock: Clock) -> list[str]:
    """Finish what dead writers left: pending rollbacks, and writes whose heartbeat has expired. Returns their instants."""
    left = heartbeats(storage)
    timeline = Transitions(storage, config, clock).load()
    recovered: list[str] = []
    for instant in timeline.pending:
        if instant.action == "rollback":
            finish_rollback(storage, config, clock, instant.requested_time)
            recovered.append(instant.requested_time)
    candidates = [
        i for i in timeline.pending if i.is_write and i.pending_action in ("commit", "deltacommit", "replacecommit")
    ]
    unknown = left.keys() - {i.requested_time for i in timeline.instants}
    expired: frozenset[str] = frozenset()
    if candidates or unknown:
        storage.put(_JUDGE, clock.new_id().encode())
        alive_since_ms = storage.head(_JUDGE).modified_ms - HEARTBEAT_INTERVAL_MS * TOLERABLE_MISSES
        expired = frozenset(instant for instant in unknown if left[instant].modified_ms < alive_since_ms)
        for instant in candidates:
            sign_ms = _last_sign_ms(storage, config, instant)
            if sign_ms is not None and sign_ms < alive_since_ms:
                try:
                    rollback(storage, config, clock, instant)
                except ConflictError:
                    continue
                recovered.append(instant.requested_time)
        timeline = Transitions(storage, config, clock).load()  # what was decided, but not finished, is finished by now
    sweep_traces(storage, TimelineReader(storage, config), timeline, left, expired)
    return recovered


def _last_sign_ms(storage: Storage, config: TableConfig, instant: Instant) -> int | None:
    """When a writer was last known to live; None if its instant has ended since the timeline was read."""
    action = instant.pending_action or instant.action
    names = (TimelineName(instant.requested_time, action, state) for state in (State.REQUESTED, State.INFLIGHT))
    for path in (f"{HEARTBEAT_DIR}/{instant.requested_time}", *(f"{config.timeline_dir}/{name}" for name in names)):
        with suppress(NotFoundError):
            return storage.head(path).modified_ms
    return None
