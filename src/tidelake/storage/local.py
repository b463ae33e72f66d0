"""A table on a local disk (or on a network mount that behaves like one).

Words: the *target* is the file that gets the object's name; the *temp* is a file under ``.hoodie/.tidelake/tmp`` with
all of its bytes, synced, before it gets that name. A temp is never listed; one that a crash left is swept by a later
put-if-match, when it is older than any put lasts.

Invariants
- A name appears by ``link()`` (put-if-absent) or ``rename()`` (replacing) of a synced temp: nobody sees a part. Then
  the folder is synced, and every folder made on the way: a put that returned survives the loss of power.
- The files of a batch are written under their own names, if these are new, and synced later: large ones meanwhile, small
  ones when the block ends (the disk then takes many at once), and last their folders, each once.
- put-if-match compares and replaces under a kernel lock on ``.hoodie/.tidelake/head.lock``, which dies with its
  holder. Waiting for it is bounded. The lock orders put-if-match only: what changes by it must change by nothing else.
- A version is (inode, modification time, size), taken from the temp. Kernels give times in ticks of milliseconds, and
  inodes are used again, so a temp's time is set: its digits below the millisecond come from the bytes, and put-if-match
  gives a time later than that of the file it replaces. So no version comes back.
- Hadoop's checksum sibling ``.<name>.crc`` of an object goes *before* the object changes: a wrong one makes every JVM
  reader fail, a missing one none.
- Nothing is written through a symbolic link that leads out of the root. Reading follows links and creates nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tidelake._clock import Clock, SystemClock
from tidelake.errors import AlreadyExistsError, InvalidError, NotFoundError, PreconditionError, UnavailableError
from tidelake.storage._local_batch import LocalPuts, NewFile
from tidelake.storage._local_errors import read_error, write_error
from tidelake.storage._local_files import (
    MILLISECOND_NS,
    checksum_sibling,
    create_temp,
    make_folders,
    same_file,
    set_time,
    sync_folder,
    unlink,
    write_all,
)
from tidelake.storage._local_listing import list_folder, object_info, version_of, walk
from tidelake.storage.paths import RELATIVE_LOCK_FILE, RELATIVE_TEMP_DIR, check_path, check_prefix, parent_of
from tidelake.storage.port import Batch, ObjectInfo

LOCK_WAIT_S: Final = 10.0
"""How long put-if-match waits for another process before it gives up."""
LOCK_POLL_S: Final = 0.002
TEMP_LIFE_MS: Final = 60 * 60 * 1000
"""After how long a temporary file belongs to nobody who lives."""
FOLDER_TRIES: Final = 8
"""How often a folder is made again that another process has just pruned."""

FOLDERS_KNOWN: Final = 10_000
_PRUNED: Final = ".hoodie/.temp/"


@dataclass(frozen=True, slots=True)
class _Temp:
    """A synced file with all of an object's bytes, and the version that the object will have."""

    path: str
    version: str


