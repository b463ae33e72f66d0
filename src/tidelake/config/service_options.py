"""Options of table services, under Apache Hudi's names: a table keeps them, or a call gives them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping

from tidelake._limits import GIB, MIB
from tidelake.config.clean_options import CLEAN_OPTIONS
from tidelake.config.event_time_options import EVENT_TIME_OPTIONS
from tidelake.config.options import Option, UnknownOptionWarning, choice, own_names, true_or_false, words
from tidelake.config.write_options import at_least


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"it is no regular expression: {error}") from None
    return text


_NAME = re.compile(r"(?:\\.?|[^,\\])+", re.DOTALL)
_BLANKS = re.compile(r"^\s+|(?<!\\)\s+$")


def _name_list(text: str) -> tuple[str, ...]:
    """Names with commas between; after a backslash any sign, a comma or blank too, is a part of a name."""
    names = (_BLANKS.sub("", part) for part in _NAME.findall(text))
    return tuple(re.sub(r"\\(.?)", r"\1", name, flags=re.DOTALL) for name in names if name)


def name_list_text(names: Iterable[str]) -> str:
    """Names, which may have commas and blanks, as the text of an option; one that is empty comes last."""
    return ",".join(re.sub(r"([,\\\s])", r"\\\1", name) or "\\" for name in sorted(names, reverse=True))


INCREMENTAL_SERVICES: Option[bool] = Option(
    "hoodie.table.services.incremental.enabled",
    "service",
    True,
    "Whether services look only at what changed.",
    true_or_false,
)
COMPACTION_STRATEGY: Option[str] = Option(
    "hoodie.compaction.strategy",
    "service",
    "unbounded",
    "Which file groups a compaction takes: unbounded, bounded_io, log_file_size, log_file_num, day_based, "
    "partition_regex, partitions, event_time, or a registered one; several are joined by +.",
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
COMPACTION_PARTITIONS: Option[tuple[str, ...]] = Option(
    "hoodie.compaction.plan.partitions",
    "service",
    (),
    "The partitions that the strategy partitions takes, with commas between; a comma of a path stands after a backslash.",
    _name_list,
)
COMPACT_INLINE: Option[bool] = Option(
    "hoodie.compact.inline",
    "service",
    False,
    "Whether writers compact after their commit, when it is due.",
    true_or_false,
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

CLUSTERING_STRATEGY: Option[str] = Option(
    "hoodie.clustering.plan.strategy.class",
    "service",
    "size_based",
    "Which partitions a clustering looks at: size_based (all that have work), recent_days, selected_partitions, regex, "
    "or a registered one; several are joined by +.",
    str,
)
CLUSTERING_SORT_COLUMNS: Option[tuple[str, ...]] = Option(
    "hoodie.clustering.plan.strategy.sort.columns",
    "service",
    (),
    "The columns that a clustering sorts by, with commas between; none: rows stay in the order they have.",
    words,
)
CLUSTERING_ORDER: Option[str] = Option(
    "hoodie.layout.optimize.strategy",
    "service",
    "linear",
    "How a clustering sorts by several columns: linear, z-order or hilbert.",
    choice(linear="linear", z_order="z-order", zorder="z-order", hilbert="hilbert"),
)
CLUSTERING_SMALL_BYTES: Option[int] = Option(
    "hoodie.clustering.plan.strategy.small.file.limit",
    "service",
    300 * MIB,
    "File groups whose base file is smaller than this are clustered.",
    at_least(1),
)
CLUSTERING_TARGET_BYTES: Option[int] = Option(
    "hoodie.clustering.plan.strategy.target.file.max.bytes",
    "service",
    1 * GIB,
    "How large a file a clustering makes, about.",
    at_least(1),
)
CLUSTERING_GROUP_BYTES: Option[int] = Option(
    "hoodie.clustering.plan.strategy.max.bytes.per.group",
    "service",
    2 * GIB,
    "How many bytes of files are rewritten together: rows are sorted within these, in memory.",
    at_least(1),
)
CLUSTERING_GROUPS: Option[int] = Option(
    "hoodie.clustering.plan.strategy.max.num.groups",
    "service",
    30,
    "How many such groups one plan takes; what is left is taken by the next one.",
    at_least(1),
)
CLUSTERING_DAYS: Option[int] = Option(
    "hoodie.clustering.plan.strategy.daybased.lookback.partitions",
    "service",
    2,
    "How many of the newest partitions with work recent_days takes.",
    at_least(1),
)
CLUSTERING_SKIPPED_DAYS: Option[int] = Option(
    "hoodie.clustering.plan.strategy.daybased.skipfromlatest.partitions",
    "service",
    0,
    "How many of the newest partitions with work recent_days leaves alone, since they still grow.",
    at_least(0),
)
CLUSTERING_PARTITIONS: Option[tuple[str, ...]] = Option(
    "hoodie.clustering.plan.strategy.partition.selected",
    "service",
    (),
    "The partitions that selected_partitions takes, with commas between; a comma of a path stands after a backslash.",
    _name_list,
)
CLUSTERING_FIRST: Option[str] = Option(
    "hoodie.clustering.plan.strategy.cluster.begin.partition",
    "service",
    "",
    "The first partition that selected_partitions takes, if it names none.",
    str,
)
CLUSTERING_LAST: Option[str] = Option(
    "hoodie.clustering.plan.strategy.cluster.end.partition",
    "service",
    "",
    "The last partition that selected_partitions takes, if it names none.",
    str,
)
CLUSTERING_REGEX: Option[str] = Option(
    "hoodie.clustering.plan.strategy.partition.regex.pattern",
    "service",
    ".*",
    "Which partitions the strategy regex takes.",
    _pattern,
)
CLUSTERING_FILTER_MODE: Option[str] = Option(
    "hoodie.clustering.plan.partition.filter.mode",
    "service",
    "",
    "Apache Hudi's name for a partition filter that goes before the strategy: NONE, RECENT_DAYS, SELECTED_PARTITIONS.",
    choice(none="", recent_days="recent_days", selected_partitions="selected_partitions"),
)
CLUSTERING_FILTER: Option[str] = Option(
    "tidelake.services.clustering.filter",
    "service",
    "",
    "A SQL condition on partition columns: only partitions that it leaves are clustered.",
    str,
)
CLUSTER_INLINE: Option[bool] = Option(
    "hoodie.clustering.inline",
    "service",
    False,
    "Whether writers cluster after their commit, when it is due.",
    true_or_false,
)
CLUSTER_ASYNC: Option[bool] = Option(
    "hoodie.clustering.async.enabled",
    "service",
    False,
    "Whether the service runner clusters, when it is due.",
    true_or_false,
)
CLUSTER_COMMITS: Option[int] = Option(
    "hoodie.clustering.inline.max.commits",
    "service",
    4,
    "After how many writes since the last clustering one is due.",
    at_least(1),
    ("hoodie.clustering.async.max.commits",),
)

SERVICE_OPTIONS: tuple[Option[bool] | Option[str] | Option[int] | Option[tuple[str, ...]], ...] = (
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
    CLUSTERING_STRATEGY,
    CLUSTERING_SORT_COLUMNS,
    CLUSTERING_ORDER,
    CLUSTERING_SMALL_BYTES,
    CLUSTERING_TARGET_BYTES,
    CLUSTERING_GROUP_BYTES,
    CLUSTERING_GROUPS,
    CLUSTERING_DAYS,
    CLUSTERING_SKIPPED_DAYS,
    CLUSTERING_PARTITIONS,
    CLUSTERING_FIRST,
    CLUSTERING_LAST,
    CLUSTERING_REGEX,
    CLUSTERING_FILTER_MODE,
    CLUSTERING_FILTER,
    CLUSTER_INLINE,
    CLUSTER_ASYNC,
    CLUSTER_COMMITS,
    COMPACTION_LOG_BYTES_DUE,
    *CLEAN_OPTIONS,
    *EVENT_TIME_OPTIONS,
)


_OWN_NAMES = own_names(SERVICE_OPTIONS)


def is_service_option(key: str) -> bool:
    """Whether an option is one of a table service."""
    return key.lower() in _OWN_NAMES


def service_options(*layers: Mapping[str, str]) -> dict[str, str]:
    """Options of several places, the last ones count; whatever they are called there, under their own names."""
    merged: dict[str, str] = {}
    for layer in layers:
        named = [(_OWN_NAMES.get(key.lower(), key), key) for key in layer]
        # What has its own name counts more than an alias beside it.
        merged |= {own: layer[key] for own, key in sorted(named, key=lambda pair: pair[0].lower() == pair[1].lower())}
    return merged


def checked_service_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options of one call of a service: a wrong value is refused also where it is not needed, and an unknown name is said."""
    for option in SERVICE_OPTIONS:
        option.of(options)
    for key in options:
        if key.lower().startswith("hoodie.") and not is_service_option(key):
            warnings.warn(f"option {key} is none of a table service and is ignored", UnknownOptionWarning, stacklevel=5)
    return dict(options)
