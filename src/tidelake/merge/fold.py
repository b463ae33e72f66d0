"""Folding the log side: of all records and deletes of a key, which one meets the base file.

Commit time: the last. Event time: the greatest ordering value, ties to the later one. An unconditional delete forgets
what came before it; of what follows it, delete-block entries count only after the next data record (Apache Hudi keeps
the unconditional delete when a delete block meets it). ``folded`` has one row per key, in entry order.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.merge.arrays import Places
from tidelake.merge.log_records import BLOCK_DELETE
from tidelake.merge.spec import MergeSpec

SEQ = "seq"
FEW_KEYS = 10_000
"""Up to so many, arrays in this thread are quicker than frames, which wake threads of their own for every step."""


def fold(entries: pl.DataFrame, spec: MergeSpec) -> pl.DataFrame:
    """The winning entry of each key."""
    if spec.is_event_time:
        return greatest(counting(entries), spec)
    numbered = entries.with_row_index(SEQ)
    if numbered.height <= FEW_KEYS:
        return _last_of_few(numbered, [])
    return numbered.unique("key", keep="last", maintain_order=True)


def counting(entries: pl.DataFrame) -> pl.DataFrame:
    """The entries, numbered, that unconditional deletes leave to be compared by event time."""
    numbered = entries.with_row_index(SEQ)
    if not numbered["unconditional"].any():
        return numbered
    reset_keys = numbered.filter("unconditional").select("key").unique()
    plain = numbered.join(reset_keys, on="key", how="anti", maintain_order="left")
    reset = numbered.join(reset_keys, on="key", how="semi", maintain_order="left")
    return pl.concat([plain, _after_resets(reset)]).sort(SEQ)


def greatest(numbered: pl.DataFrame, spec: MergeSpec) -> pl.DataFrame:
    """Of the entries of each key the one with the greatest ordering value, the last of equal ones."""
    order = [f"o{i}" for i in range(len(spec.ordering_fields))]
    if numbered.height <= FEW_KEYS:
        return _last_of_few(numbered, order)
    if not numbered["key"].is_duplicated().any():
        return numbered
    ordered = numbered.sort([*order, SEQ], nulls_last=False)
    return ordered.unique("key", keep="last", maintain_order=True).sort(SEQ)


def _last_of_few(numbered: pl.DataFrame, order: list[str]) -> pl.DataFrame:
    """The last entry of each key by these columns, null first, and then by place; in their own order."""
    keys = numbered["key"].to_arrow().dictionary_encode()
    if len(keys.dictionary) == numbered.height:
        return numbered
    places = _places([numbered[name].to_arrow() for name in order]) if order else np.arange(numbered.height)
    winners = np.empty(len(keys.dictionary), dtype=np.int64)
    winners[np.asarray(keys.indices)[places]] = places  # of several the last one stays
    return numbered[np.sort(winners)]


def _places(columns: list[pa.Array]) -> Places:
    by: list[np.ndarray] = []
    for column in reversed(columns):
        is_number = pa.types.is_int64(column.type)
        values = pc.fill_null(column, 0) if is_number else pc.rank(column, "ascending", tiebreaker="dense")
        by += [np.asarray(values), np.asarray(column.is_valid())]
    return np.lexsort(by)


def _after_resets(numbered: pl.DataFrame) -> pl.DataFrame:
    last_reset = pl.col(SEQ).filter(pl.col("unconditional")).max().over("key").alias("reset")
    after = numbered.with_columns(last_reset).filter(pl.col(SEQ) >= pl.col("reset"))
    is_data = (pl.col("kind") != BLOCK_DELETE) & (pl.col(SEQ) > pl.col("reset"))
    first_data = pl.col(SEQ).filter(is_data).min().over("key").alias("first")
    counted = after.with_columns(first_data)
    has_data = pl.col("first").is_not_null()
    kept = (~has_data & (pl.col(SEQ) == pl.col("reset"))) | (has_data & (pl.col(SEQ) >= pl.col("first")))
    return counted.filter(kept).drop("reset", "first")
