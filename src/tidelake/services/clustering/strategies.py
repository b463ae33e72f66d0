"""The strategies of clustering: which of the partitions that have work a plan looks at.

What is work, and how it is grouped, the planner says (``plan.py``): so a strategy of a user's own has both for free.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tidelake.config import (
    CLUSTERING_DAYS,
    CLUSTERING_FIRST,
    CLUSTERING_LAST,
    CLUSTERING_PARTITIONS,
    CLUSTERING_REGEX,
    CLUSTERING_SKIPPED_DAYS,
)
from tidelake.filegroup import PartitionCodec, PartitionConstraint
from tidelake.filegroup.listing import kept_partitions
from tidelake.services.strategy import (
    IncrementalPartitionAwareStrategy,
    ServiceConfig,
    ServiceStrategy,
    register_strategy,
)

HUDI_NAMES = {
    f"{engine}{name}ClusteringPlanStrategy": ours
    for engine in ("Spark", "Flink", "Java")
    for name, ours in (
        ("SizeBased", "size_based"),
        ("RecentDays", "recent_days"),
        ("SelectedPartitions", "selected_partitions"),
    )
}
Split = tuple[Sequence[str], Sequence[str]]


class SizeBased(ServiceStrategy, IncrementalPartitionAwareStrategy):
    """Every partition that has work."""


class RecentDays(ServiceStrategy, IncrementalPartitionAwareStrategy):
    """The newest partitions by path, without those at the very end that still grow."""

    def filter_partition_paths(self, config: ServiceConfig, partitions: Sequence[str]) -> Split:
        """A few of the greatest paths."""
        skipped, count = CLUSTERING_SKIPPED_DAYS.of(config.options), CLUSTERING_DAYS.of(config.options)
        ordered = sorted(partitions, reverse=True)
        return ordered[skipped : skipped + count], [*ordered[:skipped], *ordered[skipped + count :]]


class SelectedPartitions(ServiceStrategy, IncrementalPartitionAwareStrategy):
    """The partitions that a user names, which may be none, or all from a first to a last one."""

    def filter_partition_paths(self, config: ServiceConfig, partitions: Sequence[str]) -> Split:
        """Those named that have work."""
        named = set(CLUSTERING_PARTITIONS.of(config.options))
        first, last = CLUSTERING_FIRST.of(config.options), CLUSTERING_LAST.of(config.options)

        def is_meant(path: str) -> bool:
            if CLUSTERING_PARTITIONS.key in config.options:
                return path in named
            return path >= first and (not last or path <= last)

        return [p for p in partitions if is_meant(p)], [p for p in partitions if not is_meant(p)]


class Regex(ServiceStrategy, IncrementalPartitionAwareStrategy):
    """Partitions whose whole path matches an expression."""

    def filter_partition_paths(self, config: ServiceConfig, partitions: Sequence[str]) -> Split:
        """Those that match."""
        pattern = re.compile(CLUSTERING_REGEX.of(config.options))
        matching = [path for path in partitions if pattern.fullmatch(path)]
        return matching, sorted(set(partitions) - set(matching))


class InPartitions(ServiceStrategy, IncrementalPartitionAwareStrategy):
    """The partitions that a condition on their columns leaves, and those whose paths do not tell."""

    def __init__(self, codec: PartitionCodec, constraint: PartitionConstraint) -> None:
        self._codec = codec
        self._constraint = constraint

    def filter_partition_paths(self, config: ServiceConfig, partitions: Sequence[str]) -> Split:
        """Those that may hold rows of the condition."""
        kept = set(kept_partitions(partitions, self._codec, self._constraint))
        return [p for p in partitions if p in kept], [p for p in partitions if p not in kept]


for _name, _cls in {
    "size_based": SizeBased,
    "recent_days": RecentDays,
    "selected_partitions": SelectedPartitions,
    "regex": Regex,
}.items():
    register_strategy(_name, _cls)
