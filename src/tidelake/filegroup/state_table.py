"""The table state in memory: every live file slice and every partition, as columns.

Rows of files stand in the order of their partitions, groups and log order, so a partition is a range of rows, and slices
become objects only when they are asked for. What a fold has changed lies on top, partition by partition, until
``compacted`` makes columns of it again.

Words
- *point*: the greatest time on the timeline that the state was folded up to; it names the state.
- *folded*: the (requested, completion) pairs of the active writes that the state contains, with the partitions that each
  touched, so that a write that is undone later can be taken out by listing those again.
- *facts*: what a commit says of a file beside its name and size.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake._arrays import Places, ranges
from tidelake.filegroup.slices import BaseFile, FileSlice, LogFile
from tidelake.format.names import BaseFileName, LogFileName

Pair: TypeAlias = tuple[str, str]

_WORD = pa.dictionary(pa.int32(), pa.string())
PARTITIONS = pa.schema(
    [
        ("path", pa.string()),
        ("files", pa.int64()),
        ("size_bytes", pa.int64()),
        ("last_requested", pa.string()),
        ("last_completion", pa.string()),
        ("last_is_exact", pa.bool_()),
        ("data_completion", pa.string()),
        ("data_min_event_ms", pa.int64()),
        ("data_max_event_ms", pa.int64()),
    ]
)
FILES = pa.schema(
    [
        ("file_id", pa.string()),
        ("token", pa.string()),
        ("instant", _WORD),
        ("version", _WORD),
        ("completion", _WORD),
        ("size_bytes", pa.int64()),
        ("committed_bytes", pa.int64()),
        ("rows", pa.int64()),
        ("min_event_ms", pa.int64()),
        ("max_event_ms", pa.int64()),
    ]
)
FOLDED = pa.schema(
    [
        ("requested", pa.string()),
        ("completion", pa.string()),
        ("is_service", pa.bool_()),
        ("touched", pa.list_(pa.int32())),
    ]
)
_NAMES = ("file_id", "token", "instant", "version", "size_bytes", "committed_bytes")
_FACTS = ("completion", "rows", "min_event_ms", "max_event_ms")
_FEW = 1_000
"""So many partitions are looked up one by one; for more all paths are hashed."""
_BLOCK_FILES = 65_536
"""How many files become objects at a time."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a file from its commit; None: not known."""

    completion: str | None = None
    rows: int | None = None
    min_event_ms: int | None = None
    max_event_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LastWrite:
    """The last write into a partition; services do not count. If no commit tells, the newest file stands in: not exact."""

    requested: str
    completion: str | None
    is_exact: bool

    @property
    def order(self) -> str:
        return self.completion or self.requested


