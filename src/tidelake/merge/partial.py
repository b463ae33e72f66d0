"""Merging records that do not win whole: partial log blocks, and tables with a partial-update mode.

One kernel merges pairs of rows, whole columns at a time; the log side is folded by it in rounds (first, second, ...
version of each key, only keys that still have versions), and the result meets the base file by it once more.

Of a pair, the *high* row is the one that the table's ordering prefers, the *low* one the other. Values come from the
high row, except those that it does not have: columns absent from its block (partial blocks), columns that hold the
schema's default (IGNORE_DEFAULTS) or the placeholder (FILL_UNAVAILABLE). A delete on either side leaves the high row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.config import PartialUpdateMode
from tidelake.merge.arrays import Mask, Places
from tidelake.merge.key_lookup import KeyLookup
from tidelake.merge.keys import record_keys
from tidelake.merge.log_records import BLOCK_DELETE, DATA, LogRecords
from tidelake.merge.ordering import column_at, comparable, is_same_or_newer
from tidelake.merge.spec import MergeSpec


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of distinct keys, row by row. ``present`` says which columns each row has (rows x columns)."""

    table: pa.Table
    present: Mask
    is_deleted: Mask
    is_block_delete: Mask
    is_unconditional: Mask
    ordering: list[pa.Array]

    def take(self, places: Places) -> Versions:
        at = pa.array(places)
        return Versions(
            self.table.take(at).combine_chunks(),
            self.present[places],
            self.is_deleted[places],
            self.is_block_delete[places],
            self.is_unconditional[places],
            [column.take(at) for column in self.ordering],
        )


def merge_partial(base: Iterable[pa.RecordBatch], records: LogRecords, spec: MergeSpec) -> Iterator[pa.RecordBatch]:
    """Merge where rows may be combined column by column."""
    keys, folded = _fold_in_rounds(records, spec)
    lookup = KeyLookup(keys)
    met = np.zeros(len(keys), dtype=np.bool_)
    for batch in base:
        places = lookup.find(record_keys(batch, spec))
        rows = np.flatnonzero(places >= 0)
        if len(rows) == 0:
            yield batch
            continue
        met[places[rows]] = True
        stored = _of_base(batch.take(pa.array(rows)), spec)
        merged = merge_pairs(stored, folded.take(places[rows]), spec)
        yield batch.take(pa.array(np.flatnonzero(places < 0)))
        yield from _alive(merged)
    yield from _alive(folded.take(np.flatnonzero(~met)))


def merge_pairs(old: Versions, new: Versions, spec: MergeSpec) -> Versions:
    """The merged version of each pair of an older and a newer one."""
    prefers_new = _prefers_new(old, new, spec)
    pick = pa.array(prefers_new)
    high_present: Mask = np.where(prefers_new[:, None], new.present, old.present)
    low_present: Mask = np.where(prefers_new[:, None], old.present, new.present)
    combines = ~(old.is_deleted | new.is_deleted)
    columns = []
    taken_low: Mask = np.zeros(high_present.shape, dtype=np.bool_)
    for position in range(old.table.num_columns):
        fresh, stored = new.table.column(position), old.table.column(position)
        high, low = pc.if_else(pick, fresh, stored), pc.if_else(pick, stored, fresh)
        from_low = combines & (~high_present[:, position] | (low_present[:, position] & _does_not_count(high, spec)))
        taken_low[:, position] = from_low
        columns.append(pc.if_else(pa.array(from_low), low, high) if from_low.any() else high)
    table = pa.Table.from_arrays(columns, schema=old.table.schema)
    return Versions(
        table,
        high_present | (low_present & combines[:, None]),
        np.where(prefers_new, new.is_deleted, old.is_deleted),
        np.where(prefers_new, new.is_block_delete, old.is_block_delete),
        np.where(prefers_new, new.is_unconditional, old.is_unconditional),
        _merged_ordering(old, new, pick, taken_low, high_present, spec),
    )


def _prefers_new(old: Versions, new: Versions, spec: MergeSpec) -> Mask:
    if not spec.is_event_time:
        return np.ones(len(new.is_deleted), dtype=np.bool_)
    newer = is_same_or_newer(new.ordering, old.ordering)
    keeps_reset = new.is_block_delete & old.is_unconditional
    return (newer | new.is_unconditional | old.is_unconditional) & ~keeps_reset


