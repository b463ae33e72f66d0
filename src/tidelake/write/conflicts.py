"""Conflicts: what completed since a write began, and whether it touched what the write touches.

Per file group, as Apache Hudi: two writes that change one file group conflict, except that a compaction never conflicts
with log appends, since logs completed after its request lie on top of it (unless they bring a key back that the new base
file no longer has: others would not find it there). A write that replaces whole partitions conflicts
with every write into them. What an upsert looked for and did not find must still not be there: the keys that it inserts,
so that one new key never becomes two rows, and those whose deletes it dropped, are compared with the keys of files
that appeared meanwhile. And what it lost against must still be there: file groups that it went by without a change of them
count as those that it changes, against writes that do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelake.config import TableConfig
from tidelake.errors import ConflictError, NotFoundError
from tidelake.format.avro_arrow import arrow_schema
from tidelake.format.avro_schema import parse_record
from tidelake.format.commit_metadata import CommitMetadata, ReplaceCommitMetadata, WriteStat
from tidelake.format.event_marks import decode_event_marks
from tidelake.format.names import parse_base_name, parse_log_name
from tidelake.format.plans import CompactionPlan, RequestedReplaceMetadata
from tidelake.index.bucket import DIGITS
from tidelake.schema import without_meta
from tidelake.timeline import Instant, Timeline, TimelineReader
from tidelake.write.looked import looked_groups

SERVICES = frozenset({"COMPACT", "LOG_COMPACT"})


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a write touches: file groups it changes or retires, partitions it replaces whole, and where it missed keys."""

    groups: frozenset[tuple[str, str]]
    replaced_partitions: frozenset[str] = frozenset()
    missed_partitions: frozenset[str] = frozenset()
    is_bucketed: bool = False
    replaces_all: bool = False
    looked: frozenset[tuple[str, str]] = frozenset()
    """File groups that it went by (``looked.py``)."""
    missed_anywhere: bool = False
    """Whether a key that it missed may not be in any partition (a global index), not in its own alone."""

    def group(self, partition_path: str | None, file_id: str | None) -> tuple[str, str]:
        """What stands for a file group: its id, or, where hashes make groups, its bucket's number."""
        return (partition_path or "", (file_id or "")[:DIGITS] if self.is_bucketed else file_id or "")


@dataclass(frozen=True, slots=True)
class KeyChecks:
    """Of a file that others made meanwhile: a key that keeps this write from being true, if there is one."""

    missed: Callable[[WriteStat], str | None] = lambda _: None
    """Of a write: a key that this one looked for and did not find, in words."""
    revived: Callable[[WriteStat], str | None] = lambda _: None
    """Of a compaction: a key that this write logs for its group, and that it no longer has."""


def check_conflicts(
    footprint: Footprint,
    start: Timeline,
    now: Timeline,
    reader: TimelineReader,
    keys: KeyChecks,
) -> None:
    """Raise ConflictError if a write that completed since ``start``, or a pending clustering, is in the way."""
    check_undone(start, now, reader)
    before = {i.requested_time for i in start.completed_writes}
    for instant in now.completed_writes:
        if instant.requested_time not in before:
            _check_completed(footprint, instant, reader.commit(instant), keys)
    _check_clustering(footprint, now, reader)


def check_leftovers(
    footprint: Footprint, mine: str, config: TableConfig, now: Timeline, reader: TimelineReader
) -> None:
    """Raise ConflictError if a compaction that leaves logs was planned at a later instant than this write's, ``mine``.

    The events that an exact compaction leaves, or the deletes that one keeps, carry its own instant, and are read after the
    logs of this write, which completes later: of equal event times the record that came first would win.
    """
    for instant in now.instants:
        if instant.requested_time <= mine or instant.pending_action != "compaction":
            continue
        for partition, file_id in _groups_with_leftovers(instant, config, reader):
            if footprint.group(partition, file_id) in footprint.groups:
                kind = "exact compaction" if config.is_exact else "compaction"
                raise ConflictError(
                    f"the {kind} {instant.requested_time} of the file group {file_id} of partition {partition!r} was "
                    "planned after this write began",
                    instant=instant.requested_time,
                    hint="redo the write, or let it retry with on_conflict='retry'",
                )


def _groups_with_leftovers(instant: Instant, config: TableConfig, reader: TimelineReader) -> set[tuple[str, str]]:
    """The groups of a compaction that may have, or have, logs of its own: by its plan, and by what it did."""
    if instant.is_completed:
        stats = reader.commit(instant).stats
        return {(stat.partition_path or "", stat.file_id or "") for stat in stats if is_log(stat)}
    try:
        plan = reader.record(CompactionPlan, instant.requested_file_name)
    except NotFoundError:
        return set()  # withdrawn since the timeline was read
    marks = decode_event_marks(plan.extra_metadata)
    if not config.tombstone_seconds and (marks is None or not marks.is_exact):
        return set()
    return {(op.partition_path or "", op.file_id or "") for op in plan.operations or ()}


