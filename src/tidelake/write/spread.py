"""Spreading a copy-on-write write over tasks, so that a hot partition is many tasks' and each file group one task's.

Rows are tagged first with the file group that has their key, then sent to tasks by *slot*. A large file group is a slot of
its own. New rows share as many slots as they will fill files, and a small file group belongs to one of these, where new
rows may fill it. Whoever has a row of a slot has all of them, so no file group is ever written by two tasks. All tasks see
the slices of a partition in one order.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.filegroup import FileSlice
from tidelake.storage import Storage
from tidelake.write.context import WriteContext
from tidelake.write.partition import PartitionTask, is_small, located, row_bytes
from tidelake.write.rows import PLACE, SALT, Chosen

SALTS = 64
"""Into how many pieces the rows of one partition may be spread before they are looked up, and new rows after it."""


def tagged(storage: Storage, context: WriteContext, task: PartitionTask, rows: pa.Table) -> pa.Table:
    """Rows of one partition with the number of the slice that has their key (-1: none), and their slot.

    The rows are all those of some salts, and salts are equal shares of a partition: so the task knows about how many new
    rows the partition gets. Rows that have their number already keep it.
    """
    places = np.full(rows.num_rows, -1, dtype=np.int64)
    if task.operation != "insert" or PLACE in rows.column_names:
        found, places = located(storage, context, task, Chosen(rows, np.arange(rows.num_rows)))
        rows = found.taken()
    salts = np.asarray(rows.column(SALT)).astype(np.int64)
    is_new = places < 0
    share = max(1, len(np.unique(salts))) / SALTS
    new_bytes = row_bytes(Chosen(rows, np.flatnonzero(is_new))) * int(is_new.sum())
    files = new_bytes / share / context.files.target_base_bytes
    slots = np.concatenate([_slots(task.slices, context), [0]])[places]
    slots[is_new] = salts[is_new] % int(np.clip(np.ceil(files), 1, SALTS))
    return _with(_with(rows, SALT, slots), PLACE, places)


def placed(
    context: WriteContext, tasks: Sequence[PartitionTask], parts: Sequence[npt.NDArray[np.int64]], rows: pa.Table
) -> tuple[list[PartitionTask], pa.Table]:
    """The partitions' tasks with the file groups that are this task's alone, and tagged rows with numbers among these."""
    slots = np.asarray(rows.column(SALT)).astype(np.int64)
    places = np.asarray(rows.column(PLACE)).astype(np.int64)
    made = []
    for task, here in zip(tasks, parts, strict=True):
        present = set(np.unique(slots[here]).tolist())
        own = [number for number, slot in enumerate(_slots(task.slices, context)) if slot in present]
        numbers = np.full(len(task.slices) + 1, -1, dtype=np.int64)
        numbers[own] = np.arange(len(own))
        places[here] = numbers[places[here]]
        made.append(replace(task, slices=tuple(task.slices[number] for number in own)))
    return made, _with(rows, PLACE, places)


def _with(rows: pa.Table, name: str, values: npt.NDArray[np.int64]) -> pa.Table:
    if name in rows.column_names:
        return rows.set_column(rows.column_names.index(name), name, pa.array(values))
    return rows.append_column(name, pa.array(values))


def _slots(slices: Sequence[FileSlice], context: WriteContext) -> npt.NDArray[np.int64]:
    """The slot of each file group: small ones, as far as they go, share the first slots with new rows."""
    slots = np.array([SALTS + zlib.crc32(s.file_id.encode()) for s in slices], dtype=np.int64)
    small = [number for number, file_slice in enumerate(slices) if is_small(file_slice, context)][:SALTS]
    slots[small] = np.arange(len(small))
    return slots
