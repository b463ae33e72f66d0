"""Decoded timeline files, kept in memory: a stream of writes asks for the same commits again.

They are known by their bytes, so nothing has to be forgotten when a file changes. What is kept is bounded by the bytes
of the files; a decoded record takes some ten times as much.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import TypeVar, cast

from tidelake._limits import MIB
from tidelake.format.avro_record import AvroRecord, decode_record

R = TypeVar("R", bound=AvroRecord)
_KEPT_BYTES = 8 * MIB


class DecodedRecords:
    """The records that were asked for last, up to so many bytes of files."""

    def __init__(self, kept_bytes: int) -> None:
        self._bound = kept_bytes
        self._size = 0
        self._kept: OrderedDict[tuple[type[AvroRecord], bytes], tuple[int, AvroRecord]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, cls: type[R], data: bytes) -> R:
        """The record in a file."""
        key = (cls, _digest(data))
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return cast(R, found[1])
        record = decode_record(cls, data)
        self._keep(key, len(data), record)
        return record

    def encode(self, record: AvroRecord, sync: bytes) -> bytes:
        """A record as a file, and kept: its writer asks for it next time."""
        data = record.encode(sync)
        self._keep((type(record), _digest(data)), len(data), record)
        return data

    def _keep(self, key: tuple[type[AvroRecord], bytes], size: int, record: AvroRecord) -> None:
        if size > self._bound // 2:
            return
        with self._lock:
            if key not in self._kept:
                self._kept[key] = (size, record)
                self._size += size
            while self._size > self._bound:
                self._size -= self._kept.popitem(last=False)[1][0]


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


DECODED = DecodedRecords(_KEPT_BYTES)
"""Of this process."""
