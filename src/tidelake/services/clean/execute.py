"""A clean, from looking to the last delete.

What dead writers left is finished first, and so is a clean that was found half done, ours or Apache Hudi's. Partitions are
listed outside of the turn of the head; in the turn the plan is made again from the timeline as it is then, with the files
listed before: a file that has come since is not known and stays, and no bound passes the time of the listing, so that its
partition is looked at again. The plan is published (``clean.requested``); whoever takes a savepoint, restores or cleans
from then on finishes it first. Then the files go, and the clean is completed by another turn. Every step may be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from tidelake._clock import Clock
from tidelake._progress import current
from tidelake.config import KEEP_VERSIONS, CleanOptions, TableConfig, WriterOptions
from tidelake.errors import ConflictError
from tidelake.filegroup import TableView
from tidelake.filegroup.listing import ListedPartition, list_all, list_partitions
from tidelake.format.names import State, TimelineName, parse_base_name, parse_log_name
from tidelake.format.plans import ActionInstant, CleanerPlan, CleanFileInfo
from tidelake.format.service_metadata import CLEAN_EARLIEST, CleanMetadata, CleanPartitionMetadata
from tidelake.locking import Lock
from tidelake.services.clean.cursor import MARK_KEY, Mark, Start, find_start, kind_of, store_mark, touched_partitions
from tidelake.services.clean.held import gather_facts
from tidelake.services.clean.plan import (
    CleanedFile,
    CleanResult,
    KeptFile,
    has_work_left,
    judge,
    split,
)
from tidelake.services.clean.retention import Retention, consumers_have_read, is_due, retention
from tidelake.services.settled import TRIES, UnsettledError, check_settled
from tidelake.storage import Storage, ensure_object
from tidelake.timeline import Timeline, TimelineReader
from tidelake.timeline.times import next_instant
from tidelake.timeline.transitions import Publication, Published, Transitions
from tidelake.write.metadata_table import retire_metadata_table
from tidelake.write.transaction import recover

_SYNC = b"tidelake-clean!!"
_DELETERS = 16
_NOTHING = Published("", None, "")


@dataclass(frozen=True, slots=True)
class Cleaner:
    """The table that is cleaned, and how."""

    storage: Storage
    config: TableConfig
    clock: Clock
    options: CleanOptions
    writer: WriterOptions
    lock: Lock | None = None


def clean(cleaner: Cleaner, *, dry_run: bool = False) -> CleanResult | None:
    """Remove what the policy does not keep; None if there is nothing to remove. A dry run writes nothing."""
    storage, config, clock = cleaner.storage, cleaner.config, cleaner.clock
    moves = Transitions(storage, config, clock, cleaner.lock)
    if dry_run:
        return _Planner(cleaner).plan(moves.load()).result_or_none
    resumed: list[_Finished] = []
    for _ in range(TRIES):
        recover(storage, config, clock, cleaner.writer, cleaner.lock)
        resumed.extend(finish_cleans(storage, config, clock, cleaner.lock))
        planner = _Planner(cleaner)
        moves.finish_last_turn()
        seen = planner.plan(moves.load())
        if not seen.result.files:
            if seen.start is not None and seen.mark is not None:
                store_mark(storage, seen.start, seen.mark)
            return _resumed_alone(seen.result, resumed)
        try:
            published = moves.publish(planner.decide)
        except UnsettledError:
            continue
        made = planner.made
        if published is _NOTHING or made is None:
            continue
        _finish(storage, config, clock, published.instant, cleaner.lock, is_fresh=True)
        return replace(made.result, instant=published.instant, resumed=tuple(done.instant for done in resumed))
    raise ConflictError("other processes clean or restore the table all the time", table=storage.uri, hint="try again")


def finish_cleans(storage: Storage, config: TableConfig, clock: Clock, lock: Lock | None = None) -> list[_Finished]:
    """Carry out every clean that is pending, ours or Apache Hudi's."""
    pending = [i for i in Transitions(storage, config, clock, lock).load().pending if i.action == "clean"]
    return [_finish(storage, config, clock, i.requested_time, lock) for i in pending]


@dataclass(frozen=True, slots=True)
class _Made:
    """A plan, where it began, and the mark that it leaves; ``keep`` is None if the policy keeps everything."""

    result: CleanResult
    keep: Retention | None = None
    start: Start | None = None
    mark: Mark | None = None

    @property
    def result_or_none(self) -> CleanResult | None:
        return self.result if self.result.files else None


