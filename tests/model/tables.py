"""Little tables written file by file with our codecs: properties, timeline, base files, logs, history.

For tests that need a table in a state that no well-behaved writer leaves behind, or ten thousand partitions of nothing.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidelake.format.avro_arrow import avro_json, avro_record
from tidelake.format.avro_data import encode_avro_block
from tidelake.format.avro_record import AvroRecord
from tidelake.format.avro_schema import to_json
from tidelake.format.commit_metadata import WRITER_KEY, CommitMetadata, ReplaceCommitMetadata, WriteStat
from tidelake.format.delete_block import DELETE_TYPE, encode_deletes
from tidelake.format.history import HistoryFile, encode_manifest
from tidelake.format.log_block import BlockType, HeaderKey, LogBlock, encode_block
from tidelake.format.names import (
    PARTITION_META_FILE,
    PROPERTIES_FILE,
    TIMELINE_DIR,
    BaseFileName,
    LogFileName,
    State,
    TimelineName,
    parse_base_name,
)
from tidelake.format.properties import PartitionMetadata, encode_partition_metadata, encode_properties, table_checksum
from tidelake.schema import META_COLUMN_NAMES, with_meta
from tidelake.storage import Storage

SYNC = bytes(16)
HISTORY_DIR = f"{TIMELINE_DIR}/history"
HISTORY_SCHEMA = pa.schema(
    [
        ("instantTime", pa.string()),
        ("completionTime", pa.string()),
        ("action", pa.string()),
        ("metadata", pa.binary()),
        ("plan", pa.binary()),
        ("version", pa.int32()),
    ]
)


def table_properties(**changed: str | None) -> dict[str, str]:
    """Properties of a merge-on-read table of version 9; dots in keys are written as double underscores."""
    properties: dict[str, str | None] = {
        "hoodie.table.name": "t",
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
    }
    properties.update({key.replace("__", "."): value for key, value in changed.items()})
    kept = {key: value for key, value in properties.items() if value is not None}
    return {**kept, "hoodie.table.checksum": str(table_checksum(kept))}


def time_of(tick: int) -> str:
    """An instant time; ticks are seconds."""
    return f"20260101{tick // 3600:02d}{tick // 60 % 60:02d}{tick % 60:02d}000"


class TableWriter:
    """Puts files of a table where they belong. It checks nothing: what it writes may be nonsense."""

    def __init__(self, storage: Storage, schema: pa.Schema, properties: Mapping[str, str]) -> None:
        self.storage = storage
        self.schema = schema
        self.is_marked = False
        """Whether commits carry our mark: their statistics are exact."""
        self.stored = with_meta(schema)
        storage.put(PROPERTIES_FILE, encode_properties(properties))

    def partition(self, path: str, instant: str = "20260101000000000") -> None:
        """The metafile that makes a folder a partition."""
        depth = path.count("/") + 1 if path else 0
        self.storage.put(_join(path, PARTITION_META_FILE), encode_partition_metadata(PartitionMetadata(instant, depth)))

    def base(
        self, partition: str, file_id: str, instant: str, rows: Sequence[Mapping[str, Any]], row_group: int = 1000
    ) -> WriteStat:
        """A base file."""
        self.partition(partition, instant)
        return self._stat(
            partition, file_id, str(BaseFileName(file_id, "1-0-1", instant)), self.parquet(rows, row_group)
        )

    def parquet(self, rows: Sequence[Mapping[str, Any]], row_group: int = 1000) -> bytes:
        sink = io.BytesIO()
        table = pa.Table.from_pylist([dict(row) for row in rows], schema=self.stored)
        pq.write_table(table, sink, row_group_size=row_group)
        return sink.getvalue()

    def log(
        self,
        partition: str,
        file_id: str,
        instant: str,
        rows: Sequence[Mapping[str, Any]] = (),
        deletes: Sequence[tuple[str, dict[str, Any] | None]] = (),
    ) -> WriteStat:
        """A log file: a data block, then a delete block."""
        self.partition(partition, instant)
        blocks = []
        if rows:
            record = avro_record(self.schema, "t", meta_columns=True)
            batch = pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=self.stored)
            headers = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: to_json(record)}
            blocks.append(encode_block(LogBlock(BlockType.AVRO_DATA, headers, encode_avro_block(batch, record))))
        if deletes or not rows:
            entries = [{"key": key, "partition": partition, "ordering": ordering} for key, ordering in deletes]
            content = encode_deletes(pa.array(entries, DELETE_TYPE))
            blocks.append(encode_block(LogBlock(BlockType.DELETE, {HeaderKey.INSTANT_TIME: instant}, content)))
        return self._stat(partition, file_id, str(LogFileName(file_id, instant, 1, "1-0-1")), b"".join(blocks))

    def row(self, instant: str, key: str, partition: str, **values: object) -> dict[str, Any]:
        """A row with its meta columns."""
        meta = (instant, f"{instant}_0_1", key, partition, "f")
        return {**dict(zip(META_COLUMN_NAMES, meta, strict=True)), **values}

    def pending(self, instant: str, action: str, state: State = State.INFLIGHT, plan: AvroRecord | None = None) -> None:
        """The requested file, and the inflight one if it came so far."""
        content = b"" if plan is None else plan.encode(SYNC)
        self.storage.put(f"{TIMELINE_DIR}/{TimelineName(instant, action, State.REQUESTED)}", content)
        if state is State.INFLIGHT:
            self.storage.put(f"{TIMELINE_DIR}/{TimelineName(instant, action, State.INFLIGHT)}", b"")

    def complete(
        self,
        instant: str,
        completion: str,
        stats: Iterable[WriteStat] = (),
        action: str = "deltacommit",
        operation: str = "UPSERT",
        replaces: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """The completed file."""
        mark = {WRITER_KEY: instant} if self.is_marked else {}
        data = self.commit(stats, operation, replaces, mark).encode(SYNC)
        self.storage.put(f"{TIMELINE_DIR}/{TimelineName(instant, action, State.COMPLETED, completion)}", data)

    def commit(
        self,
        stats: Iterable[WriteStat],
        operation: str = "UPSERT",
        replaces: Mapping[str, Sequence[str]] | None = None,
        mark: Mapping[str, str] | None = None,
    ) -> CommitMetadata | ReplaceCommitMetadata:
        by_partition: dict[str, tuple[WriteStat, ...]] = {}
        for stat in stats:
            by_partition[stat.partition_path or ""] = (*by_partition.get(stat.partition_path or "", ()), stat)
        extra = {"schema": avro_json(self.schema, "t"), **(mark or {})}
        if replaces is None:
            return CommitMetadata(by_partition, False, extra, operation_type=operation)
        replaced = {partition: tuple(ids) for partition, ids in replaces.items()}
        return ReplaceCommitMetadata(
            by_partition, False, extra, operation_type=operation, partition_to_replace_file_ids=replaced
        )

    def archive(self, instants: Sequence[tuple[str, str, str]]) -> None:
        """Write instants (requested, completion, action) to the history, with what they did if their files are there.

        Their active files must be deleted besides.
        """
        rows = [
            {
                "instantTime": requested,
                "completionTime": completion,
                "action": action,
                "metadata": self._completed(requested, completion, action),
                "version": 1,
            }
            for requested, completion, action in instants
        ]
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, HISTORY_SCHEMA), sink)
        name = f"{instants[0][0]}_{instants[-1][0]}_0.parquet"
        self.storage.put(f"{HISTORY_DIR}/{name}", sink.getvalue())
        manifest = encode_manifest((HistoryFile(name, len(sink.getvalue())),))
        self.storage.put(f"{HISTORY_DIR}/manifest_1", manifest)
        self.storage.put(f"{HISTORY_DIR}/_version_", b"1")

    def forget(self, instant: str) -> None:
        """Delete the active timeline's files of an instant."""
        for info in list(self.storage.list_files(TIMELINE_DIR)):
            if info.path.rpartition("/")[2].startswith(instant) and not info.path.startswith(HISTORY_DIR):
                self.storage.delete(info.path)

    def _completed(self, requested: str, completion: str, action: str) -> bytes | None:
        path = f"{TIMELINE_DIR}/{requested}_{completion}.{action}"
        return self.storage.get(path) if self.storage.exists(path) else None

    def _stat(self, partition: str, file_id: str, name: str, data: bytes) -> WriteStat:
        path = _join(partition, name)
        self.storage.put(path, data)
        is_base = parse_base_name(name) is not None
        return WriteStat(
            file_id=file_id,
            path=path,
            partition_path=partition,
            file_size_in_bytes=len(data),
            base_file=name if is_base else None,
        )


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
