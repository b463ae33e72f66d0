"""Writing the rows of one partition: what every engine runs. Arrow in, files and their statistics out.

First it is found which files there will be, then markers name them, all of a task's in one file, then they are written.

Merge-on-read: rows whose key a file group has go to a log of that group, the others to new base files; a new base version
of an existing group is made by compaction alone. On an exact table all rows go to logs: a new group begins with an empty
base file and its first log. Copy-on-write: a group that gets rows is rewritten, and new rows fill
small groups first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake._arrays import Places
from tidelake.config import TableType
from tidelake.errors import InternalError, InvalidError, UnsupportedError
from tidelake.filegroup import BaseFile, FileSlice
from tidelake.format.commit_metadata import WriteStat
from tidelake.format.names import BaseFileName, LogFileName
from tidelake.index import bucket_file_id, bucket_numbers, bucket_of, doubled, keep_keys, value_text
from tidelake.merge import Outcome, deleted_rows, merge_records, records_of
from tidelake.query import read_base
from tidelake.schema import FILE_NAME, with_meta
from tidelake.storage import Batch, Storage
from tidelake.write.blanks import refuse_older_than_blanked
from tidelake.write.context import WriteContext
from tidelake.write.deletes import delete_entries
from tidelake.write.files import ensure_partition, join, write_base, write_log
from tidelake.write.log_sizes import LogPart, log_parts
from tidelake.write.lookup import locate, matches
from tidelake.write.missed import Missed
from tidelake.write.rows import BLOOM, GONE, HASH, KEY, PLACE, Chosen, stored_rows
from tidelake.write.settle import settled

_COMPRESSED_SHARE = 0.35
"""How much of its Arrow size a row takes in a file, until it is known better."""


_KEPT_ROWS = 20_000
"""Keys of new files of so many rows stay in memory: a stream of small upserts asks for them next."""


@dataclass(frozen=True, slots=True)
class PartitionTask:
    """Rows of one partition, and the slices that it has."""

    path: str
    slices: tuple[FileSlice, ...]
    operation: str
    """insert, bulk_insert, overwrite, upsert, delete (by the rows' ordering values) or delete_unconditional."""
    token: str
    new_id: str
    """What the ids of the file groups that the task makes begin with."""
    blanked: frozenset[str] = frozenset()
    """File groups whose logs may hold unconditional deletes."""


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that is about to be written."""

    path: str
    kind: str
    """What its marker says: CREATE, or MERGE for a new version of a base file."""
    rows: int
    """How many rows come into it."""
    write: Callable[[Batch], WriteStat]


def plan_partition(
    storage: Storage,
    context: WriteContext,
    task: PartitionTask,
    rows: Chosen,
    outcome: Outcome,
    missed: list[Missed],
) -> list[PlannedFile]:
    """Which files the rows (with their helper columns) of one partition become.

    ``outcome`` is told what is rejected, and ``missed`` what leaves no file: deletes of keys that nothing has, and groups
    in which all rows lost.
    """
    if context.config.is_exact:
        return _log_all(storage, context, task, rows)
    is_rewritten = context.config.table_type is TableType.COPY_ON_WRITE
    change = partial(_rewrite, outcome=outcome) if is_rewritten else _append
    if context.has_clocks and task.operation in ("upsert", "overwrite"):
        is_new = task.operation == "overwrite"
        places = np.full(len(rows), -1, dtype=np.int64) if is_new else places_of(storage, context, task, rows)
        _note_missed(context, task, rows, places, missed)
        task, places, begun = _with_early_deletes(context, task, rows, places)
        had = places[places >= 0]
        rows, places = settled(storage, context, task.path, task.slices, rows, places, outcome)
        missed += Missed.lost(task.path, (task.slices[n].file_id for n in np.setdiff1d(had, places).tolist()))
        if is_new:
            return _new_groups(storage, context, task, rows)
        return begun + change(storage, context, task, rows, places)
    if task.operation == "overwrite" or (context.buckets is None and task.operation in ("insert", "bulk_insert")):
        alive = rows.pick(np.flatnonzero(~_deleted(rows, context)))
        if task.operation == "insert" and is_rewritten:
            return change(storage, context, task, alive, np.full(len(alive), -1, dtype=np.int64))
        return _new_groups(storage, context, task, alive)
    rows, places = located(storage, context, task, rows)
    _note_missed(context, task, rows, places, missed)
    task, places, begun = _with_early_deletes(context, task, rows, places)
    return begun + change(storage, context, task, rows, places)


def _note_missed(
    context: WriteContext, task: PartitionTask, rows: Chosen, places: npt.NDArray[np.int64], missed: list[Missed]
) -> None:
    if task.operation != "upsert":
        return
    gone = np.flatnonzero((places < 0) & _deleted(rows, context))
    if len(gone):
        dropped = rows.pick(gone)
        buckets = None if context.buckets is None else _bucket_numbers(context, dropped)
        missed.append(Missed.of(task.path, dropped.column(KEY), buckets))


def located(
    storage: Storage, context: WriteContext, task: PartitionTask, rows: Chosen
) -> tuple[Chosen, npt.NDArray[np.int64]]:
    """The rows, with the number of the slice that each changes, -1 if it is new.

    A delete comes once for each slice that has its key: inserts may have doubled it.
    """
    if rows.has(PLACE) or not task.operation.startswith("delete"):
        return rows, places_of(storage, context, task, rows)
    if context.buckets is None:
        found = list(matches(storage, context, task.slices, rows.column(KEY)))
        rows = rows.pick(np.concatenate([np.empty(0, dtype=np.int64), *(present for _, present in found)]))
        places = np.repeat([number for number, _ in found], [len(present) for _, present in found]).astype(np.int64)
    else:
        places = _bucket_places(context, task, rows)
    for number, here in _groups(places):
        _refuse_doubled(storage, task.slices[number], rows.pick(here).column(KEY))
    return rows, places


def _refuse_doubled(storage: Storage, file_slice: FileSlice, keys: pa.Array) -> None:
    """Refuse deletes of keys that one base file has twice: a log's delete meets the first row alone, in every engine."""
    if file_slice.base is None:
        return
    twice = doubled(storage, file_slice.base, keys)
    if len(twice):
        raise InvalidError(
            f"the keys {', '.join(map(repr, twice.unique().slice(0, 5).to_pylist()))} stand more than once in one file,"
            " of which a delete would leave all rows but one",
            value=twice[0].as_py(),
            file=file_slice.base.path,
            table=storage.uri,
            hint="write the partition anew with insert_overwrite; if deletes of theirs are in logs, compact first",
        )


def places_of(storage: Storage, context: WriteContext, task: PartitionTask, rows: Chosen) -> npt.NDArray[np.int64]:
    """For each row the number of the slice that it changes, -1 if it is new."""
    if rows.has(PLACE):
        return np.asarray(rows.column(PLACE)).astype(np.int64)
    if context.buckets is not None:
        return _bucket_places(context, task, rows)
    hashes = np.asarray(rows.column(HASH)) if rows.has(HASH) else None
    return locate(storage, context, task.slices, rows.column(KEY), hashes)


def _log_all(storage: Storage, context: WriteContext, task: PartitionTask, rows: Chosen) -> list[PlannedFile]:
    """Every row and every delete goes to a log; buckets that are not there yet begin with an empty base file.

    Readers take base files for where slices begin; the rows stay out of the read-optimised view until they are compacted.
    """
    none = np.full(len(rows), -1, dtype=np.int64)
    places = none if task.operation == "overwrite" else places_of(storage, context, task, rows)
    if task.operation.startswith("delete"):
        return _append(storage, context, task, rows, places)
    fresh = np.flatnonzero(places < 0)
    buckets = _bucket_numbers(context, rows.pick(fresh))
    numbers = np.unique(buckets)
    ids = [bucket_file_id(int(number), task.new_id) for number in numbers]
    places = places.copy()
    places[fresh] = len(task.slices) + np.searchsorted(numbers, buckets)
    logs = _append(storage, context, _begun(context, task, ids), rows, places)
    return [_empty_base(context, task, file_id) for file_id in ids] + logs


def _begun(context: WriteContext, task: PartitionTask, file_ids: Iterable[str]) -> PartitionTask:
    """A task with file groups that begin with it, behind those that are there; they have no base file yet."""
    begun = (FileSlice(task.path, file_id, context.instant, None, ()) for file_id in file_ids)
    return replace(task, slices=(*task.slices, *begun))


def _with_early_deletes(
    context: WriteContext, task: PartitionTask, rows: Chosen, places: npt.NDArray[np.int64]
) -> tuple[PartitionTask, npt.NDArray[np.int64], list[PlannedFile]]:
    """Where deletes are kept, keys that nothing has and that come with one get a place: what comes late must meet it.

    All their versions go to a log. That of an unsettled slice is asked for keys anyway; else a file group begins with it, and
    so is unsettled. Buckets that get other rows as well begin with these.
    """
    if task.operation != "upsert" or not context.keeps_early_deletes:
        return task, places, []
    is_early = (places < 0) & _deleted(rows, context)
    if not is_early.any():
        return task, places, []
    keys = rows.column(KEY)
    deleted = keys.take(pa.array(np.flatnonzero(is_early)))
    here = np.flatnonzero((places < 0) & np.asarray(pc.is_in(keys, value_set=deleted)))
    placed = places.copy()
    if context.buckets is None:
        unsettled = next((number for number, s in enumerate(task.slices) if s.is_unsettled), None)
        if unsettled is not None:
            placed[here] = unsettled
            return task, placed, []
        ids = empty = [f"{task.new_id}-0"]
        placed[here] = len(task.slices)
    else:
        buckets = _bucket_numbers(context, rows.pick(here))
        numbers = np.unique(buckets)
        placed[here] = len(task.slices) + np.searchsorted(numbers, buckets)
        filled = np.isin(numbers, _bucket_numbers(context, rows.pick(np.flatnonzero(placed < 0))))
        ids = [bucket_file_id(int(number), task.new_id) for number in numbers]
        empty = [file_id for file_id, is_filled in zip(ids, filled, strict=True) if not is_filled]
    return _begun(context, task, ids), placed, [_empty_base(context, task, file_id) for file_id in empty]


def _empty_base(context: WriteContext, task: PartitionTask, file_id: str) -> PlannedFile:
    name = BaseFileName(file_id, task.token, context.instant)

    def write(puts: Batch) -> WriteStat:
        _begin_partition(puts, context, task)
        return write_base(puts, context, name, task.path, with_meta(context.schema).empty_table(), None)

    return PlannedFile(join(task.path, str(name)), "CREATE", 0, write)


def _append(
    storage: Storage, context: WriteContext, task: PartitionTask, rows: Chosen, places: npt.NDArray[np.int64]
) -> list[PlannedFile]:
    deletes_all = task.operation.startswith("delete")
    deleted = np.full(len(rows), deletes_all)
    # With several event times the order of records and deletes counts: the latter stay what they are, records with a mark.
    if not deletes_all and context.merge.clocks is None:
        deleted = _deleted(rows, context)
    groups = [(number, here[~deleted[here]], here[deleted[here]]) for number, here in _groups(places)]
    planned = _logs(storage, context, task, rows, groups) if groups else []
    fresh = np.flatnonzero((places < 0) & ~deleted)
    return planned + _new_groups(storage, context, task, rows.pick(fresh))


def _logs(
    storage: Storage, context: WriteContext, task: PartitionTask, rows: Chosen, groups: list[tuple[int, Places, Places]]
) -> list[PlannedFile]:
    """The logs of file groups, each with the numbers of the rows that it gets and of those that are deletes."""
    unconditional = task.operation == "delete_unconditional"
    # Rows are taken once for all groups, each of which has a part of them in a row.
    counts = [len(alive) for _, alive, _ in groups]
    kept = rows.pick(np.concatenate([alive for _, alive, _ in groups]))
    data = kept.taken()
    ids = pa.array([task.slices[number].file_id for number, _, _ in groups], pa.string())
    names = ids.take(pa.array(np.repeat(np.arange(len(groups)), counts)))
    stored = stored_rows(data, kept.numbers, context.instant, task.path, names, _task_number(task))
    at_most = int(stored.nbytes) + int(rows.row_bytes * len(rows))
    planned: list[PlannedFile] = []
    start = 0
    for (number, _, removed), count in zip(groups, counts, strict=True):
        file_slice = task.slices[number]
        if context.merge.is_event_time and file_slice.file_id in task.blanked and count:
            refuse_older_than_blanked(storage, context, file_slice, data.slice(start, count))
        parts = log_parts(context, stored.slice(start, count), rows.pick(removed), at_most)
        for version, part in enumerate(parts, start=1):
            name = LogFileName(file_slice.file_id, context.instant, version, task.token)

            def write(puts: Batch, name: LogFileName = name, part: LogPart = part) -> WriteStat:
                gone = part.gone.taken() if len(part.gone) else None
                deletes = None if gone is None else delete_entries(gone, context, unconditional=unconditional)
                return write_log(puts, context, name, task.path, part.rows, deletes, part.at_most)

            entries = part.rows.num_rows + len(part.gone)
            planned.append(PlannedFile(join(task.path, str(name)), "CREATE", entries, write))
        start += count
    return planned


def _rewrite(
    storage: Storage,
    context: WriteContext,
    task: PartitionTask,
    rows: Chosen,
    places: npt.NDArray[np.int64],
    outcome: Outcome,
) -> list[PlannedFile]:
    deletes_all = task.operation.startswith("delete")
    if not deletes_all and context.buckets is None:
        places = _fill_small_groups(context, task, rows, places)
    planned: list[PlannedFile] = []
    for number, here in _groups(places):
        base = task.slices[number].base
        if base is None:
            raise InternalError("a copy-on-write file group has no base file", instant=context.instant)
        name = BaseFileName(task.slices[number].file_id, task.token, context.instant)
        data = rows.pick(here)

        def write(puts: Batch, name: BaseFileName = name, base: BaseFile = base, data: Chosen = data) -> WriteStat:
            merged = _merged(storage, context, task, base, name, data, outcome)
            return write_base(puts, context, name, task.path, merged, str(base.name))

        planned.append(PlannedFile(join(task.path, str(name)), "MERGE", len(data), write))
    if deletes_all:
        return planned
    fresh = np.flatnonzero((places < 0) & ~_deleted(rows, context))
    return planned + _new_groups(storage, context, task, rows.pick(fresh))


def _merged(
    storage: Storage,
    context: WriteContext,
    task: PartitionTask,
    base: BaseFile,
    name: BaseFileName,
    rows: Chosen,
    outcome: Outcome,
) -> pa.Table:
    """The rows of a base file with what comes in: inserted rows as they are, beside those with their keys."""
    schema = with_meta(context.schema)
    incoming = rows.taken()
    stored = stored_rows(incoming, rows.numbers, context.instant, task.path, str(name), _task_number(task))
    if task.operation == "insert" and context.buckets is None:
        kept = chain(read_base(storage, base, schema), stored.to_batches())
        return pa.Table.from_batches(_renamed(kept, str(name)), schema)
    gone = np.asarray(incoming.column(GONE)) if GONE in incoming.column_names else None
    records = records_of(stored, context.merge, are_deletes=task.operation.startswith("delete"), deletes=gone)
    merged = merge_records(
        read_base(storage, base, schema), records, context.merge, outcome if context.has_clocks else None
    )
    return pa.Table.from_batches(_renamed(merged, str(name)), schema)


def _groups(places: npt.NDArray[np.int64]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Each group that rows go to, with the numbers of its rows, in their order."""
    order = np.argsort(places, kind="stable")
    numbers, counts = np.unique(places[order], return_counts=True)
    ends = np.cumsum(counts)
    for number, start, end in zip(numbers, ends - counts, ends, strict=True):
        if number >= 0:
            yield int(number), order[start:end]


def _fill_small_groups(
    context: WriteContext, task: PartitionTask, rows: Chosen, places: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """New rows go to groups that are still small, as far as they fit."""
    filled = places.copy()
    waiting = np.flatnonzero((places < 0) & ~_deleted(rows, context))
    each_bytes = row_bytes(rows)
    for number, file_slice in enumerate(task.slices):
        if len(waiting) == 0:
            break
        if not is_small(file_slice, context):
            continue
        size = file_slice.base.size_bytes if file_slice.base else 0
        room = max(0, int((context.files.target_base_bytes - size) / each_bytes))
        filled[waiting[:room]] = number
        waiting = waiting[room:]
    return filled


def _new_groups(storage: Storage, context: WriteContext, task: PartitionTask, rows: Chosen) -> list[PlannedFile]:
    planned: list[PlannedFile] = []
    for file_id, part in _new_parts(context, task, rows):
        name = BaseFileName(file_id, task.token, context.instant)

        def write(puts: Batch, name: BaseFileName = name, part: Chosen = part) -> WriteStat:
            _begin_partition(puts, context, task)
            number = _task_number(task)
            stored = stored_rows(part.taken(), part.numbers, context.instant, task.path, str(name), number)
            known = part.column(BLOOM) if part.has(BLOOM) else None
            stat = write_base(puts, context, name, task.path, stored, None, known)
            if task.operation == "upsert" and context.buckets is None and len(part) <= _KEPT_ROWS:
                hashes = np.asarray(part.column(HASH)) if part.has(HASH) else None
                keep_keys(storage, stat.path or "", stat.file_size_in_bytes or 0, part.column(KEY), hashes)
            return stat

        planned.append(PlannedFile(join(task.path, str(name)), "CREATE", len(part), write))
    return planned


def _begin_partition(puts: Batch, context: WriteContext, task: PartitionTask) -> None:
    if all(file_slice.base is None for file_slice in task.slices):
        ensure_partition(puts, task.path, context.instant)


def _new_parts(context: WriteContext, task: PartitionTask, rows: Chosen) -> Iterator[tuple[str, Chosen]]:
    """The file groups that new rows make, beside those that the task has begun: by size, or one for each bucket."""
    if context.buckets is None:
        begun = sum(file_slice.base is None for file_slice in task.slices)
        each = max(1, int(context.files.target_base_bytes / row_bytes(rows)))
        for number, start in enumerate(range(0, len(rows), each), begun):
            yield f"{task.new_id}-{number}", rows.part(start, each)
        return
    for number, here in _groups(_bucket_numbers(context, rows)):
        yield bucket_file_id(number, task.new_id), rows.pick(here)


def _bucket_numbers(context: WriteContext, rows: Chosen) -> npt.NDArray[np.int64]:
    if context.buckets is None:
        raise InternalError("the table has no buckets")
    if context.buckets == 1:
        return np.zeros(len(rows), dtype=np.int64)
    fields = context.config.record_key_fields
    return bucket_numbers([value_text(rows.column(f), f) for f in fields], context.buckets)


def salts_of(rows: pa.Table, context: WriteContext) -> npt.NDArray[np.int64]:
    """For tables of the BUCKET index the bucket of each row, so that a bucket's rows meet in one task; else nothing."""
    if context.buckets is None:
        return np.zeros(rows.num_rows, dtype=np.int64)
    return _bucket_numbers(context, Chosen(rows, np.arange(rows.num_rows)))


def _bucket_places(context: WriteContext, task: PartitionTask, rows: Chosen) -> npt.NDArray[np.int64]:
    """For each row the number of the slice that is its bucket, -1 if the bucket is not there yet."""
    slots = np.full(context.buckets or 0, -1, dtype=np.int64)
    for number, file_slice in enumerate(task.slices):
        bucket = bucket_of(file_slice.file_id)
        if bucket is None or bucket >= len(slots):
            raise UnsupportedError(
                f"the file group {file_slice.file_id} is no bucket of {len(slots)}",
                value=file_slice.file_id,
                hint="the table was written with another index, or another number of buckets",
            )
        slots[bucket] = number
    return slots[_bucket_numbers(context, rows)]


def is_small(file_slice: FileSlice, context: WriteContext) -> bool:
    """Whether new rows may fill a file group."""
    if (file_slice.partition_path, file_slice.file_id) in context.held:
        return False
    return (file_slice.base.size_bytes if file_slice.base else 0) < context.files.small_base_bytes


def row_bytes(rows: Chosen) -> float:
    """What a row will take in a file, guessed from the rows that came with it."""
    return max(1.0, rows.row_bytes * _COMPRESSED_SHARE)


def _deleted(rows: Chosen, context: WriteContext) -> npt.NDArray[np.bool_]:
    asked = [name for name in context.merge.delete_columns if rows.has(name)]
    deleted = np.zeros(len(rows), dtype=np.bool_)
    if asked:
        deleted = deleted_rows(rows.table.select(asked).take(pa.array(rows.numbers)), context.merge)
    return deleted | np.asarray(rows.column(GONE)) if rows.has(GONE) else deleted


def _renamed(batches: Iterable[pa.RecordBatch], name: str) -> list[pa.RecordBatch]:
    renamed = []
    for batch in batches:
        position = batch.schema.get_field_index(FILE_NAME)
        column = pa.repeat(pa.scalar(name, pa.string()), batch.num_rows)
        renamed.append(batch.set_column(position, batch.schema.field(position), column))
    return renamed


def _task_number(task: PartitionTask) -> int:
    return int(task.token.partition("-")[0])
