"""A base file from a stream of batches: what a service writes, whose rows come merged and never lie in memory together.

Held at a time are the rows of one row group, the keys (for the bloom filter), and the bytes of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from tidelake._limits import MIB
from tidelake.format.commit_metadata import WriteStat
from tidelake.format.names import BaseFileName
from tidelake.schema import FILE_NAME, RECORD_KEY
from tidelake.storage import Storage
from tidelake.write.context import WriteContext
from tidelake.write.files import event_bounds, file_stat, footer_of, join, parquet_options
from tidelake.write.required import with_values_below_nulls

_GROUP_BYTES = 128 * MIB
"""Arrow bytes after which a row group ends."""


@dataclass(frozen=True, slots=True)
class EncodedBase:
    """A base file that is made and not yet put anywhere."""

    name: BaseFileName
    data: memoryview
    rows: int
    min_event_time: int | None
    max_event_time: int | None

    def put(self, storage: Storage, partition_path: str) -> WriteStat:
        """Put it, and say what was written."""
        path = join(partition_path, str(self.name))
        storage.put(path, self.data)
        return replace(
            file_stat(self.name.file_id, path, partition_path, len(self.data), self.rows),
            min_event_time=self.min_event_time,
            max_event_time=self.max_event_time,
        )


def write_base_stream(
    storage: Storage,
    context: WriteContext,
    name: BaseFileName,
    partition_path: str,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
) -> WriteStat:
    """Write stored rows (their file name is set here) as a base file, and say what was written."""
    return encode_base_stream(context, name, batches, schema).put(storage, partition_path)


def encode_base_stream(
    context: WriteContext, name: BaseFileName, batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> EncodedBase:
    """The base file of stored rows (their file name is set here)."""
    rows = 0
    lows: list[int] = []
    highs: list[int] = []
    keys: list[pa.Array] = []
    sink = pa.BufferOutputStream()
    writer: pq.ParquetWriter | None = None
    for group in _row_groups(_renamed(batches, str(name), schema), schema, context.files.row_group_rows):
        if writer is None:
            writer = pq.ParquetWriter(sink, schema, **parquet_options(group, context))
        writer.write_table(with_values_below_nulls(group), row_group_size=max(1, group.num_rows))
        rows += group.num_rows
        low, high = event_bounds(group, context)
        lows += [] if low is None else [low]
        highs += [] if high is None else [high]
        if context.config.has_meta_columns:
            keys += group.column(RECORD_KEY).chunks
    if writer is None:
        empty = schema.empty_table()
        writer = pq.ParquetWriter(sink, schema, **parquet_options(empty, context))
        writer.write_table(empty)
    column = pa.chunked_array(keys, pa.string()).combine_chunks() if context.config.has_meta_columns else None
    writer.add_key_value_metadata(footer_of(context, column))
    writer.close()
    data = memoryview(sink.getvalue())
    return EncodedBase(name, data, rows, min(lows, default=None), max(highs, default=None))


def _renamed(batches: Iterable[pa.RecordBatch], name: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows as those of the file of that name."""
    place = schema.get_field_index(FILE_NAME)
    for batch in batches:
        if place < 0:
            yield batch
            continue
        column = pa.repeat(pa.scalar(name, pa.string()), batch.num_rows)
        yield batch.set_column(place, schema.field(place), column)


def _row_groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema, most_rows: int) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= most_rows or size >= _GROUP_BYTES:
            yield pa.Table.from_batches(held, schema)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held, schema)
