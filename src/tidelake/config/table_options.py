"""Options that a table keeps, for all its writers: how large log files and their blocks may become."""

from __future__ import annotations

from tidelake._limits import MIB
from tidelake.config.options import Option
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
TABLE_OPTIONS: tuple[Option[int], ...] = (LOG_FILE_BYTES, LOG_BLOCK_BYTES)
