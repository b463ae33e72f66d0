"""One suite for every storage: what the port promises, however it is kept."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tidelake.errors import (
    AlreadyExistsError,
    InvalidError,
    NotFoundError,
    PreconditionError,
    TidelakeError,
)
from tidelake.storage import Storage, check_path

NASTY_PATHS = [
    "with space/a b",
    "percent/100%",
    "slash/x%2Fy",
    "slash/a%20b",
    "dots/%2e%2e",
    "nul/%00",
    "unicode/ünï-日本-🌊",
    "twins/é",
    "twins/e\u0301",
    "city=Zürich/hour=12:30/f",
    "glob/[x]",
    "glob/{y}",
    "glob/*?",
    "marks/a+b&c;d,e@f!g$h'i(j)",
    "hash/a#b",
    "back\\slash",
    "tilde/~",
    'quotes/"x"<y>|z^`',
    ".hoodie/.temp/2026/region=us/.f_1.log.1_0-1-2.marker.CREATE",
    ".hidden",
    "trailing.",
    "...",
]
HOSTILE_PATHS = [
    "",
    "/etc/passwd",
    "../outside",
    "a/../../outside",
    "a/..",
    "./a",
    "a/./b",
    "a//b",
    "a/",
    "a\0b",
    "lone\ud800surrogate",
]


def test_get_after_put_gives_the_same_bytes(storage: Storage) -> None:
    """What was put is what is read, with its size and version."""
    data = bytes(range(256)) * 10
    version = storage.put("a/b.bin", data)
    assert storage.get("a/b.bin") == data
    assert storage.get_with_version("a/b.bin") == (data, version)
    info = storage.head("a/b.bin")
    assert (info.path, info.size_bytes, info.version) == ("a/b.bin", len(data), version)
    assert info.modified_ms > 1_500_000_000_000


def test_get_empty_object_gives_no_bytes(storage: Storage) -> None:
    """An object of no bytes is there, listed and readable."""
    storage.put_if_absent("dir/empty", b"")
    assert storage.exists("dir/empty")
    assert storage.get("dir/empty") == b""
    assert storage.get_range("dir/empty", 0, 10) == b""
    assert [info.path for info in storage.list_files()] == ["dir/empty"]
    assert [info.path for info in storage.list_dir("dir")[1]] == ["dir/empty"]


def test_get_large_object_gives_the_same_bytes(storage: Storage) -> None:
    """An object larger than one upload part is whole."""
    data = b"0123456789abcdef" * (12 * 65536)
    storage.put("large", data)
    assert storage.get("large") == data
    assert storage.head("large").size_bytes == len(data)
    assert storage.get_range("large", len(data) - 5, 5) == data[-5:]


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [(0, 3, b"012"), (4, 3, b"456"), (7, 3, b"789"), (8, 100, b"89"), (10, 1, b""), (99, 5, b""), (3, 0, b"")],
)
def test_get_range_gives_the_bytes_that_are_there(storage: Storage, start: int, length: int, expected: bytes) -> None:
    """A range is cut at the end of the object and empty beyond it."""
    storage.put("ten", b"0123456789")
    assert storage.get_range("ten", start, length) == expected


@pytest.mark.parametrize(("start", "length"), [(-1, 3), (0, -3)])
def test_get_range_negative_is_refused(storage: Storage, start: int, length: int) -> None:
    """A range never counts from the end."""
    storage.put("ten", b"0123456789")
    with pytest.raises(InvalidError):
        storage.get_range("ten", start, length)


READS: list[Callable[[Storage, str], object]] = [
    lambda storage, path: storage.get(path),
    lambda storage, path: storage.get_with_version(path),
    lambda storage, path: storage.get_range(path, 0, 1),
    lambda storage, path: storage.get_range(path, 0, 0),
    lambda storage, path: storage.head(path),
]


@pytest.mark.parametrize("read", READS)
def test_read_absent_raises_not_found(storage: Storage, read: Callable[[Storage, str], object]) -> None:
    """What is not there, or is a folder, is NotFoundError, which is not retryable and names the path."""
    storage.put("folder/file", b"x")
    for path in ("absent", "folder", "folder/file2", "absent/deep/er"):
        with pytest.raises(NotFoundError) as caught:
            read(storage, path)
        assert caught.value.file == path
        assert not caught.value.retryable
        assert not storage.exists(path)


def test_put_existing_replaces_it(storage: Storage) -> None:
    """put overwrites, with longer and with shorter bytes, and each time the version changes."""
    versions = [storage.put("a", data) for data in (b"one", b"longer than one", b"3")]
    assert storage.get("a") == b"3"
    assert len(set(versions)) == 3
    assert storage.head("a").version == versions[-1]


def test_put_if_absent_existing_raises_and_keeps_it(storage: Storage) -> None:
    """The second put-if-absent is refused and changes nothing."""
    version = storage.put_if_absent("d/a", b"first")
    with pytest.raises(AlreadyExistsError) as caught:
        storage.put_if_absent("d/a", b"second")
    assert not caught.value.retryable
    assert storage.get_with_version("d/a") == (b"first", version)


def test_put_if_absent_after_delete_succeeds(storage: Storage) -> None:
    """A deleted name is free again, under a new version."""
    first = storage.put_if_absent("a", b"first")
    storage.delete("a")
    second = storage.put_if_absent("a", b"other")
    assert storage.get("a") == b"other"
    assert first != second


def test_put_if_absent_eight_threads_has_one_winner(storage: Storage) -> None:
    """Of eight threads exactly one creates the object, and its bytes are the ones stored."""
    for turn in range(10):
        path = f"race/{turn}"
        winners = _race(8, lambda mine, path=path: storage.put_if_absent(path, mine))  # type: ignore[misc]
        assert len(winners) == 1
        assert storage.get(path) == winners[0]


def test_put_if_match_eight_threads_has_one_winner(storage: Storage) -> None:
    """Of eight threads that read one version exactly one replaces it (with new bytes: an ETag may be their hash)."""
    version = storage.put_if_absent("head", b"start")
    for turn in range(10):
        winners = _race(8, lambda mine, seen=version: storage.put_if_match("head", mine, seen), nonce=turn)  # type: ignore[misc]
        data, version = storage.get_with_version("head")
        assert winners == [data]


def test_put_if_match_counter_loses_no_step(storage: Storage) -> None:
    """Four threads that add by read, compare and swap count every step."""
    storage.put_if_absent("counter", b"0;")

    def count(name: int) -> None:
        for step in range(5):
            while True:
                data, version = storage.get_with_version("counter")
                number = int(data.partition(b";")[0])
                try:
                    storage.put_if_match("counter", b"%d;%d-%d" % (number + 1, name, step), version)
                    break
                except PreconditionError:
                    continue

    _run_all([lambda name=name: count(name) for name in range(4)])  # type: ignore[misc]
    assert storage.get("counter").partition(b";")[0] == b"20"


def test_put_if_match_right_version_replaces(storage: Storage) -> None:
    """With the version just read, or just returned by a put, the object is replaced."""
    first = storage.put_if_absent("head", b"1")
    second = storage.put_if_match("head", b"2", first)
    third = storage.put_if_match("head", b"3", storage.head("head").version)
    assert len({first, second, third}) == 3
    assert storage.get_with_version("head") == (b"3", third)


def test_put_if_match_old_version_raises_and_keeps_it(storage: Storage) -> None:
    """With any but the present version nothing changes."""
    first = storage.put_if_absent("head", b"1")
    second = storage.put("head", b"2")
    for version in (first, "nonsense"):
        with pytest.raises(PreconditionError) as caught:
            storage.put_if_match("head", b"3", version)
        assert not caught.value.retryable
    assert storage.get_with_version("head") == (b"2", second)


def test_put_if_match_absent_raises_and_creates_nothing(storage: Storage) -> None:
    """An object that is gone has no version to match."""
    version = storage.put_if_absent("head", b"1")
    storage.delete("head")
    for path in ("head", "never"):
        with pytest.raises(PreconditionError):
            storage.put_if_match(path, b"2", version)
        assert not storage.exists(path)


def test_delete_twice_is_no_error(storage: Storage) -> None:
    """Deleting is idempotent, deletes just that object, and never a folder."""
    storage.put("d/a", b"1")
    storage.put("d/ab", b"2")
    storage.delete("d/a")
    storage.delete("d/a")
    storage.delete("d")
    storage.delete("never/was")
    storage.delete("d/ab/below")
    assert [info.path for info in storage.list_files()] == ["d/ab"]


@pytest.mark.parametrize("path", NASTY_PATHS)
def test_path_with_special_characters_is_literal(storage: Storage, path: str) -> None:
    """Every name comes back as it was given: from reading, from both listings, and to deleting."""
    data = path.encode()
    storage.put_if_absent(path, data)
    assert storage.get(path) == data
    assert storage.get_range(path, 1, 3) == data[1:4]
    assert [info.path for info in storage.list_files()] == [path]
    folder = path.rpartition("/")[0]
    assert [info.path for info in storage.list_dir(folder)[1]] == [path]
    first, slash, _ = path.partition("/")
    assert _folders(storage) == {first if slash else ".hoodie", ".hoodie"}
    storage.put_if_match(path, data + b"!", storage.head(path).version)
    assert storage.native_path(path).endswith(path)
    storage.delete(path)
    assert not storage.exists(path)


def test_paths_that_decode_alike_are_different(storage: Storage) -> None:
    """No two names are the same object, however a URL might read them."""
    paths = sorted(["x/y", "x%2Fy", "x%2fy", "x%252Fy", "a b", "a%20b", "a+b", "é", "e\u0301"])
    for path in paths:
        storage.put_if_absent(path, path.encode())
    assert [info.path for info in storage.list_files()] == paths
    assert all(storage.get(path) == path.encode() for path in paths)


@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_hostile_path_is_refused_by_every_verb(storage: Storage, path: str) -> None:
    """A path that could lead out of the table, or has two spellings, is InvalidError before anything happens."""
    verbs: list[Callable[[], object]] = [
        lambda: storage.get(path),
        lambda: storage.get_with_version(path),
        lambda: storage.get_range(path, 0, 1),
        lambda: storage.head(path),
        lambda: storage.exists(path),
        lambda: storage.put(path, b""),
        lambda: storage.put_if_absent(path, b""),
        lambda: storage.put_if_match(path, b"", "1"),
        lambda: storage.delete(path),
    ]
    if path:  # the empty prefix is the root
        verbs += [lambda: storage.list_files(path), lambda: storage.list_dir(path), lambda: storage.native_path(path)]
    for verb in verbs:
        with pytest.raises(InvalidError):
            verb()
    assert list(storage.list_files()) == []


def test_list_files_is_sorted_by_full_path(storage: Storage) -> None:
    """Objects at any depth come in the order of their whole paths, as keys do, not folder by folder."""
    paths = ["a", "a-b/x", "a.b", "a0", "ab/x/y/z", "b/é", "b/z", "ab/x.y", "B", "b/🌊", "b/\uffee"]
    for path in paths:
        storage.put(path, path.encode())
    found = list(storage.list_files())
    assert [info.path for info in found] == sorted(paths)
    assert found == [storage.head(path) for path in sorted(paths)]


def test_list_files_of_folder_is_by_whole_parts(storage: Storage) -> None:
    """A prefix is a folder: neither its longer namesakes nor an object of that name are below it."""
    for path in ("day=1/a", "day=1/b/c", "day=10/a", "day=1x", "other"):
        storage.put(path, b"x")
    assert [info.path for info in storage.list_files("day=1")] == ["day=1/a", "day=1/b/c"]
    assert list(storage.list_files("day")) == []
    assert list(storage.list_files("day=1/a")) == []
    assert list(storage.list_files("absent/deep")) == []


def test_list_dir_gives_one_level(storage: Storage) -> None:
    """Names of sub-folders and objects directly there, sorted; an absent folder is empty."""
    for path in ("t/b/1", "t/a/1", "t/a/2/3", "t/z", "t/y", "top"):
        storage.put(path, path.encode())
    folders, files = storage.list_dir("t")
    assert folders == ["a", "b"]
    assert files == [storage.head("t/y"), storage.head("t/z")]
    assert _folders(storage) == {"t", ".hoodie"}
    assert [info.path for info in storage.list_dir()[1]] == ["top"]
    assert storage.list_dir("absent") == ([], [])
    assert storage.list_dir("top") == ([], [])


def test_list_root_without_anything_is_empty(storage: Storage) -> None:
    """A storage where nothing was ever put lists nothing, and reading creates nothing."""
    assert list(storage.list_files()) == []
    assert storage.list_dir() == ([], [])
    assert not storage.exists("a")


def test_errors_survive_pickling(storage: Storage) -> None:
    """What a worker raises reaches the driver as it was."""
    storage.put("a", b"")
    verbs: list[Callable[[], object]] = [
        lambda: storage.get("absent"),
        lambda: storage.put_if_absent("a", b""),
        lambda: storage.put_if_match("a", b"", "nonsense"),
        lambda: storage.get("../a"),
    ]
    for verb in verbs:
        with pytest.raises(TidelakeError) as caught:
            verb()
        again = pickle.loads(pickle.dumps(caught.value))
        assert type(again) is type(caught.value)
        assert (str(again), again.__dict__) == (str(caught.value), caught.value.__dict__)


def test_storage_is_a_storage(storage: Storage) -> None:
    """Every implementation has all of the port's verbs."""
    assert isinstance(storage, Storage)