def check_undone(start: Timeline, now: Timeline, reader: TimelineReader) -> None:
    """A write that ``start`` has and that was taken back since: what was made on top of it would bring it back."""
    done_before = {taker.requested_time for taker in start.takers if taker.is_completed}
    for taker in now.takers:
        if taker.requested_time in done_before:
            continue
        for target in reader.targets(taker):
            if target in start.by_time:
                raise ConflictError(
                    f"the write {target} was rolled back while this one was made on top of it",
                    instant=taker.requested_time,
                    hint="read again and redo the write",
                )


def check_schema(ours: str | None, start: Timeline, now: Timeline, reader: TimelineReader) -> None:
    """Raise ConflictError if a write that completed since ``start`` has other columns or types than this one.

    A table has the schema of its latest commit: whichever of the two that is, rows of the other would be misread.
    """
    for instant in now.completed_writes:
        if instant.requested_time in start.by_time or ours is None:
            continue
        commit = reader.commit(instant)
        if commit.operation_type in SERVICES or commit.schema_text in (None, ours):
            continue
        changed = set(_columns(commit.schema_text or "")) ^ set(_columns(ours))
        if changed:
            name = min(path for path, _ in changed)
            raise _conflict(instant, commit, f"has the column {name!r} with another type, or alone")


def _columns(schema_text: str) -> list[tuple[str, str]]:
    schema = without_meta(arrow_schema(parse_record(schema_text)))
    return [(field.name, str(field.type)) for field in schema]


def _check_completed(footprint: Footprint, instant: Instant, commit: CommitMetadata, keys: KeyChecks) -> None:
    if commit.operation_type in SERVICES:
        for stat in commit.stats:
            is_ours = footprint.group(stat.partition_path, stat.file_id) in footprint.groups
            key = keys.revived(stat) if is_ours and is_base(stat) else None
            if key is not None:
                raise _conflict(instant, commit, f"dropped the deleted key {key!r} that this write brings back")
        return
    for stat in commit.stats:
        group = footprint.group(stat.partition_path, stat.file_id)
        if group in footprint.groups or group in footprint.looked:
            raise _conflict(instant, commit, f"changed the file group {group[1]} of partition {group[0]!r}")
        if footprint.replaces_all or group[0] in footprint.replaced_partitions:
            raise _conflict(instant, commit, f"wrote into the partition {group[0]!r} that this write replaces")
        if commit.operation_type == "CLUSTER":
            continue  # its keys are those of files that are looked at themselves
        is_watched = footprint.missed_anywhere or group[0] in footprint.missed_partitions
        key = keys.missed(stat) if is_watched else None
        if key is not None:
            raise _conflict(instant, commit, f"inserted {key}, that this write inserts too, or did not find to delete")
    if isinstance(commit, ReplaceCommitMetadata):
        for partition, file_ids in (commit.partition_to_replace_file_ids or {}).items():
            for file_id in file_ids:
                group = footprint.group(partition, file_id)
                if group in footprint.groups or group in footprint.looked:
                    raise _conflict(instant, commit, f"retired the file group {file_id} of partition {partition!r}")
    for partition, file_id in looked_groups(commit):
        if footprint.group(partition, file_id) in footprint.groups:
            raise _conflict(instant, commit, f"went by what the file group {file_id} of partition {partition!r} held")


def clustered_groups(timeline: Timeline, reader: TimelineReader) -> dict[tuple[str, str], str]:
    """The file groups (partition path, file id) that pending clusterings are about to rewrite, with their instants."""
    found: dict[tuple[str, str], str] = {}
    for instant in timeline.pending:
        if instant.pending_action != "clustering":
            continue
        try:
            plan = reader.record(RequestedReplaceMetadata, instant.requested_file_name).clustering_plan
        except NotFoundError:
            continue  # withdrawn since the timeline was read
        for group in (plan.input_groups or ()) if plan else ():
            for part in group.slices or ():
                found[(part.partition_path or "", part.file_id or "")] = instant.requested_time
    return found


def _check_clustering(footprint: Footprint, now: Timeline, reader: TimelineReader) -> None:
    for (partition, file_id), instant in clustered_groups(now, reader).items():
        if footprint.group(partition, file_id) in footprint.groups:
            raise ConflictError(
                f"a clustering is about to rewrite the file group {file_id}",
                instant=instant,
                hint="wait until it has completed; t.cluster() completes or withdraws one whose executor died",
            )


def is_base(stat: WriteStat) -> bool:
    """Whether a file is a base file. These have all new keys: on copy-on-write tables small groups are filled, too."""
    return parse_base_name((stat.path or "").rpartition("/")[2]) is not None


def is_log(stat: WriteStat) -> bool:
    """Whether a file is a log."""
    return parse_log_name((stat.path or "").rpartition("/")[2]) is not None


def is_new_base(stat: WriteStat) -> bool:
    """Whether a file is the first base file of a new file group."""
    return stat.prev_commit in (None, "null") and is_base(stat)


def _conflict(instant: Instant, commit: CommitMetadata, what: str) -> ConflictError:
    return ConflictError(
        f"{(commit.operation_type or 'a write').lower()} {instant.requested_time} {what}",
        instant=instant.requested_time,
        hint="read again and redo the write",
    )
