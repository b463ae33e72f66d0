"""The event times of files: the least and the greatest of each base and log file, in milliseconds since the epoch.

They stand in the statistics of the commit of ours that wrote the file, on the timeline or in the history; the table state
keeps those of base files. A file of which no statistic of ours tells is read once, by whoever knows how, and what was
found is remembered in ``.hoodie/.tidelake/event-times``, which is disposable. What cannot be found out is *unknown*, with the
reason: such a file may hold any event. It is never taken for a file without events.

A delete has the event time that its ordering value says. One without (an unconditional one, or of a table that orders by
another column) counts with the requested time of its commit. Rows without an event time count nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tidelake.config import TableConfig
from tidelake.errors import NotFoundError, TidelakeError
from tidelake.filegroup.slices import BaseFile, FileSlice, LogFile
from tidelake.filegroup.state import load_state
from tidelake.format.avro_record import decode_record
from tidelake.format.commit_metadata import CommitMetadata, ReplaceCommitMetadata, WriteStat
from tidelake.format.names import COMPLETES_AS
from tidelake.storage import Storage
from tidelake.timeline import Timeline, TimelineReader

CACHE_FILE = ".hoodie/.tidelake/event-times"
_KEPT = 10_000
"""How many files that had to be read are remembered: those of the newest instants."""
_MANY_PARTITIONS = 64
"""From so many partitions on the table state is asked for base files whose commits are archived."""

DataFile = BaseFile | LogFile


@dataclass(frozen=True, slots=True)
class EventRange:
    """The least and greatest event time of a file, both included; both None and known: it holds no event."""

    minimum: int | None
    maximum: int | None
    is_known: bool = True
    reason: str = ""
    """Why it is not known."""

    def may_be_before(self, time_ms: int) -> bool:
        """Whether the file holds, or may hold, an event earlier than a time."""
        return not self.is_known or (self.minimum is not None and self.minimum < time_ms)

    def may_be_from(self, time_ms: int) -> bool:
        """Whether the file holds, or may hold, an event at or after a time."""
        return not self.is_known or (self.maximum is not None and self.maximum >= time_ms)


def unknown_range(reason: str) -> EventRange:
    """Of a file of which nothing can be said."""
    return EventRange(None, None, False, reason)


EMPTY = EventRange(None, None)
ReadRange = Callable[[DataFile], EventRange]
"""Finds a file's range by reading it; ``query.event_column`` has one."""


