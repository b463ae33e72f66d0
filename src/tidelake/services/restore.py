"""Going back to a savepoint: undo, in reverse completion order, whatever is not in the state that it keeps.

That state is the writes requested up to the savepoint's commit that had completed when the savepoint was made. Everything
else goes: what completed later, services included, and plans that are pending, since what they read may go. It is one action:
a plan that is published in a turn of the head, from which moment on readers of ours see the restored state, and which is
then carried out (``write/restoring.py``), if need be by the next writer.

Writes that are pending are rolled back before. One that begins meanwhile is made on top of what goes, and fails at its commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from tidelake._clock import Clock
from tidelake.config import TableConfig, WriterOptions
from tidelake.errors import ConflictError, InvalidError, MissingFileError, UnsupportedError
from tidelake.filegroup.listing import list_all
from tidelake.format.names import State
from tidelake.format.plans import InstantInfo, RestorePlan
from tidelake.locking import Lock
from tidelake.query.high_marks import keep_commits_marks
from tidelake.services.clean import finish_cleans
from tidelake.services.savepoint import Savepoint, list_savepoints
from tidelake.services.settled import TRIES, UnsettledError, check_settled
from tidelake.storage import Storage
from tidelake.timeline import WRITE_ACTIONS, Instant, Timeline, TimelineReader
from tidelake.timeline.transitions import Publication, Published, Transitions
from tidelake.write.metadata_table import retire_metadata_table
from tidelake.write.restoring import finish_restore, instant_in
from tidelake.write.rollback import rollback
from tidelake.write.transaction import recover

_SYNC = b"tidelake-restpln"


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """What a restore undid, or would undo: ``undone`` in its order, and the files that go with it.

    ``rolled_back`` are writes that were pending before. ``instant`` is the restore's own, None for a dry run.
    """

    instant: str | None
    savepoint: str
    undone: tuple[Instant, ...]
    files: tuple[str, ...]
    size_bytes: int
    rolled_back: tuple[Instant, ...] = ()


def restore(
    storage: Storage,
    config: TableConfig,
    clock: Clock,
    savepoint: str,
    options: WriterOptions,
    lock: Lock | None = None,
    *,
    dry_run: bool = False,
) -> RestoreResult | None:
    """Bring the table back to a savepoint; None if it is there. A dry run writes nothing."""
    moves = Transitions(storage, config, clock, lock)
    if dry_run:
        timeline = moves.load()
        shown = _Planner(storage, config, clock, savepoint).plan(timeline)
        return replace(shown, rolled_back=_pending_writes(timeline)) if shown.undone else None
    rolled_back: list[Instant] = []
    for _ in range(TRIES):
        recover(storage, config, clock, options, lock)
        finish_cleans(storage, config, clock, lock)
        moves.finish_last_turn()
        planner = _Planner(storage, config, clock, savepoint)
        if not planner.plan(moves.load()).undone:
            return None
        for instant in _pending_writes(moves.load()):
            with suppress(ConflictError):  # it has completed, or ended, and is looked at again
                rollback(storage, config, clock, instant, lock)
                rolled_back.append(instant)
        try:
            published = moves.publish(planner.decide)
        except UnsettledError:
            continue
        finish_restore(storage, config, clock, published.instant, lock)
        assert planner.made is not None
        return replace(planner.made, instant=published.instant, rolled_back=tuple(rolled_back))
    raise ConflictError("other processes clean or restore the table all the time", table=storage.uri, hint="try again")


class _Planner:
    """Makes a restore's plan. Files are listed once, outside of the turn."""

    def __init__(self, storage: Storage, config: TableConfig, clock: Clock, savepoint: str) -> None:
        self._storage = storage
        self._config = config
        self._clock = clock
        self._savepoint = savepoint
        self._sizes: Mapping[str, int] | None = None
        self.made: RestoreResult | None = None

    def decide(self, timeline: Timeline) -> Publication | Published:
        check_settled(timeline)
        self.made = self.plan(timeline)
        if not self.made.undone:
            raise UnsettledError
        if self._config.event_time_field is not None:
            reader = TimelineReader(self._storage, self._config)
            keep_commits_marks(
                self._storage, reader.commits(tuple(i for i in self.made.undone if i.is_completed)).values()
            )
        infos = tuple(InstantInfo(i.requested_time, _action(i)) for i in self.made.undone)
        plan = RestorePlan(infos, 2, self._savepoint)
        retire_metadata_table(self._storage, self._clock)
        return Publication("restore", State.REQUESTED, None, lambda _: plan.encode(_SYNC))

    def plan(self, timeline: Timeline) -> RestoreResult:
        """What would be undone, as of this timeline."""
        kept = next((s for s in list_savepoints(self._storage, self._config) if s.instant == self._savepoint), None)
        if kept is None:
            raise InvalidError(
                f"there is no savepoint of {self._savepoint!r}", value=self._savepoint, table=self._storage.uri
            )
        undone = what_is_undone(timeline, kept)
        self._refuse(undone, timeline, kept)
        instants = {i.requested_time for i in undone}
        files = [path for path in self._listed() if instant_in(path) in instants] if undone else []
        size_bytes = sum(self._listed()[path] for path in files)
        return RestoreResult(None, self._savepoint, undone, tuple(files), size_bytes)

    def _listed(self) -> Mapping[str, int]:
        if self._sizes is None:
            listed = (info for each in list_all(self._storage) for info in each.files)
            self._sizes = {info.path: info.size_bytes for info in listed}
        return self._sizes

    def _refuse(self, undone: tuple[Instant, ...], timeline: Timeline, kept: Savepoint) -> None:
        if not undone:
            return
        for instant in undone:
            if instant.requested_time in timeline.savepoints:
                raise ConflictError(
                    f"the savepoint {instant.requested_time} keeps what would be undone",
                    instant=instant.requested_time,
                    table=self._storage.uri,
                    hint="drop it first, or restore to it",
                )
        for old in TimelineReader(self._storage, self._config).history:
            if old.action in WRITE_ACTIONS and not _is_kept(old.requested_time, old.completion_time, kept):
                raise UnsupportedError(
                    f"{old.requested_time} came after the savepoint and was archived: it cannot be undone",
                    instant=old.requested_time,
                    table=self._storage.uri,
                )
        for path in kept.files:
            if path not in self._listed():
                raise MissingFileError(
                    "a file that the savepoint keeps is not on storage",
                    file=path,
                    instant=kept.instant,
                    table=self._storage.uri,
                )


def what_is_undone(timeline: Timeline, kept: Savepoint) -> tuple[Instant, ...]:
    """Pending plans, then what is not in the savepoint's state, the newest completion first."""
    plans = [i for i in timeline.pending if i.is_write and i.pending_action not in WRITE_ACTIONS]
    later = [i for i in timeline.completed_writes if not _is_kept(i.requested_time, i.completion_time, kept)]
    return (*reversed(plans), *sorted(later, key=lambda i: i.completion_time or "", reverse=True))


def _pending_writes(timeline: Timeline) -> tuple[Instant, ...]:
    return tuple(i for i in timeline.pending if i.pending_action in WRITE_ACTIONS)


def _is_kept(requested: str, completion: str | None, kept: Savepoint) -> bool:
    return requested <= kept.instant and (completion or requested) < kept.made_at


def _action(instant: Instant) -> str:
    """What a plan is called while it is pending, and what a completed instant is: so the two are told apart."""
    return instant.action if instant.is_completed else instant.pending_action or instant.action
