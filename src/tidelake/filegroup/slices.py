"""File groups and their slices, built from names by the completion-time barrier. Pure.

Words
- *file group*: all files with one file id in one partition.
- *slice*: an optional base file and the log files that apply on top of it. Its key is the base file's instant.
- *barrier*: a compaction requested at T folds exactly the logs **completed** before T; a log completed at or after T
  lies on top of it, even if it was requested earlier. So a log belongs to the slice with the greatest key that is not
  after the log's completion.

Only *visible* base files make slices. A pending compaction has none, so its logs stay with the slice before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidelake.errors import CorruptError, MissingFileError, UnsupportedError
from tidelake.format.names import BaseFileName, LogFileName, parse_base_name, parse_log_name


@dataclass(frozen=True, slots=True)
class BaseFile:
    """A base file; ``path`` is relative to the table. ``is_missing``: a commit names it, storage does not have it."""

    path: str
    name: BaseFileName
    size_bytes: int
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file; ``committed_bytes`` is what its commit wrote, None if that is not known (archived)."""

    path: str
    name: LogFileName
    size_bytes: int
    committed_bytes: int | None = None
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A base file and the logs on top of it, in the order in which they apply."""

    partition_path: str
    file_id: str
    base_instant: str
    base: BaseFile | None
    logs: tuple[LogFile, ...]
    is_unsettled: bool = False
    """Whether a log was begun before the base file was there; only writers ask (``write/lookup.py``)."""

    @property
    def files(self) -> tuple[BaseFile | LogFile, ...]:
        return (*((self.base,) if self.base else ()), *self.logs)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class FileGroup:
    """The visible files of one file group."""

    partition_path: str
    file_id: str
    bases: tuple[BaseFile, ...]
    logs: tuple[LogFile, ...]


def data_file(path: str, size_bytes: int) -> BaseFile | LogFile | None:
    """The data file of that path; None for what holds no rows: metafiles, change data, foreign names."""
    name = path.rpartition("/")[2]
    base = parse_base_name(name)
    if base is not None:
        if base.extension != "parquet":
            raise UnsupportedError(
                f"base files of format {base.extension} are not read", file=path, value=base.extension
            )
        return BaseFile(path, base, size_bytes)
    log = parse_log_name(name)
    return None if log is None or log.is_cdc else LogFile(path, log, size_bytes)


def missing_file(file: BaseFile | LogFile, table: str) -> MissingFileError:
    """What to say of a file that is not there."""
    return MissingFileError(
        "a file that a completed write made is not on storage",
        file=file.path,
        instant=file.name.instant,
        table=table,
        hint="restore the file, or roll the table back to before that write",
    )


def group_files(partition_path: str, bases: Iterable[BaseFile], logs: Iterable[LogFile]) -> list[FileGroup]:
    """The file groups of a partition, by file id."""
    by_id: dict[str, tuple[list[BaseFile], list[LogFile]]] = {}
    for base in bases:
        by_id.setdefault(base.name.file_id, ([], []))[0].append(base)
    for log in logs:
        by_id.setdefault(log.name.file_id, ([], []))[1].append(log)
    return [
        FileGroup(partition_path, file_id, tuple(group_bases), tuple(group_logs))
        for file_id, (group_bases, group_logs) in sorted(by_id.items())
    ]


def build_slices(group: FileGroup, completion_of: Callable[[str], str | None]) -> list[FileSlice]:
    """All slices of a group, oldest first."""
    bases = _one_base_per_instant(group.bases)
    keys = sorted(bases)
    logs_of: dict[str, list[LogFile]] = {key: [] for key in keys}
    for log in sorted(group.logs, key=lambda log: log.name.order):
        logs_of.setdefault(_slice_key(log, keys, group, completion_of), []).append(log)
    return [
        FileSlice(group.partition_path, group.file_id, key, bases.get(key), tuple(logs))
        for key, logs in sorted(logs_of.items())
    ]


def _slice_key(log: LogFile, keys: list[str], group: FileGroup, completion_of: Callable[[str], str | None]) -> str:
    before_bases = min((other.name.instant for other in group.logs), default="")
    if not keys or log.name.instant >= keys[-1]:
        return keys[-1] if keys else before_bases
    completion = completion_of(log.name.instant)
    if completion is None:
        raise CorruptError(
            "a log file's instant is neither on the timeline nor in the history, so its slice is not known",
            file=log.path,
            instant=log.name.instant,
            hint="restore the archived timeline, or compact the file group with Apache Hudi",
        )
    return max((key for key in keys if key <= completion), default=before_bases)


def _one_base_per_instant(bases: tuple[BaseFile, ...]) -> dict[str, BaseFile]:
    """Leftovers of a repeated task attempt share the instant; the name that sorts last is taken, as it was seen."""
    found: dict[str, BaseFile] = {}
    for base in sorted(bases, key=lambda b: (b.is_missing is False, b.path)):
        found[base.name.instant] = base
    return found
