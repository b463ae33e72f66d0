"""Tables for the benchmarks, made by a generator on our own codecs (no writer is measured here).

``trips``: a version 9 merge-on-read table of ``rows`` rows and 10 columns in 4 partitions of 2 file groups each, zstd
parquet base files with meta columns; and a copy of it in which every fifth row has a newer version in a log block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidelake.format.avro_arrow import avro_json, avro_record
from tidelake.format.avro_data import encode_avro_block
from tidelake.format.commit_metadata import CommitMetadata, WriteStat
from tidelake.format.log_block import BlockType, HeaderKey, LogBlock, encode_block
from tidelake.format.names import BaseFileName, LogFileName, State, TimelineName
from tidelake.format.properties import PartitionMetadata, encode_partition_metadata, encode_properties, table_checksum
from tidelake.schema import with_meta

PARTS = 4
GROUPS = 2
INSERTED, INSERTED_DONE = "20260101000000000", "20260101000001000"
UPDATED, UPDATED_DONE = "20260101000010000", "20260101000011000"
SYNC = b"tidelake-bench!!"
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


@dataclass(frozen=True)
class Trips:
    """Where the tables are, and the files of each."""

    base_only: Path
    with_logs: Path
    with_avro_logs: Path

    def base_files(self) -> list[str]:
        return sorted(str(path) for path in self.base_only.glob("part=*/*.parquet"))


def make_trips(root: Path, rows: int) -> Trips:
    """Write the three tables below ``root``."""
    rng = np.random.default_rng(7)
    trips = Trips(root / "base_only", root / "with_logs", root / "with_avro_logs")
    for path in (trips.base_only, trips.with_logs, trips.with_avro_logs):
        _start_table(path)
    each = rows // (PARTS * GROUPS)
    inserted: list[WriteStat] = []
    logged: dict[str, list[WriteStat]] = {"parquet": [], "avro": []}
    for part in range(PARTS):
        for group in range(GROUPS):
            folder = f"part=p{part}"
            file_id = f"0000000{part}-0000-4000-8000-00000000000{group}-0"
            batch = _rows(rng, each, f"p{part}", folder, file_id, INSERTED, 0)
            name = str(BaseFileName(file_id, "0-0-0", INSERTED))
            for path in (trips.base_only, trips.with_logs, trips.with_avro_logs):
                (path / folder).mkdir(exist_ok=True)
                meta = encode_partition_metadata(PartitionMetadata(INSERTED, 1))
                (path / folder / ".hoodie_partition_metadata").write_bytes(meta)
            target = trips.base_only / folder / name
            pq.write_table(batch, target, compression="zstd", row_group_size=125_000)
            for path in (trips.with_logs, trips.with_avro_logs):
                (path / folder / name).hardlink_to(target)
            inserted.append(_stat(folder, file_id, name, target.stat().st_size, each))
            updated = _updates(rng, batch, file_id)
            for kind, path in (("parquet", trips.with_logs), ("avro", trips.with_avro_logs)):
                log = str(LogFileName(file_id, UPDATED, 1, "0-0-0"))
                data = _log(updated, kind)
                (path / folder / log).write_bytes(data)
                logged[kind].append(_stat(folder, file_id, log, len(data), updated.num_rows))
    for path in (trips.base_only, trips.with_logs, trips.with_avro_logs):
        _commit(path, INSERTED, INSERTED_DONE, inserted, "INSERT")
    _commit(trips.with_logs, UPDATED, UPDATED_DONE, logged["parquet"], "UPSERT")
    _commit(trips.with_avro_logs, UPDATED, UPDATED_DONE, logged["avro"], "UPSERT")
    return trips


def _start_table(path: Path) -> None:
    (path / ".hoodie" / "timeline" / "history").mkdir(parents=True)
    properties = {
        "hoodie.table.name": "trips",
        "hoodie.database.name": "default",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "9",
        "hoodie.table.initial.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.archivelog.folder": "history",
        "hoodie.table.format": "native",
        "hoodie.table.recordkey.fields": "uuid",
        "hoodie.table.partition.fields": "part",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.table.keygenerator.type": "SIMPLE",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.table.create.schema": avro_json(SCHEMA, "trips"),
    }
    properties["hoodie.table.checksum"] = str(table_checksum(properties))
    (path / ".hoodie" / "hoodie.properties").write_bytes(encode_properties(properties))


def _uuids(rng: np.random.Generator, count: int) -> pa.Array:
    letters = _HEX[rng.integers(0, 16, size=(count, 36), dtype=np.uint8)]
    letters[:, [8, 13, 18, 23]] = ord("-")
    offsets = pa.py_buffer((np.arange(count + 1, dtype=np.int32) * 36).tobytes())
    return pa.StringArray.from_buffers(count, offsets, pa.py_buffer(letters.tobytes()))


def _texts(rng: np.random.Generator, count: int, prefix: str, distinct: int) -> pa.Array:
    return pa.array([f"{prefix}{i:05d}" for i in range(distinct)]).take(pa.array(rng.integers(0, distinct, count)))


def _rows(
    rng: np.random.Generator, count: int, part: str, folder: str, file_id: str, instant: str, newer: int
) -> pa.Table:
    keys = _uuids(rng, count)
    seconds = rng.integers(0, 86_400_000_000, count) + 1_767_225_600_000_000 + newer * 86_400_000_000
    columns = {
        "_hoodie_commit_time": pa.repeat(instant, count),
        "_hoodie_commit_seqno": pa.array([f"{instant}_0_{i}" for i in range(count)]),
        "_hoodie_record_key": keys,
        "_hoodie_partition_path": pa.repeat(folder, count),
        "_hoodie_file_name": pa.repeat(file_id, count),
        "uuid": keys,
        "part": pa.repeat(part, count),
        "ts": pa.array(seconds).cast(SCHEMA.field("ts").type),
        "rider": _texts(rng, count, "rider-", 50_000),
        "city": _texts(rng, count, "city-", 100),
        "status": _texts(rng, count, "s", 6),
        "fare": pa.array(np.round(rng.gamma(2.0, 9.0, count), 2)),
        "distance": pa.array(rng.gamma(2.0, 4.0, count)),
        "seats": pa.array(rng.integers(1, 6, count).astype(np.int32)),
        "trip": pa.array(rng.integers(0, 2**62, count)),
    }
    return pa.table(columns, schema=with_meta(SCHEMA))


def _updates(rng: np.random.Generator, base: pa.Table, file_id: str) -> pa.Table:
    chosen = pa.array(np.sort(rng.permutation(base.num_rows)[: base.num_rows // 5]))
    old = base.take(chosen)
    part, folder = old["part"][0].as_py(), old["_hoodie_partition_path"][0].as_py()
    fresh = _rows(rng, old.num_rows, part, folder, file_id, UPDATED, 1)
    for name in ("_hoodie_record_key", "uuid"):
        fresh = fresh.set_column(fresh.schema.get_field_index(name), name, old[name])
    return fresh.combine_chunks()


def _log(rows: pa.Table, kind: str) -> bytes:
    record = avro_record(SCHEMA, "trips", meta_columns=True)
    schema = avro_json(SCHEMA, "trips", meta_columns=True)
    headers = {HeaderKey.INSTANT_TIME: UPDATED, HeaderKey.SCHEMA: schema}
    if kind == "avro":
        content: bytes = encode_avro_block(rows.to_batches()[0], record)
        return encode_block(LogBlock(BlockType.AVRO_DATA, headers, content))
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    return encode_block(LogBlock(BlockType.PARQUET_DATA, headers, sink.getvalue().to_pybytes()))


def _stat(folder: str, file_id: str, name: str, size: int, rows: int) -> WriteStat:
    stat = WriteStat(
        file_id=file_id,
        path=f"{folder}/{name}",
        prev_commit="null",
        num_writes=rows,
        num_deletes=0,
        num_update_writes=0,
        total_write_bytes=size,
        total_write_errors=0,
        partition_path=folder,
        total_log_records=0,
        total_updated_records_compacted=0,
        num_inserts=rows,
        total_log_blocks=0,
        total_corrupt_log_block=0,
        total_rollback_blocks=0,
        file_size_in_bytes=size,
        num_updates=0,
    )
    if name.startswith("."):
        return replace(stat, log_version=1, log_offset=0, base_file="", log_files=(name,), num_update_writes=rows)
    return stat


def _commit(path: Path, requested: str, completed: str, stats: list[WriteStat], operation: str) -> None:
    by_partition: dict[str, tuple[WriteStat, ...]] = {}
    for stat in stats:
        by_partition[stat.partition_path or ""] = (*by_partition.get(stat.partition_path or "", ()), stat)
    metadata = CommitMetadata(by_partition, False, {"schema": avro_json(SCHEMA, "trips")}, 1, operation)
    timeline = path / ".hoodie" / "timeline"
    (timeline / str(TimelineName(requested, "deltacommit", State.REQUESTED))).write_bytes(b"")
    (timeline / str(TimelineName(requested, "deltacommit", State.INFLIGHT))).write_bytes(b"")
    name = TimelineName(requested, "deltacommit", State.COMPLETED, completed)
    (timeline / str(name)).write_bytes(metadata.encode(SYNC))
