"""Tables for the benchmarks, made by our own writer in process (writing is measured elsewhere).

``trips``: a version 9 merge-on-read table of ``rows`` rows and 10 columns in 8 partitions, zstd parquet base files with
meta columns; and two copies in which every fifth row has a newer version in a log block, parquet or Avro.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidelake as tl

PARTS = 8
SCHEMA = pa.schema(
    [
        ("uuid", pa.string()),
        ("part", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("rider", pa.string()),
        ("city", pa.string()),
        ("status", pa.string()),
        ("fare", pa.float64()),
        ("distance", pa.float64()),
        ("seats", pa.int32()),
        ("trip", pa.int64()),
    ]
)
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_DAY_US = 86_400_000_000
_EPOCH_US = 1_767_225_600_000_000


@dataclass(frozen=True)
class Trips:
    """Where the tables are."""

    base_only: Path
    with_logs: Path
    with_avro_logs: Path

    def base_files(self) -> list[str]:
        return sorted(str(path) for path in self.base_only.glob("part=*/*.parquet"))


def new_table(path: Path, index: str = "SIMPLE", spark: Any = None) -> tl.Table:
    """An empty table at a place where nothing is any more; with BUCKET, one bucket for each partition."""
    shutil.rmtree(path, ignore_errors=True)
    buckets = {"hoodie.bucket.index.num.buckets": "1"} if index == "BUCKET" else {}
    return tl.create_table(
        str(path),
        SCHEMA,
        name="trips",
        record_key="uuid",
        partition_by="part",
        ordering_fields="ts",
        event_time_field="ts",
        options={"hoodie.index.type": index, **buckets},
        spark=spark,
    )


def make_trips(root: Path, rows: int) -> Trips:
    """Write the three tables below ``root``."""
    rng = np.random.default_rng(7)
    trips = Trips(root / "base_only", root / "with_logs", root / "with_avro_logs")
    keys = _uuids(rng, rows)
    base = _rows(rng, keys, _texts(rng, rows, "p", PARTS), day=0)
    table = new_table(trips.base_only)
    table.bulk_insert(base)
    chosen = pa.array(np.sort(rng.permutation(rows)[: rows // 5]))
    updates = _rows(rng, keys.take(chosen), base["part"].take(chosen), day=1)
    for path, blocks in ((trips.with_logs, "parquet"), (trips.with_avro_logs, "avro")):
        shutil.copytree(trips.base_only, path)
        with (path / ".hoodie" / "hoodie.properties").open("a") as properties:
            properties.write(f"hoodie.logfile.data.block.format={blocks}\n")
        tl.open_table(str(path)).upsert(updates)
    return trips


def make_one_slice(path: Path, rows: int) -> None:
    """A table of one file group: ``rows`` rows, of which every fifth has a newer version in a parquet log."""
    rng = np.random.default_rng(7)
    keys = _uuids(rng, rows)
    table = tl.create_table(str(path), SCHEMA, name="trips", record_key="uuid", ordering_fields="ts")
    table.bulk_insert(_rows(rng, keys, _texts(rng, rows, "p", PARTS), day=0))
    chosen = pa.array(np.sort(rng.permutation(rows)[: rows // 5]))
    table.upsert(_rows(rng, keys.take(chosen), _texts(rng, len(chosen), "p", PARTS), day=1))


def _uuids(rng: np.random.Generator, count: int) -> pa.Array:
    letters = _HEX[rng.integers(0, 16, size=(count, 36), dtype=np.uint8)]
    letters[:, [8, 13, 18, 23]] = ord("-")
    offsets = pa.py_buffer((np.arange(count + 1, dtype=np.int32) * 36).tobytes())
    return pa.StringArray.from_buffers(count, offsets, pa.py_buffer(letters.tobytes()))


def _texts(rng: np.random.Generator, count: int, prefix: str, distinct: int) -> pa.Array:
    return pa.array([f"{prefix}{i:05d}" for i in range(distinct)]).take(pa.array(rng.integers(0, distinct, count)))


def _rows(rng: np.random.Generator, keys: pa.Array, parts: pa.Array | pa.ChunkedArray, day: int) -> pa.Table:
    count = len(keys)
    columns = {
        "uuid": keys,
        "part": parts,
        "ts": pa.array(rng.integers(0, _DAY_US, count) + _EPOCH_US + day * _DAY_US).cast(SCHEMA.field("ts").type),
        "rider": _texts(rng, count, "rider-", 50_000),
        "city": _texts(rng, count, "city-", 100),
        "status": _texts(rng, count, "s", 6),
        "fare": pa.array(np.round(rng.gamma(2.0, 9.0, count), 2)),
        "distance": pa.array(rng.gamma(2.0, 4.0, count)),
        "seats": pa.array(rng.integers(1, 6, count).astype(np.int32)),
        "trip": pa.array(rng.integers(0, 2**62, count)),
    }
    return pa.table(columns, schema=SCHEMA)


@dataclass(frozen=True)
class Batches:
    """What is written: parquet folders, and how many rows the first has."""

    folder: Path
    rows: int
    upserts: int

    def table(self, name: str) -> pa.Table:
        return pq.read_table(self.folder / name)

    @property
    def names(self) -> list[str]:
        return [f"upsert_{number}" for number in range(self.upserts)]


def make_batches(folder: Path, rows: int, upserts: int = 5, parts: int = 20, share: float = 0.05) -> Batches:
    """A bulk load and upserts, each of updates of a share of its rows, and a fifth as many inserts."""
    rng = np.random.default_rng(11)
    keys = _uuids(rng, rows)
    base = _rows(rng, keys, _texts(rng, rows, "p", parts), day=0)
    _save(base, folder / "base", 4)
    changed = int(rows * share)
    for number in range(upserts):
        chosen = pa.array(np.sort(rng.permutation(rows)[:changed]))
        updates = _rows(rng, keys.take(chosen), base["part"].take(chosen), day=number + 1)
        fresh = changed // 5
        inserts = _rows(rng, _uuids(rng, fresh), _texts(rng, fresh, "p", parts), day=number + 1)
        _save(pa.concat_tables([updates, inserts]), folder / f"upsert_{number}", 1)
    return Batches(folder, rows, upserts)


def rows_of(rng: np.random.Generator, rows: int, partition: str) -> pa.Table:
    """Rows of one partition."""
    return _rows(rng, _uuids(rng, rows), pa.array([partition] * rows), day=0)


def _save(table: pa.Table, folder: Path, files: int) -> None:
    folder.mkdir(parents=True)
    each = -(-table.num_rows // files)
    for number in range(files):
        pq.write_table(table.slice(number * each, each), folder / f"{number}.parquet", compression="zstd")
