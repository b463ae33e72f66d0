"""Damaged data files: a read gives the right rows, or a typed error that names the file; never other rows.

Log files of golden tables are cut at every byte, and every bit of what frames their blocks (all but the content) is
flipped. ``make test`` takes a sample with a printed seed (TIDELAKE_SEED replays one), TIDELAKE_DEEP takes them all, of
one log file of each shape in each table. Tables are read from memory, through the public interface.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

import tidelake as tl
from golden.encoding import encode_rows, row_text
from tidelake.errors import CorruptError, MissingFileError, TidelakeError
from tidelake.format.log_block import HeaderKey, LogBlock, encode_block, read_blocks
from tidelake.format.names import parse_log_name
from tidelake.storage import MemoryStorage

Golden = Callable[[str], Path]
KINDS = {"CorruptError", "LimitError", "UnsupportedError", "MissingFileError"}

TABLES = (
    "mor_v9_event_avro",
    "mor_v8_event_parquet",
    "mor_v9_order_two_avro",
    "mor_v9_mergeinto_event_avro",
    "mor_v9_mergeinto_commit_parquet",
    "mor_v9_log_compaction",
    "mor_v9_bucket",
    "mor_v9_one_log_many_blocks",
    "mor_v9_types_threelevel",
    "mor_v9_parquet_types_twolevel",
    "mor_v9_widened_avro",
)
"""Avro, parquet and delete blocks; whole, partial and log-compacted ones; every type; the bucket index."""

SAMPLE = 500
IS_DEEP = bool(os.environ.get("TIDELAKE_DEEP"))
SEED = int(os.environ.get("TIDELAKE_SEED", "20260731"))
HANG_S = 20


class LoadedTable(NamedTuple):
    """A table in memory, its rows, and its log files."""

    name: str
    storage: MemoryStorage
    opened: tl.Table
    rows: pa.Table
    logs: dict[str, bytes]


def load(path: Path) -> MemoryStorage:
    storage = MemoryStorage()
    for file in sorted(path.rglob("*")):
        if file.is_file():
            storage.put(file.relative_to(path).as_posix(), file.read_bytes())
    return storage


def is_log(path: str) -> bool:
    return ".log." in path and ".hoodie/" not in path and not path.endswith((".cdc", ".crc"))


@pytest.fixture(scope="session")
def loaded(golden: Golden) -> Callable[[str], LoadedTable]:
    """Golden tables in memory. Whoever changes a file puts it back."""

    @cache
    def load_table(name: str) -> LoadedTable:
        return loaded_table(name, load(golden(name)))

    return load_table


def loaded_table(name: str, storage: MemoryStorage) -> LoadedTable:
    opened = tl.open_table(storage.uri, storage=storage)
    logs: dict[object, str] = {}
    for info in storage.list_files():
        if is_log(info.path):
            logs.setdefault(shape_of(storage.get(info.path)), info.path)
    assert logs, f"{name} has no log files"
    return LoadedTable(name, storage, opened, opened.scan().to_arrow(), {p: storage.get(p) for p in logs.values()})


def shape_of(data: bytes) -> object:
    """Two log files with the same types of blocks, headers and schemas break in the same ways."""
    return tuple((b.type, tuple(b.headers), b.headers.get(HeaderKey.SCHEMA)) for b in read_blocks(data))


def scan(storage: MemoryStorage) -> pa.Table:
    return tl.open_table(storage.uri, storage=storage).scan().to_arrow()


def fails(storage: MemoryStorage, kind: type[TidelakeError], path: str) -> TidelakeError:
    """Reading the table gives an error of that kind which names the file."""
    with pytest.raises(kind) as raised:
        scan(storage)
    assert path in str(raised.value)
    return raised.value


def texts(rows: pa.Table) -> list[str]:
    return sorted(row_text(row) for row in encode_rows(rows.to_pylist()))


def are_equal(left: pa.Table, right: pa.Table) -> bool:
    return left.schema == right.schema and (left.equals(right) or texts(left) == texts(right))


@contextmanager
def no_hang(label: str) -> Iterator[None]:
    """Turns a read that does not end into a failure."""

    def stop(*_: object) -> None:
        raise AssertionError(f"no answer within {HANG_S} s: {label}")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(HANG_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(table: LoadedTable, path: str, damaged: bytes, label: str) -> str:
    """What reading gives with one file damaged: ``right``, or the name of the error's kind. Anything else fails."""
    original = table.storage.get(path)
    table.storage.put(path, damaged)
    failure: TidelakeError | None = None
    try:
        with no_hang(label):
            rows = table.opened.scan().to_arrow()
    except TidelakeError as error:
        failure = error
    finally:
        table.storage.put(path, original)
    if failure is not None:
        assert path in str(failure), f"{label}: {type(failure).__name__} does not name the file: {failure}"
        return type(failure).__name__
    assert are_equal(rows, table.rows), f"{label}: other rows were read, and no error was raised"
    return "right"


