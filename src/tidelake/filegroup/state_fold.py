"""Bringing a table state up to date: the law is *state + writes folded since = listing*.

- A completed write that the state does not contain is folded. One with our mark from its statistics alone, together with
  the slices that the state has (an older slice of a group never comes back by a write). One without by listing the
  partitions that it touched: visibility is by name, and others may leave files that no statistic names.
- A write that the state contains and that is neither on the timeline nor in the history was undone, or the timeline is an
  older one than the state's: the partitions that it touched are listed again. What older slices lie there is not known
  otherwise.
- A write that completed *and* was archived since is folded from the history, which keeps what it did.
- Cleans and pending actions change no latest slice.

A state that cannot be continued (the timeline begins earlier than it did, not one of its writes is known, more would have
to be listed than is worth it) gives None: the table is listed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from tidelake.errors import CorruptError
from tidelake.filegroup.slices import BaseFile, FileSlice, LogFile, build_slices, data_file, group_files
from tidelake.filegroup.state_table import Facts, FoldedWrite, LastData, LastWrite, Pair, PartitionState, TableState
from tidelake.format.avro_record import decode_record
from tidelake.format.commit_metadata import CommitMetadata, ReplaceCommitMetadata, WriteStat
from tidelake.format.history import ArchivedInstant
from tidelake.format.names import COMPLETES_AS
from tidelake.timeline import WRITE_ACTIONS, Instant, Timeline, TimelineReader

_SERVICES = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})
_TIMES = ("instantTime", "completionTime", "action")
_FEW_PARTITIONS = 64


class Listing(Protocol):
    """What a fold asks of a view."""

    @property
    def replaced(self) -> Collection[tuple[str, str]]:
        """The file groups that active writes have retired, as (partition path, file id)."""
        ...

    def is_visible(self, instant: str) -> bool:
        """Whether files that carry this instant are part of the view."""
        ...

    def completion_of(self, instant: str) -> str | None:
        """When an instant completed."""
        ...

    def latest_in(self, partitions: Collection[str], checked: Collection[str]) -> Iterator[tuple[str, list[FileSlice]]]:
        """The latest slices of these partitions, listed now."""
        ...


@dataclass(frozen=True, slots=True)
class Write:
    """A completed write, and what it did."""

    pair: Pair
    commit: CommitMetadata

    @property
    def is_service(self) -> bool:
        return self.commit.operation_type in _SERVICES

    @property
    def replaced(self) -> Mapping[str, tuple[str, ...]]:
        """The file groups that it retired, by partition."""
        if isinstance(self.commit, ReplaceCommitMetadata):
            return self.commit.partition_to_replace_file_ids or {}
        return {}

    @property
    def touched(self) -> tuple[str, ...]:
        """The partitions that it wrote to, or retired groups of."""
        stats = (stat.partition_path or "" for stat in self.commit.stats)
        return tuple(dict.fromkeys([*(self.commit.partition_to_write_stats or {}), *stats, *self.replaced]))

    def folded(self) -> FoldedWrite:
        return FoldedWrite(self.pair, self.is_service, self.touched)


def fold(
    state: TableState, timeline: Timeline, reader: TimelineReader, view: Listing, most_listed: int | None = None
) -> TableState | None:
    """The state as of this timeline; None if it cannot be continued, or only by listing too many partitions."""
    first = timeline.first_active
    if state.first_active is not None and (first is None or first < state.first_active):
        return None
    active = {(i.requested_time, i.completion_time or ""): i for i in timeline.completed_writes}
    known = state.pairs
    gone = known - active.keys()
    archived: dict[Pair, ArchivedInstant] = {}
    if gone or first != state.first_active:
        archived = _archived(reader, min([state.first_active or "", *(pair[0] for pair in gone)]), first)
    if known and not known & (active.keys() | archived.keys()):
        return None
    late = {p for p in archived if p not in known and p not in active and p[0] >= (state.first_active or "")}
    try:
        old = _archived_writes(reader, late)
    except CorruptError:
        return None
    new = _writes(reader, tuple(instant for pair, instant in active.items() if pair not in known))
    undone = gone - archived.keys()
    again = state.touched(undone) | _taken_back(state, timeline, reader, view)
    foreign = {path for write in (*old, *new) if not write.commit.is_ours(write.pair[0]) for path in write.touched}
    if len(again | foreign) > (max(_FEW_PARTITIONS, len(state) // 2) if most_listed is None else most_listed):
        return None
    # Where a write was undone older slices come back, of which the other active writes know and the state does not.
    telling = _writes(reader, tuple(active.values())) if again else new
    latest = dict(view.latest_in(sorted(again | foreign), {write.pair[0] for write in telling}))
    changed = _changes(state, [*old, *new], [*old, *telling], latest, undone, view)
    return state.advanced(timeline.greatest_time, first, changed, gone, (write.folded() for write in new))


def _writes(reader: TimelineReader, instants: tuple[Instant, ...]) -> list[Write]:
    commits = reader.commits(instants)
    return [Write((i.requested_time, i.completion_time or ""), commits[i.requested_time]) for i in instants]


def _archived(reader: TimelineReader, since: str, first: str | None) -> dict[Pair, ArchivedInstant]:
    """The archived writes requested at or after ``since``, and before the active timeline begins."""
    found = (i for i in reader.load_history(_TIMES, since) if COMPLETES_AS.get(i.action, i.action) in WRITE_ACTIONS)
    return {
        (i.requested_time, i.completion_time): i
        for i in found
        if i.completion_time and i.requested_time >= since and (first is not None and i.requested_time < first)
    }


def _archived_writes(reader: TimelineReader, pairs: Collection[Pair]) -> list[Write]:
    if not pairs:
        return []
    writes = []
    for archived in reader.load_history((*_TIMES, "metadata"), min(pair[0] for pair in pairs)):
        if (archived.requested_time, archived.completion_time) in pairs:
            if not archived.metadata:
                raise CorruptError("the history does not say what a write did", instant=archived.requested_time)
            action = COMPLETES_AS.get(archived.action, archived.action)
            kind = ReplaceCommitMetadata if action == "replacecommit" else CommitMetadata
            commit = decode_record(kind, archived.metadata)
            writes.append(Write((archived.requested_time, archived.completion_time or ""), commit))
    return writes


def _taken_back(state: TableState, timeline: Timeline, reader: TimelineReader, view: Listing) -> set[str]:
    """Partitions with files of instants that a later rollback or restore has taken back."""
    later = [taker for taker in timeline.takers if taker.requested_time > state.point]
    targets = {target for taker in later for target in reader.targets(taker)}
    return state.carrying({target for target in targets if not view.is_visible(target)})


def _changes(
    state: TableState,
    new: Collection[Write],
    telling: Collection[Write],
    latest: Mapping[str, list[FileSlice]],
    undone: Collection[Pair],
    view: Listing,
) -> dict[str, PartitionState]:
    """The partitions that ``new`` writes touched or that were listed (``latest``), by what ``telling`` writes say."""
    touching: dict[str, list[Write]] = {path: [] for path in latest}
    for write in new:
        for path in write.touched:
            touching.setdefault(path, []).append(write)
    stats: dict[str, list[tuple[Write, WriteStat]]] = {path: [] for path in touching}
    for write in telling:
        for stat in write.commit.stats:
            if (stat.partition_path or "") in stats:
                stats[stat.partition_path or ""].append((write, stat))
    replaced = {(path, file_id) for write in new for path, ids in write.replaced.items() for file_id in ids}
    pairs = {write.pair for write in new}
    known = state.known(stats)
    changed = {}
    for path, written in stats.items():
        before = known[path]
        facts = {**before.facts, **_facts(written)}
        slices = latest.get(path)
        if slices is None:
            named = [stat for write, stat in written if write.pair in pairs]
            slices = _folded_slices(path, before, named, replaced, facts, view)
        else:
            slices = [_with_committed(file_slice, before) for file_slice in slices]
        live = {file.path: facts.get(file.path) or _fact(file, view) for s in slices for file in s.files}
        last = _last_write(state, path, before.last, touching[path], undone, live, slices)
        changed[path] = PartitionState(tuple(slices), live, last, _last_data(before.data, written, undone))
    return changed


def _folded_slices(
    path: str,
    before: PartitionState,
    named: Iterable[WriteStat],
    replaced: Collection[tuple[str, str]],
    facts: Mapping[str, Facts],
    view: Listing,
) -> list[FileSlice]:
    """The latest slices from those that were live and the files that writes of ours name."""
    named = list(named)
    live = {file_slice.file_id for file_slice in before.slices}
    if any(stat.file_id not in live and stat.prev_commit not in (None, "null") for stat in named):
        # A compaction that waited may complete after its group was replaced: the group does not come back.
        replaced = {*replaced, *view.replaced}
    files = {file.path: file for file_slice in before.slices for file in file_slice.files}
    for stat in named:
        file = data_file(stat.path or "", stat.file_size_in_bytes or 0)
        if isinstance(file, LogFile):
            file = replace(file, committed_bytes=file.size_bytes or None)
        if file is not None:
            files[file.path] = file
    completions = {files[name].name.instant: fact.completion for name, fact in facts.items() if name in files}
    bases = [file for file in files.values() if isinstance(file, BaseFile)]
    logs = [file for file in files.values() if isinstance(file, LogFile)]
    return [
        build_slices(group, lambda instant: completions.get(instant) or view.completion_of(instant))[-1]
        for group in group_files(path, bases, logs)
        if (path, group.file_id) not in replaced
    ]


def _with_committed(file_slice: FileSlice, before: PartitionState) -> FileSlice:
    """A listed slice, with what the state knows of logs whose commits were not read."""
    known = {log.path: log.committed_bytes for each in before.slices for log in each.logs}
    logs = tuple(
        replace(log, committed_bytes=known[log.path]) if log.committed_bytes is None and log.path in known else log
        for log in file_slice.logs
    )
    return replace(file_slice, logs=logs)


def _facts(written: Iterable[tuple[Write, WriteStat]]) -> dict[str, Facts]:
    return {
        stat.path: Facts(write.pair[1], stat.num_writes, *_event_times(write, stat))
        for write, stat in written
        if stat.path
    }


def _event_times(write: Write, stat: WriteStat) -> tuple[int | None, int | None]:
    """What a file's statistics say of its event times: others count no deletes, and only the rows that came in."""
    return (stat.min_event_time, stat.max_event_time) if write.commit.is_ours(write.pair[0]) else (None, None)


