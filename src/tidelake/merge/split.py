"""Splitting at an event time: what is before it is merged into the base, the rest is left over, version by version.

The split comes before the merge, so that an older version is there when a later one lies behind the threshold. What
follows the last unconditional delete of a key counts, and what was before it does not; the base row then stays only if it
beats all that follows, as in Apache Hudi.

*Left over* are the log's records and deletes at or after the threshold, every one, in the order in which they came, and
before them base rows that are not before the threshold. Deletes go to delete blocks, of which a log may have some before
its records and some after them. Only equal event times ask for an order: a delete that a record of its key with the same
event time follows stands before the records, all others after them. So every reader, which compares event times and lets the
later of equal ones win, comes to what it came to before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import InternalError, UnsupportedError
from tidelake.merge.base_merge import merge_whole
from tidelake.merge.fold import SEQ, counting, greatest
from tidelake.merge.key_lookup import KeyLookup
from tidelake.merge.keys import record_keys
from tidelake.merge.log_records import BLOCK_DELETE, DATA, LogRecords
from tidelake.merge.ordering import column_at, comparable, is_same_or_newer
from tidelake.merge.spec import MergeSpec

_TIME = "o0"


@dataclass(frozen=True, slots=True)
class Deletes:
    """Deletes that are left over: their keys, and the numbers of their event times as the columns store them."""

    keys: pa.Array
    times: tuple[pa.Array, ...]

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, slots=True)
class Leftover:
    """What a split leaves for the log of the new slice, in this order."""

    first: Deletes
    rows: pa.Table
    last: Deletes

    @property
    def count(self) -> int:
        """How many records and deletes it has."""
        return len(self.first) + int(self.rows.num_rows) + len(self.last)


class SplitMerge:
    """Merges what is before a threshold as the base streams by, and keeps what is left over."""

    def __init__(self, records: LogRecords, spec: MergeSpec, threshold: int) -> None:
        """``threshold`` is the least number, as the event-time column stores it, that is not before the threshold."""
        if not spec.is_event_time or len(spec.ordering_fields) != 1:
            raise InternalError("only records that one event time orders can be split at a threshold")
        if records.partials:
            raise UnsupportedError(
                "a log has records of some columns only, which cannot be left over version by version",
                hint="compact the table with the strategy unbounded, which folds them in",
            )
        self._records = records
        self._spec = spec
        self._threshold = threshold
        counted = counting(records.entries)
        is_after = (pl.col(_TIME) >= threshold).fill_null(False) & ~pl.col("unconditional")
        self._before = counted.filter(~is_after).drop(SEQ)
        self._after = counted.filter(is_after)
        self._resets = _resets(records.entries, counted, spec)
        self._late_base: list[pa.RecordBatch] = []
        self.superseded = 0
        """Base rows at or after the threshold: older versions of theirs are gone."""
        self.without_time = 0
        """Rows of the new base without an event time."""

    def merged(self, base: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the new base file."""
        before = LogRecords(self._records.rows, self._before, ())
        name = self._spec.ordering_fields[0]
        for batch in merge_whole(self._early(base), before, self._spec):
            self.without_time += column_at(batch, name).null_count
            yield batch

    def leftover(self) -> Leftover:
        """What is left over; known when all merged rows were taken."""
        data = self._after.filter(pl.col("kind") != BLOCK_DELETE)
        rows = self._records.rows.take(pa.array(data["row"].to_numpy()))
        base = pa.Table.from_batches(self._late_base, rows.schema)
        deletes = self._after.filter(pl.col("kind") == BLOCK_DELETE)
        records = data.filter(pl.col("kind") == DATA).group_by("key", _TIME).agg(pl.col(SEQ).max().alias("last"))
        met = deletes.join(records, on=["key", _TIME], how="left", maintain_order="left")
        is_first = (pl.col("last") > pl.col(SEQ)).fill_null(False)
        return Leftover(_deletes(met.filter(is_first)), pa.concat_tables([base, rows]), _deletes(met.filter(~is_first)))

    def _early(self, base: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Base rows before the threshold; those that are not are kept, those that are deleted fall away."""
        lookup = KeyLookup(self._resets["key"])
        ends = self._resets["unconditional"].to_numpy()
        winners = self._resets[_TIME].to_arrow()
        name, kind = self._spec.ordering_fields[0], self._spec.ordering_types[0]
        for batch in base:
            times = comparable(column_at(batch, name), kind)
            keep = np.ones(batch.num_rows, dtype=np.bool_)
            if len(ends):
                places = lookup.find(record_keys(batch, self._spec))
                rows = np.flatnonzero(places >= 0)
                found = places[rows]
                won = is_same_or_newer([winners.take(pa.array(found))], [times.take(pa.array(rows))])
                keep[rows] = ~(ends[found] | won)
            late = keep & np.asarray(pc.fill_null(pc.greater_equal(times, self._threshold), False))
            if late.any():
                self._late_base.append(batch.take(pa.array(np.flatnonzero(late))))
                self.superseded += int(late.sum())
            early = keep & ~late
            kept = batch if early.all() else batch.take(pa.array(np.flatnonzero(early)))
            del batch  # the base streams by: nothing of it is held while the consumer works
            yield kept


def _resets(entries: pl.DataFrame, counted: pl.DataFrame, spec: MergeSpec) -> pl.DataFrame:
    """The keys that the logs delete unconditionally, each with the greatest of what follows, or the delete itself."""
    keys = entries.filter("unconditional").select("key").unique()
    return greatest(counted.join(keys, on="key", how="semi", maintain_order="left"), spec)


def _deletes(entries: pl.DataFrame) -> Deletes:
    return Deletes(pc.cast(entries["key"].to_arrow(), pa.string()), (entries[_TIME].to_arrow(),))