def framing(data: bytes) -> list[range]:
    """The byte ranges of a log file that are not the content of a block."""
    found, start = [], 0
    for block in read_blocks(data):
        size = len(encode_block(block))
        content_end = start + size - 8 - 4
        found.append(range(start, content_end - len(block.content)))
        found.append(range(content_end, start + size))
        start += size
    return found


def chosen(cases: list[tuple[str, str, int]], what: str) -> list[tuple[str, str, int]]:
    """All cases, or a sample of them that one seed fixes."""
    taken = cases if IS_DEEP else random.Random(f"{what} {SEED}").sample(cases, min(SAMPLE, len(cases)))
    print(f"{what}: {len(taken)} of {len(cases)} cases, TIDELAKE_SEED={SEED}")
    return taken


def test_log_file_cut_at_any_byte_gives_a_typed_error(loaded: Callable[[str], LoadedTable]) -> None:
    """A log file shorter than its commit wrote, cut anywhere, is a CorruptError with its name; never fewer rows."""
    cases = [(name, path, at) for name in TABLES for path, data in loaded(name).logs.items() for at in range(len(data))]
    seen: Counter[str] = Counter()
    for name, path, at in chosen(cases, "truncations"):
        table = loaded(name)
        seen[outcome(table, path, table.logs[path][:at], f"{name}/{path} cut at {at}")] += 1
    print(dict(seen))
    assert seen["CorruptError"] == seen.total()


def test_log_file_with_any_framing_bit_flipped_gives_right_rows_or_a_typed_error(
    loaded: Callable[[str], LoadedTable],
) -> None:
    """A flipped bit in magic, sizes, types, headers or pointers gives the right rows or a typed error."""
    cases = [
        (name, path, at * 8 + bit)
        for name in TABLES
        for path, data in loaded(name).logs.items()
        for region in framing(data)
        for at in region
        for bit in range(8)
    ]
    seen: Counter[str] = Counter()
    for name, path, place in chosen(cases, "flips"):
        table = loaded(name)
        at, bit = divmod(place, 8)
        damaged = bytearray(table.logs[path])
        damaged[at] ^= 1 << bit
        seen[outcome(table, path, bytes(damaged), f"{name}/{path} byte {at} bit {bit}")] += 1
    print(dict(seen))
    assert seen.keys() <= {"right", *KINDS}
    assert seen["CorruptError"] > 0
    assert seen["right"] > 0


def with_block(data: bytes, number: int, change: Callable[[LogBlock], LogBlock]) -> bytes:
    """The log file with one block replaced, all lengths right."""
    blocks = list(read_blocks(data))
    blocks[number] = change(blocks[number])
    return b"".join(encode_block(block) for block in blocks)


def with_header(block: LogBlock, key: HeaderKey, change: Callable[[str], str]) -> LogBlock:
    return replace(block, headers={**block.headers, key: change(block.headers[key])})


def read_with(table: LoadedTable, path: str, damaged: bytes) -> TidelakeError:
    """The error that reading gives with one file damaged."""
    original = table.storage.get(path)
    table.storage.put(path, damaged)
    try:
        return fails(table.storage, TidelakeError, path)
    finally:
        table.storage.put(path, original)


def test_log_block_with_a_nested_column_renamed_is_corrupt(loaded: Callable[[str], LoadedTable]) -> None:
    """A damaged name inside a struct is noticed, where it once made the field null in every row of the block."""
    table = loaded("mor_v9_types_threelevel")
    path, data = next(iter(table.logs.items()))

    def rename(text: str) -> str:
        assert '"name":"label"' in text
        return text.replace('"name":"label"', '"name":"lcbel"')

    damaged = with_block(data, 0, lambda block: with_header(block, HeaderKey.SCHEMA, rename))
    assert "lcbel" in str(read_with(table, path, damaged))


