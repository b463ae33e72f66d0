"""How the records of a table merge: one frozen value, made from the table's configuration and schema.

What cannot be merged right is refused here, by name: a custom strategy is user code that this process does not have.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidelake.config import CUSTOM, PER_GROUP, Clocks, MergeMode, PartialUpdateMode, TableConfig, TableType
from tidelake.errors import CorruptError, InvalidError, UnsupportedError
from tidelake.merge.mergers import Merger, merger_class
from tidelake.schema import META_COLUMN_NAMES, RECORD_KEY

IS_DELETED = "_hoodie_is_deleted"
OPERATION = "_hoodie_operation"


@dataclass(frozen=True, slots=True)
class MergeSpec:
    """The merge rules of a table, for data of one schema.

    ``key_fields`` is empty if the key is the meta column; else the key is made from these columns.
    """

    is_event_time: bool
    ordering_fields: tuple[str, ...]
    ordering_types: tuple[pa.DataType, ...]
    key_fields: tuple[str, ...]
    is_complex_key: bool
    partial_mode: PartialUpdateMode | None
    unavailable_value: str | None
    delete_field: str | None
    delete_marker: str | None
    has_is_deleted: bool
    has_operation: bool
    clocks: Clocks | None = None
    """Several event times; ``ordering_fields`` are then these, and ``is_event_time`` is not."""
    merger: type[Merger] | None = None
    has_loose: bool = False
    """Whether there are columns of no group, which follow the order of commits (mode per_group)."""
    is_exact: bool = False
    """Whether records are split at event times, so that what a group shows must follow from its own versions alone."""
    ends_with_values: bool = False
    """Whether a delete that leaves no value in any group ends the row, since none is kept that tells more (mode per_group)."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that merging reads, whatever the query asks for."""
        names = [*(self.key_fields or (RECORD_KEY,)), *self.ordering_fields]
        if self.ends_with_values and self.clocks is not None:
            names += [name for group in self.clocks.groups for name in group]
        return tuple(dict.fromkeys([*(name.split(".")[0] for name in names), *self.delete_columns]))

    @property
    def delete_columns(self) -> tuple[str, ...]:
        """The columns that say whether a row is a delete."""
        names = []
        if self.delete_field is not None:
            names.append(self.delete_field.split(".")[0])
        if self.has_is_deleted:
            names.append(IS_DELETED)
        if self.has_operation:
            names.append(OPERATION)
        return tuple(dict.fromkeys(names))


def merge_spec(config: TableConfig, schema: pa.Schema) -> MergeSpec:
    """The merge rules of a table whose schema (with meta columns) is given: those by which its files are read."""
    if config.clocks is None and config.merge_mode is MergeMode.CUSTOM:
        raise _custom(config)
    is_logged = config.table_type is TableType.MERGE_ON_READ
    if config.clocks is not None and config.clocks.is_eager and is_logged:
        return _spec(config, schema, None)
    return _spec(config, schema, config.clocks)


def resolve_spec(config: TableConfig, schema: pa.Schema) -> MergeSpec | None:
    """The rules by which a write merges before anything is logged; None where logs are merged later, or never."""
    clocks = config.clocks
    is_eager = clocks is not None and clocks.is_eager and config.table_type is TableType.MERGE_ON_READ
    return _spec(config, schema, clocks) if is_eager else None


def _spec(config: TableConfig, schema: pa.Schema, clocks: Clocks | None) -> MergeSpec:
    is_event_time = config.merge_mode is MergeMode.EVENT_TIME and clocks is None
    ordering = config.ordering_fields if is_event_time else () if clocks is None else clocks.fields
    delete_field = config.delete_field if config.delete_marker is not None else None
    return MergeSpec(
        is_event_time=is_event_time,
        ordering_fields=ordering,
        ordering_types=tuple(_field_type(schema, name, config.name) for name in ordering),
        key_fields=() if config.has_meta_columns else config.record_key_fields,
        is_complex_key=config.key_generator == "COMPLEX" or len(config.record_key_fields) > 1,
        partial_mode=config.partial_update_mode,
        unavailable_value=config.unavailable_value,
        delete_field=delete_field if delete_field in schema.names else None,
        delete_marker=config.delete_marker,
        has_is_deleted=IS_DELETED in schema.names and pa.types.is_boolean(schema.field(IS_DELETED).type),
        has_operation=OPERATION in schema.names,
        clocks=clocks,
        has_loose=clocks is not None and bool(_loose(config, clocks, schema)),
        is_exact=config.is_exact,
        ends_with_values=_ends_with_values(config, clocks),
        merger=None if clocks is None or clocks.mode != CUSTOM else merger_class(clocks.merger),
    )


def refuse_loose(config: TableConfig, schema: pa.Schema) -> None:
    """Refuse columns of no group on an exact table: they have no event time, and no side of a threshold."""
    if not config.is_exact or config.clocks is None:
        return
    loose = _loose(config, config.clocks, schema)
    if loose:
        raise InvalidError(
            f"the column {loose[0]!r} is in no group, and an exact table with several event times splits by groups",
            value=loose[0],
            table=config.name,
            hint="name it in fields.<event time>.sequence-group when the table is made",
        )


def _ends_with_values(config: TableConfig, clocks: Clocks | None) -> bool:
    is_grouped = clocks is not None and clocks.mode == PER_GROUP
    # On an exact table a group that a delete ended shows no event time, which tells it from one of nulls.
    return is_grouped and not config.is_exact and not config.tombstone_seconds


def _loose(config: TableConfig, clocks: Clocks, schema: pa.Schema) -> list[str]:
    bound = {*META_COLUMN_NAMES, IS_DELETED, OPERATION, *config.record_key_fields, *config.partition_fields}
    bound |= {*clocks.fields, *(name for group in clocks.groups for name in group)}
    return [name for name in schema.names if name not in bound]


def _custom(config: TableConfig) -> UnsupportedError:
    payload = config.properties.get("hoodie.compaction.payload.class")
    strategy = config.properties.get("hoodie.record.merge.strategy.id")
    named = payload or strategy or "no name"
    return UnsupportedError(
        f"the table merges records by a custom strategy (CUSTOM, {named}), which is not known here",
        value=named,
        hint="read it with mode='read_optimized', which needs no merging",
    )


def _field_type(schema: pa.Schema, name: str, table: str) -> pa.DataType:
    head, *nested = name.split(".")
    if head not in schema.names:
        raise CorruptError(f"the ordering field {name!r} is not a column of the table", value=name, table=table)
    kind = schema.field(head).type
    for part in nested:
        if not pa.types.is_struct(kind) or kind.get_field_index(part) < 0:
            raise CorruptError(f"the ordering field {name!r} is not a column of the table", value=name, table=table)
        kind = kind.field(part).type
    return kind
