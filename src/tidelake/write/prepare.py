"""Incoming data, checked and made ready: one schema, keys, partition paths, one row per key.

Refused before anything becomes visible: duplicate columns, a missing column that may not be null, narrowing types, null or
empty keys, null ordering values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.config import TableConfig
from tidelake.errors import InvalidError
from tidelake.format.avro_arrow import avro_record
from tidelake.format.avro_data import encode_records
from tidelake.index import KeyGenerator
from tidelake.merge.ordering import comparable
from tidelake.schema import META_COLUMN_NAMES, conform, merge_schemas
from tidelake.write.columns import refuse_bad_columns
from tidelake.write.event_time import refuse_implausible_times
from tidelake.write.rows import KEY, PATH, in_one, refuse_reserved
from tidelake.write.settle import in_order

if TYPE_CHECKING:
    import pandas as pd

SAMPLES = 5


def to_arrow(data: object) -> pa.Table:
    """What a caller may hand in (pyarrow, polars, pandas), as a pyarrow table without meta columns."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    elif isinstance(data, pa.RecordBatchReader):
        data = data.read_all()
    elif isinstance(data, pl.DataFrame):
        data = data.to_arrow()
    elif type(data).__module__.startswith("pandas"):
        data = _from_pandas(data)
    if not isinstance(data, pa.Table):
        raise InvalidError(
            f"rows cannot be taken from a {type(data).__name__}",
            value=type(data).__name__,
            hint="give a Spark DataFrame, or pyarrow, polars or pandas data",
        )
    twice = [name for name in data.column_names if data.column_names.count(name) > 1]
    if twice:
        raise InvalidError(f"the column {twice[0]!r} stands more than once in the data", value=twice[0])
    return data.drop_columns([name for name in META_COLUMN_NAMES if name in data.column_names])


def _from_pandas(data: pd.DataFrame) -> pa.Table:
    if hasattr(data, "columns") and not data.columns.is_unique:
        twice = data.columns[data.columns.duplicated()][0]
        raise InvalidError(f"the column {twice!r} stands more than once in the data", value=str(twice))
    try:
        return pa.Table.from_pandas(data, preserve_index=False)
    except (pa.ArrowException, TypeError, AttributeError) as error:
        raise InvalidError(
            f"the pandas data is no table of one type for each column: {'; '.join(map(str, error.args))}"
        ) from error


def evolved_schema(table_schema: pa.Schema, data_schema: pa.Schema) -> pa.Schema:
    """The table's schema with what the data adds to it; the data's narrower numbers are widened.

    A column stays nullable or not as the table has it. Numbers do not become text: reading takes that for a column that
    another writer changed so, writing does not make it.
    """
    refuse_reserved(name for name in data_schema.names if name not in table_schema.names)
    added = [field for field in data_schema if field.name not in table_schema.names]
    refuse_bad_columns(added, table_schema.names)
    avro_record(pa.schema(added), "added")  # refuses names and types that no table holds
    merged = merge_schemas(table_schema, data_schema.remove_metadata(), keep_wider=True)
    fields = []
    for field in merged:
        if field.name in table_schema.names:
            old = table_schema.field(field.name)
            if pa.types.is_integer(old.type) and pa.types.is_string(field.type):
                raise InvalidError(
                    f"the column {field.name!r} is {old.type} and cannot become {field.type}", value=field.name
                )
            field = field.with_nullable(old.nullable)
        fields.append(field)
    return pa.schema(fields, metadata=merged.metadata)


def prepare(data: pa.Table, schema: pa.Schema, config: TableConfig) -> pa.Table:
    """Rows in the table's schema, in one piece, with their key and partition path beside them."""
    batches = data.to_batches() if all(c.num_chunks == 1 for c in data.columns) else data.combine_chunks().to_batches()
    if len(batches) > 1:
        raise InvalidError(
            f"one column of these {data.num_rows} rows has more than 2 GiB of text, too much for one write in process",
            value=data.num_rows,
            hint="write in several batches, or on Spark",
        )
    # Nulls where they may not be are looked for when the keys are there, which the refusal names.
    given = frozenset(data.column_names)
    lenient = pa.schema([f.with_nullable(f.nullable or f.name in given) for f in schema], metadata=schema.metadata)
    batch = conform(batches[0], lenient) if batches else pa.RecordBatch.from_pylist([], schema=schema)
    rows = pa.Table.from_batches([batch])
    keys = KeyGenerator.of(config)
    made = rows.append_column(KEY, keys.keys(rows)).append_column(PATH, keys.partition_paths(rows))
    _refuse_null_ordering(made, config)
    _refuse_nan_times(made, config)
    _refuse_null_required(made, schema)
    whole = pa.schema([*schema, *list(made.schema)[len(schema) :]], metadata=made.schema.metadata)
    return pa.Table.from_arrays(made.columns, schema=whole)


