"""Many cursors over one buffer of Avro binary data, all moved at once.

A ``Source`` is a buffer of bytes. ``Cursors`` are n positions in it, each with the end of the record it stands in; a
read takes one value at every position and moves every cursor past its value. So a column of n records costs a fixed
number of numpy calls, and no Python per record.

Invariant: every cursor is at or before its end, and every end is within the source. Each read checks, before it looks
at bytes, that they belong to the cursor's own record; what does not is a ``CorruptError`` with the field and the byte.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake import _limits
from tidelake.errors import CorruptError, LimitError

Longs: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Mask: TypeAlias = npt.NDArray[np.bool_]
Words: TypeAlias = npt.NDArray[np.uint64]
Readable: TypeAlias = "bytes | bytearray | memoryview | pa.Buffer | Bytes"

_WORD: Final = 8
_MORE: Final = np.uint64(0x8080808080808080)
_PAYLOAD: Final = np.uint64(0x7F7F7F7F7F7F7F7F)
_LOWEST: Final = np.uint64(0x0101010101010101)
_ONE: Final = np.uint64(1)


class Source:
    """The bytes under the cursors. ``buffer`` and ``view`` share them: for Arrow, and for reading single bytes."""

    __slots__ = ("buffer", "bytes", "size", "view")

    def __init__(self, data: Readable) -> None:
        array = np.frombuffer(data, np.uint8)
        if array.size > _limits.LOG_BLOCK_BYTES:
            raise LimitError(f"{array.size} bytes of Avro data are more than a log block may hold")
        self.size: int = array.size
        if array.size < _WORD:
            # Words are read eight bytes at a time; the padding lies behind every end.
            array = np.concatenate([array, np.zeros(_WORD, np.uint8)])
        self.bytes: Bytes = array
        self.buffer: pa.Buffer = pa.py_buffer(array)
        self.view: memoryview = array.data

    def words(self, at: Longs) -> Words:
        """The eight bytes at each position as little-endian words; what lies behind the buffer reads as zero."""
        last = self.bytes.size - _WORD
        within = at if int(at.max()) <= last else np.minimum(at, last)
        words = self.rows(within, _WORD).view("<u8").reshape(-1)
        if within is not at:
            words = words >> ((at - within) << 3).astype(np.uint64)
        return words

    def rows(self, at: Longs, size: int) -> Bytes:
        """``size`` bytes at each position, one row for each; the caller has checked that they are there."""
        every = np.ndarray((self.bytes.size - size + 1,), f"V{size}", self.bytes, strides=(1,))
        taken: Bytes = every[at].view(np.uint8).reshape(at.size, size)
        return taken


class Cursors:
    """n positions ``at`` in a source, each with the ``end`` of its record. ``at`` is replaced or changed by reads."""

    __slots__ = ("at", "end", "source")

    def __init__(self, source: Source, at: Longs, end: Longs) -> None:
        self.source = source
        self.at = at
        self.end = end

    def __len__(self) -> int:
        return self.at.size

    def subset(self, rows: Longs) -> Cursors:
        """Copies of the cursors at ``rows``: give their positions back with ``self.at[rows] = subset.at``."""
        return Cursors(self.source, self.at[rows], self.end[rows])

    def check(self, good: Mask, what: str, path: str) -> None:
        """Refuse the data unless ``good`` holds everywhere."""
        if not good.all():
            raise corrupt(what, path, int(self.at[int(np.argmin(good))]))

    def longs(self, path: str) -> Longs:
        """Read a zigzag varint of up to 64 bits at every cursor."""
        at = self.at
        if at.size == 0:
            return np.zeros(0, np.int64)
        self.check(at < self.end, "the record ends inside a value", path)
        first: Bytes = self.source.bytes[at]
        values = first.astype(np.uint64)
        many = np.flatnonzero(first >= 0x80)
        self.at = at + 1
        if many.size:
            values[many], width = self._varints(at[many], self.end[many], path)
            self.at[many] += width - 1
            self.check(self.at <= self.end, "the record ends inside a number", path)
        half: Longs = (values >> _ONE).view(np.int64)
        return half ^ -(values & _ONE).view(np.int64)

    def ints(self, path: str) -> npt.NDArray[np.int32]:
        """Read a zigzag varint that must fit in 32 bits at every cursor."""
        values = self.longs(path)
        small = values.astype(np.int32)
        self.check(small == values, "an int is wider than 32 bits", path)
        return small

    def lengths(self, path: str) -> Longs:
        """Read the length of a string or of bytes at every cursor; all of it lies within its record."""
        values = self.longs(path)
        self.check((values >= 0) & (values <= self.end - self.at), "a length is negative or passes the record", path)
        return values

    def advance(self, size: int, path: str) -> Longs:
        """Move past ``size`` bytes everywhere; the positions before the move."""
        before = self.at
        self.check(self.end - before >= size, "the record ends inside a value", path)
        self.at = before + size
        return before

    def _varints(self, at: Longs, end: Longs, path: str) -> tuple[Words, Longs]:
        """Raw varints and their widths: eight bytes at once in a word, and the rare ninth and tenth by themselves."""
        words = self.source.words(at)
        stops = ~words & _MORE
        lowest = stops & (~stops + _ONE)
        kept = lowest ^ (lowest - _ONE)
        values = _squeeze(words & kept & _PAYLOAD)
        # One low bit for every byte that is kept; the product adds them all up in its highest byte.
        width: Longs = (((kept & _LOWEST) * _LOWEST) >> np.uint64(56)).astype(np.int64)
        for byte, top in ((8, 0x7F), (9, 0x01)):
            rows = np.flatnonzero(stops == 0)
            if rows.size == 0:
                break
            there = at[rows] + byte
            if not (there < end[rows]).all():
                raise corrupt("the record ends inside a number", path, int(at[rows[0]]))
            extra = self.source.bytes[there].astype(np.uint64)
            stops[rows] = ~extra & np.uint64(0x80)
            values[rows] |= (extra & np.uint64(0x7F)) << np.uint64(7 * byte)
            width[rows] += 1
            if top == 1 and not (extra <= top).all():
                raise corrupt("a number is wider than 64 bits", path, int(at[rows[0]]))
        return values, width


def _squeeze(words: Words) -> Words:
    """Close the gaps between eight groups of seven bits, pairwise: 8 x 7, 4 x 14, 2 x 28, 56 bits."""
    u = np.uint64
    words = (words & u(0x007F007F007F007F)) | ((words & u(0x7F007F007F007F00)) >> u(1))
    words = (words & u(0x00003FFF00003FFF)) | ((words & u(0x3FFF00003FFF0000)) >> u(2))
    return (words & u(0x000000000FFFFFFF)) | ((words & u(0x0FFFFFFF00000000)) >> u(4))


def corrupt(what: str, path: str, at: int) -> CorruptError:
    """The error for Avro data that breaks its schema: what, in which field, at which byte."""
    return CorruptError(f"damaged Avro data: {what}, in field {path!r} at byte {at}")
