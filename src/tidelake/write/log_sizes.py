"""Bounds of log files: a write of any size leaves files and blocks that any reader can hold.

How many files the rows of a group become is known before they are written, since markers name them; so it goes by an
estimate from above, the rows' Arrow size with the meta columns. Blocks are cut to their bound exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidelake.write.context import WriteContext
from tidelake.write.rows import Chosen

_ENTRY_BYTES = 32
"""What a record, or a delete, takes beside its values."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """What goes into one log file: records as they are stored, and the rows that are deletes."""

    rows: pa.Table
    gone: Chosen
    at_most: int
    """How many bytes they take in memory, or fewer."""


def log_parts(context: WriteContext, rows: pa.Table, gone: Chosen, at_most: int) -> Iterator[LogPart]:
    """The records and deletes of one file group, as parts for one log file each; at least one.

    Sizes are looked at only if ``at_most``, what all groups take together, may be more than a file's bound.
    """
    bound = context.files.max_log_bytes
    if at_most + (rows.num_rows + len(gone)) * _ENTRY_BYTES <= bound:
        yield LogPart(rows, gone, at_most)
        return
    per_row = max(gone.row_bytes, int(rows.nbytes) / max(1, int(rows.num_rows))) + _ENTRY_BYTES
    if (rows.num_rows + len(gone)) * per_row <= bound:
        yield LogPart(rows, gone, at_most)
        return
    each = max(1, int(bound / per_row))
    for start in range(0, rows.num_rows, each):
        yield LogPart(rows.slice(start, each), gone.part(0, 0), at_most)
    for start in range(0, len(gone), each):
        yield LogPart(rows.slice(0, 0), gone.part(start, each), at_most)


def fitting_blocks(
    rows: pa.Table | pa.Array, encode: Callable[[pa.Table], bytes], bound: int, at_most: int | None = None
) -> Iterator[bytes]:
    """Rows as encoded blocks of at most so many bytes; a row that is larger has a block of its own."""
    if at_most is not None and at_most <= bound:
        yield from _halved(rows, encode, bound)
        return
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
