"""Making a table: its properties, checked, put once.

Everything that could never work is said here and not at the first write: columns that do not exist, reserved names, types
that cannot be keys or ordering values, combinations that Apache Hudi would refuse.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidelake import _limits
from tidelake.config import (
    BUCKET_COUNT,
    EVENT_TIME_FIELD,
    EVENT_TIME_UNIT,
    TABLE_OPTIONS,
    UnknownOptionWarning,
    is_bucket_count,
    parse_table_config,
    refuse_unfit_exact,
)
from tidelake.errors import AlreadyExistsError, InvalidError, OptionError, UnavailableError, UnsupportedError
from tidelake.format.avro_arrow import avro_json
from tidelake.format.names import PROPERTIES_FILE
from tidelake.format.properties import encode_properties, table_checksum
from tidelake.index import value_text
from tidelake.index.time_paths import KEYS, OLD_PREFIX, PREFIX, TimePaths, default_type
from tidelake.merge import refuse_loose
from tidelake.merge.ordering import type_family
from tidelake.schema import plain_schema
from tidelake.storage import Storage
from tidelake.write.columns import refuse_bad_columns
from tidelake.write.create_clocks import clock_properties, is_merge_option, merge_keys, ordering_of
from tidelake.write.event_time import check_event_times
from tidelake.write.rows import refuse_reserved

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_STORED_OPTIONS = (
    "hoodie.table.version",
    "hoodie.database.name",
    "hoodie.record.merge.mode",
    "hoodie.datasource.write.hive_style_partitioning",
    "hoodie.datasource.write.partitionpath.urlencode",
    "hoodie.table.timeline.timezone",
    "hoodie.logfile.data.block.format",
    "hoodie.index.type",
    BUCKET_COUNT,
    "hoodie.simple.index.update.partition.path",
    EVENT_TIME_FIELD,
    EVENT_TIME_UNIT,
    *(option.key for option in TABLE_OPTIONS),
)

_OPTION_VALUES = {
    "hoodie.table.version": ("9", "8"),
    "hoodie.record.merge.mode": ("EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"),
    "hoodie.datasource.write.hive_style_partitioning": ("true", "false"),
    "hoodie.datasource.write.partitionpath.urlencode": ("true", "false"),
    "hoodie.table.timeline.timezone": ("UTC", "LOCAL"),
    "hoodie.logfile.data.block.format": ("parquet", "avro"),
}


def create(
    storage: Storage,
    schema: pa.Schema,
    *,
    name: str,
    record_key: Sequence[str],
    partition_by: Sequence[str],
    table_type: str,
    ordering_fields: Sequence[str],
    event_time_field: str | None,
    options: Mapping[str, str],
) -> None:
    """Put the properties of a new table; ``InvalidError`` says what is wrong with them."""
    schema = plain_schema(schema)
    _check_names(schema, name)
    options = _well_spelt(options)
    event_time_field = event_time_field or options.get(EVENT_TIME_FIELD)
    ordering_fields = ordering_of(ordering_fields, options)
    _check_columns(schema, record_key, partition_by, ordering_fields, event_time_field, options.get(EVENT_TIME_UNIT))
    properties = _properties(
        schema, name, record_key, partition_by, table_type, ordering_fields, event_time_field, options
    )
    config = parse_table_config(properties)
    check_event_times(schema, config.event_time_fields, config.event_time_unit)
    refuse_unfit_exact(config)
    refuse_loose(config, schema)
    text = encode_properties(properties, ("Properties saved by Tidelake",))
    try:
        storage.put_if_absent(PROPERTIES_FILE, text)
    except AlreadyExistsError:
        raise InvalidError(
            f"{storage.uri} is a table already", value=storage.uri, hint="open it with open_table"
        ) from None
    except UnavailableError:
        # If only the answer was lost the table is there, and it is the one that was asked for.
        if not storage.exists(PROPERTIES_FILE) or storage.get(PROPERTIES_FILE) != text:
            raise


def _well_spelt(options: Mapping[str, str]) -> dict[str, str]:
    """The options under the names that a table keeps, and words as it keeps them: case does not count in either."""
    names = {key.lower(): key for key in (*_STORED_OPTIONS, *merge_keys())}
    spelt = {names.get(key.lower(), key): value for key, value in options.items()}
    for key in spelt.keys() & _OPTION_VALUES.keys():
        word = spelt[key].strip().lower()
        spelt[key] = next((known for known in _OPTION_VALUES[key] if known.lower() == word), spelt[key])
    return spelt


def _check_names(schema: pa.Schema, name: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidError(f"{name!r} is no name of a table", value=name, hint="use letters, digits, _ . and -")
    twice = [column for column in schema.names if schema.names.count(column) > 1]
    if twice:
        raise InvalidError(f"the column {twice[0]!r} stands more than once", value=twice[0])
    refuse_reserved(schema.names)
    refuse_bad_columns(schema)
    if not schema.names:
        raise InvalidError("a table needs columns")


def _check_columns(
    schema: pa.Schema,
    record_key: Sequence[str],
    partition_by: Sequence[str],
    ordering_fields: Sequence[str],
    event_time_field: str | None,
    event_time_unit: str | None,
) -> None:
    if not record_key:
        raise InvalidError("a table needs a record key", value=record_key, hint="record_key='id'")
    named = {"record_key": record_key, "partition_by": partition_by, "ordering_fields": ordering_fields}
    if event_time_field is not None:
        named["event_time_field"] = [event_time_field]
    for role, columns in named.items():
        twice = next((column for column in columns if list(columns).count(column) > 1), None)
        if twice is not None:
            raise InvalidError(f"{role} names the column {twice!r} more than once", value=twice)
        for column in columns:
            if column not in schema.names:
                raise InvalidError(
                    f"{role} names the column {column!r}, which the schema does not have",
                    value=column,
                    hint=f"columns are {', '.join(schema.names)}",
                )
    for column in (*record_key, *partition_by):
        value_text(pa.array([], schema.field(column).type), column)
    for column in ordering_fields:
        type_family(schema.field(column).type)
    if event_time_field is None and event_time_unit is not None:
        raise InvalidError(f"{EVENT_TIME_UNIT} is given without an event_time_field", value=event_time_unit)


def _properties(
    schema: pa.Schema,
    name: str,
    record_key: Sequence[str],
    partition_by: Sequence[str],
    table_type: str,
    ordering_fields: Sequence[str],
    event_time_field: str | None,
    options: Mapping[str, str],
) -> dict[str, str]:
    if table_type not in ("MERGE_ON_READ", "COPY_ON_WRITE"):
        raise InvalidError(f"table_type is {table_type!r}, known are MERGE_ON_READ and COPY_ON_WRITE", value=table_type)
    times = _time_properties(schema, record_key, partition_by, options)
    clocks = clock_properties(schema, record_key, partition_by, table_type, options)
    for key in options:
        if key not in _STORED_OPTIONS and not is_merge_option(key) and not key.startswith((PREFIX, OLD_PREFIX)):
            warnings.warn(
                f"option {key} has no meaning for a new table and is ignored", UnknownOptionWarning, stacklevel=4
            )
    for option in TABLE_OPTIONS:
        option.of(options)
    for key, values in _OPTION_VALUES.items():
        if str(options.get(key, values[0])) not in values:
            raise OptionError(f"option {key} is {options[key]!r}, known are {', '.join(values)}", value=options[key])
    if str(options.get("hoodie.simple.index.update.partition.path", "true")).lower() != "true":
        raise UnsupportedError(
            "a row that keeps its old partition (hoodie.simple.index.update.partition.path=false) lies in a folder of "
            "another value than its own, where filters on the partition column do not look",
            value=options["hoodie.simple.index.update.partition.path"],
            hint="leave the option out: a row whose partition changes then moves",
        )
    if options.get("hoodie.record.merge.mode") == "EVENT_TIME_ORDERING" and not ordering_fields:
        raise InvalidError("EVENT_TIME_ORDERING needs ordering_fields", hint="ordering_fields='ts'")
    version = str(options.get("hoodie.table.version", "9"))
    if version == "8" and len(record_key) == 1 and len(partition_by) > 1:
        raise InvalidError(
            "a table of version 8 with one record key and several partition columns is refused by Apache Hudi's writers",
            value=version,
            hint="use version 9, or a second record key",
        )
    if version == "8" and len(ordering_fields) > 1:
        raise InvalidError(
            "a table of version 8 has one ordering field", value=", ".join(ordering_fields), hint="use version 9"
        )
    _check_index(options)
    mode = "EVENT_TIME_ORDERING" if ordering_fields else "COMMIT_TIME_ORDERING"
    properties = {
        "hoodie.table.name": name,
        "hoodie.database.name": "default",
        "hoodie.table.type": table_type,
        "hoodie.table.version": version,
        "hoodie.table.initial.version": version,
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.archivelog.folder": "history",
        "hoodie.table.format": "native",
        "hoodie.table.recordkey.fields": ",".join(record_key),
        "hoodie.record.merge.mode": mode,
        "hoodie.table.keygenerator.type": "TIMESTAMP" if times else _key_generator(record_key, partition_by),
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.create.schema": avro_json(schema, name),
        **times,
    }
    if partition_by:
        properties["hoodie.table.partition.fields"] = ",".join(partition_by)
    if ordering_fields:
        field = "hoodie.table.ordering.fields" if version == "9" else "hoodie.table.precombine.field"
        properties[field] = ",".join(ordering_fields)
    if event_time_field is not None:
        properties[EVENT_TIME_FIELD] = event_time_field
    properties.update({key: str(value) for key, value in options.items() if key in _STORED_OPTIONS})
    properties.update(clocks)
    if version == "8":
        properties.update(_VERSION_8[properties["hoodie.record.merge.mode"]])
    properties["hoodie.table.checksum"] = str(table_checksum(properties))
    return properties


def _check_index(options: Mapping[str, str]) -> None:
    count = options.get(BUCKET_COUNT)
    if count is None:
        return
    if str(options.get("hoodie.index.type", "SIMPLE")).upper() != "BUCKET":
        raise OptionError(f"option {BUCKET_COUNT} goes with hoodie.index.type=BUCKET alone", value=count)
    if not is_bucket_count(count):
        raise OptionError(
            f"option {BUCKET_COUNT} is {count!r}, no count of buckets", value=count, hint=f"1 to {_limits.BUCKETS:,}"
        )


def _time_properties(
    schema: pa.Schema, record_key: Sequence[str], partition_by: Sequence[str], options: Mapping[str, str]
) -> dict[str, str]:
    """The properties of partition paths that are made of times; none if the options ask for no such paths."""
    given = {}
    for key, value in options.items():
        if key.startswith((PREFIX, OLD_PREFIX)):
            short = key.removeprefix(PREFIX).removeprefix(OLD_PREFIX)
            if short not in KEYS:
                raise OptionError(f"option {key} is not known", value=key, hint=f"known are {', '.join(KEYS)}")
            given[PREFIX + short] = str(value)
    if not given:
        return {}
    if len(record_key) != 1 or len(partition_by) != 1:
        raise InvalidError(
            "partition paths made of times need one record key and one partition column, as in Apache Hudi",
            value=", ".join([*record_key, *partition_by]),
        )
    kind = schema.field(partition_by[0]).type
    if PREFIX + "timestamp.type" not in given:
        given = {**default_type(kind), **given}
    if PREFIX + "timestamp.type" not in given:
        raise OptionError(
            f"the partition column {partition_by[0]!r} of type {kind} does not say of itself which time it is",
            value=partition_by[0],
            hint=f"give the option {PREFIX}timestamp.type",
        )
    if not any(PREFIX + key in given for key in ("timezone", "input.timezone", "output.timezone")):
        given[PREFIX + "timezone"] = "UTC"
    TimePaths.of(given).check(partition_by[0], kind)
    return given


_VERSION_8 = {
    "EVENT_TIME_ORDERING": {
        "hoodie.record.merge.strategy.id": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
        "hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    },
    "COMMIT_TIME_ORDERING": {
        "hoodie.record.merge.strategy.id": "ce9acb64-bde0-424c-9b91-f6ebba25356d",
        "hoodie.compaction.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    },
}


def _key_generator(record_key: Sequence[str], partition_by: Sequence[str]) -> str:
    if not partition_by:
        return "NON_PARTITION"
    return "SIMPLE" if len(record_key) == 1 and len(partition_by) == 1 else "COMPLEX"
