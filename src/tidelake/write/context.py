"""What every task of a write knows: one frozen value that travels to workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidelake._cached import cached
from tidelake.config import (
    BASE_FILE_BYTES,
    COMPRESSION,
    DICTIONARY,
    LOG_BLOCK_BYTES,
    LOG_FILE_BYTES,
    ROW_GROUP_ROWS,
    SMALL_FILE_BYTES,
    TableConfig,
)
from tidelake.format.avro_arrow import avro_json
from tidelake.merge import MergeSpec


@dataclass(frozen=True, slots=True)
class FileOptions:
    """How data files are written."""

    compression: str = COMPRESSION.default
    row_group_rows: int = ROW_GROUP_ROWS.default
    target_base_bytes: int = BASE_FILE_BYTES.default
    small_base_bytes: int = SMALL_FILE_BYTES.default
    log_format: str = "parquet"
    has_bloom: bool = True
    has_dictionary: bool = DICTIONARY.default
    max_log_bytes: int = LOG_FILE_BYTES.default
    max_block_bytes: int = LOG_BLOCK_BYTES.default

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> FileOptions:
        """What a table's properties ask for."""
        return cls(
            compression=COMPRESSION.of(properties),
            row_group_rows=ROW_GROUP_ROWS.of(properties),
            target_base_bytes=BASE_FILE_BYTES.of(properties),
            small_base_bytes=SMALL_FILE_BYTES.of(properties),
            log_format=properties.get("hoodie.logfile.data.block.format", "parquet"),
            has_dictionary=DICTIONARY.of(properties),
            max_log_bytes=LOG_FILE_BYTES.of(properties),
            max_block_bytes=LOG_BLOCK_BYTES.of(properties),
        )


@dataclass(frozen=True)
class WriteContext:
    """The table and the instant that are being written; ``schema`` is the user schema of the rows."""

    config: TableConfig
    schema: pa.Schema
    merge: MergeSpec
    instant: str
    files: FileOptions
    buckets: int | None = None
    """How many buckets each partition has, for tables of the BUCKET index; None is the SIMPLE index."""
    held: frozenset[tuple[str, str]] = frozenset()
    """File groups (partition path, file id) that a pending clustering is about to rewrite: new rows do not go there."""
    resolve: MergeSpec | None = None
    """The rules by which the write merges before it logs, on tables that resolve eagerly."""

    @property
    def has_clocks(self) -> bool:
        """Whether the table's records have several event times."""
        return self.config.clocks is not None

    @property
    def keeps_early_deletes(self) -> bool:
        """Whether a delete that finds nothing is kept, since it hides records that come after it and are older."""
        goes_by_time = self.merge.is_event_time or self.has_clocks
        return goes_by_time and self.config.tombstone_seconds > 0 and not self.config.is_global

    @cached
    def schema_text(self) -> str:
        """The table's Avro schema, as commits hold it."""
        return avro_json(self.schema, self.config.name)

    @cached
    def stored_schema_text(self) -> str:
        """The Avro schema of stored records, with meta columns."""
        return avro_json(self.schema, self.config.name, meta_columns=True)
