"""Splitting at an event time where each group of columns has its own: what is before it is merged, the rest is left over.

A record whose groups lie on both sides becomes two *halves*. Each has the event times and values of its own groups, and null
in the others: no event time there means that a merge passes the group over. Deletes are split likewise. A record of one side
alone stays as it is.

*Left over* is what is at or after the threshold, every version, in the order in which it came, and before it the halves of
base rows that are not before the threshold. Of equal event times the later wins, group by group: so of a delete block's delete
the groups in which a record of the same time follows go before the records, the others after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.config import PER_GROUP
from tidelake.errors import InternalError, UnsupportedError
from tidelake.merge.arrays import Mask
from tidelake.merge.clock_values import clock_values
from tidelake.merge.clocks import merge_clocks
from tidelake.merge.fold import SEQ
from tidelake.merge.key_lookup import KeyLookup
from tidelake.merge.keys import record_keys
from tidelake.merge.log_records import BLOCK_DELETE, DATA, LogRecords
from tidelake.merge.outcome import Outcome
from tidelake.merge.spec import MergeSpec
from tidelake.merge.split import Deletes, Leftover


class GroupSplit:
    """Merges what is before a threshold as the base streams by, and keeps what is left over."""

    def __init__(self, records: LogRecords, spec: MergeSpec, thresholds: Sequence[int], outcome: Outcome) -> None:
        """``thresholds`` are, for each event time, the least number of its column that is not before the threshold."""
        clocks = spec.clocks
        if clocks is None or clocks.mode != PER_GROUP or not spec.is_exact or spec.has_loose:
            raise InternalError("only records of groups that have all columns can be split at a threshold")
        if records.partials:
            raise UnsupportedError(
                "a log has records of some columns only, which cannot be left over version by version",
                hint="compact the table with the strategy unbounded, which folds them in",
            )
        self._spec = spec
        self._thresholds = tuple(thresholds)
        self._outcome = outcome
        self._groups = [
            [name, *(c for c in of if c != name)] for name, of in zip(clocks.fields, clocks.groups, strict=True)
        ]
        counted = _since_resets(records.entries)
        self._ended = counted.filter("unconditional")["key"]
        late = [_mask(pl.col(f"o{i}") >= least, counted) for i, least in enumerate(self._thresholds)]
        early = [_mask(pl.col(f"o{i}") < least, counted) for i, least in enumerate(self._thresholds)]
        is_late, is_early = np.logical_or.reduce(late), np.logical_or.reduce(early)
        at = counted["row"].to_numpy()
        self._after = counted.filter(pl.Series(is_late))
        self._late = [mask[is_late] for mask in late]
        keep = pl.Series(~is_late | is_early)
        self._before = LogRecords(
            self._without(records.rows, [_at_rows(mask, at, records.rows) for mask in late]),
            counted.filter(keep).drop(SEQ),
            (),
            records.born,
            records.kept,
        )
        self._rows = self._without(
            records.rows, [_at_rows(is_late & is_early & ~mask, at, records.rows) for mask in late]
        )
        self._late_base: list[pa.Table] = []
        self.superseded = 0
        """Base rows with a group at or after the threshold: older versions of it are gone."""
        self.without_time = 0
        """Rows of the new base without an event time."""

    def merged(self, base: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the new base file."""
        for batch in merge_clocks(self._early(base), self._before, self._spec, self._outcome):
            nulls = [np.asarray(batch.column(name).is_null()) for name in self._spec.ordering_fields]
            self.without_time += int(np.logical_and.reduce(nulls).sum())
            yield batch

    def leftover(self) -> Leftover:
        """What is left over; known when all merged rows were taken."""
        is_data = (self._after["kind"] != BLOCK_DELETE).to_numpy()
        rows = self._rows.take(pa.array(self._after["row"].to_numpy()[is_data]))
        deletes = self._after.filter(pl.Series(~is_data))
        first, last = [], []
        for i, late in enumerate(self._late):
            time = f"o{i}"
            records = self._after.filter(pl.Series(late) & (pl.col("kind") == DATA))
            newest = records.group_by("key", time).agg(pl.col(SEQ).max().alias("last"))
            met = deletes.join(newest, on=["key", time], how="left", maintain_order="left")
            is_first = _mask(pl.col("last") > pl.col(SEQ), met)
            first.append(is_first & late[~is_data])
            last.append(~is_first & late[~is_data])
        whole = pa.concat_tables([*(table.cast(rows.schema) for table in self._late_base), rows])
        return Leftover(_deletes(deletes, first), whole, _deletes(deletes, last))

    def _early(self, base: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Base rows, or halves of them, before the threshold; what is not is kept, and what is deleted falls away."""
        lookup = KeyLookup(self._ended)
        spec = self._spec
        for batch in base:
            stays = np.ones(batch.num_rows, dtype=np.bool_)
            if len(self._ended):
                stays = lookup.find(record_keys(batch, spec)) < 0
            times = [
                clock_values(batch.column(name), kind)
                for name, kind in zip(spec.ordering_fields, spec.ordering_types, strict=True)
            ]
            late = [_from(column, least) for column, least in zip(times, self._thresholds, strict=True)]
            is_late = np.logical_or.reduce(late)
            if stays.all() and not is_late.any():
                yield batch
                continue
            is_early = np.logical_or.reduce(
                [np.asarray(column.is_valid()) & ~mask for column, mask in zip(times, late, strict=True)]
            )
            rows = pa.Table.from_batches([batch])
            del batch  # the base streams by: nothing of it is held while the consumer works
            left = stays & is_late
            self.superseded += int(left.sum())
            halves = self._without(rows, [is_late & is_early & ~mask for mask in late])
            self._late_base.append(halves.take(pa.array(np.flatnonzero(left))))
            kept = self._without(rows, late).take(pa.array(np.flatnonzero(stays & (~is_late | is_early))))
            yield from kept.combine_chunks().to_batches()

    def _without(self, rows: pa.Table, masks: Sequence[Mask]) -> pa.Table:
        """The rows with null for event time and values of a group, where its mask says so."""
        for names, mask in zip(self._groups, masks, strict=True):
            if mask.any():
                places = pa.array(np.arange(rows.num_rows), mask=mask)
                for name in names:
                    if name in rows.column_names:
                        at = rows.schema.get_field_index(name)
                        rows = rows.set_column(at, rows.schema.field(at), rows.column(at).take(places))
        return rows


def _since_resets(entries: pl.DataFrame) -> pl.DataFrame:
    """The entries, numbered, that no unconditional delete of their key follows."""
    numbered = entries.with_row_index(SEQ)
    if not numbered["unconditional"].any():
        return numbered
    reset = pl.col(SEQ).filter(pl.col("unconditional")).max().over("key")
    return numbered.filter(reset.is_null() | (pl.col(SEQ) >= reset))


def _mask(what: pl.Expr, entries: pl.DataFrame) -> Mask:
    found: Mask = entries.select(what.fill_null(False).alias("found"))["found"].to_numpy()
    return found


def _at_rows(mask: Mask, at: np.ndarray[tuple[int], np.dtype[np.int64]], rows: pa.Table) -> Mask:
    """A mask of entries as one of the rows they stand for."""
    found = np.zeros(rows.num_rows, dtype=np.bool_)
    found[at[mask]] = True
    return found


def _from(times: pa.Array, least: int) -> Mask:
    return np.asarray(pc.fill_null(pc.greater_equal(times, least), False))


def _deletes(entries: pl.DataFrame, masks: Sequence[Mask]) -> Deletes:
    """The deletes with the event times of some groups; one that has none of them is not there."""
    some = np.logical_or.reduce(masks)
    times = tuple(
        pc.if_else(pa.array(mask[some]), entries[f"o{i}"].to_arrow().filter(pa.array(some)), None)
        for i, mask in enumerate(masks)
    )
    return Deletes(pc.cast(entries["key"].to_arrow().filter(pa.array(some)), pa.string()), times)
