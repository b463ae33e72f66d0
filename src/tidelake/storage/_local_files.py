"""The few things that the local storage does to files and folders, each durable or said not to be."""

from __future__ import annotations

import errno
import itertools
import os
import threading
import zlib
from typing import Final

MILLISECOND_NS: Final = 1_000_000

_TOLD_BYTES: Final = 65_536
"""How much of an object's end tells its version from another one's; parquet files have their statistics there."""
_TIME_STEPS_NS: Final = (1, 1_000, 1_000_000, 1_000_000_000, 2_000_000_000)
_temp_numbers = itertools.count()


def checksum_sibling(target: str) -> str:
    """Where Hadoop keeps the checksums of a file."""
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name}.crc")


def unlink(target: str) -> bool:
    """Remove a file; says whether it was there. A name too long to exist does not exist."""
    try:
        os.unlink(target)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise
    return True


def create_temp(folder: str) -> tuple[str, int]:
    """A new empty file in a folder, open for writing."""
    make_folders(folder)
    while True:
        name = os.path.join(folder, f"{os.getpid()}-{threading.get_ident()}-{next(_temp_numbers)}.tmp")
        try:
            return name, os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            continue  # left by a dead process that had our number


def write_all(file: int, data: bytes | memoryview) -> None:
    """Write, however many pieces the kernel takes it in."""
    rest = memoryview(data).cast("B")
    while rest:
        rest = rest[os.write(file, rest) :]


def set_time(
    file: int, data: bytes | memoryview, differs_from: os.stat_result | None, later_than: os.stat_result | None
) -> None:
    """Give the temp a modification time that makes its version new (see the head of ``local.py``)."""
    now_ns = os.fstat(file).st_mtime_ns
    time_ns = now_ns - now_ns % MILLISECOND_NS + zlib.crc32(memoryview(data)[-_TOLD_BYTES:]) % MILLISECOND_NS
    if differs_from is not None and time_ns == differs_from.st_mtime_ns:
        time_ns += 1
    if later_than is not None:
        time_ns = max(time_ns, later_than.st_mtime_ns + 1)
    os.utime(file, ns=(time_ns, time_ns))
    if later_than is None:
        return
    for step_ns in _TIME_STEPS_NS:  # file systems keep times to 1 ns, 100 ns, 1 us, 1 s or 2 s
        if os.fstat(file).st_mtime_ns > later_than.st_mtime_ns:
            return
        time_ns = later_than.st_mtime_ns + step_ns
        os.utime(file, ns=(time_ns, time_ns))


def make_folders(folder: str, unsynced: set[str] | None = None) -> None:
    """Make a folder and its parents, each durable; or ``unsynced`` is told which folders are to be synced."""
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    make_folders(parent, unsynced)
    try:
        os.mkdir(folder)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise
    if unsynced is None:
        sync_folder(parent)
    else:
        unsynced.add(parent)


def sync_folder(folder: str) -> None:
    """Make the names in a folder durable."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def same_file(file: int, name: str) -> bool:
    """Whether an open file still has that name."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(name))
    except FileNotFoundError:
        return False
