"""Every bound in one place: no input makes us use more memory or time than this page says.

A bound protects against bytes that lie (a length of 2**60, a schema nested 100,000 deep, a block that
decompresses without end). Each is far above what Apache Hudi writes; what exceeds one is refused with
``LimitError`` before memory is spent.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

# Table configuration
PROPERTIES_BYTES: Final = 16 * MIB
PROPERTIES_ENTRIES: Final = 10_000

# Timeline
TIMELINE_FILE_BYTES: Final = 1 * GIB
"""One instant file: a commit of a million files is about 500 MiB."""
TIMELINE_FILE_EXPANSION: Final = 100
"""A deflated Avro block may grow by this factor at most."""
HISTORY_MANIFEST_BYTES: Final = 64 * MIB
HISTORY_INFLATED_BYTES: Final = 4 * GIB

# Table state
STATE_BYTES: Final = 4 * GIB
"""The columns of one table state: about 110 bytes for each live file."""
STATE_EXPANSION: Final = 1_000

# Avro schemas
AVRO_SCHEMA_BYTES: Final = 16 * MIB
AVRO_SCHEMA_DEPTH: Final = 64
AVRO_SCHEMA_NODES: Final = 100_000
AVRO_UNION_BRANCHES: Final = 64
AVRO_HEADER_ENTRIES: Final = 64

# Log files
LOG_BLOCK_BYTES: Final = 2 * GIB - 1
"""Apache Hudi casts block sizes to 32 bits."""
LOG_BLOCK_HEADERS: Final = 64
LOG_HEADER_BYTES: Final = 64 * MIB
LOG_BLOCK_ROWS_FREE: Final = 65_536
LOG_BLOCK_ROWS_PER_BYTE: Final = 4
"""A parquet block of b bytes may hold LOG_BLOCK_ROWS_FREE + b * this many rows: unique keys do not compress further."""
LOG_POSITIONS: Final = 1_000_000_000

# Base files
BLOOM_BYTES: Final = 64 * MIB
PARQUET_FOOTER_BYTES: Final = 256 * MIB

# Indexes
BUCKETS: Final = 99_999_999
"""A bucket's number has eight digits in the ids of its files."""
KEY_CACHE_BYTES: Final = 256 * MIB
"""How much of the keys of base files a process keeps between look-ups: about 16 bytes and a key's own for each."""
WORKER_KEY_CACHE_BYTES: Final = 128 * MIB
"""The same of a Spark worker, of which a machine has many."""

# Partitions
PARTITION_META_BYTES: Final = 64 * KIB
PARTITION_DEPTH: Final = 64

# Filters
FILTER_CHARS: Final = 32_768
"""A filter of so many characters takes about half a second to parse."""
FILTER_DEPTH: Final = 200
FILTER_NUMBER_DIGITS: Final = 400
"""Digits of a number in a filter, written out: more than the greatest double has."""

# Merging
RECORD_VERSIONS: Final = 10_000
"""Versions of one key that are applied one by one in one merge: each is a pass over the keys that have so many."""
