"""Damaged data files: a read gives the right rows, or a typed error that names the file; never other rows.

Log files of golden tables are cut at every byte, and every bit of what frames their blocks (all but the content) is
flipped. ``make test`` takes a sample with a printed seed (TIDELAKE_SEED replays one), TIDELAKE_DEEP takes them all.
Tables are read from memory, through the public interface.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from golden.encoding import encode_rows, row_text

import tidelake as tl
from tidelake.errors import CorruptError, MissingFileError, TidelakeError
from tidelake.format.log_block import encode_block, read_blocks
from tidelake.storage import MemoryStorage

Golden = Callable[[str], Path]

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
        storage = load(golden(name))
        logs = {info.path: storage.get(info.path) for info in storage.list_files() if is_log(info.path)}
        assert logs, f"{name} has no log files"
        return LoadedTable(name, storage, scan(storage), logs)

    return load_table


def scan(storage: MemoryStorage) -> pa.Table:
    return tl.open_table(storage.uri, storage=storage).scan().to_arrow()


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
    try:
        with no_hang(label):
            rows = scan(table.storage)
    except TidelakeError as error:
        assert path in str(error), f"{label}: {type(error).__name__} does not name the file: {error}"
        return type(error).__name__
    finally:
        table.storage.put(path, original)
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
    assert seen["CorruptError"] > 0
    assert seen["right"] > 0
