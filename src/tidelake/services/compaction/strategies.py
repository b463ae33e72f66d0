"""The strategies of compaction."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from tidelake._limits import MIB
from tidelake.config import (
    COMPACTION_DAYS,
    COMPACTION_LOG_BYTES,
    COMPACTION_LOG_FILES,
    COMPACTION_PARTITIONS,
    COMPACTION_REGEX,
    COMPACTION_TARGET_IO_MB,
)
from tidelake.services.strategy import (
    Candidate,
    IncrementalPartitionAwareStrategy,
    ServiceConfig,
    ServiceStrategy,
    register_strategy,
)

HUDI_NAMES = {
    "UnBoundedCompactionStrategy": "unbounded",
    "BoundedIOCompactionStrategy": "bounded_io",
    "LogFileSizeBasedCompactionStrategy": "log_file_size+bounded_io",
    "LogFileNumBasedCompactionStrategy": "log_file_num+bounded_io",
    "DayBasedCompactionStrategy": "day_based",
    "BoundedPartitionAwareCompactionStrategy": "day_based",
    "UnBoundedPartitionAwareCompactionStrategy": "day_based",
    "PartitionRegexBasedCompactionStrategy": "partition_regex",
    "EventTimeBasedCompactionStrategy": "event_time",
}
_DAY = re.compile(r"(\d{4})[-/]?(\d{2})[-/]?(\d{2})")


class Unbounded(ServiceStrategy, IncrementalPartitionAwareStrategy):
    """Every file group that has logs."""


class BoundedIO(ServiceStrategy, IncrementalPartitionAwareStrategy):
    """As many file groups, in the order they come, as the target IO admits; always one."""

    def choose(self, config: ServiceConfig, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """The first ones, up to the target."""
        budget = COMPACTION_TARGET_IO_MB.of(config.options) * MIB
        chosen: list[Candidate] = []
        for candidate in candidates:
            budget -= candidate.io_bytes
            if chosen and budget < 0:
                break
            chosen.append(candidate)
        return chosen


class LogFileSize(ServiceStrategy, IncrementalPartitionAwareStrategy):
    """File groups with enough log bytes, those with most first."""

    def choose(self, config: ServiceConfig, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Those at or above the threshold."""
        least = COMPACTION_LOG_BYTES.of(config.options)
        return sorted((c for c in candidates if c.log_bytes >= least), key=lambda c: -c.log_bytes)


class LogFileNum(ServiceStrategy, IncrementalPartitionAwareStrategy):
    """File groups with enough log files, those with most first."""

    def choose(self, config: ServiceConfig, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Those at or above the threshold."""
        least = COMPACTION_LOG_FILES.of(config.options)
        return sorted((c for c in candidates if len(c.file_slice.logs) >= least), key=lambda c: -len(c.file_slice.logs))


class DayBased(ServiceStrategy, IncrementalPartitionAwareStrategy):
    """The newest day partitions that have work; partitions whose path has no day come after them."""

    def filter_partition_paths(
        self, config: ServiceConfig, partitions: Sequence[str]
    ) -> tuple[Sequence[str], Sequence[str]]:
        """The newest days."""
        count = COMPACTION_DAYS.of(config.options)
        ordered = sorted(partitions, key=lambda path: (day_of(path) or datetime.min, path), reverse=True)
        return ordered[:count], ordered[count:]


class PartitionRegex(ServiceStrategy, IncrementalPartitionAwareStrategy):
    """Partitions whose whole path matches an expression."""

    def filter_partition_paths(
        self, config: ServiceConfig, partitions: Sequence[str]
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Those that match."""
        pattern = re.compile(COMPACTION_REGEX.of(config.options))
        matching = [path for path in partitions if pattern.fullmatch(path)]
        return matching, sorted(set(partitions) - set(matching))


class Partitions(ServiceStrategy, IncrementalPartitionAwareStrategy):
    """The partitions that a user names."""

    def filter_partition_paths(
        self, config: ServiceConfig, partitions: Sequence[str]
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Those named that have work."""
        named = set(COMPACTION_PARTITIONS.of(config.options))
        return [p for p in partitions if p in named], [p for p in partitions if p not in named]


def day_of(path: str) -> datetime | None:
    """The day that a partition path names, if it names one."""
    found = _DAY.search(path)
    if found is None:
        return None
    try:
        year, month, day = map(int, found.groups())
        return datetime(year, month, day)
    except ValueError:
        return None


for _name, _cls in {
    "unbounded": Unbounded,
    "bounded_io": BoundedIO,
    "log_file_size": LogFileSize,
    "log_file_num": LogFileNum,
    "day_based": DayBased,
    "partition_regex": PartitionRegex,
    "partitions": Partitions,
}.items():
    register_strategy(_name, _cls)
