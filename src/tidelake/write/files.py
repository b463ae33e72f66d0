"""Writing data files: base files, log files, their markers, and the statistics that the commit will hold.

A marker goes before every file, so that whoever rolls a dead write back (we, or Apache Hudi) finds its files. A file is
written whole under its final name; nothing shows it before its instant completes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelake.config import COMPRESSION
from tidelake.format.avro_arrow import avro_record
from tidelake.format.avro_data import encode_avro_block
from tidelake.format.base_footer import BaseFooter, encode_footer
from tidelake.format.bloom import DYNAMIC, build_bloom, encode_bloom
from tidelake.format.commit_metadata import RuntimeStats, WriteStat
from tidelake.format.delete_block import encode_deletes
from tidelake.format.log_block import BlockType, HeaderKey, LogBlock, encode_block
from tidelake.format.names import PARTITION_META_FILE, BaseFileName, LogFileName
from tidelake.format.properties import PartitionMetadata, encode_partition_metadata
from tidelake.merge.clock_values import clock_values, delete_clocks
from tidelake.merge.delete_times import delete_bounds_ms, joined_bounds
from tidelake.merge.ordering import delete_ordering
from tidelake.schema import COMMIT_SEQNO, META_COLUMN_NAMES, RECORD_KEY
from tidelake.schema.event_time import event_bounds_ms
from tidelake.storage import Batch, Puts, Storage
from tidelake.timeline import parse_instant, timeline_zone
from tidelake.write.context import WriteContext
from tidelake.write.log_sizes import fitting_blocks
from tidelake.write.required import with_values_below_nulls
from tidelake.write.rows import in_one

MARKER_DIR = ".hoodie/.temp"
MARKERS = "MARKERS"
_SAMPLE_ROWS = 1_000
_SMALL_ROWS = 5_000
"""Files of fewer rows get no dictionaries."""
TINY_ROWS = 1_000
"""What a file of fewer rows takes is mostly its own start, of Python, parquet and compression."""
BLOOM_ERROR_RATE = 1e-3
_TINY_COMPRESSION = "snappy"
"""Of blocks of so few rows: zstd's start takes longer there than all other work, for each column."""


def join(partition_path: str, name: str) -> str:
    """A file's path below the table."""
    return f"{partition_path}/{name}" if partition_path else name


def open_markers(storage: Storage, instant: str) -> None:
    """Say how the markers of a write are kept: by many in a file, as those of Apache Hudi's timeline server."""
    storage.put(f"{MARKER_DIR}/{instant}/{MARKERS}.type", b"TIMELINE_SERVER_BASED")


def put_markers(storage: Storage, instant: str, number: int, files: Iterable[tuple[str, str]]) -> None:
    """Say which files (path, and CREATE or MERGE) are about to be written; ``number`` is one task attempt's alone."""
    lines = "".join(f"{path}.marker.{kind}\n" for path, kind in files)
    if lines:
        storage.put(f"{MARKER_DIR}/{instant}/{MARKERS}{number}", lines.encode())


def ensure_partition(batch: Batch, partition_path: str, instant: str) -> None:
    """Put the partition's metafile if it is not there: without it Apache Hudi does not see the partition."""
    depth = partition_path.count("/") + 1 if partition_path else 0
    metadata = encode_partition_metadata(PartitionMetadata(instant, depth))
    batch.ensure(join(partition_path, PARTITION_META_FILE), metadata)


def write_base(
    puts: Puts,
    context: WriteContext,
    name: BaseFileName,
    partition_path: str,
    rows: pa.Table,
    previous: str | None,
    hashes: pa.Array | None = None,
) -> WriteStat:
    """Write a base file of stored rows; ``previous`` is the name of the base file it replaces.

    ``hashes`` are those of the rows' keys for the bloom filter, if they are known.
    """
    path = join(partition_path, str(name))
    data = encode_base(rows, context, hashes)
    puts.put(path, data)
    old = None if previous is None else previous.rpartition("_")[2].partition(".")[0]
    bounds = event_bounds(rows, context)
    return replace(
        file_stat(name.file_id, path, partition_path, len(data), rows.num_rows),
        prev_commit=old or "null",
        num_inserts=rows.num_rows if previous is None else 0,
        prev_base_file=previous,
        min_event_time=bounds[0],
        max_event_time=bounds[1],
    )


