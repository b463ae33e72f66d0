"""Where the next clean goes on: what was looked at, and what was left there.

A clean of ours leaves a *mark* in its plan: every commit that completed before ``cursor`` has been looked at, and ``carry``
are the partitions where something that they superseded is left, because it was held or not yet past. So what may go is in
partitions that commits from the cursor on touched, or in the carry list. Cleans of others in between only remove more.

A clean with nothing to remove makes no plan. It keeps its mark in ``.hoodie/.tidelake/cursor/clean``, with the clean that it
follows (``after``), and counts only while that is the last; to lose the file costs time, never a partition.

How much is left in a group by a policy of versions depends on their number, so a mark is of use only to cleans of its kind.
That of a new table is of use to all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tidelake.config import KEEP_VERSIONS, CleanOptions
from tidelake.errors import NotFoundError, TidelakeError
from tidelake.format.avro_record import decode_record
from tidelake.format.commit_metadata import CommitMetadata, ReplaceCommitMetadata
from tidelake.format.names import parse_base_name
from tidelake.format.plans import CleanerPlan
from tidelake.storage import Storage
from tidelake.timeline import WRITE_ACTIONS, Timeline, TimelineReader

MARK_KEY = "tidelake.clean"
CURSOR_FILE = ".hoodie/.tidelake/cursor/clean"
ANY_KIND = ""
_BEGINNING = "0"
_REWRITING = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})


@dataclass(frozen=True, slots=True)
class Mark:
    """What a clean leaves for the next one. ``after`` is the requested time of the clean that has it, or that it follows."""

    kind: str
    cursor: str
    carry: tuple[str, ...] = ()
    after: str = ""

    def encode(self) -> str:
        """As it stands in a plan or in the cursor's file."""
        fields = {"kind": self.kind, "cursor": self.cursor, "carry": self.carry, "after": self.after}
        return json.dumps(fields, separators=(",", ":"))


def kind_of(options: CleanOptions) -> str:
    """Cleans of one kind leave alike."""
    return f"versions:{options.retain}" if options.policy == KEEP_VERSIONS else "time"


@dataclass(frozen=True, slots=True)
class Start:
    """Where a clean begins: at a mark, or with all partitions for a reason (``full`` or ``full_fallback:<reason>``)."""

    mark: Mark | None
    source: str
    after: str
    stored: Mark | None


def find_start(storage: Storage, timeline: Timeline, reader: TimelineReader, options: CleanOptions) -> Start:
    """Where the next clean goes on."""
    last, has_foreign = _last_mark(timeline, reader)
    after = last.after if last else ""
    stored = _stored_mark(storage)
    usable = stored if stored is not None and stored.after == after else last
    if not options.is_incremental:
        return Start(None, "full", after, stored)
    if usable is None:
        return Start(None, "full_fallback:the last clean is not ours" if has_foreign else "full", after, stored)
    if usable.kind not in (ANY_KIND, kind_of(options)):
        return Start(None, "full_fallback:the last clean had another policy", after, stored)
    return Start(usable, "incremental", after, stored)


def begin_mark(storage: Storage) -> None:
    """A new table has nothing to clean before its beginning, so that its first clean is incremental too."""
    storage.put(CURSOR_FILE, Mark(ANY_KIND, _BEGINNING).encode().encode())


def store_mark(storage: Storage, start: Start, mark: Mark) -> None:
    """Keep the mark of a clean that made no plan, if it says anything new."""
    following = replace(mark, after=start.after)
    if following != start.stored:
        storage.put(CURSOR_FILE, following.encode().encode())


def _last_mark(timeline: Timeline, reader: TimelineReader) -> tuple[Mark | None, bool]:
    """The mark of the last clean that has one, and whether there is any clean at all."""
    cleans = timeline.of_action("clean")
    for instant in reversed(cleans):
        try:
            mark = _mark_in(reader.record(CleanerPlan, instant.requested_file_name), instant.requested_time)
        except NotFoundError:
            continue
        if mark is not None:
            return mark, True
    archived = [i.requested_time for i in reader.history if i.action == "clean"]
    if archived:
        for old in reversed(reader.load_history(("instantTime", "completionTime", "action", "plan"))):
            if old.action == "clean" and old.plan is not None and MARK_KEY.encode() in old.plan:
                mark = _mark_in(decode_record(CleanerPlan, old.plan), old.requested_time)
                if mark is not None:
                    return mark, True
    return None, bool(cleans or archived)


def _mark_in(plan: CleanerPlan, requested_time: str) -> Mark | None:
    text = (plan.extra_metadata or {}).get(MARK_KEY)
    mark = None if text is None else _decode(text)
    return None if mark is None else replace(mark, after=requested_time)


def _stored_mark(storage: Storage) -> Mark | None:
    try:
        return _decode(storage.get(CURSOR_FILE).decode("utf-8", "replace"))
    except NotFoundError:
        return None


def _decode(text: str) -> Mark | None:
    """A mark from its text; None if it is none: then it is made anew, by looking at everything."""
    try:
        fields = json.loads(text)
        kind, cursor, carry, after = (fields[name] for name in ("kind", "cursor", "carry", "after"))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    texts = (kind, cursor, after, *(carry if isinstance(carry, list) else (None,)))
    return Mark(kind, cursor, tuple(carry), after) if all(isinstance(t, str) for t in texts) else None


def touched_partitions(timeline: Timeline, reader: TimelineReader, left: str, right: str) -> set[str] | None:
    """Where commits that completed in [left, right) superseded files; None if one of them cannot be read."""
    active = tuple(i for i in timeline.completed_writes if left <= (i.completion_time or "") < right)
    try:
        found = list(reader.commits(active).values())
        if any(i.action in WRITE_ACTIONS and left <= (i.completion_time or "") < right for i in reader.history):
            found.extend(_archived_commits(reader, left, right))
    except TidelakeError:
        return None
    return {partition for commit in found for partition in _superseding(commit)}


def _archived_commits(reader: TimelineReader, left: str, right: str) -> Iterable[CommitMetadata]:
    for old in reader.load_history(("instantTime", "completionTime", "action", "metadata")):
        if old.action in WRITE_ACTIONS and left <= (old.completion_time or "") < right and old.metadata is not None:
            kind = ReplaceCommitMetadata if old.action == "replacecommit" else CommitMetadata
            yield decode_record(kind, old.metadata)


def _superseding(commit: CommitMetadata) -> Iterable[str]:
    """The partitions in which a commit wrote base files of groups that had others, or replaced groups."""
    if isinstance(commit, ReplaceCommitMetadata):
        yield from (part for part, ids in (commit.partition_to_replace_file_ids or {}).items() if ids)
    for stat in commit.stats:
        is_first = stat.prev_commit in (None, "null") and commit.operation_type not in _REWRITING
        if not is_first and parse_base_name((stat.path or "").rpartition("/")[2]) is not None:
            yield stat.partition_path or ""
