"""Objects as files for pyarrow: the same tables from every storage, in few requests, with our errors."""

from __future__ import annotations

import io
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelake.errors import InvalidError, NotFoundError, TidelakeError, UnavailableError
from tidelake.storage import Fault, FaultyStorage, MemoryStorage, SimulatedCrash, Storage, open_input
from tidelake.storage.arrow_file import READ_AHEAD_BYTES, TAIL_BYTES, RangeReader


def _table(rows: int) -> pa.Table:
    return pa.table({"a": range(rows), "b": [f"value {number * 7919 % rows}" for number in range(rows)]})


def _parquet(table: pa.Table, row_group_size: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=row_group_size)
    return sink.getvalue()


@pytest.mark.parametrize("pre_buffer", [True, False])
def test_parquet_from_every_storage_is_equal(storage: Storage, pre_buffer: bool) -> None:
    """Read whole and by column, with threads and read-ahead of pyarrow's own, the table is the one written."""
    table = _table(100_000)
    storage.put("p=1/f%20.parquet", _parquet(table, 10_000))
    with open_input(storage, "p=1/f%20.parquet") as file:
        assert pq.ParquetFile(file, pre_buffer=pre_buffer).read(use_threads=True).equals(table)
    with open_input(storage, "p=1/f%20.parquet") as file:
        assert pq.ParquetFile(file, pre_buffer=pre_buffer).read_row_group(3, columns=["b"]).num_rows == 10_000


def test_open_absent_raises_not_found(storage: Storage) -> None:
    """An absent object, a folder and a hostile path fail at opening, as our errors."""
    storage.put("d/x", b"")
    for path in ("absent", "d/y"):
        with pytest.raises(NotFoundError):
            open_input(storage, path)
    with pytest.raises(InvalidError):
        open_input(storage, "../x")


def test_small_file_is_one_request() -> None:
    """A file within the tail is fetched once, and not even asked for its size if that is known."""
    data = _parquet(_table(100), 100)
    storage = FaultyStorage(MemoryStorage())
    storage.inner.put("f", data)
    pq.ParquetFile(open_input(storage, "f")).read()
    assert [each.verb for each in storage.journal] == ["head", "get_range"]
    storage.reset()
    pq.ParquetFile(open_input(storage, "f", size_bytes=len(data))).read()
    assert [each.verb for each in storage.journal] == ["get"]


def test_footer_of_a_large_file_is_one_request() -> None:
    """Metadata alone costs one range at the end."""
    storage = FaultyStorage(MemoryStorage())
    storage.inner.put("f", _parquet(_table(200_000), 50_000))
    assert pq.ParquetFile(open_input(storage, "f")).metadata.num_rows == 200_000
    assert storage.count("get_range") == 1


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("pre_buffer", [True, False])
def test_faults_pass_through_pyarrow(at: int, pre_buffer: bool) -> None:
    """A failing or crashing request within pyarrow's threads comes out as the error that it was."""
    inner = MemoryStorage()
    inner.put("f", _parquet(_table(100_000), 10_000))
    failing = FaultyStorage(inner, [Fault(at, "http_503")])
    with pytest.raises(UnavailableError, match="injected"):
        pq.ParquetFile(open_input(failing, "f"), pre_buffer=pre_buffer).read()
    dying = FaultyStorage(inner, [Fault(at, "crash_before")])
    with pytest.raises(SimulatedCrash):
        pq.ParquetFile(open_input(dying, "f"), pre_buffer=pre_buffer).read()


def test_file_that_vanishes_or_shrinks_is_a_typed_error() -> None:
    """An object deleted or cut short between requests is an error, never fewer rows."""
    storage = MemoryStorage()
    data = os.urandom(3 * TAIL_BYTES)
    storage.put("f", data)
    file = open_input(storage, "f")
    storage.put("f", data[: 2 * TAIL_BYTES])
    with pytest.raises(TidelakeError, match="replaced or cut short"):
        file.read()
    storage.delete("f")
    file.seek(0)
    with pytest.raises(NotFoundError):
        file.read(1)


def test_reads_at_any_place_are_those_of_the_bytes() -> None:
    """Whatever is cached, a read anywhere of any length gives what the bytes hold there."""
    data = bytes(range(251)) * ((READ_AHEAD_BYTES * 3 + TAIL_BYTES) // 251)
    storage = MemoryStorage()
    storage.put("f", data)
    reader = RangeReader(storage, "f")
    edge = len(data) - TAIL_BYTES
    places = [0, 1, READ_AHEAD_BYTES - 1, READ_AHEAD_BYTES, edge - 1, edge, edge + 1, len(data) - 1, len(data), 5]
    for start in places:
        for length in (0, 1, 10, TAIL_BYTES, READ_AHEAD_BYTES, READ_AHEAD_BYTES + 1, len(data) * 2):
            assert reader.seek(start) == start
            assert reader.read(length) == data[start : start + length]
            assert reader.tell() == min(start + length, len(data)) if start < len(data) else start
    assert reader.seek(-3, os.SEEK_END) == len(data) - 3
    assert reader.read() == data[-3:]
    with pytest.raises(InvalidError):
        reader.seek(-1)


def test_sequential_small_reads_are_few_requests() -> None:
    """Reading on in small steps costs a request per read-ahead, not per step."""
    storage = FaultyStorage(MemoryStorage())
    storage.inner.put("f", b"x" * (4 * READ_AHEAD_BYTES))
    file = open_input(storage, "f")
    while file.read(1000):
        pass
    assert storage.count("get_range") <= 7
