"""A bounds-checked big-endian reader over bytes that lie.

Every read says what it is for, so that the error of a truncated or hostile file names the field.
"""

from __future__ import annotations

import struct

from tidelake.errors import CorruptError, LimitError

_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")


class BytesReader:
    """A cursor over a buffer; no read passes its end."""

    __slots__ = ("_view", "end", "position")

    def __init__(self, data: bytes | memoryview, start: int = 0, end: int | None = None) -> None:
        self._view = memoryview(data)
        self.position = start
        self.end = len(self._view) if end is None else end

    @property
    def remaining(self) -> int:
        return self.end - self.position

    def take(self, length: int, what: str, limit: int | None = None) -> memoryview:
        """``length`` bytes, without a copy."""
        if length < 0:
            raise CorruptError(f"{what} has a negative length: {length}", value=length)
        if limit is not None and length > limit:
            raise LimitError(f"{what} claims {length} bytes, the limit is {limit}", value=length)
        if length > self.remaining:
            raise CorruptError(f"{what} needs {length} bytes, {self.remaining} are left", value=length)
        view = self._view[self.position : self.position + length]
        self.position += length
        return view

    def int8(self, what: str) -> int:
        return self.take(1, what)[0]

    def int32(self, what: str) -> int:
        return int(_I32.unpack(self.take(4, what))[0])

    def int64(self, what: str) -> int:
        return int(_I64.unpack(self.take(8, what))[0])

    def text(self, length: int, what: str, limit: int | None = None) -> str:
        try:
            return str(self.take(length, what, limit), "utf-8")
        except UnicodeDecodeError as error:
            raise CorruptError(f"{what} is not UTF-8") from error

    def varint(self, what: str) -> int:
        """Avro's zigzag variable-length long."""
        shift = 0
        value = 0
        while True:
            byte = self.int8(what)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise CorruptError(f"{what} is a number of more than 10 bytes")
        if value >= 1 << 64:
            raise CorruptError(f"{what} is a number of more than 64 bits")
        return (value >> 1) ^ -(value & 1)