def test_log_block_with_another_decimal_scale_is_corrupt(loaded: Callable[[str], LoadedTable]) -> None:
    """A damaged scale is noticed as damage of the file, not as a wrong call, and not as other numbers."""
    table = loaded("mor_v9_types_threelevel")
    path, data = next(iter(table.logs.items()))
    damaged = with_block(
        data, 0, lambda block: with_header(block, HeaderKey.SCHEMA, lambda text: text.replace('"scale":6', '"scale":7'))
    )
    assert damaged != data
    assert type(read_with(table, path, damaged)) is CorruptError


def test_log_block_of_another_instant_than_its_file_is_corrupt(loaded: Callable[[str], LoadedTable]) -> None:
    """A block whose INSTANT_TIME is not that of its file's name is noticed, with the instant that it says."""
    table = loaded("mor_v9_event_avro")
    path, data = next(iter(table.logs.items()))
    other = "20010101000000000"
    damaged = with_block(data, 0, lambda block: with_header(block, HeaderKey.INSTANT_TIME, lambda _: other))
    assert other in str(read_with(table, path, damaged))


def log_compacted(table: LoadedTable) -> tuple[str, bytes]:
    found = [(p, d) for p, d in table.logs.items() if any(b.compacted_instants for b in read_blocks(d))]
    return found[0]


def test_log_compacted_block_that_names_an_unknown_instant_is_corrupt(loaded: Callable[[str], LoadedTable]) -> None:
    """A damaged digit in COMPACTED_BLOCK_TIMES, which would replay the block it stood for, is noticed."""
    table = loaded("mor_v9_log_compaction")
    path, data = log_compacted(table)

    def change(text: str) -> str:
        return text[:-1] + ("0" if text[-1] != "0" else "2")

    damaged = with_block(data, 0, lambda block: with_header(block, HeaderKey.COMPACTED_BLOCK_TIMES, change))
    assert "stands for the instant" in str(read_with(table, path, damaged))


def test_log_compacted_block_without_its_instants_is_corrupt(loaded: Callable[[str], LoadedTable]) -> None:
    """A log-compacted block whose header key was damaged does not pass for a later write."""
    table = loaded("mor_v9_log_compaction")
    path, data = log_compacted(table)

    def forget(block: LogBlock) -> LogBlock:
        other = {HeaderKey.COMPACTED_BLOCK_TIMES: HeaderKey.BLOCK_IDENTIFIER}
        return replace(block, headers={other.get(key, key): text for key, text in block.headers.items()})

    assert "log compaction" in str(read_with(table, path, with_block(data, 0, forget)))


def test_log_block_with_damaged_compacted_times_names_its_file(loaded: Callable[[str], LoadedTable]) -> None:
    """COMPACTED_BLOCK_TIMES that are no times are an error that names the file."""
    table = loaded("mor_v9_log_compaction")
    path, data = log_compacted(table)
    times = HeaderKey.COMPACTED_BLOCK_TIMES
    damaged = with_block(data, 0, lambda block: with_header(block, times, lambda text: text[:-1] + "!"))
    assert "COMPACTED_BLOCK_TIMES" in str(read_with(table, path, damaged))


def test_log_file_with_a_garbage_tail_reads_right(loaded: Callable[[str], LoadedTable]) -> None:
    """What follows the bytes that a commit wrote was written by nobody, and is not read."""
    for name in TABLES:
        table = loaded(name)
        for path, data in table.logs.items():
            for tail in (b"\0" * 7, b"#HUDI#" + b"\xff" * 40, data):
                assert outcome(table, path, data + tail, f"{name}/{path} with a tail") == "right"


def test_log_file_cut_at_a_block_boundary_is_corrupt(loaded: Callable[[str], LoadedTable]) -> None:
    """A log file that lost whole blocks is shorter than its commit says: CorruptError, never fewer rows."""
    table = loaded("mor_v9_one_log_many_blocks")
    path, data = max(table.logs.items(), key=lambda item: len(item[1]))
    first = len(encode_block(next(iter(read_blocks(data)))))
    assert 0 < first < len(data)
    assert "bytes, the commit wrote" in str(read_with(table, path, data[:first]))


