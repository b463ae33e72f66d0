"""Options of cleaning, under Apache Hudi's names. A table may keep them, a handle may have its own, a call may say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidelake.config.options import Option, true_or_false
from tidelake.config.write_options import at_least
from tidelake.errors import OptionError

KEEP_COMMITS = "KEEP_LATEST_COMMITS"
KEEP_HOURS = "KEEP_LATEST_BY_HOURS"
KEEP_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
CLEAN_POLICIES = (KEEP_COMMITS, KEEP_HOURS, KEEP_VERSIONS)
BY_COMMITS = "NUM_COMMITS"


def _policy(text: str) -> str:
    name = text.strip().upper()
    if name not in CLEAN_POLICIES:
        raise ValueError(f"it must be one of {', '.join(CLEAN_POLICIES)}")
    return name


def _trigger(text: str) -> str:
    name = text.strip().upper()
    if name != BY_COMMITS:
        raise ValueError(f"it must be {BY_COMMITS}")
    return name


CLEAN_POLICY: Option[str] = Option(
    "hoodie.clean.policy",
    "service",
    KEEP_COMMITS,
    "Which versions of files stay: those that the last commits, the last hours, or so many versions of a group need.",
    _policy,
    ("hoodie.cleaner.policy",),
)
CLEAN_COMMITS: Option[int] = Option(
    "hoodie.clean.commits.retained",
    "service",
    10,
    "KEEP_LATEST_COMMITS: as of how many commits back the table can be read.",
    at_least(1),
    ("hoodie.cleaner.commits.retained",),
)
CLEAN_HOURS: Option[int] = Option(
    "hoodie.clean.hours.retained",
    "service",
    24,
    "KEEP_LATEST_BY_HOURS: as of how many hours back the table can be read.",
    at_least(1),
    ("hoodie.cleaner.hours.retained",),
)
CLEAN_VERSIONS: Option[int] = Option(
    "hoodie.clean.fileversions.retained",
    "service",
    3,
    "KEEP_LATEST_FILE_VERSIONS: how many file slices of each file group stay.",
    at_least(1),
    ("hoodie.cleaner.fileversions.retained",),
)
CLEAN_INCREMENTAL: Option[bool] = Option(
    "hoodie.clean.incremental.enabled",
    "service",
    True,
    "Look only at partitions that have changed since the last clean, and at those where something was left.",
    true_or_false,
    ("hoodie.cleaner.incremental.mode",),
)
CLEAN_AUTOMATIC: Option[bool] = Option(
    "hoodie.clean.automatic",
    "service",
    True,
    "Whether the service runner cleans.",
    true_or_false,
)
CLEAN_MIN_AGE: Option[int] = Option(
    "tidelake.clean.min.age.seconds",
    "service",
    0,
    "For how long a file stays after it was superseded, whatever the policy: readers that began before need it.",
    at_least(0),
)
CLEAN_TRIGGER: Option[str] = Option(
    "hoodie.clean.trigger.strategy",
    "service",
    BY_COMMITS,
    "What makes a clean due: NUM_COMMITS, the number of commits since the last one.",
    _trigger,
)
CLEAN_TRIGGER_COMMITS: Option[int] = Option(
    "hoodie.clean.trigger.max.commits",
    "service",
    0,
    "How many commits must have completed since the last clean for another to be made; 0: none, it is always due.",
    at_least(0),
    ("hoodie.clean.max.commits",),
)
CLEAN_OPTIONS: tuple[Option[str] | Option[int] | Option[bool], ...] = (
    CLEAN_POLICY,
    CLEAN_COMMITS,
    CLEAN_HOURS,
    CLEAN_VERSIONS,
    CLEAN_INCREMENTAL,
    CLEAN_AUTOMATIC,
    CLEAN_MIN_AGE,
    CLEAN_TRIGGER,
    CLEAN_TRIGGER_COMMITS,
)
_RETAINED = {KEEP_COMMITS: CLEAN_COMMITS, KEEP_HOURS: CLEAN_HOURS, KEEP_VERSIONS: CLEAN_VERSIONS}


@dataclass(frozen=True, slots=True)
class CleanOptions:
    """What a clean keeps. ``retain`` counts commits, hours or versions, as the policy says."""

    policy: str = KEEP_COMMITS
    retain: int = CLEAN_COMMITS.default
    is_incremental: bool = True
    min_age_s: int = CLEAN_MIN_AGE.default
    due_after: int = CLEAN_TRIGGER_COMMITS.default
    """So many commits must have completed since the last clean."""


def clean_options(options: Mapping[str, str], policy: str | None = None, retain: int | None = None) -> CleanOptions:
    """The options of a clean, checked; ``policy`` and ``retain`` are a caller's own."""
    if policy is not None and not isinstance(policy, str):
        raise OptionError(f"policy is {policy!r} and not a name", value=policy)
    chosen = CLEAN_POLICY.of({CLEAN_POLICY.key: policy} if policy is not None else options)
    counted = _RETAINED[chosen]
    if retain is not None and (isinstance(retain, bool) or not isinstance(retain, int)):
        raise OptionError(f"retain is {retain!r} and not a number", value=retain)
    kept = counted.of(options if retain is None else {counted.key: str(retain)})
    CLEAN_TRIGGER.of(options)  # there is one, and others are refused
    return CleanOptions(
        chosen, kept, CLEAN_INCREMENTAL.of(options), CLEAN_MIN_AGE.of(options), CLEAN_TRIGGER_COMMITS.of(options)
    )
