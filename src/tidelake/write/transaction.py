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
from dataclasses import dataclass, field, replace

from tidelake._clock import Clock
from tidelake.config import TableConfig, WriterOptions
from tidelake.errors import ConflictError, NotFoundError, TidelakeError, UnavailableError
from tidelake.filegroup import keep_state
from tidelake.format.commit_metadata import CommitMetadata, ReplaceCommitMetadata, WriteStat
from tidelake.format.names import State, TimelineName
from tidelake.format.plans import RequestedReplaceMetadata
from tidelake.locking import Lock, make_lock
from tidelake.query import TableSource
from tidelake.query.freshness import marks_of_commit
from tidelake.storage import Storage
from tidelake.timeline import Instant, Timeline, TimelineReader, load_timeline
from tidelake.timeline.claim import alive_since_ms
from tidelake.timeline.decoded import DECODED
from tidelake.timeline.transitions import HEARTBEAT_DIR, Publication, Published, Transitions
from tidelake.write.conflicts import Footprint, KeyChecks, check_conflicts, check_leftovers, check_schema, check_undone
from tidelake.write.heartbeat import beating
from tidelake.write.intent import intent, refuse_broken_intent
from tidelake.write.metadata_table import retire_metadata_table
from tidelake.write.restoring import finish_restore
from tidelake.write.rollback import delete_markers, finish_rollback, marked_files, rollback
from tidelake.write.traces import heartbeats, sweep_traces
from tidelake.write.txn import TXN_KEY, Earlier, Txn, find_repeat

_SYNC = b"tidelake-commit!"
_NO_KEYS = KeyChecks()
_MANY_FILES = 1_000
"""A write of so many files stores the table state at once: it costs a part of the write, and saves others a listing."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed write."""

    requested_time: str
    completion_time: str
    operation: str
    stats: tuple[WriteStat, ...] = field(repr=False)
    is_repeat: bool = False
    """The batch had been written before (``txn``): this is the commit that has it, and nothing was written again."""

    @property
    def rows_written(self) -> int:
        """Rows in the files of the commit."""
        return sum(stat.num_writes or 0 for stat in self.stats)


@dataclass(frozen=True, slots=True)
class WriteStart:
    """What a write is, before it has an instant.

    ``known`` is the timeline as of which its rows were read, if they were: what changed since conflicts.
    ``schema_known`` is the one as of which its schema was.
    """

    storage: Storage
    config: TableConfig
    clock: Clock
    action: str
    operation: str
    schema_known: Timeline
    known: Timeline | None = None
    txn: Txn | None = None
    options: WriterOptions = field(default_factory=WriterOptions)


def in_transaction(start: WriteStart, run: Callable[[Transaction], Commit]) -> Commit:
    """Begin a write, run it to its end and say what became true.

    An error takes the write back; the death of the process leaves it to the next writer.
    """
    lock = make_lock(start.options.lock, start.storage, start.clock)
    is_repeat = _earlier(start, start.schema_known) is not None
    if is_repeat:  # a rollback or restore that takes it back may be decided, and not be seen yet
        Transitions(start.storage, start.config, start.clock, lock).finish_last_turn()
    recover(start.storage, start.config, start.clock, start.options, lock)
    if is_repeat:
        earlier = _earlier(start, load_timeline(start.storage, start.config))
        if earlier is not None:
            return _repeat(earlier)
    transaction = Transaction(start, lock)
    if _is_being_undone(transaction.start, TimelineReader(start.storage, start.config)):
        # A rollback or restore of what this write would be made on top of was decided, and its process died before others
        # could see its plan: it goes first.
        transaction.abort()
        recover(start.storage, start.config, start.clock, start.options, lock)
        transaction = Transaction(start, lock)
    with beating(start.storage, transaction.instant, start.options.heartbeat_ms):
        try:
            done = run(transaction)
        except _RepeatedError as repeated:
            transaction.abort()
            return _repeat(repeated.earlier)
        except Exception:
            after_all = transaction.abort()
            if after_all is None:
                raise
            done = after_all
    transaction.end_heartbeat()
    every = start.options.state_turns
    if every and transaction.turn and (transaction.turn % every == 0 or len(done.stats) >= _MANY_FILES):
        keep_state(start.storage, start.config, TimelineReader(start.storage, start.config))
    return done