def _last_data(
    before: LastData | None, written: Iterable[tuple[Write, WriteStat]], undone: Collection[Pair]
) -> LastData | None:
    """The last write, services left out, that brought events into a partition."""
    ranges: dict[str, tuple[int, int]] = {}
    for write, stat in written:
        low, high = stat.min_event_time, stat.max_event_time
        if not write.is_service and low is not None and high is not None:
            least, most = ranges.get(write.pair[1], (low, high))
            ranges[write.pair[1]] = min(least, low), max(most, high)
    found = [LastData(completion, *times) for completion, times in ranges.items()]
    if before is not None and before.completion not in {completion for _, completion in undone}:
        found.append(before)
    return max(found, key=lambda each: each.completion, default=None)


def _fact(file: BaseFile | LogFile, view: Listing) -> Facts:
    return Facts(view.completion_of(file.name.instant))


def _last_write(
    state: TableState,
    path: str,
    last: LastWrite | None,
    touching: Iterable[Write],
    undone: Collection[Pair],
    facts: Mapping[str, Facts],
    slices: Iterable[FileSlice],
) -> LastWrite | None:
    found = [LastWrite(*write.pair, True) for write in touching if not write.is_service]
    if last is not None and (last.requested, last.completion) not in undone:
        found.append(last)
    elif not found:
        folded = state.last_touch(path, undone)
        found = (
            [folded]
            if folded
            else [LastWrite(file.name.instant, facts[file.path].completion, False) for s in slices for file in s.files]
        )
    return max(found, key=lambda each: each.order, default=None)


