"""Schemas as values: meta columns, evolution, and Spark's types. Avro's own types are in ``tidelake.format``."""

from tidelake.format.avro_arrow import META_COLUMN_NAMES
from tidelake.schema.columns import column_paths, column_types, struct_paths
from tidelake.schema.evolution import can_widen, conform, conform_stored, merge_schemas, plain_schema
from tidelake.schema.meta_columns import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    META_FIELDS,
    OPERATION,
    PARTITION_PATH,
    RECORD_KEY,
    has_meta,
    with_meta,
    without_meta,
)
from tidelake.schema.spark_types import arrow_to_spark_json, ddl_to_arrow, spark_json_to_arrow

__all__ = [
    "COMMIT_SEQNO",
    "COMMIT_TIME",
    "FILE_NAME",
    "META_COLUMN_NAMES",
    "META_FIELDS",
    "OPERATION",
    "PARTITION_PATH",
    "RECORD_KEY",
    "arrow_to_spark_json",
    "can_widen",
    "column_paths",
    "column_types",
    "conform",
    "conform_stored",
    "ddl_to_arrow",
    "has_meta",
    "merge_schemas",
    "plain_schema",
    "spark_json_to_arrow",
    "struct_paths",
    "with_meta",
    "without_meta",
]