@dataclass(frozen=True, slots=True)
class LastData:
    """The last write that brought events into a partition, and the least and greatest event time that it brought."""

    completion: str
    min_event_ms: int
    max_event_ms: int


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition: its live slices, the facts of their files by path, its last write, and the last with events."""

    slices: tuple[FileSlice, ...]
    facts: Mapping[str, Facts]
    last: LastWrite | None
    data: LastData | None = None


@dataclass(frozen=True, slots=True)
class FoldedWrite:
    """A write that the state contains."""

    pair: Pair
    is_service: bool
    touched: tuple[str, ...]


_NOTHING = PartitionState((), {}, None)


class TableState:
    """The live file slices and partitions of a table at one point of its timeline. Immutable."""

    def __init__(
        self,
        identity: str,
        point: str,
        first_active: str | None,
        partitions: pa.Table,
        files: pa.Table,
        folded: pa.Table,
        changed: Mapping[str, PartitionState] | None = None,
        more: tuple[FoldedWrite, ...] = (),
        *,
        is_stored: bool = False,
    ) -> None:
        self.identity = identity
        self.point = point
        self.first_active = first_active
        self.is_stored = is_stored
        """Whether it is on storage as it is."""
        self._partitions = partitions
        self._files = files
        self._folded = folded
        self._changed = dict(changed or {})
        self._more = more
        self._counts: Places = np.asarray(partitions["files"], dtype=np.int64)
        self._starts: Places = np.cumsum(self._counts) - self._counts

    @staticmethod
    def empty(identity: str) -> TableState:
        """The state of a table to which nothing was ever written."""
        return TableState(identity, "", None, PARTITIONS.empty_table(), FILES.empty_table(), FOLDED.empty_table())

    def __repr__(self) -> str:
        return f"<TableState at {self.point}: {len(self)} partitions>"

    def __len__(self) -> int:
        """How many partitions have files."""
        return len(self._live()) + sum(1 for each in self._changed.values() if each.slices)

    def partitions(self) -> list[str]:
        """The partitions that have live files, by path."""
        paths: list[str] = self._partitions["path"].take(pa.array(self._live())).to_pylist()
        return sorted([*paths, *(path for path, each in self._changed.items() if each.slices)])

    def slices_of(self, partitions: Collection[str] | None = None) -> Iterator[FileSlice]:
        """The live slices of these partitions (None: of all), partition by partition."""
        if partitions is None:
            changed: Iterable[str] = self._changed
            numbers = self._live()
        else:
            changed = [path for path in dict.fromkeys(partitions) if path in self._changed]
            numbers = self._numbers(partitions)
        for path in changed:
            yield from self._changed[path].slices
        for paths, columns in self._blocks(numbers, _NAMES):
            yield from _slices(paths, zip(*columns, strict=True))

    def known(self, paths: Collection[str]) -> dict[str, PartitionState]:
        """These partitions with all that is known of them; one that is not there has no slices."""
        found = {path: self._changed.get(path, _NOTHING) for path in paths}
        numbers = self._numbers(paths)
        slices: dict[str, list[FileSlice]] = {}
        facts: dict[str, dict[str, Facts]] = {}
        for places, columns in self._blocks(numbers, (*_NAMES, *_FACTS)):
            told = iter([Facts(*row) for row in zip(*columns[len(_NAMES) :], strict=True)])
            for file_slice in _slices(places, zip(*columns[: len(_NAMES)], strict=True)):
                path = file_slice.partition_path
                slices.setdefault(path, []).append(file_slice)
                facts.setdefault(path, {}).update({file.path: next(told) for file in file_slice.files})
        for row in self._partitions.take(pa.array(numbers)).to_pylist():
            path, requested = row["path"], row["last_requested"]
            last = None if requested is None else LastWrite(requested, row["last_completion"], row["last_is_exact"])
            brought = (row["data_completion"], row["data_min_event_ms"], row["data_max_event_ms"])
            data = None if brought[0] is None else LastData(*brought)
            found[path] = PartitionState(tuple(slices[path]), facts[path], last, data)
        return found

    def statistics(self) -> pa.Table:
        """Each partition with live files: path, files, size_bytes, its last write, and the last that brought events."""
        whole = self.compacted()
        return whole._partitions.filter(pc.greater(whole._partitions["files"], 0))

    def file_statistics(self) -> pa.Table:
        """Each live file: its partition and group, instant, completion, sizes, rows and event times; logs have a version."""
        whole = self.compacted()
        numbers = np.repeat(np.arange(len(whole._counts)), whole._counts)
        paths = whole._partitions["path"].take(pa.array(numbers))
        return whole._files.add_column(0, "partition", paths)

    # What a fold needs

    @property
    def pairs(self) -> frozenset[Pair]:
        """The active writes that the state contains."""
        stored = zip(self._folded["requested"].to_pylist(), self._folded["completion"].to_pylist(), strict=True)
        return frozenset([*stored, *(write.pair for write in self._more)])

    def touched(self, pairs: Collection[Pair]) -> set[str]:
        """The partitions that these writes touched."""
        found = {path for write in self._more if write.pair in pairs for path in write.touched}
        rows = [n for n, pair in enumerate(self._stored_pairs()) if pair in pairs]
        numbers = pc.list_flatten(self._folded["touched"].take(pa.array(rows, pa.int64())))
        found.update(self._partitions["path"].take(numbers).to_pylist())
        return found

    def carrying(self, instants: Collection[str]) -> set[str]:
        """The partitions that have live files of these instants."""
        if not instants:
            return set()
        words = self._files["instant"].combine_chunks()
        wanted = np.flatnonzero(pc.is_in(words.dictionary, pa.array(sorted(instants), pa.string())))
        hits = np.flatnonzero(np.isin(np.asarray(words.indices), wanted))
        numbers = np.unique(np.searchsorted(self._starts + self._counts, hits, side="right"))
        found = set(self._partitions["path"].take(pa.array(numbers)).to_pylist()) - self._changed.keys()
        for path, each in self._changed.items():
            if any(file.name.instant in instants for s in each.slices for file in s.files):
                found.add(path)
        return found

    def last_touch(self, path: str, without: Collection[Pair]) -> LastWrite | None:
        """The last of the folded writes, leaving some out, that touched a partition."""
        found = [write.pair for write in self._more if not write.is_service and path in write.touched]
        number = pc.index(self._partitions["path"], pa.scalar(path)).as_py()
        services = self._folded["is_service"].to_pylist()
        for row, pair in enumerate(self._stored_pairs()):
            if not services[row] and number in np.asarray(self._folded["touched"][row].values):
                found.append(pair)
        left = [pair for pair in found if pair not in without]
        requested, completion = max(left, key=lambda pair: pair[1], default=("", ""))
        return LastWrite(requested, completion, True) if requested else None

    def advanced(
        self,
        point: str,
        first_active: str | None,
        changed: Mapping[str, PartitionState],
        without: Collection[Pair] = (),
        more: Iterable[FoldedWrite] = (),
    ) -> TableState:
        """The state with these partitions as they are now, and other folded writes."""
        keep = [pair not in without for pair in self._stored_pairs()]
        folded = self._folded if all(keep) else self._folded.filter(pa.array(keep))
        writes = (*(write for write in self._more if write.pair not in without), *more)
        is_same = not changed and not writes and folded is self._folded and self.first_active == first_active
        return TableState(
            self.identity,
            self.point if is_same else point,
            first_active,
            self._partitions,
            self._files,
            folded,
            {**self._changed, **changed},
            writes,
            is_stored=is_same and self.is_stored,
        )

    def compacted(self) -> TableState:
        """The same state as columns alone."""
        if not self._changed and not self._more:
            return self
        # What a new write touched has changed; of what is left without files only what an active write touched is kept.
        touched = {path for write in self._more for path in write.touched}
        before = pc.unique(pc.list_flatten(self._folded["touched"]))
        touched.update(self._partitions["path"].take(before).to_pylist())
        fresh = {path: each for path, each in self._changed.items() if each.slices or path in touched}
        keep = np.isin(np.arange(len(self._counts)), np.asarray(before)) | (self._counts > 0)
        keep &= ~_among(self._partitions["path"], self._changed)
        kept = self._partitions.filter(pa.array(keep))
        partitions = pa.concat_tables([kept, _partition_rows(fresh)])
        order = pc.sort_indices(partitions, [("path", "ascending")])
        counts: Places = np.asarray(partitions["files"], dtype=np.int64)
        rows = ranges((np.cumsum(counts) - counts)[np.asarray(order)], counts[np.asarray(order)])
        files = [self._files.filter(pa.array(np.repeat(keep, self._counts))), _file_rows(fresh)]
        whole = pa.concat_tables(files).unify_dictionaries().combine_chunks().take(pa.array(rows))
        partitions = partitions.take(order).combine_chunks()
        folded = pa.concat_tables(
            [
                self._renumbered(partitions["path"]),
                _folded_rows(self._more, partitions["path"]),
            ]
        ).combine_chunks()
        return TableState(
            self.identity, self.point, self.first_active, partitions, whole, folded, is_stored=self.is_stored
        )

    @property
    def unsaved_writes(self) -> int:
        """How many writes were folded in since the state was stored."""
        return len(self._more)

    @property
    def columns(self) -> tuple[pa.Table, pa.Table, pa.Table]:
        """Partitions, files and folded writes of a compacted state."""
        return self._partitions, self._files, self._folded

    def _stored_pairs(self) -> list[Pair]:
        return list(zip(self._folded["requested"].to_pylist(), self._folded["completion"].to_pylist(), strict=True))

    def _live(self) -> Places:
        """The numbers of the unchanged partitions that have files."""
        live: npt.NDArray[np.bool_] = self._counts > 0
        if self._changed:
            live &= ~_among(self._partitions["path"], self._changed)
        return np.flatnonzero(live)

    def _numbers(self, paths: Collection[str]) -> Places:
        """The numbers of those of these partitions that are unchanged and have files."""
        wanted = [path for path in dict.fromkeys(paths) if path not in self._changed]
        numbers = _found(self._partitions["path"], wanted)
        return numbers[self._counts[numbers] > 0]

    def _blocks(self, numbers: Places, names: tuple[str, ...]) -> Iterator[tuple[list[str], list[list[object]]]]:
        """Columns of the files of these partitions as lists, some partitions at a time, with each file's partition."""
        ends = np.cumsum(self._counts[numbers])
        start = 0
        while start < len(numbers):
            bound = (ends[start - 1] if start else 0) + _BLOCK_FILES
            stop = max(start + 1, int(np.searchsorted(ends, bound, side="right")))
            some = numbers[start:stop]
            rows = self._files.select(names).take(pa.array(ranges(self._starts[some], self._counts[some])))
            paths = self._partitions["path"].take(pa.array(np.repeat(some, self._counts[some]))).to_pylist()
            yield paths, [rows.column(name).to_pylist() for name in names]
            start = stop

    def _renumbered(self, paths: pa.ChunkedArray) -> pa.Table:
        """The folded writes with the numbers that their partitions have among ``paths``."""
        touched = self._folded["touched"].combine_chunks()
        names = self._partitions["path"].take(pc.list_flatten(touched)).combine_chunks()
        numbers = pc.index_in(names, value_set=paths)
        lists = pa.ListArray.from_arrays(_offsets(pc.list_value_length(touched)), numbers)
        return self._folded.set_column(3, FOLDED.field("touched"), lists)


