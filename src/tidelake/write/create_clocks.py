"""Making a table with several event times: what could never work is refused here, with the name that is wrong."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidelake.config import (
    ALL,
    CLOCK_FIELDS,
    CLOCK_MODE,
    CUSTOM,
    MERGE_OPTIONS,
    MERGER,
    PAYLOAD_KEYS,
    PER_GROUP,
    STRATEGY_IDS,
    TOMBSTONE_RETENTION,
    Clocks,
    UnknownOptionWarning,
    groups_of,
    is_clock_option,
    is_enabled,
)
from tidelake.config.clocks import MERGE_MODE, ORDERING_KEYS, parse_clocks
from tidelake.config.merge_options import CLOCKS_ENABLED, DEFAULT_SUFFIX, GROUP_SUFFIX, PAYLOADS_OF_ALL
from tidelake.errors import InvalidError, OptionError, UnsupportedError
from tidelake.merge.clock_values import clock_default, refuse_incomparable
from tidelake.merge.mergers import merger_class
from tidelake.schema import META_COLUMN_NAMES
from tidelake.write.rejects import refuse_unfit_folder

_OWN = frozenset(option.key for option in MERGE_OPTIONS)
_PLAIN_PAYLOADS = ("OverwriteWithLatestAvroPayload", "DefaultHoodieRecordPayload", "EventTimeAvroPayload")
"""Payload classes that say what the merge mode says."""


def ordering_of(ordering_fields: Sequence[str], options: Mapping[str, str]) -> tuple[str, ...]:
    """The ordering fields that a table gets: as they are given, by an alias, or the single event time of the options."""
    given, said = tuple(ordering_fields), "ordering_fields"
    for alias in ORDERING_KEYS:
        named = tuple(part.strip() for part in str(options.get(alias, "")).split(",") if part.strip())
        if named and given and named != given:
            raise InvalidError(f"{alias} and {said} name different columns", value=",".join(named))
        given, said = (given, said) if given or not named else (named, alias)
    fields = CLOCK_FIELDS.of(options)
    if not is_enabled(options) or CLOCK_MODE.of(options) == CUSTOM:
        return given
    if not fields:
        raise InvalidError(f"several event times are switched on without {CLOCK_FIELDS.key}", value=CLOCK_FIELDS.key)
    if given and given != fields:
        raise InvalidError(
            f"{said} and {CLOCK_FIELDS.key} exclude each other", value=",".join(given), hint="leave one out"
        )
    return fields if len(fields) == 1 else ()


def clock_properties(
    schema: pa.Schema,
    record_key: Sequence[str],
    partition_by: Sequence[str],
    table_type: str,
    options: Mapping[str, str],
) -> dict[str, str]:
    """What the table keeps of the options of several event times; nothing if they are off, or there is one."""
    for option in MERGE_OPTIONS:
        option.of(options)
    clocks = parse_clocks(options)
    kept = (
        {TOMBSTONE_RETENTION.key: str(options[TOMBSTONE_RETENTION.key])} if TOMBSTONE_RETENTION.key in options else {}
    )
    _check_retention(options, table_type, clocks)
    _warn_of_payloads(options)
    if clocks is None:
        _warn_of_idle(options)
        return kept
    _check_fields(schema, clocks, record_key, partition_by)
    if clocks.mode == PER_GROUP:
        _check_groups(schema, clocks, groups_of(options), (*record_key, *partition_by))
    if clocks.mode == CUSTOM:
        if clocks.merger is None:
            raise InvalidError(f"mode {CUSTOM} needs {MERGER.key}", value=MERGER.key, hint="tl.register_merger")
        merger_class(clocks.merger)
    for column, text in clocks.defaults:
        _known(schema, column, "a default")
        if column in clocks.fields or column in record_key:
            what = "record key" if column in record_key else "event time"
            raise InvalidError(f"the {what} {column!r} has no default: null is none", value=column)
        clock_default(column, text, schema.field(column).type)
    if str(options.get("hoodie.index.type", "SIMPLE")).upper() == "GLOBAL_SIMPLE":
        raise UnsupportedError(
            "rows with several event times are not moved between partitions, as the index GLOBAL_SIMPLE does",
            value="GLOBAL_SIMPLE",
            hint="SIMPLE or BUCKET",
        )
    if str(options.get("hoodie.table.version", "9")) == "8":
        raise InvalidError("several event times need a table of version 9", value="8")
    _refuse_other_modes(options, clocks)
    refuse_unfit_folder(clocks.rejects_path)
    kept.update({key: str(value) for key, value in options.items() if key in _OWN or is_clock_option(key)})
    kept |= {CLOCKS_ENABLED.key: "true", CLOCK_MODE.key: clocks.mode}
    if clocks.is_eager and table_type == "COPY_ON_WRITE":
        raise InvalidError("a copy-on-write table merges when it is written anyway", value="eager", hint="leave it out")
    is_known = clocks.is_eager or table_type == "COPY_ON_WRITE"
    kept["hoodie.record.merge.mode"] = "COMMIT_TIME_ORDERING" if is_known else "CUSTOM"
    if not is_known:
        kept["hoodie.record.merge.strategy.id"] = STRATEGY_IDS[clocks.mode]
    return kept


def merge_keys() -> tuple[str, ...]:
    """The options of a new table that are of these, but for those that name columns."""
    return (*_OWN, *ORDERING_KEYS, *PAYLOAD_KEYS)


def is_merge_option(key: str) -> bool:
    """Whether an option of a new table is one of these."""
    return key in merge_keys() or is_clock_option(key)


def _check_retention(options: Mapping[str, str], table_type: str, clocks: Clocks | None) -> None:
    keeps_none = table_type == "COPY_ON_WRITE" or (clocks is not None and (clocks.is_eager or clocks.mode == CUSTOM))
    if TOMBSTONE_RETENTION.of(options) and keeps_none:
        raise OptionError(
            f"{TOMBSTONE_RETENTION.key} is for tables that merge when they are read: this one keeps no deletes",
            value=TOMBSTONE_RETENTION.key,
        )


def _refuse_other_modes(options: Mapping[str, str], clocks: Clocks) -> None:
    """Refuse what belongs to another mode: who gave it wants another merge than the table would have."""
    named = [key for key in options if is_clock_option(key)]
    modes = {key: PER_GROUP for key in named if key.endswith(GROUP_SUFFIX)}
    modes |= {key: ALL for key in named if key.endswith(DEFAULT_SUFFIX)}
    if MERGER.of(options) is not None:
        modes[MERGER.key] = CUSTOM
    for key, mode in modes.items():
        if mode != clocks.mode:
            raise InvalidError(
                f"{key} goes with mode {mode}, and the mode is {clocks.mode}",
                value=key,
                hint=f"{CLOCK_MODE.key}={mode}",
            )
    if options.get(MERGE_MODE):
        raise InvalidError(
            f"{MERGE_MODE} is for tables of one ordering, and this one has several event times",
            value=options[MERGE_MODE],
            hint="leave it out",
        )


def _warn_of_idle(options: Mapping[str, str]) -> None:
    """Options of several event times have no effect on a table that has none, or one: that is said."""
    if options.get(CLOCKS_ENABLED.key, "").strip().lower() == "false":
        return  # switched off, and the rest left as it was
    used = {CLOCKS_ENABLED.key, TOMBSTONE_RETENTION.key}
    if is_enabled(options):
        used |= {CLOCK_FIELDS.key, CLOCK_MODE.key}
    for key in options:
        if (key in _OWN and key not in used) or is_clock_option(key):
            warnings.warn(
                f"option {key} has no effect on a table without several event times ({CLOCKS_ENABLED.key}=true and two "
                f"or more {CLOCK_FIELDS.key})",
                UnknownOptionWarning,
                stacklevel=6,
            )


def _warn_of_payloads(options: Mapping[str, str]) -> None:
    for key in PAYLOAD_KEYS:
        name = str(options.get(key, "")).rpartition(".")[2]
        if name and name not in (*PAYLOADS_OF_ALL, *_PLAIN_PAYLOADS):
            warnings.warn(
                f"option {key} is {options[key]!r}, a class that is not known here: it is ignored",
                UnknownOptionWarning,
                stacklevel=6,
            )


def _check_fields(schema: pa.Schema, clocks: Clocks, record_key: Sequence[str], partition_by: Sequence[str]) -> None:
    twice = next((name for name in clocks.fields if clocks.fields.count(name) > 1), None)
    if twice is not None:
        raise InvalidError(f"the event time {twice!r} is named more than once", value=twice)
    for name in clocks.fields:
        _known(schema, name, "an event time")
        if name in record_key:
            raise InvalidError(f"the record key {name!r} cannot be an event time", value=name)
        if name in partition_by:
            raise InvalidError(f"the partition column {name!r} cannot be an event time", value=name)
        if not schema.field(name).nullable and clocks.mode != ALL:
            raise InvalidError(f"the event time {name!r} must be nullable: a delete may leave it out", value=name)
        refuse_incomparable(name, schema.field(name).type)


def _check_groups(
    schema: pa.Schema, clocks: Clocks, groups: Mapping[str, tuple[str, ...]], identity: Sequence[str]
) -> None:
    foreign = next((name for name in groups if name not in clocks.fields), None)
    if foreign is not None:
        raise InvalidError(
            f"{foreign!r} has a sequence group and is not one of the event times",
            value=foreign,
            hint=f"{CLOCK_FIELDS.key}={','.join(clocks.fields)}",
        )
    if not groups:
        raise InvalidError("mode per_group needs groups", hint="fields.<event time>.sequence-group=column,column")
    owner: dict[str, str] = {}
    for field, columns in groups.items():
        for column in columns:
            _known(schema, column, f"the sequence group of {field!r}")
            if column in identity:
                raise InvalidError(f"the column {column!r} says which record it is and is in no group", value=column)
            if column in clocks.fields and column != field:
                raise InvalidError(f"the event time {column!r} is in the group of {field!r}", value=column)
            if column in owner:
                raise InvalidError(
                    f"the column {column!r} is in the groups of {owner[column]!r} and {field!r}", value=column
                )
            owner[column] = field
            if not schema.field(column).nullable:
                raise InvalidError(
                    f"the column {column!r} of a group must be nullable: a group may be empty", value=column
                )


def _known(schema: pa.Schema, name: str, role: str) -> None:
    if name not in schema.names or name in META_COLUMN_NAMES:
        raise InvalidError(
            f"{role} names the column {name!r}, which the schema does not have",
            value=name,
            hint=f"columns are {', '.join(schema.names)}",
        )
