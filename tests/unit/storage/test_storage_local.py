"""What only a local disk has: temporary files, folders, links, checksum siblings, a lock, and processes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tidelake._clock import ManualClock
from tidelake.errors import (
    AlreadyExistsError,
    InvalidError,
    NotFoundError,
    PreconditionError,
    TidelakeError,
    UnavailableError,
)
from tidelake.storage import LocalStorage, SimulatedCrash
from tidelake.storage._local_batch import SYNC_AT_ONCE_BYTES, SYNC_WAITING
from tidelake.storage.local import LOCK_WAIT_S

LOCK_FILE = ".hoodie/.tidelake/head.lock"
TEMP_DIR = ".hoodie/.tidelake/tmp"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def local(root: Path) -> LocalStorage:
    return LocalStorage(root)


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "file://localhost{}", "{}/", "{}/x/.."])
def test_root_in_any_form_is_the_same_folder(root: Path, form: str) -> None:
    """A path and every file: URI of it open the same folder."""
    LocalStorage(root).put("a", b"x")
    storage = LocalStorage(form.format(root))
    assert storage.uri == str(root)
    assert storage.native_path("a") == str(root / "a")
    assert storage.get("a") == b"x"


@pytest.mark.parametrize("text", ["", "file:", "file:relative", "file://otherhost/path", "a\0b"])
def test_root_that_is_no_local_folder_is_refused(text: str) -> None:
    """Another machine, nothing at all, or NUL is no root."""
    with pytest.raises(InvalidError):
        LocalStorage(text)


def test_root_with_tilde_and_percent_is_literal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither ~ nor %20 is expanded, and a relative path is taken from the folder at opening."""
    monkeypatch.chdir(tmp_path)
    LocalStorage("~/a%20b").put("x", b"")
    assert (tmp_path / "~" / "a%20b" / "x").exists()


def test_reading_a_missing_table_creates_nothing(root: Path, local: LocalStorage) -> None:
    """Opening, listing, reading and losing a put-if-match leave no trace on the disk."""
    assert not local.exists("a")
    assert list(local.list_files()) == []
    with pytest.raises(NotFoundError):
        local.get("a")
    with pytest.raises(PreconditionError):
        local.put_if_match("a", b"", "1")
    local.delete("a")
    assert local.sweep_temp(2**50) == 0
    assert not root.exists()


def test_put_leaves_only_the_object(root: Path, local: LocalStorage) -> None:
    """After each kind of put, won or lost, no temporary file is left, and neither it nor the lock is listed."""
    version = local.put_if_absent("p/a", b"1")
    with pytest.raises(AlreadyExistsError):
        local.put_if_absent("p/a", b"2")
    local.put_if_match("p/a", b"3", version)
    with pytest.raises(PreconditionError):
        local.put_if_match("p/a", b"4", version)
    local.put("p/a", b"5")
    assert list((root / TEMP_DIR).iterdir()) == []
    assert (root / LOCK_FILE).exists()
    assert [info.path for info in local.list_files()] == ["p/a"]
    assert local.list_dir(".hoodie/.tidelake") == ([], [])