class EventTimes:
    """Finds the event times of files on one timeline. Everything is looked up at most once."""

    def __init__(
        self, storage: Storage, config: TableConfig, timeline: Timeline, reader: TimelineReader, read: ReadRange
    ) -> None:
        self._storage = storage
        self._config = config
        self._timeline = timeline
        self._reader = reader
        self._read = read
        self._found: dict[str, EventRange] = {}

    def of(self, slices: Iterable[FileSlice]) -> dict[str, EventRange]:
        """The range of every base and log file of these slices, by path."""
        return self.of_files(file for file_slice in slices for file in file_slice.files)

    def of_files(self, files: Iterable[DataFile]) -> dict[str, EventRange]:
        """The range of each of these files, by path."""
        asked = {file.path: file for file in files}
        wanted = {path: file for path, file in asked.items() if path not in self._found}
        if wanted:
            self._from_timeline(wanted)
            self._from_state(wanted)
            self._from_history(wanted)
            self._from_content(wanted)
        return {path: self._found[path] for path in asked}

    def _left(self, wanted: Mapping[str, DataFile]) -> list[DataFile]:
        return [file for path, file in wanted.items() if path not in self._found]

    def _from_timeline(self, wanted: Mapping[str, DataFile]) -> None:
        by_time = self._timeline.by_time
        asked = {file.name.instant for file in wanted.values()}
        active = tuple(by_time[instant] for instant in sorted(asked) if instant in by_time)
        for instant, commit in self._reader.commits(active).items():
            self._note(instant, commit)

    def _from_state(self, wanted: Mapping[str, DataFile]) -> None:
        """Base files of archived commits: they have no deletes, so what the state keeps is all there is to say."""
        bases = [file for file in self._left(wanted) if isinstance(file, BaseFile)]
        partitions = {file.path.rpartition("/")[0] for file in bases}
        if len(partitions) < _MANY_PARTITIONS:
            return
        state = load_state(self._storage, self._config, self._timeline, self._reader)
        if state is None:
            return
        for known in state.known(partitions).values():
            for path, fact in known.facts.items():
                if path in wanted and isinstance(wanted[path], BaseFile) and fact.min_event_ms is not None:
                    self._found.setdefault(path, EventRange(fact.min_event_ms, fact.max_event_ms))

    def _from_history(self, wanted: Mapping[str, DataFile]) -> None:
        by_time = self._timeline.by_time
        asked = {file.name.instant for file in self._left(wanted)} - by_time.keys()
        archived = {old.requested_time for old in self._reader.history} if asked else set()
        if not asked & archived:
            return
        for old in self._reader.load_history(("instantTime", "completionTime", "action", "metadata"), min(asked)):
            if old.requested_time in asked and old.metadata:
                kind = ReplaceCommitMetadata if COMPLETES_AS.get(old.action) == "replacecommit" else CommitMetadata
                try:
                    self._note(old.requested_time, decode_record(kind, old.metadata))
                except TidelakeError:
                    continue  # no commit of a write, or damaged: the file itself tells

    def _note(self, instant: str, commit: CommitMetadata) -> None:
        is_ours = commit.is_ours(instant)
        for stat in commit.stats:
            found = _stated(stat, is_ours=is_ours)
            if found is not None:
                for path in _paths(stat):
                    self._found[path] = found

    def _from_content(self, wanted: Mapping[str, DataFile]) -> None:
        left = self._left(wanted)
        if not left:
            return
        remembered = self._remembered()
        fresh: dict[str, EventRange] = {}
        for file in left:
            found = remembered.get(file.path)
            if found is None:
                try:
                    found = self._read(file)
                    fresh[file.path] = found
                except TidelakeError as error:
                    found = unknown_range(f"its commit has no event times, and it cannot be read: {error.message}")
            self._found[file.path] = found
        known = {path: found for path, found in fresh.items() if found.is_known}
        if known:
            self._remember({**remembered, **known})

    def _identity(self) -> list[str | None]:
        return [self._config.event_time_field, self._config.event_time_unit]

    def _remembered(self) -> dict[str, EventRange]:
        try:
            stored = json.loads(self._storage.get(CACHE_FILE))
            if stored["field"] != self._identity():
                return {}
            return {str(path): EventRange(low, high) for path, (low, high) in stored["files"].items()}
        except NotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError):
            return {}  # derived, and damaged: the files are read again

    def _remember(self, ranges: Mapping[str, EventRange]) -> None:
        newest = sorted(ranges, key=_instant_text)[-_KEPT:]
        files = {path: [ranges[path].minimum, ranges[path].maximum] for path in newest}
        self._storage.put(CACHE_FILE, json.dumps({"field": self._identity(), "files": files}).encode())


def _stated(stat: WriteStat, *, is_ours: bool) -> EventRange | None:
    """What a write stat says; None if it does not tell."""
    if not is_ours:
        # Those of others leave deletes out, and tell of the rows that came in alone, not of those that a file had before.
        return None
    if stat.min_event_time is not None and stat.max_event_time is not None:
        return EventRange(stat.min_event_time, stat.max_event_time)
    return EMPTY if stat.num_writes == 0 and not stat.num_deletes else None


def _paths(stat: WriteStat) -> set[str]:
    folder = stat.partition_path or ""
    named = {f"{folder}/{name}" if folder else name for name in stat.log_files or ()}
    return named | ({stat.path} if stat.path else set())


def _instant_text(path: str) -> str:
    """Where a path sorts by its instant: log names are ``.<id>_<instant>.log...``, base names ``<id>_<token>_<instant>``."""
    name = path.rpartition("/")[2]
    return name.split(".log")[0].rpartition("_")[2]
