"""Which file group has a key, where base files alone do not tell.

A writer looks keys up in base files. One that began before a compaction completed saw the base file before it: a key that
was deleted in the logs which the compaction took in, and that this writer brings back, stands afterwards in its log alone.
So a slice with a log whose instant is earlier than the completion of its base file is *unsettled*: there the keys of logs
are looked up, too: of rows, and where compaction keeps deletes, of deletes, since what comes late must meet them. Elsewhere
no log is read. A writer that commits after the compaction is told instead
(``revived_key``): by then another may have inserted the key anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidelake import index
from tidelake._arrays import Places
from tidelake.config import TableConfig, TableType
from tidelake.errors import InternalError
from tidelake.filegroup import BaseFile, FileSlice, LogFile, TableView
from tidelake.format.commit_metadata import WriteStat
from tidelake.format.names import parse_base_name, parse_log_name
from tidelake.merge import LogContext, read_logs
from tidelake.merge.log_records import BLOCK_DELETE, DATA, DATA_DELETE
from tidelake.schema import RECORD_KEY, with_meta
from tidelake.storage import Storage
from tidelake.write.context import WriteContext
from tidelake.write.in_slice import rows_in_slice


def with_unsettled(view: TableView, config: TableConfig, slices: Sequence[FileSlice]) -> tuple[FileSlice, ...]:
    """The slices, with those marked whose logs have to be asked for keys."""
    if config.table_type is TableType.COPY_ON_WRITE or config.buckets is not None:
        return tuple(slices)
    return tuple(replace(s, is_unsettled=True) if _is_unsettled(view, s) else s for s in slices)


def _is_unsettled(view: TableView, file_slice: FileSlice) -> bool:
    if file_slice.base is None or not file_slice.logs:
        return False
    completion = view.completion_of(file_slice.base_instant)
    return completion is not None and any(log.name.instant < completion for log in file_slice.logs)


def locate(
    storage: Storage,
    context: WriteContext,
    slices: Sequence[FileSlice],
    keys: pa.Array,
    hashes: index.Hashes | None = None,
) -> Places:
    """For each key the number of the slice that has it, -1 if none has; the keys' hashes may be known.

    Of several slices (an insert, which looks nothing up, made them) it is the last one in which the key lives.
    """
    found = np.full(len(keys), -1, dtype=np.int64)
    several = np.zeros(len(keys), dtype=np.bool_)
    by_slice = list(matches(storage, context, slices, keys, hashes))
    for number, present in by_slice:
        several[present] |= found[present] >= 0
        found[present] = number
    if several.any():
        for number, present in by_slice:
            here = present[several[present]]
            found[here[_lives(storage, context, slices[number], keys.take(pa.array(here)))]] = number
    return found


def _lives(storage: Storage, context: WriteContext, file_slice: FileSlice, keys: pa.Array) -> npt.NDArray[np.bool_]:
    """Key by key, whether a slice that has it has a row of it still."""
    if not file_slice.logs:
        return np.ones(len(keys), dtype=np.bool_)
    stored = rows_in_slice(storage, context, with_meta(context.schema), file_slice, keys).column(RECORD_KEY)
    return np.asarray(pc.is_in(keys, value_set=stored.combine_chunks()))


def matches(
    storage: Storage,
    context: WriteContext,
    slices: Sequence[FileSlice],
    keys: pa.Array,
    hashes: index.Hashes | None = None,
) -> Iterator[tuple[int, Places]]:
    """The number of each slice that has some of the keys, with the places of these; a key may be in several."""
    logged = dict(_logged(storage, context, slices, keys))
    for number, present in index.matches(storage, slices, keys, hashes):
        yield number, np.union1d(present, logged.pop(number)) if number in logged else present
    yield from logged.items()


def revived_key(
    storage: Storage, context: WriteContext, stats: Sequence[WriteStat]
) -> Callable[[WriteStat], str | None]:
    """For a new base file of a compaction: a key that this write logs for its group, and that is not in it."""

    def of(compacted: WriteStat) -> str | None:
        own = [s for s in stats if (s.partition_path, s.file_id) == (compacted.partition_path, compacted.file_id)]
        keys = _logged_keys(storage, context, _logs_of(own))
        lost = np.flatnonzero(index.locate(storage, [slice_of(compacted)], keys) < 0)
        return str(keys[int(lost[0])].as_py()) if len(lost) else None

    return of


def keys_in_logs(storage: Storage, context: WriteContext, stats: Sequence[WriteStat]) -> pa.Array:
    """The keys that logs of other writes have, as far as they are looked up."""
    return _logged_keys(storage, context, _logs_of(stats), _looked_up(context))


def _logs_of(stats: Sequence[WriteStat]) -> tuple[LogFile, ...]:
    """The logs among files that statistics name."""
    names = ((s.path or "", parse_log_name((s.path or "").rpartition("/")[2]), s.file_size_in_bytes) for s in stats)
    return tuple(LogFile(path, name, size or 0) for path, name, size in names if name is not None)


def _looked_up(context: WriteContext) -> tuple[int, ...]:
    """The kinds of entries of logs whose keys are looked up: deletes where they are kept."""
    return (DATA, DATA_DELETE, BLOCK_DELETE) if context.config.tombstone_seconds else (DATA,)


def slice_of(stat: WriteStat) -> FileSlice:
    """The base file that a statistic names, as a slice."""
    path = stat.path or ""
    name = parse_base_name(path.rpartition("/")[2])
    if name is None:
        raise InternalError(f"{path!r} is no base file", file=path)
    base = BaseFile(path, name, stat.file_size_in_bytes or 0)
    return FileSlice(stat.partition_path or "", name.file_id, name.instant, base, ())


def _logged(
    storage: Storage, context: WriteContext, slices: Sequence[FileSlice], keys: pa.Array
) -> Iterator[tuple[int, Places]]:
    for number, file_slice in enumerate(slices):
        if file_slice.is_unsettled:
            logged = _logged_keys(storage, context, file_slice.logs, _looked_up(context))
            present = np.flatnonzero(np.asarray(pc.is_in(keys, value_set=logged)))
            if len(present):
                yield number, present


def _logged_keys(
    storage: Storage, context: WriteContext, logs: Sequence[LogFile], kinds: Sequence[int] = (DATA,)
) -> pa.Array:
    """The keys of the rows, or of other entries, in logs, each once."""
    spec = context.merge
    schema = pa.schema([f for f in with_meta(context.schema) if f.name in spec.columns or f.name == RECORD_KEY])
    entries = read_logs(storage, logs, spec, LogContext(schema, None, {}, frozenset())).entries
    return pc.cast(entries.filter(pl.col("kind").is_in(kinds))["key"].unique().to_arrow(), pa.string())
