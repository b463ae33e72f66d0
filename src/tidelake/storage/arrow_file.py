"""A stored object as a file that pyarrow reads (parquet above all).

A local object is opened by pyarrow itself, as fast as by its path, without Python between. Any other is read by
:class:`RangeReader` in ranges of the port's ``get_range``, so that a ``FaultyStorage`` counts and fails every request.
Not memory-mapped: a file cut short under a map kills the process, where a read gives an error. An object of up to 64 KiB,
by the ``size_bytes`` that a listing told, is fetched at once: a parquet reader asks for its columns one by one.

Requests of a ``RangeReader``: a parquet reader begins at the end, so the first read there fetches the last 64 KiB at
once and keeps them (footer, and often the page index); a small read fetches ahead, a large one just itself. With
``size_bytes`` no ``head`` is needed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tidelake._limits import KIB
from tidelake.errors import InvalidError, UnavailableError
from tidelake.storage._local_errors import read_error
from tidelake.storage.local import LocalStorage
from tidelake.storage.port import Storage

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

TAIL_BYTES: Final = 64 * KIB
"""How much the first read near the end fetches."""
READ_AHEAD_BYTES: Final = 256 * KIB
"""The least that any other read fetches."""


def open_input(storage: Storage, path: str, size_bytes: int | None = None) -> pa.NativeFile:
    """The object for pyarrow; ``NotFoundError`` if it is not there (a large one with ``size_bytes``: at the first read)."""
    # Imported here because pyarrow takes longer to load than a timeline takes to read.
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415

    if size_bytes is not None and size_bytes <= TAIL_BYTES:
        return pa.BufferReader(storage.get(path))
    if isinstance(storage, LocalStorage):
        try:
            return pa.OSFile(storage.native_path(path), "rb")
        except OSError as error:
            raise read_error(error, path, storage.uri) from error
    return pa.PythonFile(RangeReader(storage, path, size_bytes), mode="r")


class RangeReader:
    """A read-only, seekable file over ``get_range``. Not for several threads; pyarrow takes turns by itself."""

    __slots__ = ("_ahead", "_ahead_start", "_closed", "_path", "_position", "_size_bytes", "_storage", "_tail")

    def __init__(self, storage: Storage, path: str, size_bytes: int | None = None) -> None:
        self._storage = storage
        self._path = path
        self._size_bytes = storage.head(path).size_bytes if size_bytes is None else size_bytes
        self._position = 0
        self._tail: bytes | None = None
        self._ahead = b""
        self._ahead_start = 0
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._tail, self._ahead = None, b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def flush(self) -> None:
        """Nothing is ever waiting to be written."""

    def size(self) -> int:
        return self._size_bytes

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size_bytes}[whence]
        if base + offset < 0:
            raise InvalidError(f"no position {base + offset}", value=base + offset, file=self._path)
        self._position = base + offset
        return self._position

    def read(self, nbytes: int | None = -1) -> bytes:
        left = max(self._size_bytes - self._position, 0)
        length = left if nbytes is None or nbytes < 0 else min(nbytes, left)
        if length == 0:
            return b""
        start = self._position
        self._position += length
        return self._range(start, length)

    def _range(self, start: int, length: int) -> bytes:
        tail_start = max(self._size_bytes - TAIL_BYTES, 0)
        if start >= tail_start:
            if self._tail is None:
                self._tail = self._fetch(tail_start, self._size_bytes - tail_start)
            return self._tail[start - tail_start : start - tail_start + length]
        held = start - self._ahead_start
        if held >= 0 and held + length <= len(self._ahead):
            return self._ahead[held : held + length]
        if length >= READ_AHEAD_BYTES:
            return self._fetch(start, length)
        self._ahead = self._fetch(start, min(READ_AHEAD_BYTES, self._size_bytes - start))
        self._ahead_start = start
        return self._ahead[:length]

    def _fetch(self, start: int, length: int) -> bytes:
        data = self._storage.get_range(self._path, start, length)
        if len(data) != length:
            raise UnavailableError(
                f"{self._path!r} has {start + len(data)} bytes, not {self._size_bytes}",
                value=len(data),
                table=self._storage.uri,
                file=self._path,
                hint="it was replaced or cut short while it was read",
            )
        return data