def _earlier(start: WriteStart, timeline: Timeline) -> Earlier | None:
    """The commit that has the batch already, if the write is one."""
    if start.txn is None:
        return None
    return find_repeat(start.txn, timeline, TimelineReader(start.storage, start.config))


def _is_being_undone(timeline: Timeline, reader: TimelineReader) -> bool:
    """Whether something that completed is being taken back. What a published restore names does not count any more."""
    if any(taker.action == "restore" and not taker.is_completed for taker in timeline.takers):
        return True
    try:
        check_undone(timeline, timeline, reader)
    except ConflictError:
        return True
    return False


class _RepeatedError(Exception):
    """Another process has written the same batch meanwhile."""

    def __init__(self, earlier: Earlier) -> None:
        super().__init__(earlier.requested_time)
        self.earlier = earlier


def _repeat(earlier: Earlier) -> Commit:
    commit = earlier.commit
    return Commit(
        earlier.requested_time, earlier.completion_time, commit.operation_type or "", commit.stats, is_repeat=True
    )


class Transaction:
    """One write under way."""

    def __init__(self, start: WriteStart, lock: Lock) -> None:
        """Begin a write."""
        self._storage = start.storage
        self._config = start.config
        self._clock = start.clock
        self._action = start.action
        self._operation = start.operation
        self._known = start.known
        self._schema_known = start.schema_known
        self._txn = start.txn
        self._lock = lock
        self._stats: tuple[WriteStat, ...] = ()
        self.turn = 0
        """The number of the turn that made it true."""
        self._moves = Transitions(start.storage, start.config, start.clock, lock)
        self._reader = TimelineReader(start.storage, start.config)
        self._said = intent(start.config, start.operation, start.schema_known)
        profile = CommitMetadata({}, False, self._said, 1, start.operation).encode(_SYNC)
        requested = RequestedReplaceMetadata(version=None).encode(_SYNC) if start.action == "replacecommit" else b""
        self.instant, self.start = self._moves.begin(start.action, requested, profile)

    def commit(
        self,
        stats: tuple[WriteStat, ...],
        footprint: Footprint,
        extra: Mapping[str, str],
        replaced: Mapping[str, tuple[str, ...]] | None = None,
        keys: KeyChecks = _NO_KEYS,
    ) -> Commit:
        """Make the write true, or raise ConflictError with nothing visible."""
        refuse_broken_intent(self._said, stats)
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
            if self._txn is not None:
                earlier = find_repeat(self._txn, timeline, self._reader, self._schema_known)
                if earlier is not None:
                    raise _RepeatedError(earlier)
            check_conflicts(footprint, self._known or self.start, timeline, self._reader, keys)
            check_leftovers(footprint, self.instant, self._config, timeline, self._reader)
            check_schema(extra.get("schema"), self._schema_known, timeline, self._reader)
            retire_metadata_table(self._storage, self._clock)
            told = self._with_freshness(metadata, timeline)
            return Publication(self._action, State.COMPLETED, self.instant, lambda _: DECODED.encode(told, _SYNC))

        self._stats = stats
        published = self._moves.publish(decide)
        self.turn = published.turn
        return self._done(published.completion)

    def abort(self) -> Commit | None:
        """Take the write back: its files and its instant. If it had its turn before the error, it is true: the commit.

        What cannot be taken back now is left to the next writer.
        """
        with suppress(TidelakeError):
            try:
                pending = Instant(self.instant, self._action, State.INFLIGHT)
                rollback(self._storage, self._config, self._clock, pending, self._lock)
            except ConflictError:
                mine = self._moves.load().by_time.get(self.instant)
                if mine is not None:
                    return self._done(mine.completion_time)
        return None

    def _done(self, completion: str | None) -> Commit:
        # The write is true: what is left over of its making is no reason to say otherwise.
        with suppress(UnavailableError):
            delete_markers(self._storage, self.instant)
        return Commit(self.instant, completion or "", self._operation, self._stats)

    def end_heartbeat(self) -> None:
        """Remove the sign of life of a write that is true, when no other can follow it."""
        with suppress(UnavailableError):
            self._storage.delete(f"{HEARTBEAT_DIR}/{self.instant}")

    def _metadata(
        self, stats: tuple[WriteStat, ...], extra: Mapping[str, str], replaced: Mapping[str, tuple[str, ...]] | None
    ) -> CommitMetadata:
        by_partition: dict[str, tuple[WriteStat, ...]] = {}
        if self._txn is not None:
            extra = {**extra, TXN_KEY: self._txn.encode()}
        for stat in stats:
            part = stat.partition_path or ""
            by_partition[part] = (*by_partition.get(part, ()), stat)
        if self._action == "replacecommit":
            return ReplaceCommitMetadata(by_partition, False, dict(extra), 1, self._operation, dict(replaced or {}))
        return CommitMetadata(by_partition, False, dict(extra), 1, self._operation)

    def _with_freshness(self, metadata: CommitMetadata, timeline: Timeline) -> CommitMetadata:
        """The commit with the completion and freshness that the table has with it, on the timeline of its turn."""
        if self._config.event_time_field is None:
            return metadata
        source = TableSource(self._storage, self._config, timeline, self._reader)
        marks = marks_of_commit(source, self._clock.now_ms(), self.instant, metadata)
        return replace(metadata, extra_metadata={**(metadata.extra_metadata or {}), **marks})

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


