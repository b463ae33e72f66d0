"""Which files a clean removes, and why it keeps others. Pure: from the files of a partition and facts of the timeline.

Every visible data file of a partition is *judged*: it belongs to the latest slice of its file group and is never cleaned; or
an instant has superseded it, and it goes when that is past (``retention.py``) and nobody *holds* it. Holders are savepoints
(the files that they name, and those that a reader as of them needs), and pending compactions and clusterings (their inputs;
their outputs are not visible). Files that are not visible are not judged: they are a pending write's, or a rollback's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tidelake.filegroup.listing import ListedPartition
from tidelake.format.names import BaseFileName, LogFileName, parse_base_name, parse_log_name
from tidelake.services.clean.retention import Retention
from tidelake.timeline import Instant


@dataclass(frozen=True, slots=True)
class CleanedFile:
    """A file that goes, and why. ``superseded_by`` is the instant since which the table does not need it."""

    path: str
    size_bytes: int
    reason: str
    superseded_by: str = ""


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A superseded file that stays, and why."""

    path: str
    size_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class CleanResult:
    """What a clean removed, or would remove.

    ``partition_source`` says how its partitions were found: ``incremental``, ``full`` or ``full_fallback:<reason>``;
    ``partitions_listed`` which were looked at, and ``carried`` which have to be looked at again, whether they change or
    not. ``instant`` is the clean's own, None for a dry run; ``resumed`` are cleans that others had left half done.
    """

    instant: str | None
    policy: str
    retain: int
    files: tuple[CleanedFile, ...]
    kept: tuple[KeptFile, ...]
    partition_source: str
    partitions_listed: tuple[str, ...]
    carried: tuple[str, ...]
    earliest_retained: str | None
    resumed: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The bytes that are freed."""
        return sum(file.size_bytes for file in self.files)

    @property
    def reasons(self) -> dict[str, int]:
        """The reasons for which files go, each with the number of files."""
        found: dict[str, int] = {}
        for file in self.files:
            found[file.reason] = found.get(file.reason, 0) + 1
        return found


@dataclass(frozen=True, slots=True)
class Facts:
    """What the timeline says of files.

    ``held`` names files (partition path, name) that savepoints and pending plans hold, with the reason; ``replaced`` file
    groups (partition path, file id) with the instant that replaced each.
    """

    is_visible: Callable[[str], bool]
    completion_of: Callable[[str], str | None]
    replaced: Mapping[tuple[str, str], Instant]
    savepoints: tuple[str, ...] = ()
    held: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def completion(self, instant: str) -> str:
        """When an instant completed; one that was archived long ago counts as of its request."""
        return self.completion_of(instant) or instant


@dataclass(frozen=True, slots=True)
class Judged:
    """A visible file. ``successor`` is the instant of the next slice of its group, None in the latest one; ``newer`` counts
    the slices after its own; ``replaced_by`` is the instant that replaced the whole group.
    """

    path: str
    size_bytes: int
    successor: str | None
    newer: int = 0
    replaced_by: str | None = None
    holder: str | None = None

    @property
    def is_latest(self) -> bool:
        """Whether the table as it is now shows the file."""
        return self.successor is None and self.replaced_by is None

    @property
    def is_needed(self) -> bool:
        """Whether the table as it is now, a savepoint or a pending plan needs the file."""
        return self.is_latest or self.holder is not None

    def causes(self, versions: int) -> list[tuple[str, str]]:
        """Why the file may go, the earliest reason first, if ``versions`` slices stay: what happened to it, and by whom."""
        found = []
        if self.successor is not None and self.newer >= versions:
            found.append(("superseded", self.successor))
        if self.replaced_by is not None:
            found.append(("replaced", self.replaced_by))
        return found


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    size_bytes: int
    name: BaseFileName | LogFileName

    @property
    def is_base(self) -> bool:
        return isinstance(self.name, BaseFileName)


def judge(listed: ListedPartition, facts: Facts) -> list[Judged]:
    """Every visible data file of a partition."""
    groups: dict[str, list[_File]] = {}
    for info in listed.files:
        name = info.path.rpartition("/")[2]
        parsed = parse_base_name(name) or parse_log_name(name)
        if parsed is not None and facts.is_visible(parsed.instant):
            groups.setdefault(parsed.file_id, []).append(_File(info.path, info.size_bytes, parsed))
    judged: list[Judged] = []
    for file_id, files in groups.items():
        judged.extend(_judge_group(files, facts, facts.replaced.get((listed.path, file_id)), listed.path))
    return judged


def _judge_group(files: list[_File], facts: Facts, replaced_by: Instant | None, partition: str) -> list[Judged]:
    keys = sorted({file.name.instant for file in files if file.is_base})
    slices: dict[str, list[_File]] = {}
    for file in files:
        slices.setdefault(_slice_key(file, keys, facts), []).append(file)
    needed = _needed_at_savepoints(files, keys, facts, replaced_by)
    order = sorted(slices)
    judged: list[Judged] = []
    for place, key in enumerate(order):
        successor = order[place + 1] if place + 1 < len(order) else None
        newer = len(order) - place - 1
        by = None if replaced_by is None else replaced_by.requested_time
        for file in slices[key]:
            holder = facts.held.get((partition, file.path.rpartition("/")[2])) or needed.get(file.path)
            judged.append(Judged(file.path, file.size_bytes, successor, newer, by, holder))
    return judged


def _slice_key(file: _File, keys: list[str], facts: Facts) -> str:
    """The slice of a file: as ``filegroup/slices.py`` builds them, but a log of which nothing is known counts as latest."""
    if file.is_base:
        return file.name.instant
    latest = keys[-1] if keys else ""
    if file.name.instant >= latest:
        return latest
    completion = facts.completion_of(file.name.instant)
    return latest if completion is None else max((key for key in keys if key <= completion), default="")


def _needed_at_savepoints(
    files: list[_File], keys: list[str], facts: Facts, replaced_by: Instant | None
) -> dict[str, str]:
    """What a reader as of a savepoint needs: the latest base file then, and the logs of then that lie on top of it."""
    needed: dict[str, str] = {}
    for point in facts.savepoints:
        if replaced_by is not None and replaced_by.requested_time <= point:
            continue
        base = max((key for key in keys if key <= point), default="")
        for file in files:
            instant = file.name.instant
            is_on_top = instant <= point and facts.completion(instant) >= base
            if instant == base if file.is_base else is_on_top:
                needed[file.path] = f"the savepoint {point} needs it"
    return needed


def split(judged: Iterable[Judged], keep: Retention, facts: Facts) -> tuple[list[CleanedFile], list[KeptFile]]:
    """What goes, and what was superseded and stays."""
    cleaned: list[CleanedFile] = []
    kept: list[KeptFile] = []
    for file in judged:
        if file.is_latest:
            continue
        causes = [(verb, by, facts.completion(by)) for verb, by in file.causes(keep.versions)]
        past = next(((verb, by, at) for verb, by, at in causes if keep.is_past(by, at)), None)
        if file.holder is not None:
            kept.append(KeptFile(file.path, file.size_bytes, file.holder))
        elif past is not None:
            verb, by, at = past
            cleaned.append(CleanedFile(file.path, file.size_bytes, f"{verb} by {by} at {at}", by))
        elif causes:
            verb, by, at = causes[0]
            kept.append(KeptFile(file.path, file.size_bytes, f"{verb} by {by} at {at}, which is retained"))
        else:
            kept.append(KeptFile(file.path, file.size_bytes, f"one of the last {keep.versions} versions"))
    return cleaned, kept


def has_work_left(judged: Iterable[Judged], keep: Retention, gone: frozenset[str], cursor: str, facts: Facts) -> bool:
    """Whether a partition has a file that may go later though no commit from ``cursor`` on is a reason for it."""
    return any(
        facts.completion(by) < cursor
        for file in judged
        if file.path not in gone
        for _, by in file.causes(keep.versions)
    )
