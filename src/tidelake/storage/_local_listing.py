"""Listing of a local table: one ``scandir`` per folder, in the order of full paths, tolerant of what vanishes.

Links to folders are followed, since a partition may live on another disk; a link that leads back to a folder on its own
way is an error, never a silent omission. Our temp files and the lock are not objects and are left out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from tidelake.errors import UnavailableError
from tidelake.storage._local_errors import read_error
from tidelake.storage.paths import RELATIVE_LOCK_FILE, RELATIVE_TEMP_DIR, join
from tidelake.storage.port import ObjectInfo

Inode = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder to be listed, and the folders behind the links on the way to it."""

    path: str
    linked: frozenset[Inode]


def version_of(status: os.stat_result) -> str:
    """What changes whenever the content does; see the head of ``local.py``."""
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


def object_info(path: str, status: os.stat_result) -> ObjectInfo:
    """A file as an object."""
    return ObjectInfo(path, status.st_size, status.st_mtime_ns // 1_000_000, version_of(status))


def walk(root: str, prefix: str) -> Iterator[ObjectInfo]:
    """Every file below a folder, sorted by path."""
    waiting: list[_Folder | ObjectInfo] = [_Folder(prefix, frozenset())]
    while waiting:
        item = waiting.pop()
        if isinstance(item, ObjectInfo):
            yield item
        else:
            # A folder takes its place in the order of full paths as "name/": "a-b" < "a/x" < "ab".
            waiting.extend(sorted(_entries(root, item), key=_sort_key, reverse=True))


def list_folder(root: str, prefix: str) -> tuple[list[str], list[ObjectInfo]]:
    """The names of the sub-folders of a folder, and its files; both sorted."""
    folders: list[str] = []
    files: list[ObjectInfo] = []
    for item in _entries(root, _Folder(prefix, frozenset())):
        if isinstance(item, ObjectInfo):
            files.append(item)
        else:
            folders.append(item.path.rpartition("/")[2])
    return sorted(folders), sorted(files, key=_sort_key)


def _sort_key(item: _Folder | ObjectInfo) -> str:
    return item.path if isinstance(item, ObjectInfo) else item.path + "/"


def _entries(root: str, folder: _Folder) -> Iterator[_Folder | ObjectInfo]:
    native = os.path.join(root, folder.path) if folder.path else root
    try:
        with os.scandir(native) as entries:
            for entry in entries:
                path = join(folder.path, entry.name)
                if path in (RELATIVE_TEMP_DIR, RELATIVE_LOCK_FILE):
                    continue
                item = _item(entry, path, folder, root)
                if item is not None:
                    yield item
    except (FileNotFoundError, NotADirectoryError):
        return  # no such folder, or no longer: nothing is in it
    except OSError as error:
        raise read_error(error, folder.path or root, root) from error


def _item(entry: os.DirEntry[str], path: str, folder: _Folder, root: str) -> _Folder | ObjectInfo | None:
    if entry.is_dir(follow_symlinks=False):
        return _Folder(path, folder.linked)
    try:
        status = entry.stat()
    except FileNotFoundError:
        return None  # deleted while we listed, or a link to nothing
    if stat.S_ISREG(status.st_mode):
        return object_info(path, status)
    if not stat.S_ISDIR(status.st_mode):
        return None
    behind = (status.st_dev, status.st_ino)
    if behind in folder.linked:
        error = UnavailableError(
            f"the symbolic link {path!r} leads back to a folder on its own way", value=path, table=root, file=path
        )
        error.retryable = False
        raise error
    return _Folder(path, folder.linked | {behind})