@pytest.mark.parametrize("call", ["link", "rename", "fsync"])
def test_put_that_dies_shows_no_part(
    root: Path, local: LocalStorage, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Until the name is given all is in a temp; dying before it leaves the old object, or none."""
    local.put("old", b"old")

    def die(*_: object) -> None:
        raise SimulatedCrash(call)

    monkeypatch.setattr(os, call, die)
    put: Callable[[str, bytes], str] = local.put_if_absent if call == "link" else local.put
    for path in ("new", "old") if call != "link" else ("new",):
        with pytest.raises(SimulatedCrash):
            put(path, b"12345")
    assert not (root / "new").exists()
    assert local.get("old") == b"old"


def test_put_gives_the_name_to_whole_synced_bytes(
    root: Path, local: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the name is given, the temp holds all bytes and was synced; then its folders are synced, up to the root's."""
    events: list[str] = []
    real_link, real_fsync = os.link, os.fsync

    def fsync(file: int) -> None:
        events.append("sync " + os.path.relpath(os.readlink(f"/proc/self/fd/{file}"), root))
        real_fsync(file)

    def link(source: str, target: str) -> None:
        assert Path(source).read_bytes() == b"12345"
        events.append("link " + os.path.relpath(target, root))
        real_link(source, target)

    local.put("warm", b"")
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", link)
    local.put_if_absent("p/q/new", b"12345")
    assert events[0].startswith(f"sync {TEMP_DIR}/")
    assert events[1:] == ["sync .", "sync p", "link p/q/new", "sync p/q"]


def test_batch_is_synced_file_by_file_and_then_each_folder_once(
    root: Path, local: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the block has ended, every file was synced with all its bytes, and after the last one their folders."""
    synced: list[tuple[str, int]] = []
    real_fsync = os.fsync

    def fsync(file: int) -> None:
        name = os.path.relpath(os.readlink(f"/proc/self/fd/{file}"), root)
        synced.append((name, 0 if (root / name).is_dir() else os.fstat(file).st_size))
        real_fsync(file)

    for folder in ("p", "q"):
        local.put(f"{folder}/old", b"")
    monkeypatch.setattr(os, "fsync", fsync)
    sizes = {f"{'pq'[number % 2]}/{number}": number * (SYNC_AT_ONCE_BYTES // 4) for number in range(8)}
    with local.batch() as puts:
        for path, size in sizes.items():
            puts.put(path, bytes(size))
    assert sorted(synced[:8]) == sorted(sizes.items())
    assert sorted(synced[8:]) == [("p", 0), ("q", 0)]


def test_batch_names_what_it_ensures_when_it_is_synced_and_syncs_new_folders_once(
    root: Path, local: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What readers must see whole has no name before its bytes are synced; folders, new ones and theirs, come last."""
    events: list[str] = []
    real_link, real_fsync = os.link, os.fsync

    def fsync(file: int) -> None:
        name = os.path.relpath(os.readlink(f"/proc/self/fd/{file}"), root)
        events.append("sync temp" if name.startswith(TEMP_DIR) else f"sync {name}")
        real_fsync(file)

    def link(source: str, target: str) -> None:
        events.append("link " + os.path.relpath(target, root))
        real_link(source, target)

    local.put("warm", b"")
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", link)
    with local.batch() as puts:
        for part in ("p/1", "p/2"):
            puts.ensure(f"{part}/meta", b"12345")
            puts.put(f"{part}/data", b"")
        puts.ensure("warm", b"other")
        assert not (root / "p/1/meta").exists()
    assert sorted(events[:4]) == ["sync p/1/data", "sync p/2/data", "sync temp", "sync temp"]
    assert events[4:6] == ["link p/1/meta", "link p/2/meta"]
    assert sorted(events[6:]) == ["sync .", "sync p", "sync p/1", "sync p/2"]
    assert not list((root / TEMP_DIR).iterdir())


@pytest.mark.parametrize("fails", ["block", "sync"])
def test_batch_that_fails_names_nothing_that_it_was_to_ensure(
    root: Path, local: LocalStorage, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """Neither a name nor what was to become one is left."""

    def fsync(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    def ensure() -> None:
        with local.batch() as puts:
            puts.ensure("p/meta", b"1")
            if fails == "block":
                raise KeyError("p")

    local.put("p/old", b"")
    if fails == "sync":
        monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises((KeyError, UnavailableError)):
        ensure()
    assert not (root / "p/meta").exists()
    assert not list((root / TEMP_DIR).iterdir())


def test_batch_whose_file_cannot_be_synced_fails(local: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not durable is an error of the batch, not a silence."""

    def fsync(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    local.put("p/old", b"")
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(UnavailableError, match="p/new"), local.batch() as puts:
        puts.put("p/new", b"1")


@pytest.mark.parametrize("is_full", [False, True])
def test_batch_of_more_files_than_may_wait_syncs_and_closes_each(
    root: Path, local: LocalStorage, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    """Each file is synced once, and no more than a few hundred are open at a time; none is after an error."""
    synced: list[str] = []
    most_open = 0
    real_fsync = os.fsync

    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    def fsync(file: int) -> None:
        nonlocal most_open
        most_open = max(most_open, open_files())
        name = os.path.relpath(os.readlink(f"/proc/self/fd/{file}"), root)
        if is_full and name.endswith("77"):
            raise OSError(errno.ENOSPC, "No space left on device")
        synced.append(name)
        real_fsync(file)

    def write() -> None:
        with local.batch() as puts:
            for path in paths:
                puts.put(path, b"1")

    local.put("p/old", b"")
    paths = [f"p/{number:04}" for number in range(4 * SYNC_WAITING)]
    opened = open_files()
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(UnavailableError) if is_full else contextlib.nullcontext():
        write()
    if not is_full:
        assert sorted(synced) == ["p", *paths]
    assert most_open < 3 * SYNC_WAITING
    assert open_files() == opened


def test_batch_put_on_a_full_disk_leaves_no_part(
    root: Path, local: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be written whole makes room again for those who clear up."""
    real_write = os.write

    def write(file: int, data: memoryview) -> int:
        if len(data) < 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_write(file, data[:10])

    local.put("p/old", b"")
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(UnavailableError, match="disk is full"), local.batch() as puts:
        puts.put("p/new", b"123456789012345")
    assert not (root / "p" / "new").exists()


def test_reader_during_overwrites_sees_whole_objects(local: LocalStorage) -> None:
    """A reader beside a writer that replaces an object sees one version or the next, never a mixture."""
    size = 200_000
    local.put("a", b"0" * size)
    done = threading.Event()
    bad: list[str] = []

    def read() -> None:
        while not done.is_set():
            data = local.get("a")
            if len(data) != size or len(set(data)) != 1:
                bad.append(f"{len(data)} bytes, {set(data)}")

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(100):
        local.put("a", b"%d" % (turn % 10) * size)
    done.set()
    reader.join()
    assert bad == []


RACER = """
import sys
from tidelake.errors import AlreadyExistsError, PreconditionError
from tidelake.storage import LocalStorage
storage = LocalStorage(sys.argv[1])
me = sys.argv[2].encode()
print("ready", flush=True)
sys.stdin.readline()
won = 0
for turn in range(50):
    try:
        storage.put_if_absent(f"race/{turn}", me)
        won += 1
    except AlreadyExistsError:
        pass
for turn in range(25):
    while True:
        data, version = storage.get_with_version("counter")
        try:
            storage.put_if_match("counter", b"%d %s %d" % (int(data.split()[0]) + 1, me, turn), version)
            break
        except PreconditionError:
            pass
print(won, flush=True)
"""


def test_put_four_processes_have_one_winner_each_and_lose_no_step(local: LocalStorage) -> None:
    """Over four processes each name is created once, and a counter by put-if-match misses no step."""
    local.put_if_absent("counter", b"0")
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, local.uri, f"racer-{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for number in range(4)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = [int(racer.communicate()[0]) for racer in racers]
    assert sum(won) == 50
    assert len(list(local.list_files("race"))) == 50
    assert local.get("counter").split()[0] == b"100"


def test_put_if_match_lock_held_raises_unavailable_in_time(root: Path) -> None:
    """Waiting for another holder of the lock ends, by the injected clock, and nothing is changed."""
    clock = ManualClock()
    local = LocalStorage(root, clock=clock)
    version = local.put_if_match("head", b"2", local.put("head", b"1"))
    with open(root / LOCK_FILE) as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(UnavailableError) as caught:
            local.put_if_match("head", b"3", version)
    assert caught.value.retryable
    assert LOCK_WAIT_S <= clock.monotonic_s() < LOCK_WAIT_S + 1
    assert local.get("head") == b"2"
    local.put_if_match("head", b"3", version)


def test_lock_file_is_never_replaced_or_deleted(root: Path, local: LocalStorage) -> None:
    """The lock keeps its inode over any number of turns, and no verb touches it."""
    version = local.put_if_match("head", b"2", local.put("head", b"1"))
    inode = (root / LOCK_FILE).stat().st_ino
    local.put_if_match("head", b"3", version)
    for verb in (lambda: local.delete(LOCK_FILE), lambda: local.put(LOCK_FILE, b"")):
        with pytest.raises(InvalidError):
            verb()
    assert (root / LOCK_FILE).stat().st_ino == inode


def test_version_of_equal_sizes_in_one_tick_never_comes_back(root: Path, local: LocalStorage) -> None:
    """Replaced a thousand times as fast as possible, with inodes used again, no version is seen twice."""
    version = local.put_if_absent("head", b"%06d" % 0)
    seen = {version}
    for turn in range(1, 1000):
        version = local.put_if_match("head", b"%06d" % turn, version)
        seen.add(version)
    assert len(seen) == 1000
    assert local.head("head").version == version


def test_version_after_clock_went_back_is_later(root: Path, local: LocalStorage) -> None:
    """put-if-match gives a later modification time even if the present one lies in the future."""
    local.put("head", b"1")
    future_ns = 4_000_000_000 * 10**9
    os.utime(root / "head", ns=(future_ns, future_ns))
    local.put_if_match("head", b"2", local.head("head").version)
    assert (root / "head").stat().st_mtime_ns > future_ns


@pytest.mark.parametrize("verb", ["put", "put_if_match", "delete", "put_if_absent"])
def test_checksum_sibling_goes_when_the_object_changes(root: Path, local: LocalStorage, verb: str) -> None:
    """Hadoop's .name.crc is removed with what it vouched for, and others' stay."""
    version = local.put("d/a", b"1")
    for name in ("a", "b"):
        (root / "d" / f".{name}.crc").write_bytes(b"crc")
    match verb:
        case "put":
            local.put("d/a", b"2")
        case "put_if_match":
            local.put_if_match("d/a", b"2", version)
        case "delete":
            local.delete("d/a")
        case "put_if_absent":
            (root / "d" / "a").unlink()
            local.put_if_absent("d/a", b"2")
    assert not (root / "d" / ".a.crc").exists()
    assert (root / "d" / ".b.crc").exists()


def test_checksum_sibling_stays_when_nothing_changes(root: Path, local: LocalStorage) -> None:
    """A put that lost leaves the checksum of what it met; it is listed as any file."""
    local.put("d/a", b"1")
    (root / "d" / ".a.crc").write_bytes(b"crc")
    with pytest.raises(AlreadyExistsError):
        local.put_if_absent("d/a", b"2")
    with pytest.raises(PreconditionError):
        local.put_if_match("d/a", b"2", "other")
    assert [info.path for info in local.list_files()] == ["d/.a.crc", "d/a"]


@pytest.mark.parametrize("verb", ["put", "put_if_absent", "put_if_match", "delete", "put of a batch", "ensure"])
def test_write_through_link_out_of_the_root_is_refused(
    tmp_path: Path, root: Path, local: LocalStorage, verb: str
) -> None:
    """A folder that is a link to elsewhere is read, but never written through."""
    outside = LocalStorage(tmp_path / "outside")
    version = outside.put("a", b"1")
    local.put("b", b"")
    (root / "link").symlink_to(tmp_path / "outside")

    def in_batch(verb: str) -> None:
        with local.batch() as puts:
            getattr(puts, verb)("link/new/deep", b"2")

    verbs: dict[str, Callable[[], object]] = {
        "put of a batch": lambda: in_batch("put"),
        "ensure": lambda: in_batch("ensure"),
        "put": lambda: local.put("link/a", b"2"),
        "put_if_absent": lambda: local.put_if_absent("link/new/deep", b"2"),
        "put_if_match": lambda: local.put_if_match("link/a", b"2", version),
        "delete": lambda: local.delete("link/a"),
    }
    with pytest.raises(InvalidError):
        verbs[verb]()
    assert local.get("link/a") == b"1"
    assert [info.path for info in outside.list_files()] == ["a"]


def test_temp_folder_that_leads_out_is_refused(tmp_path: Path, root: Path, local: LocalStorage) -> None:
    """Not even a temporary file is written outside."""
    (tmp_path / "outside").mkdir()
    (root / ".hoodie").mkdir(parents=True)
    (root / ".hoodie" / ".tidelake").symlink_to(tmp_path / "outside")
    with pytest.raises(InvalidError):
        local.put("a", b"")
    assert list((tmp_path / "outside").iterdir()) == []


def test_root_that_is_a_link_is_written(tmp_path: Path, root: Path) -> None:
    """A table may be reached by a link; links within it to within it are fine."""
    root.mkdir()
    (tmp_path / "link").symlink_to(root)
    storage = LocalStorage(tmp_path / "link")
    storage.put("real/a", b"1")
    (root / "alias").symlink_to(root / "real")
    storage.put("alias/b", b"2")
    assert sorted(path.name for path in (root / "real").iterdir()) == ["a", "b"]


def test_list_follows_links_and_reports_loops(tmp_path: Path, root: Path, local: LocalStorage) -> None:
    """A partition on another disk is listed; a link in a circle is an error, not an endless or a short listing."""
    LocalStorage(tmp_path / "outside").put("a", b"1")
    local.put("b", b"")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "broken").symlink_to(tmp_path / "nothing")
    assert "link/a" in [info.path for info in local.list_files()]
    (root / "circle").symlink_to(root)
    with pytest.raises(UnavailableError) as caught:
        list(local.list_files())
    assert not caught.value.retryable


def test_list_tolerates_what_vanishes(root: Path, local: LocalStorage) -> None:
    """Files and folders deleted while a listing goes on are left out, and the rest is there."""
    for name in ("a/1", "b/1", "c/1", "d"):
        local.put(name, b"")
    listing = local.list_files()
    assert next(listing).path == "a/1"
    local.delete("b/1")
    (root / "b").rmdir()
    (root / "c" / "1").unlink()
    assert [info.path for info in listing] == ["d"]


def test_list_leaves_out_what_is_no_file(root: Path, local: LocalStorage) -> None:
    """A FIFO is no object, and reading it does not hang."""
    local.put("a", b"")
    os.mkfifo(root / "fifo")
    assert [info.path for info in local.list_files()] == ["a"]
    with pytest.raises(NotFoundError):
        local.get("fifo")


def test_delete_of_last_marker_removes_its_folders(root: Path, local: LocalStorage) -> None:
    """Emptied folders of markers go, up to .hoodie/.temp; folders of data stay."""
    local.put(".hoodie/.temp/1/p=1/q=2/m", b"")
    local.put(".hoodie/.temp/1/p=2/m", b"")
    local.put("p=1/data", b"")
    local.delete(".hoodie/.temp/1/p=1/q=2/m")
    assert [path.name for path in (root / ".hoodie/.temp/1").iterdir()] == ["p=2"]
    local.delete(".hoodie/.temp/1/p=2/m")
    local.delete("p=1/data")
    assert list((root / ".hoodie/.temp").iterdir()) == []
    assert (root / "p=1").is_dir()


def test_put_into_a_folder_that_is_pruned_meanwhile_succeeds(
    root: Path, local: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder removed between its making and the link is made again."""
    real_link = os.link
    pruned: list[bool] = []

    def link(source: str, target: str) -> None:
        if not pruned:
            pruned.append(True)
            os.rmdir(os.path.dirname(target))
        real_link(source, target)

    monkeypatch.setattr(os, "link", link)
    local.put_if_absent(".hoodie/.temp/1/m", b"x")
    assert pruned
    assert local.get(".hoodie/.temp/1/m") == b"x"


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        (errno.ENOSPC, UnavailableError, True),
        (errno.EIO, UnavailableError, True),
        (errno.EACCES, UnavailableError, False),
        (errno.EROFS, UnavailableError, False),
        (errno.EXDEV, UnavailableError, False),
    ],
)
def test_system_error_becomes_a_typed_one(
    local: LocalStorage, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[TidelakeError], retryable: bool
) -> None:
    """A full or faulty disk may pass, missing rights do not; each names the path and survives pickling."""

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(kind) as caught:
        local.put("p/a", b"x")
    again = pickle.loads(pickle.dumps(caught.value))
    for error in (caught.value, again):
        assert error.retryable is retryable
        assert error.file == "p/a"
        assert os.strerror(code) in str(error)
    assert list(local.list_files()) == []


def test_object_in_the_place_of_a_folder_is_a_typed_error(local: LocalStorage) -> None:
    """On a disk, unlike an object store, a name is a file or a folder; either clash is told apart from a fault."""
    local.put("a", b"")
    local.put("d/x", b"")
    for path in ("a/b", "a/b/c", "d"):
        with pytest.raises(UnavailableError) as caught:
            local.put(path, b"")
        assert not caught.value.retryable
    with pytest.raises(AlreadyExistsError):
        local.put_if_absent("d", b"")


def test_name_too_long_is_refused(local: LocalStorage) -> None:
    """A name that the file system cannot hold is the caller's error; one that it just can is stored."""
    with pytest.raises(InvalidError):
        local.put("x" * 300, b"")
    local.put("x" * 255, b"1")
    local.put("x" * 255, b"2")
    assert local.get("x" * 255) == b"2"


def test_sweep_temp_removes_only_what_is_old(root: Path, local: LocalStorage) -> None:
    """What a crash left goes once it is old enough, and new temporary files stay."""
    local.put("a", b"")
    for name, time_s in (("old.tmp", 1_000), ("new.tmp", 3_000)):
        (root / TEMP_DIR / name).write_bytes(b"part")
        os.utime(root / TEMP_DIR / name, (time_s, time_s))
    assert local.sweep_temp(before_ms=2_000_000) == 1
    assert [path.name for path in (root / TEMP_DIR).iterdir()] == ["new.tmp"]
    assert [info.path for info in local.list_files()] == ["a"]


def test_put_if_match_sweeps_temps_of_dead_processes(root: Path, local: LocalStorage) -> None:
    """A temporary file that is older than any put lasts goes with the next change of the head."""
    version = local.put("a", b"1")
    (root / TEMP_DIR / "dead.tmp").write_bytes(b"half")
    (root / TEMP_DIR / "alive.tmp").write_bytes(b"half")
    old_s = time.time() - 2 * 60 * 60
    os.utime(root / TEMP_DIR / "dead.tmp", (old_s, old_s))
    local.put_if_match("a", b"2", version)
    assert [path.name for path in (root / TEMP_DIR).iterdir()] == ["alive.tmp"]


def test_storage_pickled_opens_the_same_root(local: LocalStorage) -> None:
    """A worker gets the storage by pickling."""
    local.put("a", b"x")
    again = pickle.loads(pickle.dumps(local))
    assert again.get("a") == b"x"
