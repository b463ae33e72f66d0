"""A table's own configuration: ``hoodie.properties`` as typed values.

Whatever this page does not know by name stays in ``properties``. What a reader must understand to return right rows
(version, layout, merge mode, key generator, base format) is checked here, once, and refused by name if unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from tidelake import _limits
from tidelake.config.clocks import Clocks, parse_clocks, retention_seconds
from tidelake.config.table_options import EVENT_TIME_EXACT
from tidelake.errors import CorruptError, UnsupportedError

SUPPORTED_VERSIONS = (8, 9)
EVENT_TIME_FIELD = "hoodie.payload.event.time.field"
EVENT_TIME_UNIT = "hoodie.payload.event.time.unit"
EVENT_TIME_UNITS = ("s", "ms", "us")
BUCKET_COUNT = "hoodie.bucket.index.num.buckets"
INDEX_TYPES = ("SIMPLE", "GLOBAL_SIMPLE", "BUCKET")
E = TypeVar("E", bound=Enum)

MERGE_PROPERTY_PREFIX = "hoodie.record.merge.property."


class TableType(Enum):
    """How updates reach a table."""

    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


class MergeMode(Enum):
    """Which of two versions of a record wins."""

    COMMIT_TIME = "COMMIT_TIME_ORDERING"
    EVENT_TIME = "EVENT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


class PartialUpdateMode(Enum):
    """Which values of a newer record do not count, so that the older record's stay."""

    IGNORE_DEFAULTS = "IGNORE_DEFAULTS"
    FILL_UNAVAILABLE = "FILL_UNAVAILABLE"


@dataclass(frozen=True, slots=True)
class TableConfig:
    """The configuration that reading and writing need."""

    name: str
    version: int
    table_type: TableType
    merge_mode: MergeMode
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    key_generator: str
    hive_style: bool
    url_encoded: bool
    has_meta_columns: bool
    partial_update_mode: PartialUpdateMode | None
    delete_field: str | None
    delete_marker: str | None
    unavailable_value: str | None
    timeline_dir: str
    history_dir: str
    timezone_is_utc: bool
    create_schema_text: str | None
    properties: Mapping[str, str]
    buckets: int | None = None
    """How many buckets a partition has, if the table's file groups are made by hashing."""
    is_global: bool = False
    """Whether a key stands once in the whole table, not once in each partition."""
    event_time_field: str | None = None
    event_time_unit: str | None = None
    """The unit of an event-time column of numbers: s, ms or us."""
    clocks: Clocks | None = None
    """Several event times in one record, if the table has them."""
    tombstone_seconds: int = 0
    """How long compaction keeps deletes."""
    is_exact: bool = False
    """Whether every version of a row is logged, so that event-time compactions can split at their threshold."""

    @property
    def is_partitioned(self) -> bool:
        return bool(self.partition_fields)

    @property
    def event_time_fields(self) -> tuple[str, ...]:
        """The columns that say when something happened: the event-time field and, if it is one of several, the others."""
        if self.event_time_field is None:
            return ()
        is_one_of = self.clocks is not None and self.event_time_field in self.clocks.fields
        return self.clocks.fields if self.clocks is not None and is_one_of else (self.event_time_field,)


def parse_table_config(properties: Mapping[str, str]) -> TableConfig:
    """The typed configuration; what would make a reader return wrong rows is refused."""
    version = _version(properties)
    _refuse_what_changes_rows(properties)
    ordering = _list(properties, "hoodie.table.ordering.fields") or _list(properties, "hoodie.table.precombine.field")
    timeline_dir = f".hoodie/{properties.get('hoodie.timeline.path', 'timeline')}"
    table_type = _choice(TableType, properties, "hoodie.table.type", TableType.COPY_ON_WRITE)
    clocks = parse_clocks(properties)
    has_logs = table_type is TableType.MERGE_ON_READ
    is_exact = _flag(properties, EVENT_TIME_EXACT.key, False)
    return TableConfig(
        name=properties["hoodie.table.name"],
        version=version,
        table_type=table_type,
        merge_mode=_merge_mode(properties, ordering),
        record_key_fields=_list(properties, "hoodie.table.recordkey.fields"),
        partition_fields=tuple(f.split(":")[0] for f in _list(properties, "hoodie.table.partition.fields")),
        ordering_fields=ordering,
        key_generator=_key_generator(properties),
        hive_style=_flag(properties, "hoodie.datasource.write.hive_style_partitioning", False),
        url_encoded=_flag(properties, "hoodie.datasource.write.partitionpath.urlencode", False),
        has_meta_columns=_flag(properties, "hoodie.populate.meta.fields", True),
        partial_update_mode=_partial_mode(properties),
        delete_field=_merge_property(properties, "hoodie.payload.delete.field"),
        delete_marker=_merge_property(properties, "hoodie.payload.delete.marker"),
        unavailable_value=_unavailable_value(properties),
        timeline_dir=timeline_dir,
        history_dir=f"{timeline_dir}/{properties.get('hoodie.timeline.history.path', 'history')}",
        timezone_is_utc=properties.get("hoodie.table.timeline.timezone", "LOCAL").upper() == "UTC",
        create_schema_text=properties.get("hoodie.table.create.schema") or None,
        properties=dict(properties),
        buckets=_buckets(properties),
        event_time_field=properties.get(EVENT_TIME_FIELD) or properties.get("tidelake.event.time.field") or None,
        event_time_unit=_event_time_unit(properties),
        clocks=clocks,
        tombstone_seconds=retention_seconds(properties, clocks, has_logs=has_logs and not is_exact),
        is_exact=is_exact,
        is_global=_index_type(properties) == "GLOBAL_SIMPLE"
        and bool(_list(properties, "hoodie.table.partition.fields")),
    )


