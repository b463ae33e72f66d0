"""Options and table configuration."""

from tidelake.config.clean_options import (
    CLEAN_OPTIONS,
    KEEP_COMMITS,
    KEEP_HOURS,
    KEEP_VERSIONS,
    CleanOptions,
    clean_options,
)
from tidelake.config.options import READ_OPTIONS, Option, ReadOptions, UnknownOptionWarning, read_options
from tidelake.config.table_config import (
    EVENT_TIME_FIELD,
    EVENT_TIME_UNIT,
    EVENT_TIME_UNITS,
    MergeMode,
    PartialUpdateMode,
    TableConfig,
    TableType,
    parse_table_config,
)
from tidelake.config.table_options import LOG_BLOCK_BYTES, LOG_FILE_BYTES, TABLE_OPTIONS
from tidelake.config.write_options import WRITE_OPTIONS, LockOptions, WriterOptions, writer_options

__all__ = [
    "CLEAN_OPTIONS",
    "EVENT_TIME_FIELD",
    "EVENT_TIME_UNIT",
    "EVENT_TIME_UNITS",
    "KEEP_COMMITS",
    "KEEP_HOURS",
    "KEEP_VERSIONS",
    "LOG_BLOCK_BYTES",
    "LOG_FILE_BYTES",
    "READ_OPTIONS",
    "TABLE_OPTIONS",
    "WRITE_OPTIONS",
    "CleanOptions",
    "LockOptions",
    "MergeMode",
    "Option",
    "PartialUpdateMode",
    "ReadOptions",
    "TableConfig",
    "TableType",
    "UnknownOptionWarning",
    "WriterOptions",
    "clean_options",
    "parse_table_config",
    "read_options",
    "writer_options",
]
