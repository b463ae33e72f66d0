"""Incoming data, checked and made ready: one schema, keys, partition paths, one row per key.

Refused before anything becomes visible: duplicate columns, a missing column that may not be null, narrowing types, missing,
null or empty keys, null ordering values, nulls where none may be.
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
from tidelake.merge.spec import IS_DELETED
from tidelake.schema import META_COLUMN_NAMES, conform, merge_schemas, plain_schema
from tidelake.write.columns import refuse_bad_columns
from tidelake.write.event_time import refuse_implausible_times
from tidelake.write.required import lenient, refuse_null_required, with_values_below_nulls
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
    """The table's schema with what the data adds to it, at any depth; the data's narrower numbers are widened.

    A column stays nullable or not as the table has it. Numbers do not become text: reading takes that for a column that
    another writer changed so, writing does not make it.
    """
    given = plain_schema(data_schema.remove_metadata())
    refuse_reserved(name for name in data_schema.names if name not in table_schema.names)
    refuse_bad_columns(given, table_schema)
    merged = merge_schemas(table_schema, given, keep_wider=True)
    if not merged.equals(table_schema):
        avro_record(merged, "evolved")  # refuses names and types that no table holds
    return merged


def prepare(data: pa.Table, schema: pa.Schema, config: TableConfig) -> pa.Table:
    """Rows in the table's schema, in one piece, with their key and partition path beside them."""
    _refuse_keyless(data, config)
    batches = data.to_batches() if all(c.num_chunks == 1 for c in data.columns) else data.combine_chunks().to_batches()
    if len(batches) > 1:
        raise InvalidError(
            f"one column of these {data.num_rows} rows has more than 2 GiB of text, too much for one write in process",
            value=data.num_rows,
            hint="write in several batches, or on Spark",
        )
    # Nulls where they may not be are looked for when the keys are there, which the refusal names.
    batch = (
        conform(batches[0], lenient(schema, frozenset(data.column_names)))
        if batches
        else pa.RecordBatch.from_pylist([], schema=schema)
    )
    rows = pa.Table.from_batches([batch])
    keys = KeyGenerator.of(config)
    made = rows.append_column(KEY, keys.keys(rows)).append_column(PATH, keys.partition_paths(rows))
    _refuse_null_ordering(made, config)
    _refuse_nan_times(made, config)
    refuse_null_required(made, schema)
    whole = pa.schema([*schema, *list(made.schema)[len(schema) :]], metadata=made.schema.metadata)
    fitting = conform(batch, schema).columns
    return with_values_below_nulls(pa.Table.from_arrays([*fitting, *made.columns[len(schema) :]], schema=whole))


def refuse_unfit(rows: pa.Table, config: TableConfig) -> None:
    """Refuse prepared rows that must not come in, though what is stored may be so and is deleted."""
    refuse_implausible_times(rows, config)
    _refuse_values_without_time(rows, config)
    KeyGenerator.of(config).refuse_ambiguous(rows, in_one(rows.column(KEY)))


def _refuse_values_without_time(rows: pa.Table, config: TableConfig) -> None:
    """On an exact table the values of a group without its event time would be on no side of a threshold."""
    if not config.is_exact or config.clocks is None or rows.num_rows == 0:
        return
    for time, names in zip(config.clocks.fields, config.clocks.groups, strict=True):
        untimed = pc.is_null(in_one(rows.column(time)))
        if IS_DELETED in rows.column_names:
            untimed = pc.and_not(untimed, pc.fill_null(in_one(rows.column(IS_DELETED)), False))
        for name in names:
            at = np.flatnonzero(np.asarray(pc.and_(untimed, pc.is_valid(in_one(rows.column(name))))))
            if len(at):
                keys = rows.column(KEY).take(pa.array(at[:SAMPLES])).to_pylist()
                raise InvalidError(
                    f"the column {name!r} has values without its event time {time!r} in {len(at)} rows, for the keys "
                    f"{', '.join(keys)}: an exact table could not tell when they are from",
                    value=name,
                    table=config.name,
                    hint=f"give {time}, or null for the columns that follow it",
                )


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


def _refuse_keyless(data: pa.Table, config: TableConfig) -> None:
    missing = [name for name in config.record_key_fields if name not in data.column_names]
    if missing:
        raise InvalidError(
            f"the data lacks the record key column {missing[0]!r}",
            value=missing[0],
            table=config.name,
            hint=f"columns are {', '.join(data.column_names)}; an index of pandas is none, reset_index() makes it one",
        )


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
