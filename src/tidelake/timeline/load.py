"""Reading a table's properties and active timeline from storage.

Names are listed once; contents are read only when asked for, and kept, since an instant file never changes. Nothing
here needs Arrow, so that looking at a timeline takes well under a second; the history, which does, is in ``history.py``
and loaded with it.

A *ghost* is a completed file of a write, or the plan of a service, that a publisher put late, after others had put it, and
had then taken its instant back or archived it. A restore that is published says so at once; else a ghost stands alone,
without its requested file, and the rollbacks and the history tell. So does the inflight file that a plan's executor put
when the plan had been withdrawn, and the completed file of a savepoint that had been dropped. Ghosts do not count, and the
next publication removes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tidelake.config import TableConfig, parse_table_config
from tidelake.errors import CorruptError, NotATableError, NotFoundError, TidelakeError, UnsupportedError
from tidelake.format.avro_record import AvroRecord
from tidelake.format.commit_metadata import CommitMetadata, ReplaceCommitMetadata
from tidelake.format.history import ArchivedInstant
from tidelake.format.names import (
    COMPLETED_NAMES,
    COMPLETES_AS,
    PROPERTIES_BACKUP_FILE,
    PROPERTIES_FILE,
    State,
    TimelineName,
    parse_timeline_name,
)
from tidelake.format.plans import InstantInfo, RestorePlan, RollbackPlan
from tidelake.format.properties import check_table_properties, decode_properties
from tidelake.format.service_metadata import RestoreMetadata, RollbackMetadata
from tidelake.storage import Storage
from tidelake.timeline.decoded import DECODED
from tidelake.timeline.instant import WRITE_ACTIONS, Instant, Timeline

R = TypeVar("R", bound=AvroRecord)
DROPPED_DIR = ".hoodie/.tidelake/dropped"
"""Files named as the savepoints that were dropped."""
_READERS = 16
_TIME_DIGITS = 17
_OPERATION_BYTES = 1024 * 1024
_PLANNED_OPERATIONS = {"compaction": "COMPACT", "logcompaction": "LOG_COMPACT", "clustering": "CLUSTER"}


def load_config(storage: Storage) -> TableConfig:
    """The table's configuration, from its properties or, if they are damaged, from their backup."""
    failures: list[str] = []
    for path in (PROPERTIES_FILE, PROPERTIES_BACKUP_FILE):
        try:
            properties = decode_properties(storage.get(path))
            check_table_properties(properties)
        except NotFoundError:
            continue
        except CorruptError as error:
            failures.append(f"{path}: {error.message}")
            continue
        try:
            return parse_table_config(properties)
        except TidelakeError as error:
            raise error.with_context(table=storage.uri, file=path) from None
    if failures:
        hint = f"restore {PROPERTIES_FILE} from a copy"
        raise CorruptError("; ".join(failures), table=storage.uri, file=PROPERTIES_FILE, hint=hint)
    raise NotATableError(
        f"{storage.uri} is not a table: it has no {PROPERTIES_FILE}",
        value=storage.uri,
        hint="check the path, or make the table with create_table",
    )


def load_timeline(storage: Storage, config: TableConfig) -> Timeline:
    """The active timeline, from the names in its folder."""
    names: list[TimelineName] = []
    for info in storage.list_dir(config.timeline_dir)[1]:
        name = info.path.rsplit("/", 1)[-1]
        parsed = parse_timeline_name(name)
        if parsed is not None:
            names.append(parsed)
        elif _is_legacy(name):
            raise UnsupportedError(
                f"{name} is a completed instant without a completion time", table=storage.uri, file=info.path
            )
    found = Timeline(names)
    ghosts = _ghosts(found, TimelineReader(storage, config)) + _dropped_savepoints(storage, found)
    return Timeline(names, ghosts) if ghosts else found


def _ghosts(found: Timeline, reader: TimelineReader) -> list[TimelineName]:
    completed = [n for n in found.names if n.state is State.COMPLETED and n.action in WRITE_ACTIONS]
    began = {(n.requested_time, n.completed_action) for n in found.names if n.state is not State.COMPLETED}
    alone = [n for n in completed if (n.requested_time, n.action) not in began]
    restored = {target for i in found.takers if i.action == "restore" for target in reader.targets(i)}
    # Of a service its plan, too: what it names is gone, and it would be pending for ever.
    ghosts = [n for n in found.names if n.requested_time in restored and n.completed_action in WRITE_ACTIONS]
    if alone:
        gone = {target for i in found.takers for target in reader.targets(i)}
        gone.update(archived.requested_time for archived in reader.history)
        ghosts.extend(n for n in alone if n.requested_time in gone - restored)
    return ghosts + _late_starts(found, reader)


def _dropped_savepoints(storage: Storage, found: Timeline) -> list[TimelineName]:
    """Completed savepoints that were dropped: their maker may have put them again."""
    kept = [n for n in found.names if n.action == "savepoint" and n.state is State.COMPLETED]
    dropped = {info.path for info in storage.list_dir(DROPPED_DIR)[1]} if kept else set()
    return [n for n in kept if f"{DROPPED_DIR}/{n}" in dropped]


