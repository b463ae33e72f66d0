"""Merging a folded log side into a base file, batch by batch. The base streams by; only the log side is in memory.

Base rows that the logs do not touch, or that win, pass through; log rows that win or are new come at the end, in one
go. A key that stands twice in a base file is met by the logs once, at its first row, as in Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.merge.arrays import Mask, Places
from tidelake.merge.fold import fold
from tidelake.merge.key_lookup import KeyLookup
from tidelake.merge.keys import record_keys
from tidelake.merge.log_records import DATA, LogRecords
from tidelake.merge.ordering import column_at, comparable, is_same_or_newer, typed_values
from tidelake.merge.outcome import BORN, KEY, Outcome
from tidelake.merge.spec import MergeSpec

OUTPUT_ROWS = 262_144


def merge_whole(
    base: Iterable[pa.RecordBatch], records: LogRecords, spec: MergeSpec, outcome: Outcome | None = None
) -> Iterator[pa.RecordBatch]:
    """Merge where a winner wins whole: no partial records."""
    folded = fold(records.entries, spec)
    lookup = KeyLookup(folded["key"])
    lost = np.zeros(folded.height, dtype=np.bool_)
    ordering = [folded[f"o{i}"].to_arrow() for i in range(len(spec.ordering_fields))]
    unconditional = folded["unconditional"].to_numpy()
    for batch in base:
        places = lookup.find(record_keys(batch, spec))
        rows = np.flatnonzero(places >= 0)
        if len(rows) == 0:
            yield batch
            continue
        found = places[rows]
        if spec.is_event_time:
            log_wins = unconditional[found] | log_is_newer(batch, rows, ordering, found, spec)
            lost[found[~log_wins]] = True
            rows = rows[log_wins]
        keep = np.ones(batch.num_rows, dtype=np.bool_)
        keep[rows] = False
        kept = batch.take(pa.array(np.flatnonzero(keep)))
        del batch  # the base streams by: nothing of it is held while the consumer works
        yield kept
    if outcome is not None and spec.is_event_time:
        ended = folded.filter(pl.Series(~lost & ~unconditional & (folded["kind"].to_numpy() != DATA)))
        if ended.height:
            outcome.tombstones.append(_tombstones(ended, records, spec))
    wins = ~lost & (folded["kind"].to_numpy() == DATA)
    yield from take_rows(records.rows, folded["row"].to_numpy()[wins])


def _tombstones(ended: pl.DataFrame, records: LogRecords, spec: MergeSpec) -> pa.Table:
    values = [typed_values(ended[f"o{i}"].to_arrow(), kind) for i, kind in enumerate(spec.ordering_types)]
    born = pa.array(records.born).take(pa.array(ended["block"].to_numpy()))
    made = {KEY: pc.cast(ended["key"].to_arrow(), pa.string()), BORN: born}
    return pa.table({**made, **dict(zip(spec.ordering_fields, values, strict=True))})


def take_rows(table: pa.Table, rows: Places) -> Iterator[pa.RecordBatch]:
    """Rows of a table, in batches of bounded size."""
    if len(rows) == table.num_rows and table.num_rows and (np.diff(rows) == 1).all():
        yield from table.to_batches(max_chunksize=OUTPUT_ROWS)
        return
    for start in range(0, len(rows), OUTPUT_ROWS):
        taken = table.take(pa.array(rows[start : start + OUTPUT_ROWS])).combine_chunks()
        yield from taken.to_batches()


def log_is_newer(
    batch: pa.RecordBatch,
    rows: Places,
    ordering: list[pa.Array],
    found: Places,
    spec: MergeSpec,
) -> Mask:
    """Row by row of a base file, whether what the logs hold wins against it."""
    at_rows, at_found = pa.array(rows), pa.array(found)
    stored = [
        comparable(column_at(batch, name).take(at_rows), kind)
        for name, kind in zip(spec.ordering_fields, spec.ordering_types, strict=True)
    ]
    fresh = [pc.cast(column.take(at_found), old.type) for column, old in zip(ordering, stored, strict=True)]
    return is_same_or_newer(fresh, stored)
