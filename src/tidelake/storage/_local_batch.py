"""A batch of puts on a local disk: files are written at once, and made durable together at the end.

A data file gets its name when it is created: nothing names it before the batch has ended. What must be whole for every
reader (``ensure``) is written beside, and gets its name when it is synced. Folders are synced last, each once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from tidelake.storage._background import Background

if TYPE_CHECKING:
    from tidelake.storage.local import LocalStorage

SYNC_THREADS: Final = 8
"""Syncs wait for each other in the disk's journal: many at a time are made durable by one of its commits."""
SYNC_WAITING: Final = 256
"""How many files of a batch may be open, waiting to be synced."""
SYNC_AT_A_TIME: Final = 16
"""How many of them are handed to a thread when there are too many."""
SYNC_AT_ONCE_BYTES: Final = 1 << 20
"""A file of a batch that is larger is synced while others are made."""

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class NewFile:
    """What is to become a file under ``path``: whole, open, under a name that nobody looks for."""

    path: str
    temp: str
    file: int


class LocalPuts:
    """The puts of a batch: files that wait to be synced, or named, and the folders that have new names."""

    __slots__ = ("_background", "_folders", "_guard", "_storage", "_unnamed", "_waiting")

    def __init__(self, storage: LocalStorage) -> None:
        self._storage = storage
        self._folders: set[str] = set()
        self._waiting: list[tuple[str, int]] = []
        self._unnamed: list[NewFile] = []
        self._guard = threading.Lock()
        self._background = Background(SYNC_THREADS, SYNC_WAITING // SYNC_AT_A_TIME)

    def put(self, path: str, data: bytes | memoryview) -> None:
        file = self._storage.put_new(path, data, self._folders)
        if file is None:
            self._storage.put(path, data)
            return
        self._sync_later(path, file, len(data))

    def ensure(self, path: str, data: bytes) -> None:
        new = self._storage.begin_new(path, data)
        if new is not None:
            with self._guard:
                self._unnamed.append(new)
            self._sync_later(path, new.file, len(data))

    def sync(self) -> None:
        """Make everything durable that was put."""
        for files in _shared(self._waiting):
            self._sync(files)
        self._background.wait()
        try:
            self._background.check()
        except BaseException:
            self._background.end()
            self._drop()
            raise
        try:
            for new in self._unnamed:
                self._storage.name_new(new, self._folders)
            for folders in _shared(sorted(self._folders)):
                self._background.run(partial(self._storage.sync_names, folders))
        finally:
            self._background.end()
        self._background.check()

    def leave(self) -> None:
        """End without making anything durable."""
        for _, file in self._waiting:
            os.close(file)
        self._background.end()
        self._drop()

    def _drop(self) -> None:
        for new in self._unnamed:
            self._storage.drop_new(new)

    def _sync_later(self, path: str, file: int, size: int) -> None:
        if size >= SYNC_AT_ONCE_BYTES:
            self._sync([(path, file)])
            return
        first: list[tuple[str, int]] = []
        with self._guard:
            self._waiting.append((path, file))
            if len(self._waiting) > SYNC_WAITING:
                first, self._waiting = self._waiting[:SYNC_AT_A_TIME], self._waiting[SYNC_AT_A_TIME:]
        if first:
            self._sync(first)

    def _sync(self, files: Sequence[tuple[str, int]]) -> None:
        self._background.run(partial(self._storage.sync_files, files))


def _shared(items: Sequence[_Item]) -> Iterable[Sequence[_Item]]:
    """Items, as shares of the threads."""
    return (items[n::SYNC_THREADS] for n in range(min(SYNC_THREADS, len(items))))
