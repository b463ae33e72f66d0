"""Savepoints: a commit whose state stays readable, and can be gone back to, until the savepoint is dropped.

A savepoint names the files of the latest slices as of its commit. It is made in a turn of the head, after pending cleans were
finished, so that no clean removes what it names: one that had its turn before has removed its files, and the savepoint is
refused; one that comes later sees it. A savepoint that died half-way is an inflight file, which the next writer removes.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from tidelake._clock import Clock
from tidelake.config import TableConfig, WriterOptions
from tidelake.errors import ConflictError, InvalidError, MissingFileError, NotFoundError
from tidelake.filegroup import TableView, ViewPoint
from tidelake.format.names import State, TimelineName
from tidelake.format.service_metadata import SavepointMetadata, SavepointPartitionMetadata
from tidelake.locking import Lock
from tidelake.services.clean import finish_cleans
from tidelake.services.settled import TRIES, UnsettledError, check_settled
from tidelake.storage import Storage, ensure_object
from tidelake.timeline import Instant, Timeline, TimelineReader, load_timeline
from tidelake.timeline.load import DROPPED_DIR
from tidelake.timeline.transitions import Publication, Published, Transitions
from tidelake.write.transaction import recover

_SYNC = b"tidelake-savept!"


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint of a commit. ``made_at`` is when it became true: a restore undoes whatever completed after that."""

    instant: str
    made_at: str
    user: str
    comment: str
    made_at_ms: int
    files: tuple[str, ...]


def make_savepoint(
    storage: Storage,
    config: TableConfig,
    clock: Clock,
    instant: str | None,
    user: str,
    comment: str,
    options: WriterOptions,
    lock: Lock | None = None,
) -> Savepoint:
    """Keep the state as of a completed write, by default the last requested one; one that is kept already stays as it is."""
    moves = Transitions(storage, config, clock, lock)
    inflight: str | None = None
    for _ in range(TRIES):
        recover(storage, config, clock, options, lock)
        finish_cleans(storage, config, clock, lock)
        moves.finish_last_turn()
        timeline = moves.load()
        target = _target(timeline, instant, storage)
        maker = _Maker(storage, config, target, user, comment, clock.now_ms())
        try:
            maker.files(timeline)  # refused before anything is written, and listed outside of the turn
            inflight = moves.path(TimelineName(target, "savepoint", State.INFLIGHT))
            ensure_object(storage, inflight, b"")
            moves.publish(maker.decide)
        except UnsettledError:
            continue
        except (InvalidError, MissingFileError):
            if inflight is not None:
                storage.delete(inflight)
            raise
        made = next((s for s in list_savepoints(storage, config) if s.instant == target), None)
        if made is not None:
            return made
    raise ConflictError("other processes clean or restore the table all the time", table=storage.uri, hint="try again")


def _target(timeline: Timeline, instant: str | None, storage: Storage) -> str:
    if instant is None:
        if not timeline.completed_writes:
            raise InvalidError("the table has no completed write to keep", table=storage.uri)
        return timeline.completed_writes[-1].requested_time
    if instant not in timeline.by_time:
        raise InvalidError(
            f"there is no completed write {instant!r} on the active timeline", value=instant, table=storage.uri
        )
    return instant


class _Maker:
    """Makes one savepoint's content, from files that are listed once for each state of the timeline."""

    def __init__(
        self, storage: Storage, config: TableConfig, target: str, user: str, comment: str, now_ms: int
    ) -> None:
        self._storage = storage
        self._config = config
        self._target = target
        self._about = (user, now_ms, comment)
        self._seen: frozenset[TimelineName] | None = None
        self._found: dict[str, SavepointPartitionMetadata] = {}

    def decide(self, timeline: Timeline) -> Publication | Published:
        check_settled(timeline)
        kept = next((i for i in timeline.of_action("savepoint") if i.requested_time == self._target), None)
        if kept is not None:
            return Published(self._target, kept.completion_time, kept.file_name)
        if self._target not in timeline.by_time or State.INFLIGHT not in timeline.states_of(self._target, "savepoint"):
            raise UnsettledError
        user, now_ms, comment = self._about
        metadata = SavepointMetadata(user, now_ms, comment, self.files(timeline), 1)
        return Publication("savepoint", State.COMPLETED, self._target, lambda _: metadata.encode(_SYNC))

    def files(self, timeline: Timeline) -> dict[str, SavepointPartitionMetadata]:
        """The files of the latest slices as of the savepoint's commit, by partition."""
        # Only what completed, and cleans, change which files these are.
        relevant = frozenset(n for n in timeline.names if n.state is State.COMPLETED and n.action != "savepoint")
        if relevant != self._seen:
            reader = TimelineReader(self._storage, self._config)
            view = TableView(self._storage, self._config, timeline, reader, ViewPoint(as_of=self._target))
            names: dict[str, list[str]] = {}
            for found in view.slices():
                files = (file.path.rpartition("/")[2] for file in found.files)
                names.setdefault(found.partition_path, []).extend(files)
            self._found = {part: SavepointPartitionMetadata(part, tuple(each)) for part, each in names.items()}
            self._seen = relevant
        return self._found


def list_savepoints(storage: Storage, config: TableConfig) -> tuple[Savepoint, ...]:
    """The savepoints, by the commit that each keeps."""
    reader = TimelineReader(storage, config)
    found: list[Savepoint] = []
    for instant in load_timeline(storage, config).of_action("savepoint"):
        with suppress(NotFoundError):  # dropped since the timeline was listed
            found.append(_read(reader, instant))
    return tuple(found)


def _read(reader: TimelineReader, instant: Instant) -> Savepoint:
    metadata = reader.record(SavepointMetadata, instant.file_name)
    files = tuple(
        f"{part}/{name}" if part else name
        for part, kept in metadata.partition_metadata.items()
        for name in kept.savepoint_data_file
    )
    made_at = instant.completion_time or ""
    by, comment, at_ms = metadata.savepointed_by, metadata.comments, metadata.savepointed_at
    return Savepoint(instant.requested_time, made_at, by, comment, at_ms, files)


def drop_savepoint(storage: Storage, config: TableConfig, clock: Clock, instant: str, lock: Lock | None = None) -> None:
    """Let a savepoint's files go to the next clean."""
    moves = Transitions(storage, config, clock, lock)
    moves.finish_last_turn()
    names = [n for n in moves.load().names if n.requested_time == instant and n.action == "savepoint"]
    if not any(name.state is State.COMPLETED for name in names):
        raise InvalidError(f"there is no savepoint of {instant!r}", value=instant, table=storage.uri)
    # Its maker may be asleep, about to put the completed file again: what is noted as dropped does not count.
    for name in names:
        if name.state is State.COMPLETED:
            ensure_object(storage, f"{DROPPED_DIR}/{name}", b"")
    # The inflight file first: without it nobody else puts the completed one again.
    for name in sorted(names, key=lambda n: n.state.value):
        storage.delete(moves.path(name))
