"""Deletes as delete-block entries: the key, its partition, and the ordering value from which on it is gone."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.config import TableConfig
from tidelake.errors import InvalidError
from tidelake.format.delete_block import DELETE_TYPE
from tidelake.merge.ordering import type_family
from tidelake.write.context import WriteContext
from tidelake.write.rows import KEY, PATH

_WRAPPER = {
    "bool": "boolean",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "binary": "bytes",
    "string": "string",
    "date32": "date",
    "time": "time_micros",
    "timestamp": "long",
    "decimal": "decimal",
}


def delete_entries(rows: pa.Table, context: WriteContext, *, unconditional: bool = False) -> pa.StructArray:
    """Delete-block entries for rows with their helper columns.

    On an event-time table each carries the ordering value of its row; else, or if ``unconditional``, Hudi's default.
    """
    count = rows.num_rows
    ordering_type = DELETE_TYPE.field("ordering").type
    fields = () if unconditional else context.merge.ordering_fields
    if not fields:
        ordering = _wrapped(ordering_type, "int", pa.repeat(pa.scalar(0, pa.int32()), count), count)
    elif len(fields) == 1:
        name, column = _wrapper_of(rows, fields[0])
        ordering = _wrapped(ordering_type, name, column, count)
    else:
        ordering = _tuples(rows, fields, ordering_type, count)
    keys, paths = rows.column(KEY).combine_chunks(), rows.column(PATH).combine_chunks().cast(pa.string())
    return pa.StructArray.from_arrays([keys, paths, ordering], fields=list(DELETE_TYPE))


def _wrapper_of(rows: pa.Table, field: str) -> tuple[str, pa.Array]:
    column = rows.column(field).combine_chunks()
    name = _WRAPPER[type_family(column.type)]
    wanted = DELETE_TYPE.field("ordering").type.field(name).type
    if pa.types.is_time(column.type):
        column = pc.cast(column, pa.time64("us"))
    if pa.types.is_timestamp(column.type) or pa.types.is_time(column.type):
        column = pc.cast(column, pa.int64())
    if pa.types.is_date32(column.type):
        column = pc.cast(column, pa.int32())
    hint = "Hudi's deletes hold decimals of at most 15 decimals and 23 digits before them"
    if pa.types.is_decimal(column.type) and _digits(column.type) > _digits(wanted):
        # Arrow's cast does not notice all of those that are too large.
        bound = pa.scalar(Decimal(10) ** _digits(wanted), column.type)
        if pc.any(pc.greater_equal(pc.abs(column), bound)).as_py():
            raise InvalidError(f"a delete cannot carry so large a value of {field!r}", value=field, hint=hint)
    try:
        return name, pc.cast(column, wanted)
    except pa.ArrowInvalid as error:
        raise InvalidError(
            f"a delete cannot carry the value of {field!r}, of type {column.type}: {error}", value=field, hint=hint
        ) from error


def _digits(kind: pa.DataType) -> int:
    """How many digits a decimal has before its decimals."""
    return int(kind.precision - kind.scale)


def _wrapped(kind: pa.StructType, name: str, column: pa.Array, count: int) -> pa.StructArray:
    parts = [column if field.name == name else pa.nulls(count, field.type) for field in kind]
    return pa.StructArray.from_arrays(parts, fields=list(kind))


def _tuples(rows: pa.Table, fields: tuple[str, ...], kind: pa.StructType, count: int) -> pa.StructArray:
    item = kind.field("array").type.value_type
    columns = [_wrapped(item, *_wrapper_of(rows, field), count) for field in fields]
    whole = pa.concat_arrays(columns)
    # Interleaved: the values of one row stand side by side.
    order = pa.array((np.arange(len(fields)) * count + np.arange(count)[:, None]).reshape(-1))
    offsets = pa.array(np.arange(0, count * len(fields) + 1, len(fields), dtype=np.int32))
    lists = pa.ListArray.from_arrays(offsets, whole.take(order))
    return _wrapped(kind, "array", lists, count)


def key_columns(config: TableConfig, given: Sequence[str]) -> list[str]:
    """The columns by which keys that a caller gave are found in the table: the key's, and the partition's if they are there."""
    missing = [name for name in config.record_key_fields if name not in given]
    if missing:
        raise InvalidError(f"the keys lack the column {missing[0]!r}", value=missing[0])
    also = [name for name in config.partition_fields if name in given and not config.is_global]
    return list(dict.fromkeys([*config.record_key_fields, *also]))


def rows_with(batch: pa.RecordBatch, keys: pa.Table) -> pa.RecordBatch:
    """The rows of a batch whose values in the columns of ``keys``, nulls among them, are one of its rows."""
    wanted = pl.DataFrame(keys)
    held = pl.DataFrame(batch.select(keys.column_names)).with_row_index("__tidelake_row")
    rows = held.join(wanted, on=keys.column_names, how="semi", nulls_equal=True)["__tidelake_row"]
    return batch.take(rows.sort().to_arrow())
