"""How the records of a table merge: one frozen value, made from the table's configuration and schema.

What cannot be merged right is refused here, by name: a custom strategy is user code that this process does not have.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidelake.config import MergeMode, PartialUpdateMode, TableConfig
from tidelake.errors import CorruptError, UnsupportedError
from tidelake.schema import RECORD_KEY

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

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that merging reads, whatever the query asks for."""
        names = (*(self.key_fields or (RECORD_KEY,)), *self.ordering_fields)
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
    """The merge rules of a table whose schema (with meta columns) is given."""
    if config.merge_mode is MergeMode.CUSTOM:
        raise _custom(config)
    is_event_time = config.merge_mode is MergeMode.EVENT_TIME
    ordering = config.ordering_fields if is_event_time else ()
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
    )


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
