"""Making a table with several event times: what could never work is refused here, with the name that is wrong."""

from __future__ import annotations

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
    groups_of,
    is_clock_option,
    is_enabled,
)
from tidelake.config.clocks import parse_clocks
from tidelake.config.merge_options import CLOCKS_ENABLED
from tidelake.errors import InvalidError, OptionError, UnsupportedError
from tidelake.merge.clock_values import clock_default, refuse_incomparable
from tidelake.merge.mergers import merger_class
from tidelake.schema import META_COLUMN_NAMES

ORDERING_ALIASES = ("hoodie.datasource.write.precombine.field", "write.precombine.field")
_OWN = frozenset(option.key for option in MERGE_OPTIONS)


def ordering_of(ordering_fields: Sequence[str], options: Mapping[str, str]) -> tuple[str, ...]:
    """The ordering fields that a table gets: as they are given, by an alias, or the single event time of the options."""
    given = tuple(ordering_fields)
    for alias in ORDERING_ALIASES:
        named = tuple(part.strip() for part in str(options.get(alias, "")).split(",") if part.strip())
        if named and given and named != given:
            raise InvalidError(f"{alias} and ordering_fields name different columns", value=",".join(named))
        given = given or named
    fields = CLOCK_FIELDS.of(options)
    if not is_enabled(options) or CLOCK_MODE.of(options) == CUSTOM:
        return given
    if not fields:
        raise InvalidError(f"several event times are switched on without {CLOCK_FIELDS.key}", value=CLOCK_FIELDS.key)
    if given and given != fields:
        raise InvalidError(
            f"ordering_fields and {CLOCK_FIELDS.key} exclude each other", value=",".join(given), hint="leave one out"
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
    if clocks is None:
        return kept
    _check_fields(schema, clocks, record_key, partition_by)
    if clocks.mode == PER_GROUP:
        _check_groups(schema, clocks, groups_of(options), (*record_key, *partition_by))
    if clocks.mode == CUSTOM:
        merger_class(MERGER.of(options))
    for column, text in clocks.defaults:
        _known(schema, column, "a default")
        clock_default(column, text, schema.field(column).type)
    if str(options.get("hoodie.index.type", "SIMPLE")).upper() == "GLOBAL_SIMPLE":
        raise UnsupportedError(
            "rows with several event times are not moved between partitions, as the index GLOBAL_SIMPLE does",
            value="GLOBAL_SIMPLE",
            hint="SIMPLE or BUCKET",
        )
    if str(options.get("hoodie.table.version", "9")) == "8":
        raise InvalidError("several event times need a table of version 9", value="8")
    kept.update({key: str(value) for key, value in options.items() if key in _OWN or is_clock_option(key)})
    kept |= {CLOCKS_ENABLED.key: "true", CLOCK_MODE.key: clocks.mode}
    if clocks.is_eager and table_type == "COPY_ON_WRITE":
        raise InvalidError("a copy-on-write table merges when it is written anyway", value="eager", hint="leave it out")
    is_known = clocks.is_eager or table_type == "COPY_ON_WRITE"
    kept["hoodie.record.merge.mode"] = "COMMIT_TIME_ORDERING" if is_known else "CUSTOM"
    if not is_known:
        kept["hoodie.record.merge.strategy.id"] = STRATEGY_IDS[clocks.mode]
    return kept


def is_merge_option(key: str) -> bool:
    """Whether an option of a new table is one of these."""
    return key in _OWN or is_clock_option(key) or key in ORDERING_ALIASES or key in PAYLOAD_KEYS


def _check_retention(options: Mapping[str, str], table_type: str, clocks: Clocks | None) -> None:
    keeps_none = table_type == "COPY_ON_WRITE" or (clocks is not None and (clocks.is_eager or clocks.mode == CUSTOM))
    if TOMBSTONE_RETENTION.of(options) and keeps_none:
        raise OptionError(
            f"{TOMBSTONE_RETENTION.key} is for tables that merge when they are read: this one keeps no deletes",
            value=options[TOMBSTONE_RETENTION.key],
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