def test_log_file_of_no_bytes_is_corrupt(loaded: Callable[[str], LoadedTable]) -> None:
    """An emptied log file of a completed write is CorruptError, never fewer rows."""
    table = loaded("mor_v9_event_avro")
    for path in table.logs:
        assert type(read_with(table, path, b"")) is CorruptError


def test_log_file_that_is_missing_is_a_missing_file(golden: Golden) -> None:
    """A log file that a completed write made, and that is gone, is MissingFileError with its name and instant."""
    storage = load(golden("mor_v9_event_avro"))
    path = next(info.path for info in storage.list_files() if is_log(info.path))
    storage.delete(path)
    error = fails(storage, MissingFileError, path)
    assert error.instant
    assert error.instant in path
    assert not error.retryable


def latest_base(storage: MemoryStorage) -> str:
    slices = tl.open_table(storage.uri, storage=storage).files()
    return next(s.base.path for s in slices if s.base is not None)


def test_base_file_that_is_missing_is_a_missing_file(golden: Golden) -> None:
    """A base file that a completed write made, and that is gone, is MissingFileError; so is a whole lost partition."""
    for name in ("cow_v9_event", "mor_v9_event_avro", "cow_v9_hive"):
        storage = load(golden(name))
        path = latest_base(storage)
        storage.delete(path)
        fails(storage, MissingFileError, path)
    storage = load(golden("cow_v9_hive"))
    folder = latest_base(storage).rpartition("/")[0]
    for info in list(storage.list_files(folder)):
        storage.delete(info.path)
    fails(storage, MissingFileError, folder)


def test_torn_block_of_an_uncommitted_write_is_not_read(golden: Golden) -> None:
    """What a crashed writer left, torn, emptied or whole, is no error and gives no rows."""
    storage = load(golden("mor_v9_event_avro"))
    rows = scan(storage)
    path = next(info.path for info in storage.list_files() if is_log(info.path))
    data, name = storage.get(path), parse_log_name(path.rpartition("/")[2])
    assert name is not None
    for number, torn in enumerate((b"", data[:3], data[: len(data) // 2], data)):
        instant = f"2099010100000000{number}"
        storage.put(f".hoodie/timeline/{instant}.deltacommit.requested", b"")
        storage.put(f".hoodie/timeline/{instant}.deltacommit.inflight", b"")
        storage.put(str(replace(name, instant=instant)), torn)
    assert are_equal(scan(storage), rows)


def test_base_file_cut_at_any_byte_gives_a_typed_error(golden: Golden) -> None:
    """A base file cut anywhere gives a typed error that names it."""
    storage = load(golden("cow_v9_types_twolevel"))
    path = latest_base(storage)
    data = storage.get(path)
    table = LoadedTable("base", storage, tl.open_table(storage.uri, storage=storage), scan(storage), {})
    cases = [("cow_v9_types_twolevel", path, at) for at in range(len(data))]
    seen = Counter(outcome(table, path, data[:at], f"base file cut at {at}") for _, _, at in chosen(cases, "base cuts"))
    print(dict(seen))
    assert seen["CorruptError"] == seen.total()


def test_base_file_with_a_damaged_footer_gives_a_typed_error(golden: Golden) -> None:
    """A base file whose magic, footer length or column names are damaged gives a typed error that names it."""
    storage = load(golden("cow_v9_types_twolevel"))
    path = latest_base(storage)
    data = storage.get(path)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    places = [at * 8 + bit for at in range(len(data) - 8, len(data)) for bit in range(8)]
    for name in (b"_hoodie_record_key", b"_hoodie_commit_time", b"flag", b"deep", b"label"):
        at = data.index(bytes([0x18, len(name)]) + name, start) + 2
        places += [(at + offset) * 8 + bit for offset in range(len(name)) for bit in range(8)]
    table = LoadedTable("base", storage, tl.open_table(storage.uri, storage=storage), scan(storage), {})
    seen: Counter[str] = Counter()
    for place in places:
        at, bit = divmod(place, 8)
        damaged = bytearray(data)
        damaged[at] ^= 1 << bit
        seen[outcome(table, path, bytes(damaged), f"base file, byte {at} bit {bit}")] += 1
    print(dict(seen))
    assert seen["CorruptError"] == seen.total() == len(places)
