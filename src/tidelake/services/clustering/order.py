"""In which order a clustering writes rows: by columns one after the other, or along a curve through all of them.

- *linear* sorts by the first column, then the second: filters on the first one skip most files.
- *z-order* and *hilbert* treat the columns alike: rows that are near in all of them end up near. Every column's values
  become numbers of equal shares of the rows (ranks, so that any type that compares will do, and skew does no harm), and
  the bits of the numbers are interleaved; hilbert turns them first, so that the curve never jumps.

Nulls come first. Rows that are equal keep the order they came in. Whole columns at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from tidelake.errors import ColumnNotFoundError, InvalidError

LINEAR, Z_ORDER, HILBERT = "linear", "z-order", "hilbert"
ORDERS = (LINEAR, Z_ORDER, HILBERT)
_BITS = 63

Numbers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint64]


def check_columns(schema: pa.Schema, columns: Sequence[str]) -> None:
    """Refuse columns that the table does not have, or whose values have no order."""
    for name in columns:
        if name not in schema.names:
            raise ColumnNotFoundError(
                f"the table has no column {name!r} to sort by",
                value=name,
                hint=f"columns are {', '.join(schema.names)}",
            )
        if pa.types.is_nested(schema.field(name).type):
            raise InvalidError(f"rows are not sorted by {name!r}, whose values are nested", value=name)
    if len(set(columns)) != len(columns):
        raise InvalidError("a column to sort by is named twice", value=", ".join(columns))


def row_order(rows: pa.Table, columns: Sequence[str], order: str) -> Numbers:
    """The numbers of the rows, in the order asked for."""
    check_columns(rows.schema, columns)
    # Only the columns that are compared: they are copied where polars keeps values differently.
    frame = pl.DataFrame([pl.Series(name, rows.column(name)) for name in columns])
    if order == LINEAR or len(columns) == 1:
        sorted_rows = pl.arg_sort_by(list(columns), nulls_last=False, maintain_order=True)
        return frame.select(sorted_rows.alias("at")).to_series().to_numpy().astype(np.int64)
    bits = min(_BITS // len(columns), max(1, (rows.num_rows - 1).bit_length()))
    if bits == 0:
        raise InvalidError(f"rows are not sorted along a curve through {len(columns)} columns", value=order)
    shares = [_shares(frame[name], bits) for name in columns]
    if order == HILBERT:
        shares = hilbert_axes(shares, bits)
    return np.argsort(interleaved(shares, bits), kind="stable").astype(np.int64)


def _shares(values: pl.Series, bits: int) -> Codes:
    """Each value as the number of its share of the rows, in so many bits; equal values have equal numbers, nulls zero."""
    count = max(1, len(values))
    place = (values.rank("min").cast(pl.UInt64) - 1 + values.null_count()).fill_null(0).to_numpy()
    return (place.astype(np.uint64) << np.uint64(bits)) // np.uint64(count)


def interleaved(axes: Sequence[Codes], bits: int) -> Codes:
    """The bits of all axes in turn, the highest first: a z-curve's position."""
    code = np.zeros(len(axes[0]), dtype=np.uint64)
    for bit in range(bits - 1, -1, -1):
        for axis in axes:
            code = (code << np.uint64(1)) | ((axis >> np.uint64(bit)) & np.uint64(1))
    return code


def hilbert_axes(axes: Sequence[Codes], bits: int) -> list[Codes]:
    """Coordinates turned so that their interleaved bits are a position on the Hilbert curve (Skilling's transform)."""
    turned = [axis.copy() for axis in axes]
    for level in range(bits - 1, 0, -1):
        below = np.uint64((1 << level) - 1)
        for number, axis in enumerate(turned):
            is_set = (axis >> np.uint64(level)) & np.uint64(1) == 1
            swapped = np.where(is_set, np.uint64(0), (turned[0] ^ axis) & below)
            flipped = np.where(is_set, below, np.uint64(0))
            turned[number] = turned[number] ^ swapped
            turned[0] = turned[0] ^ swapped ^ flipped
    for number in range(1, len(turned)):
        turned[number] = turned[number] ^ turned[number - 1]
    twist = np.zeros(len(turned[0]), dtype=np.uint64)
    for level in range(bits - 1, 0, -1):
        is_set = (turned[-1] >> np.uint64(level)) & np.uint64(1) == 1
        twist ^= np.where(is_set, np.uint64((1 << level) - 1), np.uint64(0))
    return [axis ^ twist for axis in turned]
