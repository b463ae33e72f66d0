"""Options of table services, under Apache Hudi's names: a table keeps them, or a call gives them."""

from __future__ import annotations

import re

from tidelake.config.clean_options import CLEAN_OPTIONS
from tidelake.config.options import Option, choice
from tidelake.config.write_options import at_least


def _flag(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("it must be true or false")
    return text.strip().lower() == "true"


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"it is no regular expression: {error}") from None
    return text


INCREMENTAL_SERVICES: Option[bool] = Option(
    "hoodie.table.services.incremental.enabled", "service", True, "Whether services look only at what changed.", _flag
)
COMPACTION_STRATEGY: Option[str] = Option(
    "hoodie.compaction.strategy",
    "service",
    "unbounded",
    "Which file groups a compaction takes: unbounded, bounded_io, log_file_size, log_file_num, day_based, "
    "partition_regex, partitions, or a registered one; several are joined by +.",
    str,
)
COMPACTION_TARGET_IO_MB: Option[int] = Option(
    "hoodie.compaction.target.io",
    "service",
    500 * 1024,
    "How many MiB a bounded compaction reads and writes.",
    at_least(1),
)
COMPACTION_LOG_BYTES: Option[int] = Option(
    "hoodie.compaction.logfile.size.threshold",
    "service",
    0,
    "How many bytes of logs a file group must have to be taken by log_file_size.",
    at_least(0),
)
COMPACTION_LOG_FILES: Option[int] = Option(
    "hoodie.compaction.logfile.num.threshold",
    "service",
    0,
    "How many log files a file group must have to be taken by log_file_num.",
    at_least(0),
)
COMPACTION_DAYS: Option[int] = Option(
    "hoodie.compaction.daybased.target.partitions",
    "service",
    10,
    "How many of the newest day partitions day_based takes.",
    at_least(1),
)
COMPACTION_REGEX: Option[str] = Option(
    "hoodie.compaction.partition.path.regex", "service", ".*", "Which partitions partition_regex takes.", _pattern
)
COMPACTION_PARTITIONS: Option[str] = Option(
    "hoodie.compaction.plan.partitions",
    "service",
    "",
    "The partitions that the strategy partitions takes, by commas.",
    str,
)
COMPACT_INLINE: Option[bool] = Option(
    "hoodie.compact.inline", "service", False, "Whether writers compact after their commit, when it is due.", _flag
)
COMPACT_DELTA_COMMITS: Option[int] = Option(
    "hoodie.compact.inline.max.delta.commits",
    "service",
    5,
    "After how many delta commits since the last compaction one is due.",
    at_least(1),
)
COMPACT_DELTA_SECONDS: Option[int] = Option(
    "hoodie.compact.inline.max.delta.seconds",
    "service",
    3600,
    "After how many seconds since the last compaction one is due, for triggers that look at time.",
    at_least(1),
)
COMPACT_TRIGGER: Option[str] = Option(
    "hoodie.compact.inline.trigger.strategy",
    "service",
    "NUM_COMMITS",
    "When a compaction is due: NUM_COMMITS, TIME_ELAPSED, NUM_AND_TIME or NUM_OR_TIME.",
    choice(
        num_commits="NUM_COMMITS",
        num_commits_after_last_request="NUM_COMMITS",
        time_elapsed="TIME_ELAPSED",
        num_and_time="NUM_AND_TIME",
        num_or_time="NUM_OR_TIME",
    ),
)
COMPACTION_LOG_BYTES_DUE: Option[int] = Option(
    "tidelake.services.compaction.log.bytes",
    "service",
    0,
    "After how many bytes of logs since the last compaction the service runner compacts; 0 is never for that reason.",
    at_least(0),
)

SERVICE_OPTIONS: tuple[Option[bool] | Option[str] | Option[int], ...] = (
    INCREMENTAL_SERVICES,
    COMPACTION_STRATEGY,
    COMPACTION_TARGET_IO_MB,
    COMPACTION_LOG_BYTES,
    COMPACTION_LOG_FILES,
    COMPACTION_DAYS,
    COMPACTION_REGEX,
    COMPACTION_PARTITIONS,
    COMPACT_INLINE,
    COMPACT_DELTA_COMMITS,
    COMPACT_DELTA_SECONDS,
    COMPACT_TRIGGER,
    COMPACTION_LOG_BYTES_DUE,
    *CLEAN_OPTIONS,
)


def is_service_option(key: str) -> bool:
    """Whether an option is one of a table service."""
    return any(key in (option.key, *option.aliases) for option in SERVICE_OPTIONS)