def _late_starts(found: Timeline, reader: TimelineReader) -> list[TimelineName]:
    """Inflight files of plans that are gone, as a completed rollback says."""
    planned = {(n.requested_time, n.action) for n in found.names if n.state is State.REQUESTED}
    begun = [n for n in found.names if n.state is State.INFLIGHT and n.action in COMPLETES_AS]
    alone = [n for n in begun if (n.requested_time, n.action) not in planned]
    if not alone:
        return []
    gone = {target for i in found.of_action("rollback") for target in reader.targets(i)}
    return [n for n in alone if n.requested_time in gone and n.requested_time not in found.by_time]


def _is_legacy(name: str) -> bool:
    time, _, action = name.partition(".")
    return time.isascii() and time.isdigit() and len(time) <= _TIME_DIGITS and action in COMPLETED_NAMES


class TimelineReader:
    """Contents of timeline files, and the history, each read at most once."""

    def __init__(self, storage: Storage, config: TableConfig) -> None:
        self._storage = storage
        self._config = config
        self._commits: dict[str, CommitMetadata] = {}
        self._targets: dict[str, tuple[str, ...]] = {}
        self._history: tuple[ArchivedInstant, ...] | None = None

    def record(self, cls: type[R], file_name: str) -> R:
        """The record in one file of the active timeline."""
        path = f"{self._config.timeline_dir}/{file_name}"
        try:
            return DECODED.get(cls, self._storage.get(path))
        except TidelakeError as error:
            raise error.with_context(table=self._storage.uri, file=path, instant=file_name.split("_")[0]) from None

    def commit(self, instant: Instant) -> CommitMetadata:
        """What a completed write instant did."""
        name = instant.file_name
        if name not in self._commits:
            kind: type[CommitMetadata] = ReplaceCommitMetadata if instant.action == "replacecommit" else CommitMetadata
            self._commits[name] = self.record(kind, name)
        return self._commits[name]

    def commits(self, instants: tuple[Instant, ...]) -> dict[str, CommitMetadata]:
        """What several write instants did, by requested time, read side by side."""
        missing = [i for i in instants if i.file_name not in self._commits]
        if len(missing) >= (2 if self._storage.is_remote else _READERS):
            with ThreadPoolExecutor(min(_READERS, len(missing))) as pool:
                list(pool.map(self.commit, missing))
        return {i.requested_time: self.commit(i) for i in instants}

    def targets(self, taker: Instant) -> tuple[str, ...]:
        """The instants that a rollback or restore takes back, by its plan or, if that is gone, by what it did."""
        if taker.requested_time not in self._targets:
            self._targets[taker.requested_time] = self._read_targets(taker)
        return self._targets[taker.requested_time]

    def restored(self, restore: Instant) -> tuple[InstantInfo, ...]:
        """The instants that a restore takes back, each with its action then."""
        try:
            return self.record(RestorePlan, restore.requested_file_name).instants_to_rollback
        except NotFoundError:
            if not restore.is_completed:
                return ()
        return self.record(RestoreMetadata, restore.file_name).restore_instant_info

    def _read_targets(self, taker: Instant) -> tuple[str, ...]:
        is_rollback = taker.action == "rollback"
        try:
            if is_rollback:
                named = self.record(RollbackPlan, taker.requested_file_name).instant_to_rollback
                return () if named is None else (named.commit_time,)
            plan = self.record(RestorePlan, taker.requested_file_name)
            return tuple(info.commit_time for info in plan.instants_to_rollback)
        except NotFoundError:
            if not taker.is_completed:
                return ()  # it was withdrawn since the timeline was listed
        if is_rollback:
            return self.record(RollbackMetadata, taker.file_name).commits_rollback
        return self.record(RestoreMetadata, taker.file_name).instants_to_rollback

    def operation(self, instant: Instant) -> str | None:
        """The kind of write that an instant is (UPSERT, COMPACT...), for people to look at.

        None if its files do not say so, or if they are so large that one word is not worth reading them.
        """
        planned = _PLANNED_OPERATIONS.get(instant.pending_action or "")
        if planned or not instant.is_write or instant.state is State.REQUESTED:
            return planned
        size_bytes = self._storage.head(f"{self._config.timeline_dir}/{instant.file_name}").size_bytes
        if not 0 < size_bytes <= _OPERATION_BYTES:
            return None
        return self.commit(instant).operation_type

    def operations(self, instants: Sequence[Instant]) -> list[str | None]:
        """The kinds of several instants, read side by side; what cannot be read counts as not said."""

        def operation(instant: Instant) -> str | None:
            try:
                return self.operation(instant)
            except TidelakeError:
                return None

        with ThreadPoolExecutor(max(1, min(_READERS, len(instants)))) as pool:
            return list(pool.map(operation, instants))

    @property
    def history(self) -> tuple[ArchivedInstant, ...]:
        """The archived instants (times and actions), by requested time."""
        if self._history is None:
            self._history = self.load_history(("instantTime", "completionTime", "action"))
        return self._history

    def load_history(self, columns: tuple[str, ...], since: str = "") -> tuple[ArchivedInstant, ...]:
        """The archived instants with the columns asked for; files of the history that end before ``since`` are not read."""
        # Loaded here because it needs Arrow, which takes longer to load than the whole active timeline.
        from tidelake.timeline.history import load_history  # noqa: PLC0415

        return load_history(self._storage, self._config, columns, since)