@pytest.mark.parametrize("path", NASTY_PATHS)
def test_check_path_accepts_what_is_literal(path: str) -> None:
    """No ordinary name is refused."""
    assert check_path(path) == path


def _folders(storage: Storage) -> set[str]:
    """The folders in the root; on a local disk ``.hoodie`` is among them, for temporary files."""
    return {*storage.list_dir()[0], ".hoodie"}


def _race(runners: int, attempt: Callable[[bytes], object], nonce: int = 0) -> list[bytes]:
    """Let threads attempt at once, each with bytes of its own; the bytes of those who won."""
    winners: list[bytes] = []

    def run(mine: bytes) -> None:
        barrier.wait()
        try:
            attempt(mine)
        except (AlreadyExistsError, PreconditionError):
            return
        winners.append(mine)

    barrier = threading.Barrier(runners)
    _run_all([lambda number=number: run(b"%d of %d" % (number, nonce)) for number in range(runners)])  # type: ignore[misc]
    return winners


def _run_all(acts: list[Callable[[], None]]) -> None:
    faults: list[BaseException] = []

    def guarded(act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as error:  # reported to the test's own thread below
            faults.append(error)

    threads = [threading.Thread(target=guarded, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_put_takes_views_on_buffers_of_any_format(storage: Storage) -> None:
    """Arrow's buffers come as views on signed bytes; they are stored as they are."""
    view = memoryview(b"\x00\xffabc").cast("b")
    storage.put("view", view)
    assert storage.get("view") == b"\x00\xffabc"


def test_batch_ended_has_every_object_whole(storage: Storage) -> None:
    """What any number of threads put in a batch is there when its block has ended; an old object is replaced."""
    storage.put("p/0", b"old")
    data = {f"{'pq'[number % 2]}/{number}": bytes([number]) * (number * 50_000) for number in range(40)}
    with storage.batch() as puts, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda path: puts.put(path, memoryview(data[path])), data))
    assert {info.path: storage.get(info.path) for info in storage.list_files()} == data


def test_batch_ensures_what_is_not_there(storage: Storage) -> None:
    """What is there stays as it is, what is not is there when the block has ended, however many threads ensure it."""
    storage.put("p/old", b"old")
    with storage.batch() as batch, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda path: batch.ensure(path, b"new"), ["p/old", "p/new", "q/new", "p/new", "q/new"]))
    assert {info.path: storage.get(info.path) for info in storage.list_files()} == {
        "p/new": b"new",
        "p/old": b"old",
        "q/new": b"new",
    }


def test_batch_that_fails_says_so(storage: Storage) -> None:
    """A put that cannot be is told at the latest when the block ends; an error within the block comes through."""
    with pytest.raises(InvalidError):
        _put_all(storage, ["a", "../outside"])
    with pytest.raises(KeyError):
        _put_all(storage, ["b"], KeyError("b"))
    _put_all(storage, ["c"])
    assert storage.get("c") == b"c"


def _put_all(storage: Storage, paths: list[str], error: Exception | None = None) -> None:
    with storage.batch() as puts:
        for path in paths:
            puts.put(path, path.encode())
        if error is not None:
            raise error
