"""Options that a table keeps, for all its writers: how large files become, and how parquet is written."""

from __future__ import annotations

from tidelake._limits import MIB
from tidelake.config.options import Option, choice, true_or_false
from tidelake.config.write_options import at_least

LOG_FILE_BYTES: Option[int] = Option(
    "hoodie.logfile.max.size",
    "table",
    1024 * MIB,
    "How many bytes a log file may have, about; rows that need more go to further files of the same write.",
    at_least(1),
)
LOG_BLOCK_BYTES: Option[int] = Option(
    "hoodie.logfile.data.block.max.size",
    "table",
    256 * MIB,
    "How many bytes a block of a log file may have, unless it is a single row.",
    at_least(1),
)
BASE_FILE_BYTES: Option[int] = Option(
    "hoodie.parquet.max.file.size",
    "table",
    120 * MIB,
    "How many bytes a base file may have, about; new rows that need more go to further file groups.",
    at_least(1),
)
SMALL_FILE_BYTES: Option[int] = Option(
    "hoodie.parquet.small.file.limit",
    "table",
    100 * MIB,
    "Base files below so many bytes are filled up by new rows, on copy-on-write tables; 0 is none.",
    at_least(0),
)
COMPRESSION: Option[str] = Option(
    "hoodie.parquet.compression.codec",
    "table",
    "zstd",
    "How parquet is compressed: zstd, snappy, gzip, lz4_raw or uncompressed.",
    choice(zstd="zstd", snappy="snappy", gzip="gzip", lz4_raw="lz4", uncompressed="none"),
)
DICTIONARY: Option[bool] = Option(
    "hoodie.parquet.dictionary.enabled",
    "table",
    True,
    "Whether columns whose values repeat are written with a dictionary.",
    true_or_false,
)
ROW_GROUP_ROWS: Option[int] = Option(
    "tidelake.parquet.row.group.rows",
    "table",
    1_000_000,
    "How many rows a row group of a base file has at most.",
    at_least(1),
)
EVENT_TIME_EXACT: Option[bool] = Option(
    "hoodie.compaction.event.time.exact",
    "table",
    False,
    "Whether event-time compactions leave later events in the logs, so that the read-optimised view holds the data before "
    "the threshold and nothing else; every version of a row is then logged.",
    true_or_false,
)
TABLE_OPTIONS: tuple[Option[int] | Option[str] | Option[bool], ...] = (
    LOG_FILE_BYTES,
    LOG_BLOCK_BYTES,
    BASE_FILE_BYTES,
    SMALL_FILE_BYTES,
    COMPRESSION,
    DICTIONARY,
    ROW_GROUP_ROWS,
    EVENT_TIME_EXACT,
)