def encode_base(rows: pa.Table, context: WriteContext, hashes: pa.Array | None = None) -> memoryview:
    """Stored rows as the bytes of a base file."""
    keys = in_one(rows.column(RECORD_KEY)) if context.config.has_meta_columns else None
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema, **parquet_options(rows, context)) as writer:
        writer.write_table(with_values_below_nulls(rows), row_group_size=context.files.row_group_rows)
        writer.add_key_value_metadata(footer_of(context, keys, hashes))
    return memoryview(sink.getvalue())


def footer_of(context: WriteContext, keys: pa.Array | None, hashes: pa.Array | None = None) -> dict[bytes, bytes]:
    """What a base file's footer says, with the bloom filter and the range of its keys, unless it has none.

    A file without rows has a filter, too: Apache Hudi's BLOOM index fails on one without.
    """
    footer = BaseFooter(schema_text=context.stored_schema_text, model_name="avro")
    if keys is not None:
        bounds = pc.min_max(keys).as_py()
        bloom = None
        if context.files.has_bloom:
            known = None if hashes is None else np.asarray(hashes.flatten()).reshape(len(hashes), -1)
            bloom = encode_bloom(build_bloom(keys, error_rate=BLOOM_ERROR_RATE, hashes=known))
        footer = replace(footer, bloom_text=bloom, bloom_type=DYNAMIC, min_key=bounds["min"], max_key=bounds["max"])
    return encode_footer(footer)


def write_log(
    puts: Puts,
    context: WriteContext,
    name: LogFileName,
    partition_path: str,
    rows: pa.Table,
    deletes: pa.StructArray | None,
    at_most: int | None = None,
    first: pa.StructArray | None = None,
) -> WriteStat:
    """Write a log file: data blocks of stored rows, then delete blocks; either may be missing.

    ``at_most`` is what the rows take in memory, or more, if it is known; ``first`` are deletes that come before the rows.
    """
    path = join(partition_path, str(name))
    headers = {HeaderKey.INSTANT_TIME: context.instant, HeaderKey.SCHEMA: context.stored_schema_text}
    bound = context.files.max_block_bytes
    blocks = _delete_blocks(first, headers, bound)
    if rows.num_rows:
        blocks += fitting_blocks(rows, lambda some: encode_block(_data_block(some, context, headers)), bound, at_most)
    blocks += _delete_blocks(deletes, headers, bound)
    data = blocks[0] if len(blocks) == 1 else b"".join(blocks)
    puts.put(path, data)
    removed = sum(len(some) for some in (first, deletes) if some is not None)
    bounds = joined_bounds(
        event_bounds(rows, context), _delete_bounds(first, context), _delete_bounds(deletes, context)
    )
    return replace(
        file_stat(name.file_id, path, partition_path, len(data), rows.num_rows),
        prev_commit=context.instant,
        num_update_writes=rows.num_rows,
        num_deletes=removed,
        log_version=name.version,
        log_offset=0,
        base_file="",
        log_files=(str(name),),
        min_event_time=bounds[0],
        max_event_time=bounds[1],
    )


def _delete_blocks(deletes: pa.StructArray | None, headers: dict[HeaderKey, str], bound: int) -> list[bytes]:
    if deletes is None or len(deletes) == 0:
        return []
    return list(
        fitting_blocks(
            deletes, lambda some: encode_block(LogBlock(BlockType.DELETE, headers, encode_deletes(some))), bound
        )
    )