class _Planner:
    """Makes a clean's plan, from files that are listed once."""

    def __init__(self, cleaner: Cleaner) -> None:
        self._of = cleaner
        self._reader = TimelineReader(cleaner.storage, cleaner.config)
        self._listed: dict[str, ListedPartition] = {}
        self._is_all_listed = False
        self._listed_at: str | None = None
        self.made: _Made | None = None

    def decide(self, timeline: Timeline) -> Publication | Published:
        """In the turn of the head: what is referenced now stays."""
        check_settled(timeline)
        made = self.plan(timeline)
        self.made = made
        if not made.result.files:
            return _NOTHING
        retire_metadata_table(self._of.storage, self._of.clock)
        plan = self._encoded(made, timeline)
        return Publication("clean", State.REQUESTED, None, lambda _: plan.encode(_SYNC))

    def plan(self, timeline: Timeline) -> _Made:
        """What would go, as of this timeline."""
        cleaner, options = self._of, self._of.options
        empty = CleanResult(None, options.policy, options.retain, (), (), "incremental", (), (), None)
        keep = retention(
            timeline, options, cleaner.config, cleaner.clock.now_ms(), consumers_have_read(cleaner.storage)
        )
        if self._listed_at is None:
            self._listed_at = next_instant(timeline.greatest_time) if timeline.greatest_time else ""
        if keep is None or not is_due(timeline, options):
            return _Made(empty)
        keep = replace(keep, completion=min(keep.completion, self._listed_at))
        start = find_start(cleaner.storage, timeline, self._reader, options)
        source, partitions = self._partitions(start, timeline, keep)
        cursor = max(keep.completion, start.mark.cursor if start.mark else "")
        files, kept, carry = self._judge(partitions, timeline, keep, cursor)
        result = replace(
            empty,
            files=files,
            kept=kept,
            partition_source=source,
            partitions_listed=tuple(listed.path for listed in partitions),
            carried=carry,
            earliest_retained=keep.earliest.requested_time if keep.earliest else None,
        )
        return _Made(result, keep, start, Mark(kind_of(options), cursor, carry))

    def _judge(
        self, partitions: list[ListedPartition], timeline: Timeline, keep: Retention, cursor: str
    ) -> tuple[tuple[CleanedFile, ...], tuple[KeptFile, ...], tuple[str, ...]]:
        """Of these partitions what goes, what stays though superseded, and where something is left for later."""
        if not partitions:
            return (), (), ()
        view = TableView(self._of.storage, self._of.config, timeline, self._reader)
        facts = gather_facts(view, timeline, self._reader)
        files: list[CleanedFile] = []
        kept: list[KeptFile] = []
        carry: list[str] = []
        for listed in partitions:
            judged = judge(listed, facts)
            gone, stays = split(judged, keep, facts)
            files.extend(gone)
            kept.extend(stays)
            if has_work_left(judged, keep, frozenset(file.path for file in gone), cursor, facts):
                carry.append(listed.path)
        return tuple(files), tuple(kept), tuple(carry)

    def _partitions(self, start: Start, timeline: Timeline, keep: Retention) -> tuple[str, list[ListedPartition]]:
        """How the partitions to look at were found, and they with their files."""
        if start.mark is None:
            return start.source, self._list_all()
        touched = touched_partitions(timeline, self._reader, start.mark.cursor, keep.completion)
        if touched is None:
            return "full_fallback:a commit since the last clean cannot be read", self._list_all()
        return start.source, self._list(sorted(touched | set(start.mark.carry)))

    def _list_all(self) -> list[ListedPartition]:
        if not self._is_all_listed:
            self._listed = {listed.path: listed for listed in list_all(self._of.storage)}
            self._is_all_listed = True
        return [self._listed[path] for path in sorted(self._listed)]

    def _list(self, paths: list[str]) -> list[ListedPartition]:
        missing = [path for path in paths if path not in self._listed]
        if missing and not self._is_all_listed:
            self._listed.update((listed.path, listed) for listed in list_partitions(self._of.storage, missing))
        return [self._listed[path] for path in paths if path in self._listed]

    def _encoded(self, made: _Made, timeline: Timeline) -> CleanerPlan:
        assert made.keep is not None
        assert made.mark is not None
        by_partition: dict[str, list[CleanFileInfo]] = {}
        for file in made.result.files:
            full = _full_path(self._of.storage, file.path)
            by_partition.setdefault(file.path.rpartition("/")[0], []).append(CleanFileInfo(full, False))
        earliest = made.keep.earliest
        extra = {MARK_KEY: made.mark.encode()}
        if self._of.options.policy == KEEP_VERSIONS:
            extra[CLEAN_EARLIEST] = self._earliest_readable(made)
        return CleanerPlan(
            None if earliest is None else ActionInstant(earliest.requested_time, earliest.action, earliest.state.name),
            max((i.requested_time for i in timeline.completed_writes), default=""),
            self._of.options.policy,
            {},
            2,
            {part: tuple(infos) for part, infos in by_partition.items()},
            (),
            extra,
        )

    def _earliest_readable(self, made: _Made) -> str:
        """By versions: a point is readable from the last commit on that superseded something that goes."""
        return max(file.superseded_by for file in made.result.files)


