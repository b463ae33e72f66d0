"""Rows with several event times, before they become files.

They are not deduplicated: they are put in one order, which every engine agrees on, and merged. What has to be merged at the
write is merged here: the versions of a new key, since a base file has one row for each key, and, on tables that resolve
eagerly, what comes in with what is stored, so that logs hold whole rows.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidelake._arrays import Places
from tidelake.config import TableConfig
from tidelake.filegroup import FileSlice
from tidelake.format.avro_arrow import avro_record
from tidelake.format.avro_data import encode_records
from tidelake.merge import (
    MergeSpec,
    Outcome,
    deleted_rows,
    merge_records,
    records_of,
)
from tidelake.merge.clock_values import clock_values
from tidelake.merge.outcome import COMMIT, INCOMING, REASON, SEQNO, STORED
from tidelake.merge.outcome import KEY as REJECTED_KEY
from tidelake.schema import COMMIT_SEQNO, COMMIT_TIME, META_COLUMN_NAMES, RECORD_KEY, with_meta
from tidelake.storage import Storage
from tidelake.write.context import WriteContext
from tidelake.write.in_slice import rows_in_slice
from tidelake.write.rows import GONE, HELPERS, KEY, PATH, SEQUENCE, Chosen, in_one, stored_rows

UNTIMED = "untimed"


def in_order(rows: pa.Table, schema: pa.Schema, config: TableConfig) -> pa.Table:
    """Rows of which those of one key stand in the order in which they apply.

    By event times, none first, and then by the rows' Avro bytes; only rows that tie are encoded.
    """
    frame = pl.DataFrame(
        {
            "key": pl.Series("key", rows.column(KEY), dtype=pl.String),
            "path": np.asarray(in_one(rows.column(PATH)).indices),
            "row": np.arange(rows.num_rows, dtype=np.int64),
        }
    )
    doubled = frame.filter(pl.struct("key", "path").is_duplicated())
    fields = () if config.clocks is None else config.clocks.fields
    if doubled.height == 0:
        return rows
    at = pa.array(doubled["row"].to_numpy())
    times = [
        pl.Series(f"o{i}", clock_values(rows.column(name).take(at), schema.field(name).type))
        for i, name in enumerate(fields)
    ]
    timed = doubled.with_columns(times)
    ties = timed.filter(pl.struct(pl.exclude("row")).is_duplicated()).select("row")
    some = rows.select(schema.names).take(pa.array(ties["row"].to_numpy())).combine_chunks()
    encoded = ties.with_columns(pl.Series("tie", _avro_bytes(some, schema, config), dtype=pl.Binary))
    ordered = timed.join(encoded, on="row", how="left").sort([*(s.name for s in times), "tie"], nulls_last=False)
    others = np.ones(rows.num_rows, dtype=np.bool_)
    others[doubled["row"].to_numpy()] = False
    return rows.take(pa.array(np.concatenate([np.flatnonzero(others), ordered["row"].to_numpy()])))


def _avro_bytes(rows: pa.Table, schema: pa.Schema, config: TableConfig) -> pa.Array:
    if rows.num_rows == 0:
        return pa.array([], pa.large_binary())
    data, offsets = encode_records(rows.to_batches()[0], avro_record(schema, config.name))
    return pa.Array.from_buffers(pa.large_binary(), rows.num_rows, [None, pa.py_buffer(offsets), data])


def without_untimed(rows: pa.Table, context: WriteContext, outcome: Outcome, token: str) -> pa.Table:
    """The rows that have an event time; the others are rejected, unless the table accepts records without one.

    A delete without an event time is never accepted: it would end whatever there is.
    """
    clocks = context.config.clocks
    if clocks is None or not clocks.fields:
        return rows
    untimed = np.logical_and.reduce([np.asarray(rows.column(name).is_null()) for name in clocks.fields])
    if clocks.accepts_untimed and untimed.any():
        plain = rows.drop_columns([name for name in HELPERS if name in rows.column_names])
        untimed = untimed & deleted_rows(plain, context.resolve or context.merge)
    if not untimed.any():
        return rows
    lost = rows.filter(pa.array(untimed))
    numbers = pc.cast(pa.array(np.arange(lost.num_rows)), pa.string())
    nothing = pa.StructArray.from_arrays(
        [lost.column(name).combine_chunks() for name in clocks.fields], names=list(clocks.fields)
    )
    made = {
        REJECTED_KEY: lost.column(KEY).combine_chunks(),
        COMMIT: pa.repeat(pa.scalar(context.instant, pa.string()), lost.num_rows),
        SEQNO: pc.binary_join_element_wise(f"{context.instant}_untimed-{token}_", numbers, ""),
        REASON: pa.repeat(pa.scalar(UNTIMED), lost.num_rows),
        INCOMING: nothing,
        STORED: nothing,
    }
    outcome.rejects.append(pa.table(made))
    return rows.filter(pa.array(~untimed))


def settled(
    storage: Storage,
    context: WriteContext,
    path: str,
    slices: tuple[FileSlice, ...],
    rows: Chosen,
    places: Places,
    outcome: Outcome,
) -> tuple[Chosen, Places]:
    """The rows of one partition, and the slices they go to: new keys as one row each, and, on eager tables, all keys."""
    spec = context.resolve or context.merge
    fresh = np.flatnonzero(places < 0)
    known = np.flatnonzero(places >= 0)
    kept = [name for name in rows.table.column_names if name not in HELPERS or name in (KEY, PATH, GONE, SEQUENCE)]
    parts = [_folded(rows.pick(fresh).taken().select(kept), spec, context, outcome)]
    made = [np.full(parts[0].num_rows, -1, dtype=np.int64)]
    if context.resolve is None:
        parts.append(rows.pick(known).taken().select(kept))
        made.append(places[known])
    else:
        parts[0] = parts[0].append_column(GONE, pa.repeat(pa.scalar(False), parts[0].num_rows))
        for number in np.unique(places[known]):
            own = rows.pick(np.flatnonzero(places == number)).taken().select(kept)
            image = _resolved(storage, context, context.resolve, path, slices[int(number)], own, outcome)
            parts.append(image)
            made.append(np.full(image.num_rows, number, dtype=np.int64))
    whole = pa.concat_tables(parts).combine_chunks()
    return Chosen(whole, np.arange(whole.num_rows)), np.concatenate(made)


def _folded(rows: pa.Table, spec: MergeSpec, context: WriteContext, outcome: Outcome) -> pa.Table:
    """New keys as one row each; keys that end in a delete are not there at all."""
    keys = rows.column(KEY)
    user = rows.drop_columns([name for name in HELPERS if name in rows.column_names])
    if len(keys.unique()) == rows.num_rows and not deleted_rows(user, spec).any() and spec.merger is None:
        return rows
    records = records_of(user.append_column(RECORD_KEY, keys), spec)
    own = Outcome()
    merged = pa.Table.from_batches(merge_records((), records, spec, own), records.rows.schema)
    for table in own.rejects:
        outcome.rejects.append(_stamped(table, context.instant))
    # The helper columns are the same in all versions of a key.
    helpers = rows.select([name for name in rows.column_names if name in HELPERS])
    own_helpers = helpers.take(pc.index_in(merged.column(RECORD_KEY), value_set=in_one(keys)))
    columns = [(own_helpers if name in HELPERS else merged).column(name) for name in rows.column_names]
    return pa.table(columns, schema=rows.schema)


def _stamped(rejects: pa.Table, instant: str) -> pa.Table:
    """Rejects of rows that were never stored, with the write that had them."""
    numbers = pc.cast(pa.array(np.arange(rejects.num_rows)), pa.string())
    keys = rejects.column(REJECTED_KEY)
    seqno = pc.binary_join_element_wise(f"{instant}_new", keys, numbers, "_")
    commit = pa.repeat(pa.scalar(instant, pa.string()), rejects.num_rows)
    at = rejects.column_names.index(COMMIT)
    return rejects.set_column(at, COMMIT, commit).set_column(at + 1, SEQNO, seqno)


def _resolved(
    storage: Storage,
    context: WriteContext,
    spec: MergeSpec,
    path: str,
    file_slice: FileSlice,
    rows: pa.Table,
    outcome: Outcome,
) -> pa.Table:
    """What a slice holds of these keys, with the rows merged into it: whole rows that changed, and keys that are gone."""
    schema = with_meta(context.schema)
    stored = rows_in_slice(storage, context, schema, file_slice, in_one(rows.column(KEY)))
    incoming = stored_rows(rows, np.arange(rows.num_rows), context.instant, path, file_slice.file_id, 0)
    merged = merge_records(stored.to_batches(), records_of(incoming, spec), spec, outcome)
    images = pa.Table.from_batches(merged, schema)
    changed = images.filter(pc.equal(images.column(COMMIT_TIME), context.instant))
    gone = stored.filter(pc.invert(pc.is_in(stored.column(RECORD_KEY), images.column(RECORD_KEY).combine_chunks())))
    made = [_as_rows(changed, path, is_gone=False), _as_rows(gone, path, is_gone=True)]
    return pa.concat_tables(made).select([*rows.column_names, GONE])


def _as_rows(stored: pa.Table, path: str, *, is_gone: bool) -> pa.Table:
    """Stored rows as incoming ones, with their helper columns."""
    user = stored.drop_columns([name for name in META_COLUMN_NAMES if name in stored.column_names])
    helpers = {
        KEY: stored.column(RECORD_KEY),
        PATH: pa.repeat(pa.scalar(path, pa.string()), stored.num_rows).dictionary_encode(),
        SEQUENCE: stored.column(COMMIT_SEQNO),
        GONE: pa.repeat(pa.scalar(is_gone), stored.num_rows),
    }
    for name, values in helpers.items():
        user = user.append_column(name, values)
    return user
