"""Which data files there are: whole tables in one sweep, or only the partitions that a constraint leaves.

A listing never touches what it need not: a constraint that names values of the leading partition columns is turned
into folder names, and only those folders are listed. Where paths are not encoded, a text value may hold slashes and so
span several folders; below such a column everything is listed, and what does not match is dropped by its whole path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tidelake.filegroup.partitions import METAFILES, PartitionCodec, check_depth
from tidelake.storage import ObjectInfo, Storage

T = TypeVar("T")
_THREADS = 16
_THREADS_FROM = 64
"""From this many folders on, those of a disk are listed on threads too: it may be a network's."""
_SWEEP_FROM = 64
"""From this many folders at the top on, one flat listing is cheaper than one for each folder."""


@dataclass(frozen=True, slots=True)
class ListedPartition:
    """A partition and the files directly in its folder."""

    path: str
    files: tuple[ObjectInfo, ...]


class PartitionConstraint(Protocol):
    """What a filter says of partition columns."""

    def candidates(self, field: str) -> Sequence[str | None] | None:
        """The only values that the column may have, as path text; None if it is not so constrained."""
        ...

    def may_span_folders(self, field: str) -> bool:
        """Whether values of the column may hold slashes."""
        ...

    def keep(self, values: Sequence[dict[str, str | None]]) -> Sequence[bool]:
        """Which of these partitions may hold matching rows."""
        ...


def list_all(storage: Storage) -> Iterator[ListedPartition]:
    """Every partition of the table with its files."""
    folders, files = storage.list_dir("")
    if _is_partition(files):
        yield ListedPartition("", tuple(files))
        return
    tops = [name for name in folders if name != ".hoodie"]
    if len(tops) < _SWEEP_FROM:
        for listed in _each(storage, lambda top: list(_fold(storage.list_files(top))), tops):
            yield from listed
        return
    everything = storage.list_files("")
    yield from _fold(info for info in everything if not info.path.startswith(".hoodie/"))


def list_constrained(
    storage: Storage, codec: PartitionCodec, constraint: PartitionConstraint
) -> Iterator[ListedPartition]:
    """The partitions that the constraint leaves, with their files."""
    parents = [""]
    for level, field in enumerate(codec.fields):
        candidates = constraint.candidates(field)
        if candidates is not None:
            names = [codec.segment(level, value) for value in candidates]
            parents = [_join(parent, name) for parent in parents for name in dict.fromkeys(names)]
        elif not codec.url_encoded and constraint.may_span_folders(field):
            below = {listed.path: listed for parent in parents for listed in _list_below(storage, parent)}
            yield from (below[path] for path in kept_partitions(below, codec, constraint))
            return
        else:
            parents = [_join(parent, name) for parent in parents for name in storage.list_dir(parent)[0]]
    parents = [path for path in parents if path != ".hoodie" and not path.startswith(".hoodie/")]
    yield from list_partitions(storage, kept_partitions(parents, codec, constraint))


def kept_partitions(paths: Iterable[str], codec: PartitionCodec, constraint: PartitionConstraint) -> list[str]:
    """Of these partitions those that the constraint leaves, and those whose values the path does not tell."""
    wanted = list(paths)
    values = [codec.values(path) for path in wanted]
    verdicts = iter(constraint.keep([v for v in values if v is not None]))
    return [path for path, v in zip(wanted, values, strict=True) if v is None or next(verdicts)]


def _list_below(storage: Storage, folder: str) -> Iterator[ListedPartition]:
    return _fold(storage.list_files(folder)) if folder else list_all(storage)


def list_partitions(storage: Storage, paths: Iterable[str]) -> Iterator[ListedPartition]:
    """These partitions with their files; a folder that is no partition is left out."""
    wanted = list(paths)
    for path, (_, files) in zip(wanted, _each(storage, storage.list_dir, wanted), strict=True):
        if _is_partition(files):
            yield ListedPartition(path, tuple(files))


def _each(storage: Storage, act: Callable[[str], T], paths: Sequence[str]) -> Iterator[T]:
    """Do it for each path, in their order; on threads, unless they would cost more than the few listings."""
    if not storage.is_remote and len(paths) < _THREADS_FROM:
        yield from map(act, paths)
        return
    with ThreadPoolExecutor(min(_THREADS, max(1, len(paths)))) as pool:
        yield from pool.map(act, paths)


def _fold(infos: Iterator[ObjectInfo]) -> Iterator[ListedPartition]:
    by_folder: dict[str, list[ObjectInfo]] = {}
    for info in infos:
        folder = info.path.rpartition("/")[0]
        by_folder.setdefault(folder, []).append(info)
    for folder, files in by_folder.items():
        check_depth(folder)
        if _is_partition(files):
            yield ListedPartition(folder, tuple(files))


def _is_partition(files: Iterable[ObjectInfo]) -> bool:
    return any(info.path.rpartition("/")[2] in METAFILES for info in files)


def _join(parent: str, name: str) -> str:
    return f"{parent}/{name}" if parent else name