def _slices(paths: list[str], rows: Iterable[tuple[object, ...]]) -> Iterator[FileSlice]:
    """Slices from rows that stand in order: a group's base first, then its logs."""
    partition, group = "", ""
    base: BaseFile | None = None
    logs: list[LogFile] = []
    for path, row in zip(paths, rows, strict=True):
        file = file_of(path, *row)  # type: ignore[arg-type]
        if (path, file.name.file_id) != (partition, group):
            if base is not None or logs:
                yield _slice(partition, group, base, logs)
            partition, group, base, logs = path, file.name.file_id, None, []
        if isinstance(file, BaseFile):
            base = file
        else:
            logs.append(file)
    if base is not None or logs:
        yield _slice(partition, group, base, logs)


def _slice(partition: str, group: str, base: BaseFile | None, logs: list[LogFile]) -> FileSlice:
    first = logs[0] if base is None else base
    return FileSlice(partition, group, first.name.instant, base, tuple(logs))


def file_of(
    partition: str, file_id: str, token: str, instant: str, version: str | None, size_bytes: int, committed: int | None
) -> BaseFile | LogFile:
    """The file that a row stands for."""
    folder = f"{partition}/" if partition else ""
    if version is None:
        path = f"{folder}{file_id}_{token}_{instant}.parquet"
        return BaseFile(path, BaseFileName(file_id, token, instant), size_bytes)
    path = f"{folder}.{file_id}_{instant}.log.{version}{'_' if token else ''}{token}"
    return LogFile(path, LogFileName(file_id, instant, int(version), token), size_bytes, committed)