def listed_state(
    identity: str, timeline: Timeline, writes: Collection[Write], slices: Iterable[FileSlice], view: Listing
) -> TableState:
    """The state of a table from a listing of it, and from what the active writes say."""
    by_partition: dict[str, list[FileSlice]] = {}
    for file_slice in slices:
        by_partition.setdefault(file_slice.partition_path, []).append(file_slice)
    told = {}
    touching: dict[str, list[Write]] = {}
    stats: dict[str, list[tuple[Write, WriteStat]]] = {}
    for write in writes:
        told.update(_facts((write, stat) for stat in write.commit.stats))
        for stat in write.commit.stats:
            stats.setdefault(stat.partition_path or "", []).append((write, stat))
        for path in write.touched:
            touching.setdefault(path, []).append(write)
            by_partition.setdefault(path, [])
    empty = TableState.empty(identity)
    changed = {}
    for path, found in by_partition.items():
        facts = {file.path: told.get(file.path) or _fact(file, view) for s in found for file in s.files}
        last = _last_write(empty, path, None, touching.get(path, ()), (), facts, found)
        changed[path] = PartitionState(tuple(found), facts, last, _last_data(None, stats.get(path, ()), ()))
    return empty.advanced(
        timeline.greatest_time, timeline.first_active, changed, (), [write.folded() for write in writes]
    ).compacted()