def _event_time_unit(properties: Mapping[str, str]) -> str | None:
    unit = properties.get(EVENT_TIME_UNIT, "").strip().lower() or None
    if unit is not None and unit not in EVENT_TIME_UNITS:
        raise UnsupportedError(
            f"{EVENT_TIME_UNIT}={unit} is unknown, known are {', '.join(EVENT_TIME_UNITS)}", value=unit
        )
    return unit


def _index_type(properties: Mapping[str, str]) -> str:
    kind = properties.get("hoodie.index.type", "SIMPLE").upper()
    if kind not in INDEX_TYPES:
        raise UnsupportedError(f"hoodie.index.type={kind} is not known here, only {', '.join(INDEX_TYPES)}", value=kind)
    return kind


def _buckets(properties: Mapping[str, str]) -> int | None:
    if _index_type(properties) != "BUCKET":
        return None
    text = properties.get(BUCKET_COUNT, "4")
    if not is_bucket_count(text):
        raise CorruptError(f"{BUCKET_COUNT} is {text!r}, no count of buckets", value=text)
    return int(text)


def is_bucket_count(text: str) -> bool:
    """Whether a text is a number of buckets that a partition may have."""
    is_short = text.isascii() and text.isdigit() and len(text.lstrip("0")) <= len(str(_limits.BUCKETS))
    return is_short and 0 < int(text) <= _limits.BUCKETS


def _version(properties: Mapping[str, str]) -> int:
    text = properties.get("hoodie.table.version", "")
    try:
        version = int(text)
    except ValueError:
        raise CorruptError(f"hoodie.table.version is {text!r}, not a number", value=text) from None
    if version not in SUPPORTED_VERSIONS:
        known = " and ".join(str(v) for v in SUPPORTED_VERSIONS)
        newer = version > max(SUPPORTED_VERSIONS)
        hint = "a newer Tidelake may read it" if newer else "upgrade the table with Apache Hudi 1.x"
        raise UnsupportedError(f"table version {version} is not read, only {known}", value=version, hint=hint)
    layout = properties.get("hoodie.timeline.layout.version", "2")
    if layout != "2":
        raise UnsupportedError(f"timeline layout version {layout} does not go with table version {version}")
    return version


def _refuse_what_changes_rows(properties: Mapping[str, str]) -> None:
    base_format = properties.get("hoodie.table.base.file.format", "PARQUET").upper()
    if base_format != "PARQUET":
        raise UnsupportedError(f"base files of format {base_format} are not read, only PARQUET", value=base_format)
    for key, meaning in (
        ("hoodie.table.multiple.base.file.formats.enable", "several base file formats in one table"),
        ("hoodie.datasource.write.drop.partition.columns", "partition columns that are not stored in the files"),
    ):
        if _flag(properties, key, False):
            raise UnsupportedError(f"{key}=true ({meaning}) is not read", value=key)
    if properties.get("hoodie.bootstrap.base.path"):
        raise UnsupportedError("bootstrapped tables (hoodie.bootstrap.base.path) are not read")


def _merge_mode(properties: Mapping[str, str], ordering: tuple[str, ...]) -> MergeMode:
    inferred = MergeMode.EVENT_TIME if ordering else MergeMode.COMMIT_TIME
    mode = _choice(MergeMode, properties, "hoodie.record.merge.mode", inferred)
    return MergeMode.COMMIT_TIME if mode is MergeMode.EVENT_TIME and not ordering else mode


def _partial_mode(properties: Mapping[str, str]) -> PartialUpdateMode | None:
    if not properties.get("hoodie.table.partial.update.mode"):
        return None
    return _choice(PartialUpdateMode, properties, "hoodie.table.partial.update.mode", PartialUpdateMode.IGNORE_DEFAULTS)


def _key_generator(properties: Mapping[str, str]) -> str:
    stated = properties.get("hoodie.table.keygenerator.type")
    if stated:
        return stated.upper().removesuffix("_AVRO")
    partitions = _list(properties, "hoodie.table.partition.fields")
    if not partitions:
        return "NON_PARTITION"
    single = len(partitions) == 1 and len(_list(properties, "hoodie.table.recordkey.fields")) == 1
    return "SIMPLE" if single else "COMPLEX"


def _merge_property(properties: Mapping[str, str], key: str) -> str | None:
    return properties.get(MERGE_PROPERTY_PREFIX + key) or properties.get(key) or None


def _unavailable_value(properties: Mapping[str, str]) -> str | None:
    for key, value in properties.items():
        if key.startswith(MERGE_PROPERTY_PREFIX) and key.endswith("unavailable.value"):
            return value
    return None


def _list(properties: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in properties.get(key, "").split(",") if part.strip())


def _flag(properties: Mapping[str, str], key: str, default: bool) -> bool:
    text = properties.get(key, "").strip().lower()
    if text in ("", "true", "false"):
        return default if text == "" else text == "true"
    raise CorruptError(f"{key} is {text!r}, neither true nor false", value=text)


def _choice(kind: type[E], properties: Mapping[str, str], key: str, default: E) -> E:
    text = properties.get(key, "").strip()
    if not text:
        return default
    try:
        return kind(text.upper())
    except ValueError:
        known = ", ".join(str(member.value) for member in kind)
        raise UnsupportedError(f"{key}={text} is unknown, known are {known}", value=text) from None
