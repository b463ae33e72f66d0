"""Who sees which files: the visible file slices of a table at a point in time.

A file is visible iff its instant completed (in time for the view), or was archived: names decide, contents never. What
is earlier than the active timeline counts as archived, unless a rollback or restore names it and the history does not.
A *view* is the timeline cut at a point: now, at a requested time (``as_of``, as Apache Hudi travels), or at a
completion time (``as_of_completion``: what a reader at that moment saw).

Never silent: the commits of the active timeline say which files they wrote. A file that the view needs and storage
does not have is ``MissingFileError``, a log shorter than its commit wrote is ``CorruptError``; neither is fewer rows.
A full scan of many partitions starts from the table state, where there is one (``state.py``): it lists nothing, and a file
that is gone is noticed when it is opened.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from tidelake._cached import cached
from tidelake.config import TableConfig
from tidelake.errors import InvalidError, MissingFileError
from tidelake.filegroup.listing import (
    ListedPartition,
    PartitionConstraint,
    kept_partitions,
    list_all,
    list_constrained,
    list_partitions,
)
from tidelake.filegroup.partitions import PartitionCodec
from tidelake.filegroup.slices import (
    BaseFile,
    FileSlice,
    LogFile,
    build_slices,
    data_file,
    group_files,
    missing_file,
)
from tidelake.filegroup.state_codec import identity_of
from tidelake.filegroup.state_fold import fold
from tidelake.filegroup.state_store import newest_state
from tidelake.filegroup.state_table import TableState
from tidelake.format.commit_metadata import CommitMetadata, ReplaceCommitMetadata, WriteStat
from tidelake.format.service_metadata import CLEAN_EARLIEST, CleanMetadata
from tidelake.storage import Storage
from tidelake.timeline import Instant, Timeline, TimelineReader

_MANY_PARTITIONS = 64
"""From so many partitions on a scan starts from the table state: fewer are listed as fast."""


@dataclass(frozen=True, slots=True)
class ViewPoint:
    """The point in time of a view: at most one of the two; neither is now."""

    as_of: str | None = None
    as_of_completion: str | None = None

    def __post_init__(self) -> None:
        if self.as_of is not None and self.as_of_completion is not None:
            raise InvalidError("as_of and as_of_completion exclude each other", hint="give one of them")


class TableView:
    """The visible slices of a table at a view point."""

    def __init__(
        self,
        storage: Storage,
        config: TableConfig,
        timeline: Timeline,
        reader: TimelineReader,
        point: ViewPoint | None = None,
        checked: Collection[str] | None = None,
    ) -> None:
        """``checked`` are the instants whose files must be there; None is all: services look at what they touch."""
        self._storage = storage
        self._config = config
        self._timeline = timeline
        self._reader = reader
        self._checked = checked
        self._codec = PartitionCodec.of(config)
        self.point = point or ViewPoint()
        self._refuse_cleaned_point()

    @cached
    def instants(self) -> tuple[Instant, ...]:
        """The active write instants that the view includes, by requested time."""
        return tuple(i for i in self._timeline.completed_writes if self._includes(i.requested_time, i.completion_time))

    @cached
    def commits(self) -> dict[str, CommitMetadata]:
        """What those instants did, by requested time; replacements are always read."""
        checked = self._checked
        return self._reader.commits(
            tuple(
                i
                for i in self.instants
                if checked is None or i.action == "replacecommit" or i.requested_time in checked
            )
        )

    @cached
    def replaced(self) -> frozenset[tuple[str, str]]:
        """The file groups that overwrites and clusterings have retired, as (partition path, file id)."""
        return frozenset(
            (partition, file_id)
            for commit in self._reader.commits(tuple(i for i in self.instants if i.action == "replacecommit")).values()
            if isinstance(commit, ReplaceCommitMetadata)
            for partition, file_ids in (commit.partition_to_replace_file_ids or {}).items()
            for file_id in file_ids
        )

    def is_visible(self, instant: str) -> bool:
        """Whether files that carry this instant are part of the view."""
        active = self._visible_active.get(instant)
        if active is not None:
            return active
        first = self._timeline.first_active
        if first is None or instant >= first:
            return False
        if instant in self._taken_back and instant not in self._archived_completions:
            return False
        return self._includes(instant, None)

    def completion_of(self, instant: str) -> str | None:
        """When an instant completed, from the active timeline or the history."""
        active = self._timeline.by_time.get(instant)
        return active.completion_time if active else self._archived_completions.get(instant)

    def slices(self, constraint: PartitionConstraint | None = None) -> Iterator[FileSlice]:
        """The latest slice of every visible file group, in the partitions that the constraint leaves.

        Many partitions are taken from the table state, if there is one, and few are listed.
        """
        state = self.state(_MANY_PARTITIONS) if self._is_wide(constraint) else None
        if state is None:
            yield from self.listed_slices(constraint)
        elif constraint is None:
            yield from state.slices_of()
        else:
            yield from state.slices_of(kept_partitions(state.partitions(), self._codec, constraint))

    def state(self, least: int = 0) -> TableState | None:
        """The table state, with what completed since it was stored; None if there is none of so many partitions."""
        if self.point != ViewPoint():
            return None
        stored = newest_state(self._storage, identity_of(self._config))
        if stored is None or len(stored) < least:
            return None
        return fold(stored, self._timeline, self._reader, self)

    def _is_wide(self, constraint: PartitionConstraint | None) -> bool:
        """Whether the constraint may leave many partitions."""
        if not self._codec.fields:
            return False
        return constraint is None or not self._codec.is_prunable or constraint.candidates(self._codec.fields[0]) is None

    def listed_slices(self, constraint: PartitionConstraint | None = None) -> Iterator[FileSlice]:
        """As ``slices``, from a listing: each file is there."""
        seen: set[str] = set()
        for listed in self._listed(constraint):
            seen.add(listed.path)
            yield from self.latest_of(listed)
        for listed in self._unseen(seen, constraint):
            yield from self.latest_of(listed)

    def all_slices(self) -> Iterator[FileSlice]:
        """Every slice of every visible file group, oldest first; replaced groups and cleaned slices are left out."""
        for listed in list_all(self._storage):
            for slices in self._groups(listed):
                latest = slices.pop()
                yield from (each for each in slices if not all(file.is_missing for file in each.files))
                yield latest

    def _listed(self, constraint: PartitionConstraint | None) -> Iterator[ListedPartition]:
        if constraint is not None and self._codec.fields and self._codec.is_prunable:
            return list_constrained(self._storage, self._codec, constraint)
        return list_all(self._storage)

    def _unseen(self, seen: set[str], constraint: PartitionConstraint | None) -> Iterator[ListedPartition]:
        """Partitions that commits wrote to and the listing did not meet, though the constraint may leave them."""
        unseen = sorted(path for path in self._stats.keys() - seen if self._expected(path))
        if constraint is not None:
            unseen = kept_partitions(unseen, self._codec, constraint)
            # Those whose values the path does not tell may be there, unlisted.
            found = {listed.path: listed for listed in list_partitions(self._storage, unseen)}
        else:
            found = {}
        for path in unseen:
            yield found.get(path, ListedPartition(path, ()))

    def latest_in(self, partitions: Collection[str], checked: Collection[str]) -> Iterator[tuple[str, list[FileSlice]]]:
        """The latest slices of these partitions, listed now; only files of the ``checked`` instants must be there."""
        view = TableView(self._storage, self._config, self._timeline, self._reader, self.point, checked)
        found = {listed.path: listed for listed in list_partitions(self._storage, partitions)}
        for path in partitions:
            yield path, list(view.latest_of(found.get(path, ListedPartition(path, ()))))

    def latest_of(self, listed: ListedPartition) -> Iterator[FileSlice]:
        """The latest slices of one partition."""
        for slices in self._groups(listed):
            latest = slices[-1]
            for file in latest.files:
                if file.is_missing:
                    raise missing_file(file, self._storage.uri)
            yield latest

    def _groups(self, listed: ListedPartition) -> Iterator[list[FileSlice]]:
        bases, logs = self._visible_files(listed)
        for group in group_files(listed.path, bases, logs):
            if (group.partition_path, group.file_id) not in self.replaced:
                yield build_slices(group, self.completion_of)

    def _visible_files(self, listed: ListedPartition) -> tuple[list[BaseFile], list[LogFile]]:
        expected = self._expected(listed.path)
        bases: list[BaseFile] = []
        logs: list[LogFile] = []
        for info in listed.files:
            file = data_file(info.path, info.size_bytes)
            if file is None or not self.is_visible(file.name.instant):
                continue
            wanted = expected.pop(info.path, None)
            if isinstance(file, BaseFile):
                bases.append(file)
            else:
                logs.append(replace(file, committed_bytes=wanted.size_bytes) if wanted and wanted.size_bytes else file)
        for lost in expected.values():
            (bases if isinstance(lost, BaseFile) else logs).append(replace(lost, is_missing=True))  # type: ignore[arg-type]
        return bases, logs

    def _expected(self, partition: str) -> dict[str, BaseFile | LogFile]:
        """The files of a partition that the view's commits wrote, by path."""
        expected: dict[str, BaseFile | LogFile] = {}
        for stat in self._stats.get(partition, ()):
            file = data_file(stat.path or "", stat.file_size_in_bytes or 0)
            if file is not None and stat.path:
                expected[stat.path] = file
        return expected

    @cached
    def _stats(self) -> dict[str, list[WriteStat]]:
        """What the view's commits wrote, by partition."""
        found: dict[str, list[WriteStat]] = {}
        commits = self.commits
        if self._checked is not None:
            commits = self._reader.commits(tuple(i for i in self.instants if i.requested_time in self._checked))
        for commit in commits.values():
            for stat in commit.stats:
                found.setdefault(stat.partition_path or "", []).append(stat)
        return found

    @cached
    def _visible_active(self) -> dict[str, bool]:
        included = {i.requested_time for i in self.instants}
        return {i.requested_time: i.requested_time in included for i in self._timeline.instants if i.is_write}

    @cached
    def _taken_back(self) -> frozenset[str]:
        """Instants that were rolled back: a writer that was taken for dead may still make files that carry them."""
        return frozenset(target for taker in self._timeline.takers for target in self._reader.targets(taker))

    @cached
    def _archived_completions(self) -> dict[str, str]:
        return {i.requested_time: i.completion_time for i in self._reader.history if i.completion_time}

    def _includes(self, requested: str, completion: str | None) -> bool:
        if self.point.as_of is not None:
            return requested <= self.point.as_of
        if self.point.as_of_completion is not None:
            known = completion or self._archived_completions.get(requested, requested)
            return known <= self.point.as_of_completion
        return True

    def _refuse_cleaned_point(self) -> None:
        """Refuse a point of which files were cleaned: one before what a clean retained, unless a savepoint keeps it."""
        point = self.point.as_of
        if point is None and self.point.as_of_completion is not None:
            point = max((i.requested_time for i in self.instants), default=self.point.as_of_completion)
        elif point in self._timeline.savepoints:
            return
        # A clean retains what was requested before it, so those before the point have nothing to say.
        cleans = [i for i in self._timeline.of_action("clean") if point is not None and i.requested_time > point]
        if point is None or not cleans or 0 < len(self._timeline.completed_writes) == len(self.instants):
            return
        records = [self._reader.record(CleanMetadata, i.file_name) for i in cleans]
        retained = max(
            max(r.earliest_commit_to_retain, (r.extra_metadata or {}).get(CLEAN_EARLIEST, "")) for r in records
        )
        if point < retained:
            raise MissingFileError(
                f"files of {point} were cleaned: the earliest time that can be read is {retained}",
                value=point,
                table=self._storage.uri,
                instant=cleans[-1].requested_time,
            )


def partitions_of(slices: Iterable[FileSlice]) -> list[str]:
    """The partition paths of slices, in order, each once."""
    return list(dict.fromkeys(s.partition_path for s in slices))
