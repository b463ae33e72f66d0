"""Names on storage: timeline files, base files, log files, history files.

A name is the truth about visibility: which instant wrote a file, and whether that instant completed, is read from
names alone. Parsing is total: a name that is none of ours gives ``None``, never an exception, because folders hold
foreign files (``.crc`` siblings, temporary names). Encoding asserts that what it makes can be parsed back.

Words
- *instant time*: 17 digits ``yyyyMMddHHmmssSSS`` (older tables: 14), compared as text.
- *action*: what an instant does. Compaction, log compaction and clustering complete under another action's name
  (``commit``, ``deltacommit``, ``replacecommit``).
- *write token*: ``partition-stage-attempt``, tells attempts of one write apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from tidelake.errors import InternalError

TIMELINE_DIR = ".hoodie/timeline"
PROPERTIES_FILE = ".hoodie/hoodie.properties"
PROPERTIES_BACKUP_FILE = ".hoodie/hoodie.properties.backup"
PARTITION_META_FILE = ".hoodie_partition_metadata"

_TIMELINE = re.compile(r"(\d{1,17})(?:_(\d{1,17}))?\.([a-z]+)(?:\.([a-z]+))?", re.ASCII)
_BASE = re.compile(r"([a-zA-Z0-9-]+)_([a-zA-Z0-9-]+)_(\d{1,17})\.([a-zA-Z0-9]+)", re.ASCII)
_LOG = re.compile(r"\.([^._/]+)_(\d{1,17})\.log\.(\d{1,9})(?:_(\d{1,10}-\d{1,10}-\d{1,10})(\.cdc)?)?", re.ASCII)
_HISTORY = re.compile(r"(\d{1,17})_(\d{1,17})_(\d)\.parquet", re.ASCII)


_KEPT_NAMES = 16_384
"""Parsed names of timeline files: each write lists the same folder several times."""


class State(Enum):
    """How far an instant has come; later states are greater."""

    REQUESTED = 0
    INFLIGHT = 1
    COMPLETED = 2

    __hash__ = object.__hash__  # there is one of each; names of files are hashed by the thousand


PENDING_NAMES = frozenset(
    {
        "commit",
        "deltacommit",
        "replacecommit",
        "clustering",
        "compaction",
        "logcompaction",
        "clean",
        "rollback",
        "savepoint",
        "restore",
        "indexing",
    }
)
"""Actions as requested and inflight files name them."""

COMPLETES_AS = {"compaction": "commit", "logcompaction": "deltacommit", "clustering": "replacecommit"}
"""Actions whose completed file has another action's name."""

COMPLETED_NAMES = PENDING_NAMES - COMPLETES_AS.keys()


@dataclass(frozen=True, slots=True)
class TimelineName:
    """A file of the active timeline."""

    requested_time: str
    action: str
    state: State
    completion_time: str | None = None

    def __str__(self) -> str:
        if self.state is State.COMPLETED:
            text = f"{self.requested_time}_{self.completion_time}.{self.action}"
        elif self.state is State.INFLIGHT and self.action == "commit":
            text = f"{self.requested_time}.inflight"
        else:
            text = f"{self.requested_time}.{self.action}.{self.state.name.lower()}"
        if parse_timeline_name(text) != self:
            raise InternalError(f"{self!r} has no file name that reads back", value=text)
        return text

    @property
    def completed_action(self) -> str:
        """The action under which the instant completes; pending and completed files of one instant share it."""
        return COMPLETES_AS.get(self.action, self.action)


@lru_cache(maxsize=_KEPT_NAMES)
def parse_timeline_name(name: str) -> TimelineName | None:
    """The timeline file of that name, or None if it is not one."""
    match = _TIMELINE.fullmatch(name)
    if match is None:
        return None
    requested, completion, word, suffix = match.groups()
    if completion is not None:
        if suffix is not None or word not in COMPLETED_NAMES:
            return None
        return TimelineName(requested, word, State.COMPLETED, completion)
    if word == "inflight" and suffix is None:
        return TimelineName(requested, "commit", State.INFLIGHT)
    if word not in PENDING_NAMES or suffix not in ("requested", "inflight"):
        return None
    state = State.REQUESTED if suffix == "requested" else State.INFLIGHT
    if word == "commit" and state is State.INFLIGHT:
        return None
    return TimelineName(requested, word, state)


@dataclass(frozen=True, slots=True)
class BaseFileName:
    """``<fileId>_<writeToken>_<instant>.<extension>``."""

    file_id: str
    write_token: str
    instant: str
    extension: str = "parquet"

    def __str__(self) -> str:
        text = f"{self.file_id}_{self.write_token}_{self.instant}.{self.extension}"
        if parse_base_name(text) != self:
            raise InternalError(f"{self!r} has no file name that reads back", value=text)
        return text


def parse_base_name(name: str) -> BaseFileName | None:
    """The base file of that name, or None if it is not one."""
    match = _BASE.fullmatch(name)
    return None if match is None else BaseFileName(*match.groups())


@dataclass(frozen=True, slots=True)
class LogFileName:
    """``.<fileId>_<instant>.log.<version>_<writeToken>``; a change-data file ends in ``.cdc``."""

    file_id: str
    instant: str
    version: int
    write_token: str = ""
    is_cdc: bool = False

    def __str__(self) -> str:
        token = f"_{self.write_token}" if self.write_token else ""
        text = f".{self.file_id}_{self.instant}.log.{self.version}{token}{'.cdc' if self.is_cdc else ''}"
        if parse_log_name(text) != self:
            raise InternalError(f"{self!r} has no file name that reads back", value=text)
        return text

    @property
    def order(self) -> tuple[str, int, tuple[int, ...], bool]:
        """Log files of a slice apply in this order."""
        token = tuple(int(part) for part in self.write_token.split("-")) if self.write_token else ()
        return (self.instant, self.version, token, self.is_cdc)


def parse_log_name(name: str) -> LogFileName | None:
    """The log file of that name, or None if it is not one."""
    match = _LOG.fullmatch(name)
    if match is None:
        return None
    file_id, instant, version, token, cdc = match.groups()
    return LogFileName(file_id, instant, int(version), token or "", cdc is not None)


@dataclass(frozen=True, slots=True)
class HistoryFileName:
    """``<min>_<max>_<level>.parquet`` in the archived timeline."""

    min_instant: str
    max_instant: str
    level: int

    def __str__(self) -> str:
        return f"{self.min_instant}_{self.max_instant}_{self.level}.parquet"


def parse_history_name(name: str) -> HistoryFileName | None:
    """The history file of that name, or None if it is not one."""
    match = _HISTORY.fullmatch(name)
    return None if match is None else HistoryFileName(match[1], match[2], int(match[3]))