def recover(
    storage: Storage,
    config: TableConfig,
    clock: Clock,
    options: WriterOptions | None = None,
    lock: Lock | None = None,
) -> list[str]:
    """Finish what dead writers left: pending rollbacks and restores, and writes whose heartbeat has expired.

    Returns their instants.
    """
    dead_after_ms = (options or WriterOptions()).dead_after_ms
    left = heartbeats(storage)
    moves = Transitions(storage, config, clock, lock)
    timeline = moves.load()
    recovered: list[str] = []
    for instant in timeline.pending:
        if instant.action == "rollback":
            finish_rollback(storage, config, clock, instant.requested_time, lock)
            recovered.append(instant.requested_time)
    for instant in timeline.pending:
        if instant.action == "restore":
            finish_restore(storage, config, clock, instant.requested_time, lock)
            recovered.append(instant.requested_time)
            timeline = moves.load()
    savepoints = [i for i in timeline.pending if i.action == "savepoint"]
    candidates = [
        i for i in timeline.pending if i.is_write and i.pending_action in ("commit", "deltacommit", "replacecommit")
    ]
    unknown = left.keys() - {i.requested_time for i in timeline.instants}
    expired: frozenset[str] = frozenset()
    if candidates or unknown or savepoints:
        since_ms = alive_since_ms(storage, clock, dead_after_ms)
        expired = frozenset(instant for instant in unknown if left[instant].modified_ms < since_ms)
        for instant in savepoints:
            sign_ms = _last_sign_ms(storage, config, instant)
            if sign_ms is not None and sign_ms < since_ms:
                storage.delete(moves.path(instant.file_name))
                recovered.append(instant.requested_time)
        for instant in candidates:
            sign_ms = _last_sign_ms(storage, config, instant)
            if sign_ms is not None and sign_ms < since_ms:
                try:
                    rollback(storage, config, clock, instant, lock)
                except ConflictError:
                    continue
                recovered.append(instant.requested_time)
        timeline = moves.load()  # what was decided, but not finished, is finished by now
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
