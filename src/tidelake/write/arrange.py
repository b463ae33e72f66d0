"""Rows of a write in process, in the order of the files that they go to.

What can be done for all rows at once is done here: there may be many more files than cores, and each of few rows. Keys are
looked up and hashed, rows sorted, copied and numbered once; a file's rows are then a slice.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from tidelake._arrays import Places
from tidelake._limits import MIB
from tidelake.format.bloom import bloom_hashes
from tidelake.index import key_hashes
from tidelake.storage import Storage
from tidelake.write.context import WriteContext
from tidelake.write.files import BLOOM_ERROR_RATE, TINY_ROWS
from tidelake.write.partition import PartitionTask, located
from tidelake.write.rows import BLOOM, HASH, KEY, PLACE, SEQUENCE, Chosen, in_one, key_order, sequence_numbers

CORES = max(1, os.cpu_count() or 1)
ARRANGED_BYTES = 256 * MIB
"""Up to so many bytes, rows are copied at once in the order of their files; more are copied file by file."""
_HASHED_ROWS = 1_000_000
"""Up to so many rows, the hashes of bloom filters (44 bytes a row) are made at once."""


def by_place(
    storage: Storage, context: WriteContext, tasks: Sequence[PartitionTask], rows: pa.Table, parts: Sequence[Places]
) -> tuple[pa.Table, list[Places]]:
    """Rows in the order of the file groups that they change, with what was found of them, and where each partition's are.

    New rows come first in each partition.
    """
    if context.buckets is None:
        rows = rows.append_column(HASH, pa.array(key_hashes(in_one(rows.column(KEY)))))
    with ThreadPoolExecutor(CORES) as pool:
        found = list(pool.map(lambda t, here: located(storage, context, t, Chosen(rows, here)), tasks, parts))
        order = [np.argsort(places, kind="stable") for _, places in found]
        wanted = _joined([here.numbers[by] for (here, _), by in zip(found, order, strict=True)])
        taken = Chosen(rows, wanted).taken(pool)
    places = _joined([places[by] for (_, places), by in zip(found, order, strict=True)])
    if PLACE not in rows.column_names:
        taken = taken.append_column(PLACE, pa.array(places))
    fresh = np.flatnonzero(places < 0)
    return _numbered(taken, context, fresh, len(tasks)), _runs([len(by) for by in order])


def is_scattered(rows: pa.Table, parts: Sequence[Places]) -> bool:
    """Whether new rows become so many files, each of few rows, that they are better copied at once."""
    return bool(rows.num_rows < TINY_ROWS * len(parts) and rows.nbytes <= ARRANGED_BYTES)


def by_partition_and_key(
    context: WriteContext, rows: pa.Table, parts: Sequence[Places], *, sorts: bool
) -> tuple[pa.Table, list[Places]]:
    """Rows in the order of their partitions, and by key within these if they are to be sorted; where each one's are."""
    whole, counts = _joined(parts), [len(here) for here in parts]
    if sorts:
        rank = np.empty(rows.num_rows, dtype=np.int64)
        rank[key_order(in_one(rows.column(KEY)), np.arange(rows.num_rows))] = np.arange(rows.num_rows)
        whole = whole[np.lexsort((rank[whole], np.repeat(np.arange(len(parts)), counts)))]
    taken = Chosen(rows, whole).taken()
    return _numbered(taken, context, np.arange(len(whole)), len(parts)), _runs(counts)


def _numbered(rows: pa.Table, context: WriteContext, fresh: Places, partitions: int) -> pa.Table:
    """Rows with their sequence numbers; new ones, of which files have few, with the hashes of their files' filters."""
    rows = rows.append_column(SEQUENCE, sequence_numbers(context.instant, 0, np.arange(rows.num_rows)))
    is_filtered = context.files.has_bloom and context.config.has_meta_columns and not context.has_clocks
    if not is_filtered or not 0 < len(fresh) < TINY_ROWS * partitions or rows.num_rows > _HASHED_ROWS:
        return rows
    own = bloom_hashes(in_one(rows.column(KEY)).take(pa.array(fresh)), error_rate=BLOOM_ERROR_RATE)
    hashes = np.zeros((rows.num_rows, own.shape[1]), dtype=np.int32)
    hashes[fresh] = own
    return rows.append_column(BLOOM, pa.FixedSizeListArray.from_arrays(pa.array(hashes.reshape(-1)), own.shape[1]))


def _joined(parts: Sequence[Places]) -> Places:
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _runs(counts: Sequence[int]) -> list[Places]:
    ends = np.cumsum(counts)
    return [np.arange(end - count, end) for count, end in zip(counts, ends, strict=True)]
