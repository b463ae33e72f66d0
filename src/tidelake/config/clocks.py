"""Several event times in one record: which columns they are, and what each of them decides.

``Clocks`` is what a table's properties say. A single event time is no case of this: it is plain event-time ordering.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidelake.config.merge_options import (
    CLOCK_FIELDS,
    CLOCK_MODE,
    CLOCKS_ENABLED,
    DAY_SECONDS,
    DEFAULT_SUFFIX,
    DEFAULTS,
    GROUP_PREFIX,
    GROUP_SUFFIX,
    MERGER,
    PAYLOAD_KEYS,
    PAYLOADS_OF_ALL,
    REJECTS_PATH,
    RESOLVE,
    TOMBSTONE_RETENTION,
    UNTIMED,
)
from tidelake.errors import InvalidError

ALL, PER_GROUP, CUSTOM = "all", "per_group", "custom"
MERGE_MODE = "hoodie.record.merge.mode"
ORDERING_KEYS = (
    "hoodie.table.ordering.fields",
    "hoodie.table.precombine.field",
    "hoodie.datasource.write.precombine.field",
    "write.precombine.field",
)
"""Names under which a table's ordering fields may be given; a table keeps them under one of the first two."""
STRATEGY_IDS = {
    ALL: "5a0c8c1e-6d0f-5f0e-9a51-7b6f2f4f1a01",
    PER_GROUP: "5a0c8c1e-6d0f-5f0e-9a51-7b6f2f4f1a02",
    CUSTOM: "5a0c8c1e-6d0f-5f0e-9a51-7b6f2f4f1a03",
}
"""Merge strategies that no other engine has: their readers refuse to merge instead of giving wrong rows."""
_RETENTION_SECONDS = 7 * DAY_SECONDS


@dataclass(frozen=True, slots=True)
class Clocks:
    """How the records of a table with several event times merge."""

    mode: str
    fields: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    """Of mode per_group: the columns that follow each of the fields, in the fields' order."""
    merger: str | None
    accepts_untimed: bool
    defaults: tuple[tuple[str, str], ...]
    """Columns and their defaults as text: such a value does not overwrite (mode all)."""
    rejects_path: str | None
    is_eager: bool

    @property
    def is_sequential(self) -> bool:
        """Whether records must be applied one by one, so that they are never folded with each other."""
        return self.mode != PER_GROUP


def parse_clocks(properties: Mapping[str, str]) -> Clocks | None:
    """The event times of a table's properties; None for the standard modes."""
    if not is_enabled(properties):
        return None
    mode, fields = CLOCK_MODE.of(properties), CLOCK_FIELDS.of(properties)
    if mode != CUSTOM and len(fields) < 2:
        return None
    groups = groups_of(properties) if mode == PER_GROUP else {}
    keeps = mode == ALL and DEFAULTS.of(properties) == "keep"
    return Clocks(
        mode=mode,
        fields=fields,
        groups=tuple(groups.get(field, ()) for field in fields) if mode == PER_GROUP else (),
        merger=MERGER.of(properties) if mode == CUSTOM else None,
        accepts_untimed=mode == CUSTOM or UNTIMED.of(properties) == "accept",
        defaults=tuple(sorted(_named(properties, DEFAULT_SUFFIX).items())) if keeps else (),
        rejects_path=REJECTS_PATH.of(properties),
        is_eager=RESOLVE.of(properties) == "eager",
    )


def is_enabled(options: Mapping[str, str]) -> bool:
    """Whether several event times are switched on, by the switch or by a payload class of the proposal."""
    payloads = (str(options.get(key, "")).rpartition(".")[2] for key in PAYLOAD_KEYS)
    return CLOCKS_ENABLED.of(options) or any(payload in PAYLOADS_OF_ALL for payload in payloads)


def groups_of(options: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The columns of each sequence group, by its event time."""
    named = _named(options, GROUP_SUFFIX)
    return {name: tuple(part.strip() for part in text.split(",") if part.strip()) for name, text in named.items()}


def _named(options: Mapping[str, str], suffix: str) -> dict[str, str]:
    return {
        key.removeprefix(GROUP_PREFIX).removesuffix(suffix): str(value)
        for key, value in options.items()
        if key.startswith(GROUP_PREFIX) and key.endswith(suffix)
    }


def retention_seconds(properties: Mapping[str, str], clocks: Clocks | None, *, has_logs: bool) -> int:
    """How long compaction keeps deletes: seven days with several event times, not at all elsewhere, unless it is said.

    ``has_logs`` says whether there are logs to keep them in.
    """
    given = TOMBSTONE_RETENTION.of(properties)
    if given is not None:
        return given
    lasts = clocks is not None and clocks.mode != CUSTOM and not clocks.is_eager and has_logs
    return _RETENTION_SECONDS if lasts else 0


def is_clock_option(key: str) -> bool:
    """Whether an option names a group's columns or a column's default."""
    return key.startswith(GROUP_PREFIX) and key.endswith((GROUP_SUFFIX, DEFAULT_SUFFIX))


def refuse_other_rules(properties: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Refuse options that would merge a table's records by other rules than it was made with; returns all other options.

    What is written was merged by the table's rules, and what they rejected is gone.
    """
    keys = {CLOCKS_ENABLED.key, CLOCK_FIELDS.key, CLOCK_MODE.key, MERGER.key, UNTIMED.key, DEFAULTS.key, RESOLVE.key}
    given = {k: v for k, v in options.items() if k in keys or k in PAYLOAD_KEYS or is_clock_option(k)}
    rules = parse_clocks(properties)
    if parse_clocks({**properties, **given}) != rules:
        key = next(key for key, value in given.items() if properties.get(key) != value)
        raise _other_rules(key, given[key], rules)
    kept = _kept_rules(properties, rules)
    for key in options:
        if key in kept and kept[key] != "".join(options[key].split()):
            raise _other_rules(key, options[key], rules)
    return {key: value for key, value in options.items() if key not in given and key not in kept}


def _kept_rules(properties: Mapping[str, str], rules: Clocks | None) -> dict[str, str]:
    """Rules of a table that an option may repeat, by the option's name, as they are."""
    ordering = next((properties[key] for key in ORDERING_KEYS[:2] if properties.get(key)), "")
    made = dict.fromkeys(ORDERING_KEYS, "".join(ordering.split()))
    if rules is not None and len(rules.fields) > 1:
        made = dict.fromkeys(ORDERING_KEYS, ",".join(rules.fields))
    made |= {key: properties.get(key, "") for key in (REJECTS_PATH.key, TOMBSTONE_RETENTION.key)}
    mode = properties.get(MERGE_MODE)
    return made if mode is None else {**made, MERGE_MODE: mode}


def _other_rules(key: str, value: str, rules: Clocks | None) -> InvalidError:
    by = "by one rule for the whole record" if rules is None else f"in mode {rules.mode}"
    return InvalidError(
        f"the option {key} is {value!r}, but the table merges {by}",
        value=key,
        hint="how records merge is settled when a table is made: make another one, and write the rows into it",
    )
