"""Spreading a copy-on-write write over tasks, so that a hot partition is many tasks' and each file group one task's.

Rows are tagged first with the file group that has their key, then sent to tasks by *slot*. A large file group is a slot of
its own. New rows share as many slots as they will fill files, and a small file group belongs to one of these, where new
rows may fill it. Whoever has a row of a slot has all of them, so no file group is ever written by two tasks.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.filegroup import FileSlice
from tidelake.index import locate
from tidelake.storage import Storage
from tidelake.write.context import WriteContext
from tidelake.write.partition import PartitionTask, is_small, stored_bytes
from tidelake.write.rows import KEY, PLACE, SALT

SALTS = 64
"""Into how many pieces the rows of one partition may be spread before they are looked up, and new rows after it."""


def tagged(
    storage: Storage, context: WriteContext, slices: Sequence[FileSlice], operation: str, rows: pa.Table
) -> pa.Table:
    """Rows of one partition with the id of the file group that has their key (null: none), and their slot.

    The rows are all those of some salts, and salts are equal shares of a partition: so the task knows about how many new
    rows the partition gets.
    """
    ordered = sorted(slices, key=lambda s: s.file_id)
    if operation == "insert":
        places = np.full(rows.num_rows, -1, dtype=np.int64)
    else:
        places = locate(storage, ordered, rows.column(KEY).combine_chunks())
    if operation.startswith("delete"):
        kept = np.flatnonzero(places >= 0)
        rows, places = rows.take(pa.array(kept)), places[kept]
    salts = np.asarray(rows.column(SALT)).astype(np.int64)
    is_new = places < 0
    share = max(1, len(np.unique(salts))) / SALTS
    files = stored_bytes(rows.filter(pa.array(is_new))) / share / context.files.target_base_bytes
    slots = np.concatenate([_slots(ordered, context), [0]])[places]
    slots[is_new] = salts[is_new] % int(np.clip(np.ceil(files), 1, SALTS))
    ids = pa.array([s.file_id for s in ordered], pa.string())
    names = pc.take(ids, pa.array(places, mask=is_new))
    return rows.set_column(rows.column_names.index(SALT), SALT, pa.array(slots)).append_column(PLACE, names)


def placed(context: WriteContext, task: PartitionTask, rows: pa.Table) -> tuple[PartitionTask, npt.NDArray[np.int64]]:
    """The task with the file groups that are its own alone, and for each tagged row the number of its group or -1."""
    present = set(np.unique(np.asarray(rows.column(SALT))).tolist())
    ordered = sorted(task.slices, key=lambda s: s.file_id)
    slots = _slots(ordered, context)
    own = tuple(s for s, slot in zip(ordered, slots, strict=True) if slot in present)
    ids = pa.array([s.file_id for s in own], pa.string())
    found = pc.index_in(rows.column(PLACE).combine_chunks(), value_set=ids, skip_nulls=True)
    return replace(task, slices=own), np.asarray(pc.fill_null(found, -1)).astype(np.int64)


def _slots(ordered: Sequence[FileSlice], context: WriteContext) -> npt.NDArray[np.int64]:
    """The slot of each file group: small ones, as far as they go, share the first slots with new rows."""
    slots = np.array([SALTS + zlib.crc32(s.file_id.encode()) for s in ordered], dtype=np.int64)
    small = [number for number, file_slice in enumerate(ordered) if is_small(file_slice, context)][:SALTS]
    slots[small] = np.arange(len(small))
    return slots