def _data_block(rows: pa.Table, context: WriteContext, headers: dict[HeaderKey, str]) -> LogBlock:
    if context.files.log_format == "avro":
        record = avro_record(context.schema, context.config.name, meta_columns=True)
        content = encode_avro_block(rows.combine_chunks().to_batches()[0], record)
        return LogBlock(BlockType.AVRO_DATA, headers, content)
    sink = pa.BufferOutputStream()
    # Nobody asks for statistics within a block, and dictionaries do not pay in a small one.
    pq.write_table(with_values_below_nulls(rows), sink, write_statistics=False, **parquet_options(rows, context))
    return LogBlock(BlockType.PARQUET_DATA, headers, sink.getvalue().to_pybytes())


def parquet_options(rows: pa.Table, context: WriteContext) -> dict[str, Any]:
    """Settings of the parquet writer; a dictionary of values that are mostly different is only work."""
    files, count = context.files, rows.num_rows
    is_tiny = count < TINY_ROWS and files.compression == COMPRESSION.default
    has_dictionary = files.has_dictionary and count >= _SMALL_ROWS
    return {
        "compression": _TINY_COMPRESSION if is_tiny else files.compression,
        "use_dictionary": has_dictionary and [name for name in rows.column_names if _repeats(name, rows)],
        "store_schema": False,
        "version": "2.6",
    }


def _repeats(name: str, rows: pa.Table) -> bool:
    """Whether a column's values repeat: known of meta columns, else from a look at a few of them."""
    if name in META_COLUMN_NAMES:
        return name not in (RECORD_KEY, COMMIT_SEQNO)
    column = rows.column(name)
    if pa.types.is_nested(column.type):
        return True
    step = max(1, len(column) // _SAMPLE_ROWS)
    sample = column.take(pa.array(np.arange(0, len(column), step)))
    return bool(pc.count_distinct(sample, mode="all").as_py() <= len(sample) // 2)


def file_stat(file_id: str, path: str, partition_path: str, size: int, rows: int) -> WriteStat:
    """A file's statistics; every number that Apache Hudi unboxes is there."""
    return WriteStat(
        file_id=file_id,
        path=path,
        num_writes=rows,
        num_deletes=0,
        num_update_writes=0,
        total_write_bytes=size,
        total_write_errors=0,
        partition_path=partition_path,
        total_log_records=0,
        total_updated_records_compacted=0,
        num_inserts=0,
        total_log_blocks=0,
        total_corrupt_log_block=0,
        total_rollback_blocks=0,
        file_size_in_bytes=size,
        runtime_stats=RuntimeStats(0, 0, 0),
        total_log_files_compacted=0,
        total_log_read_time_ms=0,
        total_log_size_compacted=0,
        num_updates=0,
    )


def event_bounds(rows: pa.Table, context: WriteContext) -> tuple[int | None, int | None]:
    """The least and greatest of the rows' event times, in milliseconds; all count, where a row has several."""
    fields = context.config.event_time_fields
    if rows.num_rows == 0:
        return None, None
    return joined_bounds(*(event_bounds_ms(rows.column(name), context.config.event_time_unit) for name in fields))


def _delete_bounds(deletes: pa.StructArray | None, context: WriteContext) -> tuple[int | None, int | None]:
    """The same of delete-block entries."""
    merge, config = context.merge, context.config
    if not config.event_time_fields or deletes is None or len(deletes) == 0:
        return None, None
    ordering: list[pa.Array] = []
    unconditional = np.ones(len(deletes), dtype=np.bool_)
    if merge.is_event_time:
        ordering, unconditional = delete_ordering(pc.struct_field(deletes, "ordering"), merge.ordering_types)
    elif merge.clocks is not None:
        columns = delete_clocks(pc.struct_field(deletes, "ordering"), merge.ordering_types)
        ordering = [clock_values(column, kind) for column, kind in zip(columns, merge.ordering_types, strict=True)]
        unconditional = np.logical_and.reduce([unconditional, *(np.asarray(c.is_null()) for c in columns)])
    commit_ms = parse_instant(context.instant, timeline_zone(config.timezone_is_utc))
    return delete_bounds_ms(ordering, unconditional, merge, config.event_time_fields, config.event_time_unit, commit_ms)