def _does_not_count(column: pa.ChunkedArray, spec: MergeSpec) -> Mask:
    if spec.partial_mode is PartialUpdateMode.IGNORE_DEFAULTS:
        return np.asarray(pc.is_null(column))
    # Text alone: Apache Hudi leaves the placeholder in bytes, and every reader must give the same rows.
    if spec.partial_mode is PartialUpdateMode.FILL_UNAVAILABLE and pa.types.is_string(column.type):
        return np.asarray(pc.fill_null(pc.equal(column, spec.unavailable_value), False))
    return np.zeros(len(column), dtype=np.bool_)


def _merged_ordering(
    old: Versions,
    new: Versions,
    pick: pa.Array,
    taken_low: Mask,
    high_present: Mask,
    spec: MergeSpec,
) -> list[pa.Array]:
    """The high row's value, or the low one's where the high row's block does not have the ordering column."""
    merged = []
    for index, name in enumerate(spec.ordering_fields):
        position = old.table.column_names.index(name.split(".")[0])
        fresh, stored = new.ordering[index], old.ordering[index]
        high, low = pc.if_else(pick, fresh, stored), pc.if_else(pick, stored, fresh)
        from_low = pa.array(taken_low[:, position] & ~high_present[:, position])
        merged.append(pc.if_else(from_low, low, high))
    return merged


def _fold_in_rounds(records: LogRecords, spec: MergeSpec) -> tuple[pl.Series, Versions]:
    entries = records.entries.with_row_index("seq").with_columns(pl.int_range(pl.len()).over("key").alias("round"))
    keys = entries.filter(pl.col("round") == 0).sort("seq").select("key").with_row_index("place")
    entries = entries.join(keys, on="key", how="left", maintain_order="left")
    folded = _of_entries(entries.filter(pl.col("round") == 0).sort("place"), records, spec)
    rounds = int(entries.select(pl.col("round").max()).item()) + 1
    for round_number in range(1, rounds):
        now = entries.filter(pl.col("round") == round_number).sort("place")
        places = now["place"].to_numpy().astype(np.int64)
        merged = merge_pairs(folded.take(places), _of_entries(now, records, spec), spec)
        folded = _replace(folded, places, merged)
    return keys["key"], folded


def _replace(all_versions: Versions, places: Places, some: Versions) -> Versions:
    count = len(all_versions.is_deleted)
    source = np.arange(count, dtype=np.int64)
    source[places] = count + np.arange(len(places))
    return _concat(all_versions, some).take(source)


def _concat(one: Versions, two: Versions) -> Versions:
    return Versions(
        pa.concat_tables([one.table, two.table]).combine_chunks(),
        np.concatenate([one.present, two.present]),
        np.concatenate([one.is_deleted, two.is_deleted]),
        np.concatenate([one.is_block_delete, two.is_block_delete]),
        np.concatenate([one.is_unconditional, two.is_unconditional]),
        [pa.concat_arrays([a, b]) for a, b in zip(one.ordering, two.ordering, strict=True)],
    )


def _of_entries(entries: pl.DataFrame, records: LogRecords, spec: MergeSpec) -> Versions:
    rows = entries["row"].to_numpy().astype(np.int64)
    names = records.rows.column_names
    # One row for "whole record" at the end, so that part -1 finds it.
    presence = np.array([[name in part for name in names] for part in records.partials] + [[True] * len(names)])
    kind = entries["kind"].to_numpy()
    return Versions(
        records.rows.take(pa.array(rows, mask=rows < 0)).combine_chunks(),
        presence[entries["part"].to_numpy()],
        kind != DATA,
        kind == BLOCK_DELETE,
        entries["unconditional"].to_numpy(),
        [_plain(entries[f"o{i}"].to_arrow(), t) for i, t in enumerate(spec.ordering_types)],
    )


def _plain(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return pc.cast(column, comparable(pa.array([], kind), kind).type)


def _of_base(batch: pa.RecordBatch, spec: MergeSpec) -> Versions:
    count = batch.num_rows
    none = np.zeros(count, dtype=np.bool_)
    ordering = [
        comparable(column_at(batch, name), kind)
        for name, kind in zip(spec.ordering_fields, spec.ordering_types, strict=True)
    ]
    present = np.ones((count, batch.num_columns), dtype=np.bool_)
    return Versions(pa.Table.from_batches([batch]), present, none, none, none, ordering)


def _alive(versions: Versions) -> Iterator[pa.RecordBatch]:
    alive = np.flatnonzero(~versions.is_deleted)
    yield from versions.table.take(pa.array(alive)).combine_chunks().to_batches()
