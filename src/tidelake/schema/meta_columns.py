"""The five meta columns that Apache Hudi keeps in front of every record.

They say which instant wrote a record (``_hoodie_commit_time``, ``_hoodie_commit_seqno``), which record it is
(``_hoodie_record_key``, ``_hoodie_partition_path``) and where it lies (``_hoodie_file_name``). All are nullable
strings, and always the first columns, in this order. A *user schema* is one without them.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from tidelake.format.avro_arrow import META_COLUMN_NAMES

COMMIT_TIME: Final = "_hoodie_commit_time"
COMMIT_SEQNO: Final = "_hoodie_commit_seqno"
RECORD_KEY: Final = "_hoodie_record_key"
PARTITION_PATH: Final = "_hoodie_partition_path"
FILE_NAME: Final = "_hoodie_file_name"
OPERATION: Final = "_hoodie_operation"
"""A sixth one that some writers add (``hoodie.allow.operation.metadata.field``); here it is a column like any other."""

META_FIELDS: Final[tuple[pa.Field, ...]] = tuple(pa.field(name, pa.string()) for name in META_COLUMN_NAMES)


def with_meta(schema: pa.Schema) -> pa.Schema:
    """The schema with the five meta columns in front; those that it has already are moved there."""
    return pa.schema([*META_FIELDS, *without_meta(schema)], metadata=schema.metadata)


def without_meta(schema: pa.Schema) -> pa.Schema:
    """The user schema: all but the five meta columns."""
    kept = [field for field in schema if field.name not in META_COLUMN_NAMES]
    return pa.schema(kept, metadata=schema.metadata)


def has_meta(schema: pa.Schema) -> bool:
    """Whether the schema begins with the five meta columns."""
    return tuple(schema.names[: len(META_COLUMN_NAMES)]) == META_COLUMN_NAMES
