"""What every task of a write knows: one frozen value that travels to workers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from tidelake._limits import MIB
from tidelake.config import LOG_BLOCK_BYTES, LOG_FILE_BYTES, TableConfig
from tidelake.format.avro_arrow import avro_json
from tidelake.merge import MergeSpec


@dataclass(frozen=True, slots=True)
class FileOptions:
    """How data files are written."""

    compression: str = "zstd"
    row_group_rows: int = 1_000_000
    target_base_bytes: int = 120 * MIB
    small_base_bytes: int = 100 * MIB
    log_format: str = "parquet"
    has_bloom: bool = True
    max_log_bytes: int = LOG_FILE_BYTES.default
    max_block_bytes: int = LOG_BLOCK_BYTES.default


@dataclass(frozen=True)
class WriteContext:
    """The table and the instant that are being written; ``schema`` is the user schema of the rows."""

    config: TableConfig
    schema: pa.Schema
    merge: MergeSpec
    instant: str
    files: FileOptions
    event_time_field: str | None = None
    buckets: int | None = None
    """How many buckets each partition has, for tables of the BUCKET index; None is the SIMPLE index."""
    held: frozenset[tuple[str, str]] = frozenset()
    """File groups (partition path, file id) that a pending clustering is about to rewrite: new rows do not go there."""

    @cached_property
    def schema_text(self) -> str:
        """The table's Avro schema, as commits hold it."""
        return avro_json(self.schema, self.config.name)

    @cached_property
    def stored_schema_text(self) -> str:
        """The Avro schema of stored records, with meta columns."""
        return avro_json(self.schema, self.config.name, meta_columns=True)
