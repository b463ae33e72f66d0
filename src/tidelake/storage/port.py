"""The storage port: the few verbs on which the table stands.

A *path* is relative to the storage's root, with ``/`` between parts, no leading or trailing ``/``, no ``.``
or ``..`` part; ``""`` is the root itself. Paths are literal: nothing is decoded, no globbing.

Promises of every implementation
- ``put_if_absent`` and ``put_if_match`` are atomic: of any number of callers exactly one succeeds, and a reader
  sees all of the bytes or none. A put that returned is durable.
- ``put`` overwrites, atomically for readers. The puts of a ``batch`` are durable together, when its block has ended
  without an error; before that a loss of power may leave any part of them, which nothing names yet.
- A failure whose outcome is unknown raises ``UnavailableError``; the caller reads back.
- ``get`` of something absent raises ``NotFoundError``.
- Listing is complete as of its start, in pages, sorted by path within one call of ``list_files``.
Errors are the storage kinds of ``tidelake.errors``; no exception of a library passes through.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One stored object: ``version`` changes whenever its content does, and is what ``put_if_match`` compares."""

    path: str
    size_bytes: int
    modified_ms: int
    version: str


class Puts(Protocol):
    """Where new objects go: a storage, or a batch of one. For any number of threads."""

    def put(self, path: str, data: bytes | memoryview) -> object:
        """Create or replace."""
        ...


class Batch(Puts, Protocol):
    """Puts that are made durable together."""

    def ensure(self, path: str, data: bytes) -> None:
        """Create, unless it is there; atomic for readers, who may not see it before the end of the batch."""
        ...


@runtime_checkable
class Storage(Protocol):
    """Bytes under names, with two conditional writes."""

    @property
    def uri(self) -> str:
        """Where the root is, as a URI or an absolute local path; ``open_storage(uri, options)`` opens it again."""
        ...

    @property
    def options(self) -> dict[str, str]:
        """What ``open_storage`` needs beside the URI (credentials, endpoint), for workers."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether a request waits for a network, so that many should be under way at a time."""
        ...

    def get(self, path: str) -> bytes:
        """The whole object."""
        ...

    def get_with_version(self, path: str) -> tuple[bytes, str]:
        """The whole object and the version that ``put_if_match`` takes."""
        ...

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """``length`` bytes from ``start``; fewer only at the end of the object, none beyond it."""
        ...

    def head(self, path: str) -> ObjectInfo:
        """What is known of an object without reading it."""
        ...

    def exists(self, path: str) -> bool:
        """Whether an object (not a folder) has that name."""
        ...

    def put(self, path: str, data: bytes | memoryview) -> str:
        """Create or replace; returns the version."""
        ...

    def batch(self) -> AbstractContextManager[Batch]:
        """Many puts, durable when the block has ended: cheaper than one after the other. Errors may come at its end."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> str:
        """Create, or raise ``AlreadyExistsError``; returns the version."""
        ...

    def put_if_match(self, path: str, data: bytes, version: str) -> str:
        """Replace the version given, or raise ``PreconditionError`` (also if the object is gone); returns the new one.

        ``version`` comes from ``get_with_version``, ``head`` or a put. What is changed so must be changed only so, and
        its bytes must be new each time (a nonce): a version may be a hash of the content.
        """
        ...

    def delete(self, path: str) -> None:
        """Remove; removing what is not there is no error."""
        ...

    def list_files(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object below the folder ``prefix``, at any depth, sorted by path."""
        ...

    def list_dir(self, prefix: str = "") -> tuple[list[str], list[ObjectInfo]]:
        """One level: names of sub-folders, and the objects directly in the folder ``prefix``; both sorted.

        A folder that is not there is empty. On a local disk a sub-folder may be there without any object below it.
        """
        ...

    def native_path(self, path: str) -> str:
        """How pyarrow, Spark and other engines name the object: an absolute path or a URI."""
        ...