@dataclass(frozen=True, slots=True)
class _Finished:
    """A clean that was carried out, and what it removed."""

    instant: str
    files: tuple[str, ...]


def _resumed_alone(result: CleanResult, resumed: list[_Finished]) -> CleanResult | None:
    """What a clean did that had nothing of its own to remove, and finished what others had left."""
    if not resumed:
        return None
    files = tuple(
        CleanedFile(path, 0, f"planned by the clean {done.instant}, which was half done")
        for done in resumed
        for path in done.files
    )
    return replace(result, instant=resumed[-1].instant, files=files, resumed=tuple(done.instant for done in resumed))


def _finish(
    storage: Storage, config: TableConfig, clock: Clock, own: str, lock: Lock | None, *, is_fresh: bool = False
) -> _Finished:
    """Carry out a published clean, from wherever it was left."""
    moves = Transitions(storage, config, clock, lock)
    reader = TimelineReader(storage, config)
    began_ms = clock.now_ms()
    plan = reader.record(CleanerPlan, str(TimelineName(own, "clean", State.REQUESTED)))
    planned = _planned_files(plan)
    # Others may not know what holds files here, and a plan may be old: of one that was found, only what is not needed goes.
    needed = frozenset() if is_fresh else _needed(storage, config, reader, moves.load(), planned)
    ensure_object(storage, moves.path(TimelineName(own, "clean", State.INFLIGHT)), b"")
    removed = {part: [path for path in paths if path not in needed] for part, paths in planned.items()}
    doomed = [path for paths in removed.values() for path in paths]
    shown = current()
    shown.stage("deleting files", len(doomed))
    with ThreadPoolExecutor(max(1, min(_DELETERS, len(doomed)))) as pool:
        for _ in pool.map(storage.delete, doomed):
            shown.step(None)
    left = {part: [path for path in paths if path in needed] for part, paths in planned.items()}
    metadata = _metadata(own, plan, removed, left, clock.now_ms() - began_ms)

    def decide(timeline: Timeline) -> Publication | Published:
        mine = next((i for i in timeline.instants if i.requested_time == own and i.action == "clean"), None)
        if mine is not None and mine.is_completed:
            return Published(own, mine.completion_time, mine.file_name)
        return Publication("clean", State.COMPLETED, own, lambda _: metadata.encode(_SYNC))

    moves.publish(decide)
    return _Finished(own, tuple(doomed))


def _planned_files(plan: CleanerPlan) -> dict[str, list[str]]:
    """The files of a plan by partition, below the table: plans name them in full, wherever the table was then.

    What is not a data file's name is nothing that a clean removes, whatever a plan says.
    """
    named: dict[str, list[str]] = {}
    for part, infos in (plan.file_paths_to_be_deleted_per_partition or {}).items():
        full = (info.file_path for info in infos if not info.is_bootstrap_base_file)
        named.setdefault(part, []).extend(path for path in full if path)
    for part, names in (plan.files_to_be_deleted_per_partition or {}).items():
        named.setdefault(part, []).extend(names)
    found: dict[str, list[str]] = {}
    for part, paths in named.items():
        bare = sorted({path.rpartition("/")[2] for path in paths})
        data = [name for name in bare if parse_base_name(name) or parse_log_name(name)]
        found[part] = [f"{part}/{name}" if part else name for name in data]
    return found


def _needed(
    storage: Storage, config: TableConfig, reader: TimelineReader, timeline: Timeline, partitions: Iterable[str]
) -> frozenset[str]:
    """Of these partitions the files that the table as it is now, savepoints and pending plans need."""
    facts = gather_facts(TableView(storage, config, timeline, reader), timeline, reader)
    listed = list_partitions(storage, partitions)
    return frozenset(file.path for each in listed for file in judge(each, facts) if file.is_needed)


def _full_path(storage: Storage, path: str) -> str:
    """A file's path as Apache Hudi writes it: with a scheme."""
    native = storage.native_path(path)
    return f"file:{native}" if native.startswith("/") else native


def _metadata(
    own: str, plan: CleanerPlan, removed: dict[str, list[str]], left: dict[str, list[str]], taken_ms: int
) -> CleanMetadata:
    def names(paths: list[str]) -> tuple[str, ...]:
        return tuple(path.rpartition("/")[2] for path in paths)

    partitions = {
        part: CleanPartitionMetadata(
            part, plan.policy, names(paths + left[part]), names(paths), names(left[part]), False
        )
        for part, paths in removed.items()
    }
    earliest = plan.earliest_instant_to_retain
    return CleanMetadata(
        own,
        taken_ms,
        sum(len(paths) for paths in removed.values()),
        "" if earliest is None else earliest.timestamp,
        plan.last_completed_commit_timestamp,
        partitions,
        2,
        {},
        plan.extra_metadata or {},
    )
