"""Bounds of log files: a write of any size leaves files and blocks that any reader can hold.

How many files the rows of a group become is known before they are written, since markers name them; so it goes by an
estimate from above, the rows' Arrow size with the meta columns. Blocks are cut to their bound exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.write.context import WriteContext

_META_BYTES = 128
"""What the meta columns take of a row, beside the key and the path."""
_ENTRY_BYTES = 32


@dataclass(frozen=True, slots=True)
class LogPart:
    """What goes into one log file; ``first`` is the number of its first row."""

    rows: pa.Table
    deletes: pa.StructArray
    first: int = 0


def log_parts(context: WriteContext, partition_path: str, rows: pa.Table, deletes: pa.StructArray) -> Iterator[LogPart]:
    """The rows and deletes of one file group, as parts for one log file each; at least one."""
    bound = context.files.max_log_bytes
    per_row = _per_row(rows) + _META_BYTES + len(partition_path)
    per_delete = _per_delete(deletes) + _ENTRY_BYTES + len(partition_path)
    if rows.num_rows * per_row + len(deletes) * per_delete <= bound:
        yield LogPart(rows, deletes)
        return
    each = max(1, bound // per_row)
    for start in range(0, rows.num_rows, each):
        yield LogPart(rows.slice(start, each), deletes.slice(0, 0), start)
    each = max(1, bound // per_delete)
    for start in range(0, len(deletes), each):
        yield LogPart(rows.slice(0, 0), deletes.slice(start, each))


def fitting_blocks(rows: pa.Table | pa.Array, encode: Callable[[pa.Table], bytes], bound: int) -> Iterator[bytes]:
    """Rows as encoded blocks of at most so many bytes; a row that is larger has a block of its own."""
    per_row = max(1, int(rows.nbytes) // max(1, len(rows)))
    each = max(1, bound // per_row)
    for start in range(0, len(rows), each):
        yield from _halved(rows.slice(start, each), encode, bound)


def _halved(rows: pa.Table | pa.Array, encode: Callable[[pa.Table], bytes], bound: int) -> Iterator[bytes]:
    block = encode(rows)
    if len(block) <= bound or len(rows) < 2:
        yield block
        return
    middle = len(rows) // 2
    yield from _halved(rows.slice(0, middle), encode, bound)
    yield from _halved(rows.slice(middle), encode, bound)


def _per_row(rows: pa.Table) -> int:
    return int(rows.nbytes) // max(1, int(rows.num_rows)) + 1


def _per_delete(deletes: pa.StructArray) -> int:
    return int(pc.struct_field(deletes, "key").nbytes) // max(1, len(deletes)) + 1 if len(deletes) else 1