def refuse_unfit(rows: pa.Table, config: TableConfig) -> None:
    """Refuse prepared rows that must not come in, though what is stored may be so and is deleted."""
    refuse_implausible_times(rows, config)
    KeyGenerator.of(config).refuse_ambiguous(rows, in_one(rows.column(KEY)))


def deduplicate(rows: pa.Table, schema: pa.Schema, config: TableConfig) -> pa.Table:
    """One row per key (and partition): the greatest ordering value, ties by the rows' Avro bytes, as on every engine.

    An exact table keeps every version of a key, so there it is one row per key and ordering value. Rows with several event
    times are not one instead of another: all are kept, in the order in which they apply.
    """
    if config.clocks is not None:
        return in_order(rows, schema, config)
    identity = ["key"] if config.is_global else ["key", "path"]
    frame = pl.DataFrame(
        {
            "key": pl.Series("key", rows.column(KEY), dtype=pl.String),
            "path": np.asarray(in_one(rows.column(PATH)).indices),
            "row": np.arange(rows.num_rows, dtype=np.int64),
        }
    )
    if config.is_exact:
        versions = _order_columns(rows, config)
        frame = frame.with_columns(versions)
        identity += [series.name for series in versions]
    if frame["key"].n_unique() == frame.height:
        return rows
    doubled = frame.filter(pl.struct(identity).is_duplicated())
    if doubled.height == 0:
        return rows
    at = pa.array(doubled["row"].to_numpy())
    some = rows.select(schema.names).take(at).combine_chunks()
    order = _order_columns(some, config)
    record = avro_record(schema, config.name)
    data, offsets = encode_records(some.to_batches()[0], record)
    tie = pa.Array.from_buffers(pa.large_binary(), some.num_rows, [None, pa.py_buffer(offsets), data])
    ranked = doubled.with_columns([*order, pl.Series("tie", tie)])
    names = [series.name for series in order]
    kept = ranked.sort([*names, "tie"], nulls_last=False).unique(identity, keep="last")
    chosen = np.sort(np.concatenate([_others(frame, doubled), kept["row"].to_numpy()]))
    return rows.take(pa.array(chosen))


def _others(frame: pl.DataFrame, doubled: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    mask = np.ones(frame.height, dtype=np.bool_)
    mask[doubled["row"].to_numpy()] = False
    return np.flatnonzero(mask)


def _order_columns(rows: pa.Table, config: TableConfig) -> list[pl.Series]:
    return [
        pl.Series(f"o{i}", comparable(rows.column(name), rows.schema.field(name).type))
        for i, name in enumerate(config.ordering_fields)
    ]


def _refuse_null_ordering(rows: pa.Table, config: TableConfig) -> None:
    for name in config.ordering_fields:
        column = in_one(rows.column(name))
        what = "null or NaN" if pa.types.is_floating(column.type) else "null"
        at = np.flatnonzero(np.asarray(pc.is_null(column, nan_is_null=True)))
        if len(at):
            keys = rows.column(KEY).take(pa.array(at[:SAMPLES])).to_pylist()
            raise InvalidError(
                f"the ordering column {name!r} is {what} in {len(at)} rows, for the keys {', '.join(keys)}", value=name
            )


def _refuse_nan_times(rows: pa.Table, config: TableConfig) -> None:
    for name in () if config.clocks is None else config.clocks.fields:
        column = in_one(rows.column(name))
        if pa.types.is_floating(column.type):
            at = np.flatnonzero(np.asarray(pc.fill_null(pc.is_nan(column), False)))
            if len(at):
                keys = rows.column(KEY).take(pa.array(at[:SAMPLES])).to_pylist()
                raise InvalidError(
                    f"the event time {name!r} is NaN in {len(at)} rows, for the keys {', '.join(keys)}", value=name
                )


def _refuse_null_required(rows: pa.Table, schema: pa.Schema) -> None:
    for field in schema:
        column = rows.column(field.name)
        if not field.nullable and column.null_count:
            at = np.flatnonzero(np.asarray(pc.is_null(column.combine_chunks())))
            keys = rows.column(KEY).take(pa.array(at[:SAMPLES])).to_pylist()
            raise InvalidError(
                f"the column {field.name!r} holds {len(at)} nulls, but may not be null, for the keys {', '.join(keys)}",
                value=field.name,
            )