class LocalStorage:
    """Objects as files below ``root``: a path, ``file:/path`` or ``file:///path``, literal (``~`` and ``%20`` too)."""

    __slots__ = ("_clock", "_inside", "_root")

    def __init__(self, root: str | os.PathLike[str], *, clock: Clock | None = None) -> None:
        self._root = local_root(os.fspath(root))
        self._clock: Clock = clock or SystemClock()
        self._inside: set[str] = set()
        """Folders that were found to be inside the root."""

    def __repr__(self) -> str:
        return f"LocalStorage({self._root!r})"

    @property
    def uri(self) -> str:
        return self._root

    @property
    def options(self) -> dict[str, str]:
        return {}

    @property
    def is_remote(self) -> bool:
        return False

    def get(self, path: str) -> bytes:
        return self.get_with_version(path)[0]

    def get_with_version(self, path: str) -> tuple[bytes, str]:
        with self._opened(path) as (file, status), open(file, "rb", buffering=0, closefd=False) as reader:
            return reader.read(), version_of(status)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        if start < 0 or length < 0:
            raise InvalidError(f"no range of {length} bytes from {start}", value=start, file=path)
        pieces: list[bytes] = []
        with self._opened(path) as (file, _):
            while length > 0:
                piece = os.pread(file, length, start)
                if not piece:
                    break
                pieces.append(piece)
                start, length = start + len(piece), length - len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def head(self, path: str) -> ObjectInfo:
        found = self._status(check_path(path))
        if found is None:
            raise self._absent(path)
        return object_info(path, found)

    def exists(self, path: str) -> bool:
        return self._status(check_path(path)) is not None

    def put(self, path: str, data: bytes | memoryview) -> str:
        target = self._target(path)
        with self._writing(path):
            old = self._status(path)
            with self._temp(data, differs_from=old) as temp:

                def replace() -> None:
                    unlink(checksum_sibling(target))
                    os.rename(temp.path, target)

                self._in_folder(target, replace)
                sync_folder(os.path.dirname(target))
                return temp.version

    @contextlib.contextmanager
    def batch(self) -> Iterator[Batch]:
        puts = LocalPuts(self)
        try:
            yield puts
        except BaseException:
            puts.leave()
            raise
        puts.sync()

    def put_new(self, path: str, data: bytes | memoryview, folders: set[str]) -> int | None:
        """Write a new file under its own name; returns it open, to be synced and closed. None if there is one already.

        ``folders`` is told which folders have new names, to be synced.
        """
        target = self._target(path)
        with self._writing(path):
            made: list[int] = []

            def create() -> None:
                unlink(checksum_sibling(target))  # a deleted object's
                made.append(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))

            try:
                self._in_folder(target, create, folders)
            except FileExistsError:
                return None
            try:
                write_all(made[0], data)
                set_time(made[0], data, None, None)
            except BaseException:
                os.close(made[0])
                with contextlib.suppress(OSError):  # on a full disk others need the room
                    unlink(target)
                raise
            folders.add(os.path.dirname(target))
            return made[0]

    def begin_new(self, path: str, data: bytes) -> NewFile | None:
        """Write what is to become a file, to be synced and then named. None if there is one already."""
        target = self._target(path)
        with self._writing(path):
            if os.path.lexists(target):
                return None
            return self._new_temp(path, data)

    def sync_files(self, files: Sequence[tuple[str, int]]) -> None:
        """Sync files of a batch, up to the first that cannot be, and close them all."""
        with contextlib.ExitStack() as opened:
            for _, file in files:
                opened.callback(os.close, file)
            for path, file in files:
                with self._writing(path):
                    os.fsync(file)

    def name_new(self, new: NewFile, folders: set[str]) -> None:
        """Give a synced file its name, unless another has it by now; ``folders`` is told which have new names."""
        target = self._target(new.path)
        with self._writing(new.path), contextlib.suppress(FileExistsError):
            self._in_folder(target, lambda: self._link(new.temp, target), folders)
            folders.add(os.path.dirname(target))
        self.drop_new(new)

    def drop_new(self, new: NewFile) -> None:
        """Forget what was to become a file; the sweep takes what cannot be removed now."""
        with contextlib.suppress(OSError):
            unlink(new.temp)

    def sync_names(self, folders: Sequence[str]) -> None:
        """Sync folders that a batch has made names in."""
        for folder in folders:
            with self._writing(folder):
                sync_folder(folder)

    def put_if_absent(self, path: str, data: bytes) -> str:
        target = self._target(path)
        with self._writing(path), self._temp(data) as temp:
            try:
                self._in_folder(target, lambda: self._link(temp.path, target))
            except FileExistsError as error:
                raise AlreadyExistsError(f"{path!r} exists already", value=path, table=self._root, file=path) from error
            sync_folder(os.path.dirname(target))
            return temp.version

    def put_if_match(self, path: str, data: bytes, version: str) -> str:
        target = self._target(path)
        if not self.exists(path):
            raise self._not_that_version(path, version)
        with self._writing(path), self._locked():
            found = self._status(path)
            if found is None or version_of(found) != version:
                raise self._not_that_version(path, version)
            with self._temp(data, later_than=found) as temp:
                unlink(checksum_sibling(target))
                os.rename(temp.path, target)
                sync_folder(os.path.dirname(target))
                self._sweep_dead(os.stat(target))
                return temp.version

    def delete(self, path: str) -> None:
        target = self._target(path)
        with self._writing(path):
            try:
                unlink(checksum_sibling(target))
                if not unlink(target):
                    return
                if path.startswith(".hoodie/") and not path.startswith(
                    _PRUNED
                ):  # the order of deletes on the timeline survives the loss of power
                    sync_folder(os.path.dirname(target))
            except (NotADirectoryError, IsADirectoryError, FileNotFoundError):
                return
            if path.startswith(_PRUNED):
                self._prune(parent_of(path))

    def list_files(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return walk(self._root, check_prefix(prefix))

    def list_dir(self, prefix: str = "") -> tuple[list[str], list[ObjectInfo]]:
        return list_folder(self._root, check_prefix(prefix))

    def native_path(self, path: str) -> str:
        return self._native(check_prefix(path))

    def sweep_temp(self, before_ms: int) -> int:
        """Remove what crashed writers left under the temp folder and is older than ``before_ms``; returns how many."""
        removed = 0
        folder = self._native(RELATIVE_TEMP_DIR)
        with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if entry.stat(follow_symlinks=False).st_mtime_ns < before_ms * MILLISECOND_NS:
                        removed += unlink(entry.path)
        return removed

    def _sweep_dead(self, written: os.stat_result) -> None:
        """Remove temps that are old by the machine's clock and by the disk's; what cannot be removed stays."""
        now_ms = min(self._clock.now_ms(), written.st_mtime_ns // MILLISECOND_NS)
        with contextlib.suppress(OSError):
            self.sweep_temp(now_ms - TEMP_LIFE_MS)

    def _native(self, path: str) -> str:
        return os.path.join(self._root, path) if path else self._root

    def _status(self, path: str) -> os.stat_result | None:
        try:
            status = os.stat(self._native(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise read_error(error, path, self._root) from error
        return status if stat.S_ISREG(status.st_mode) else None

    @contextlib.contextmanager
    def _opened(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        check_path(path)
        try:
            file = os.open(self._native(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # never hang on a FIFO
            try:
                status = os.fstat(file)
                if not stat.S_ISREG(status.st_mode):
                    raise self._absent(path)
                yield file, status
            finally:
                os.close(file)
        except OSError as error:
            raise read_error(error, path, self._root) from error

    @contextlib.contextmanager
    def _writing(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise write_error(error, path, self._root) from error

    def _target(self, path: str) -> str:
        """The file to write, if it is inside the root and not ours."""
        if check_path(path) == RELATIVE_LOCK_FILE:
            raise InvalidError(f"{path!r} is locked, never written", value=path, table=self._root)
        target = self._native(path)
        self._must_be_inside(os.path.dirname(target), path)
        return target

    def _must_be_inside(self, folder: str, path: str) -> None:
        # What is not there is no link: it will be where the folder is in which it is made.
        while folder not in self._inside and folder != self._root and not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        if folder in self._inside or folder == self._root:
            return
        root = os.path.realpath(self._root)
        real = os.path.realpath(folder)
        if real != root and not real.startswith(root.rstrip("/") + "/"):
            raise InvalidError(
                f"{path!r} leads out of the table, to {real!r}",
                value=path,
                table=self._root,
                hint="remove the symbolic link: nothing is written through it",
            )
        if os.path.isdir(real):
            if len(self._inside) >= FOLDERS_KNOWN:
                self._inside.clear()
            self._inside.add(folder)

    @contextlib.contextmanager
    def _temp(
        self,
        data: bytes | memoryview,
        *,
        differs_from: os.stat_result | None = None,
        later_than: os.stat_result | None = None,
    ) -> Iterator[_Temp]:
        new = self._new_temp("", data, differs_from, later_than)
        try:
            try:
                os.fsync(new.file)
                version = version_of(os.fstat(new.file))
            finally:
                os.close(new.file)
            yield _Temp(new.temp, version)
        finally:
            self.drop_new(new)

    def _new_temp(
        self,
        path: str,
        data: bytes | memoryview,
        differs_from: os.stat_result | None = None,
        later_than: os.stat_result | None = None,
    ) -> NewFile:
        """An object's bytes under a name that nobody looks for, open, not synced yet."""
        folder = self._native(RELATIVE_TEMP_DIR)
        self._must_be_inside(folder, RELATIVE_TEMP_DIR)
        new = NewFile(path, *create_temp(folder))
        try:
            write_all(new.file, data)
            set_time(new.file, data, differs_from, later_than)
        except BaseException:
            os.close(new.file)
            self.drop_new(new)
            raise
        return new

    def _link(self, temp: str, target: str) -> None:
        if not os.path.lexists(target):
            unlink(checksum_sibling(target))  # a deleted object's
        os.link(temp, target)

    def _in_folder(self, target: str, act: Callable[[], None], unsynced: set[str] | None = None) -> None:
        """Do what gives the target its name, with its folder made before; see ``make_folders``."""
        folder = os.path.dirname(target)
        for attempt in range(FOLDER_TRIES):
            make_folders(folder, unsynced)
            try:
                act()
            except FileNotFoundError:
                if attempt == FOLDER_TRIES - 1:
                    raise
            else:
                break

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        name = self._native(RELATIVE_LOCK_FILE)
        self._must_be_inside(os.path.dirname(name), RELATIVE_LOCK_FILE)
        make_folders(os.path.dirname(name))
        deadline = self._clock.monotonic_s() + LOCK_WAIT_S
        while True:
            file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                self._wait_for(file, deadline)
                if not same_file(file, name):  # the table was removed and made again meanwhile
                    continue
                yield
                return
            finally:
                os.close(file)

    def _wait_for(self, file: int, deadline_s: float) -> None:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise
            if self._clock.monotonic_s() >= deadline_s:
                raise UnavailableError(
                    f"{RELATIVE_LOCK_FILE} was held by another process for {LOCK_WAIT_S:g} s",
                    table=self._root,
                    file=RELATIVE_LOCK_FILE,
                    hint="try again; if it lasts, find the holder with `fuser`",
                )
            self._clock.sleep(LOCK_POLL_S)

    def _prune(self, folder: str) -> None:
        """Remove emptied marker folders: on an object store they would be gone with their last object."""
        while folder.startswith(_PRUNED):
            try:
                os.rmdir(self._native(folder))
            except OSError:
                return
            folder = parent_of(folder)

    def _absent(self, path: str) -> NotFoundError:
        return NotFoundError(f"no object {path!r}", value=path, table=self._root, file=path)

    def _not_that_version(self, path: str, version: str) -> PreconditionError:
        return PreconditionError(
            f"{path!r} is no longer version {version!r}", value=version, table=self._root, file=path
        )


def local_root(text: str) -> str:
    """An absolute local folder from a path or a ``file:`` URI."""
    path = text
    if text[:5].lower() == "file:":
        path = text[5:]
        if path.startswith("//"):
            host, slash, rest = path[2:].partition("/")
            if host not in ("", "localhost"):
                raise InvalidError(f"{text!r} is on another machine, {host!r}", value=text, hint="write file:///path")
            path = slash + rest
        if not path.startswith("/"):
            raise InvalidError(f"{text!r} has no absolute path", value=text, hint="write file:///path")
    if not path or "\0" in path:
        raise InvalidError(f"{text!r} is not a local folder", value=text, hint="give a path")
    return os.path.abspath(path)
