"""A table in memory: for tests, for trying things out, and as the plainest statement of what the port promises.

Every operation holds one lock, so every promise of the port is kept by construction. Versions are a counter; times come
from the injected clock. A storage is found again under ``memory://<name>`` within the process until it is discarded
(one without a name: as long as somebody holds it). Other processes, such as Spark's workers, cannot see it.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from tidelake._clock import Clock, SystemClock
from tidelake.errors import AlreadyExistsError, InvalidError, NotFoundError, PreconditionError
from tidelake.storage.ensure import ensure_object
from tidelake.storage.paths import check_path, check_prefix
from tidelake.storage.port import ObjectInfo

SCHEME: Final = "memory"

_registry: dict[str, MemoryStorage] = {}
_unnamed: weakref.WeakValueDictionary[str, MemoryStorage] = weakref.WeakValueDictionary()
_unnamed_numbers = itertools.count(1)
_registry_lock = threading.RLock()


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    info: ObjectInfo


class MemoryStorage:
    """A new, empty storage. With a name it takes the place of an earlier one of that name in the process's registry."""

    def __init__(self, name: str | None = None, *, clock: Clock | None = None) -> None:
        self._clock: Clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._objects: dict[str, _Object] = {}
        self._versions = 0
        self._name = name if name is not None else f"unnamed-{next(_unnamed_numbers)}"
        with _registry_lock:
            if name is not None:
                _registry[name] = self
            else:
                _unnamed[self._name] = self

    def __repr__(self) -> str:
        return f"MemoryStorage({self._name!r})"

    def copy(self, name: str | None = None, *, clock: Clock | None = None) -> MemoryStorage:
        """A storage of its own with the same objects, to try several things from one state."""
        made = MemoryStorage(name, clock=clock or self._clock)
        with self._lock:
            made._objects.update(self._objects)
            made._versions = self._versions
        return made

    @property
    def uri(self) -> str:
        return f"{SCHEME}://{self._name}"

    @property
    def options(self) -> dict[str, str]:
        return {}

    @property
    def is_remote(self) -> bool:
        return False

    def get(self, path: str) -> bytes:
        return self._find(path).data

    def get_with_version(self, path: str) -> tuple[bytes, str]:
        found = self._find(path)
        return found.data, found.info.version

    def get_range(self, path: str, start: int, length: int) -> bytes:
        if start < 0 or length < 0:
            raise InvalidError(f"no range of {length} bytes from {start}", value=start, file=path)
        return self._find(path).data[start : start + length]

    def head(self, path: str) -> ObjectInfo:
        return self._find(path).info

    def exists(self, path: str) -> bool:
        with self._lock:
            return check_path(path) in self._objects

    def put(self, path: str, data: bytes | memoryview) -> str:
        check_path(path)
        with self._lock:
            return self._store(path, data)

    @contextmanager
    def batch(self) -> Iterator[MemoryStorage]:
        yield self

    def ensure(self, path: str, data: bytes) -> None:
        ensure_object(self, path, data)

    def put_if_absent(self, path: str, data: bytes) -> str:
        check_path(path)
        with self._lock:
            if path in self._objects:
                raise AlreadyExistsError(f"{path!r} exists already", value=path, table=self.uri, file=path)
            return self._store(path, data)

    def put_if_match(self, path: str, data: bytes, version: str) -> str:
        check_path(path)
        with self._lock:
            found = self._objects.get(path)
            if found is None or found.info.version != version:
                raise PreconditionError(
                    f"{path!r} is no longer version {version!r}", value=version, table=self.uri, file=path
                )
            return self._store(path, data)

    def delete(self, path: str) -> None:
        check_path(path)
        with self._lock:
            self._objects.pop(path, None)

    def list_files(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return iter(self._below(prefix))

    def list_dir(self, prefix: str = "") -> tuple[list[str], list[ObjectInfo]]:
        folders: set[str] = set()
        files: list[ObjectInfo] = []
        start = len(prefix) + 1 if prefix else 0
        for info in self._below(prefix):
            name, slash, _ = info.path[start:].partition("/")
            if slash:
                folders.add(name)
            else:
                files.append(info)
        return sorted(folders), files

    def native_path(self, path: str) -> str:
        return f"{self.uri}/{path}" if check_prefix(path) else self.uri

    def _find(self, path: str) -> _Object:
        check_path(path)
        with self._lock:
            found = self._objects.get(path)
        if found is None:
            raise NotFoundError(f"no object {path!r}", value=path, table=self.uri, file=path)
        return found

    def _store(self, path: str, data: bytes | memoryview) -> str:
        self._versions += 1
        version = str(self._versions)
        kept = bytes(data)
        self._objects[path] = _Object(kept, ObjectInfo(path, len(kept), self._clock.now_ms(), version))
        return version

    def _below(self, prefix: str) -> list[ObjectInfo]:
        folder = check_prefix(prefix) + "/" if prefix else ""
        with self._lock:
            found = [each.info for path, each in self._objects.items() if path.startswith(folder)]
        return sorted(found, key=lambda info: info.path)


def memory_storage(name: str, *, clock: Clock | None = None) -> MemoryStorage:
    """The storage registered under a name, or a new one."""
    with _registry_lock:
        found = _registry.get(name)
        if found is None:
            found = _unnamed.get(name)
        return found if found is not None else MemoryStorage(name, clock=clock)


def discard_memory_storage(name: str) -> None:
    """Forget a storage; those who hold it keep it."""
    with _registry_lock:
        _registry.pop(name, None)