def _file_rows(partitions: Mapping[str, PartitionState]) -> pa.Table:
    rows = [
        _file_row(file, each.facts.get(file.path, Facts()))
        for each in partitions.values()
        for file_slice in each.slices
        for file in file_slice.files
    ]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(FILES)
    arrays = []
    for field, values in zip(FILES, columns, strict=True):
        is_word = pa.types.is_dictionary(field.type)
        plain = pa.array(values, pa.string() if is_word else field.type)
        arrays.append(plain.dictionary_encode() if is_word else plain)
    return pa.Table.from_arrays(arrays, schema=FILES)


def _file_row(file: BaseFile | LogFile, facts: Facts) -> tuple[object, ...]:
    told = (facts.rows, facts.min_event_ms, facts.max_event_ms)
    name = file.name
    if isinstance(file, BaseFile):
        return (name.file_id, name.write_token, name.instant, None, facts.completion, file.size_bytes, None, *told)
    version = file.path.rpartition(".log.")[2].partition("_")[0]
    sizes = (file.size_bytes, file.committed_bytes)
    return (name.file_id, name.write_token, name.instant, version, facts.completion, *sizes, *told)


def _partition_rows(partitions: Mapping[str, PartitionState]) -> pa.Table:
    rows = [
        {
            "path": path,
            "files": sum(len(s.files) for s in each.slices),
            "size_bytes": sum(s.size_bytes for s in each.slices),
            "last_requested": each.last.requested if each.last else None,
            "last_completion": each.last.completion if each.last else None,
            "last_is_exact": each.last.is_exact if each.last else None,
            "data_completion": each.data.completion if each.data else None,
            "data_min_event_ms": each.data.min_event_ms if each.data else None,
            "data_max_event_ms": each.data.max_event_ms if each.data else None,
        }
        for path, each in partitions.items()
    ]
    return pa.Table.from_pylist(rows, PARTITIONS)


def _folded_rows(writes: Collection[FoldedWrite], paths: pa.ChunkedArray) -> pa.Table:
    names = pa.array([path for write in writes for path in write.touched], pa.string())
    numbers = pc.index_in(names, value_set=paths)
    lengths = pa.array([len(write.touched) for write in writes], pa.int32())
    arrays = [
        pa.array([write.pair[0] for write in writes], pa.string()),
        pa.array([write.pair[1] for write in writes], pa.string()),
        pa.array([write.is_service for write in writes], pa.bool_()),
        pa.ListArray.from_arrays(_offsets(lengths), numbers),
    ]
    return pa.Table.from_arrays(arrays, schema=FOLDED)


def _offsets(lengths: pa.Array) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.int64))]), pa.int32())


def _among(paths: pa.ChunkedArray, some: Collection[str]) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.is_in(paths, pa.array(list(some), pa.string())), dtype=np.bool_)


def _found(paths: pa.ChunkedArray, wanted: list[str]) -> Places:
    """Where these paths stand among the sorted ones; those that are not there are left out."""
    if len(wanted) > _FEW:
        return np.asarray(pc.index_in(pa.array(wanted, pa.string()), value_set=paths).drop_null(), dtype=np.int64)
    numbers = (bisect_left(range(len(paths)), path, key=lambda number: paths[number].as_py()) for path in wanted)
    found = [n for n, path in zip(numbers, wanted, strict=True) if n < len(paths) and paths[n].as_py() == path]
    return np.asarray(found, dtype=np.int64)
