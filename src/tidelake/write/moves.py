"""Tables with a global index: a key stands once in the table, and a row whose partition changes moves.

Before files are written, each incoming row is routed. The base files of all partitions are asked for its key, pruned by
key range and bloom filter. Where its own partition alone has it, it is an update as in any table. Where another has it,
what is stored is merged, for these keys and without the columns that merging does not need: an incoming row that is older
than the stored version, or than the delete that ended it, is dropped; else it is written into its own partition, and the
others get a delete that carries its ordering value, so that the verdict does not depend on the order of the two.

A key that is alive nowhere gets a delete in every group that still has its base row: two writers who bring one key back
in different partitions so meet in a file group, and one is told.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.config import TableType
from tidelake.errors import InternalError, UnsupportedError
from tidelake.filegroup import FileSlice
from tidelake.merge import LogContext, LogRecords, deleted_rows, merge_partial, merge_whole, read_logs
from tidelake.merge.fold import fold
from tidelake.merge.log_records import DATA
from tidelake.merge.ordering import is_same_or_newer
from tidelake.query import read_base
from tidelake.schema import RECORD_KEY, with_meta
from tidelake.storage import Storage
from tidelake.write.blanks import ordering_values
from tidelake.write.context import WriteContext
from tidelake.write.lookup import matches
from tidelake.write.missed import Missed
from tidelake.write.rows import GONE, HELPERS, KEY, PATH, PLACE


def route(
    storage: Storage,
    context: WriteContext,
    slices: Mapping[str, tuple[FileSlice, ...]],
    rows: pa.Table,
    missed: list[Missed],
) -> pa.Table:
    """Rows (one for each key) as they are to be written: where, over which slice of that partition, and whether as a delete.

    ``PLACE`` is the number of the slice in its partition, -1 if none has the key; ``GONE`` marks deletes of what moved away.
    ``missed`` is told in which file groups rows lost, if what others do to these might have let them win.
    """
    if context.merge.partial_mode is not None:
        raise UnsupportedError(
            "rows that take values from older versions (a partial update mode) are not moved between partitions",
            value=context.merge.partial_mode.value,
            table=context.config.name,
        )
    flat = [(path, number, file_slice) for path, found in slices.items() for number, file_slice in enumerate(found)]
    plain = _with_path(rows, pc.cast(rows.column(PATH), pa.string()))
    pairs = _pairs(storage, context, flat, plain)
    settled, unsure = _own_alone(pairs)
    judged = _judged(storage, context, flat, rows, unsure)
    # Logs keep deletes, so that rows which lost once have lost for good; a base file without the key tells nothing.
    if context.config.table_type is TableType.COPY_ON_WRITE:
        for (path, _, file_slice), count in zip(flat, _lost(unsure, judged, len(flat)), strict=True):
            missed += Missed.lost(path, [file_slice.file_id] if count else ())
    homeless = np.setdiff1d(np.arange(rows.num_rows), pairs["row"].to_numpy())
    kept = pl.concat(
        [
            pl.DataFrame({"row": homeless, "slice": np.full(len(homeless), -1, dtype=np.int64)}),
            settled.select("row", "slice"),
            _homes(judged),
        ]
    ).sort("row")
    gone = judged.filter("is_left").select("row", "slice")
    numbers = np.array([number for _, number, _ in flat], dtype=np.int64)
    paths = pa.array([path for path, _, _ in flat], pa.string())
    made = pa.concat_tables([_placed(plain, kept, numbers), _left(plain, gone, numbers, paths)]).combine_chunks()
    return _with_path(made, made.column(PATH).combine_chunks().dictionary_encode())


def _pairs(
    storage: Storage, context: WriteContext, flat: list[tuple[str, int, FileSlice]], rows: pa.Table
) -> pl.DataFrame:
    """Every incoming row with every slice that has its key."""
    keys, paths = rows.column(KEY).combine_chunks(), rows.column(PATH).combine_chunks()
    found = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_))]
    for slice_number, present in matches(storage, context, [file_slice for *_, file_slice in flat], keys):
        is_own = np.asarray(pc.equal(paths.take(pa.array(present)), flat[slice_number][0]))
        found.append((present, np.full(len(present), slice_number, dtype=np.int64), is_own))
    row, number, own = (np.concatenate(part) for part in zip(*found, strict=True))
    return pl.DataFrame({"row": row, "slice": number, "is_own": own})


def _own_alone(pairs: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The pairs of rows whose key one slice has, of their own partition; and the others."""
    alone = (pl.len().over("row") == 1) & pl.col("is_own")
    return pairs.filter(alone), pairs.filter(~alone)


def _judged(
    storage: Storage, context: WriteContext, flat: list[tuple[str, int, FileSlice]], rows: pa.Table, pairs: pl.DataFrame
) -> pl.DataFrame:
    """The pairs of rows that are written: ``is_home`` where the row goes, ``is_left`` where a delete goes."""
    keys = pl.Series("key", rows.column(KEY), dtype=pl.String)
    held = [_held(storage, context, flat[n][2], part, keys) for (n,), part in pairs.group_by("slice")]
    if not held:
        return pairs.with_columns(is_delete=False, is_home=False, is_left=False)
    known = pl.concat(held)
    if context.merge.is_event_time:
        at = pa.array(known["row"].to_numpy())
        ours = ordering_values(rows.take(at), context)
        theirs = [pc.cast(known[f"o{i}"].to_arrow(), column.type) for i, column in enumerate(ours)]
        newer = pl.Series("newer", is_same_or_newer(ours, theirs))
        known = known.with_columns(newer).filter(pl.col("newer").all().over("row"))
    deleted = deleted_rows(rows.drop_columns([name for name in HELPERS if name in rows.column_names]), context.merge)
    known = known.with_columns(pl.Series("is_delete", deleted[known["row"].to_numpy()]))
    # Of several slices of the own partition (an insert without look-up made them) the last living one is the row's home.
    rank = pl.col("is_own").cast(pl.Int8) * 2 + pl.col("alive").cast(pl.Int8)
    best = (rank * len(flat) + pl.col("slice")).max().over("row")
    is_home = ~pl.col("is_delete") & pl.col("is_own") & (rank * len(flat) + pl.col("slice") == best)
    is_left = ~pl.col("is_home") & (pl.col("alive") | ~pl.col("alive").any().over("row"))
    return known.with_columns(is_home.alias("is_home")).with_columns(is_left.alias("is_left"))


def _lost(pairs: pl.DataFrame, judged: pl.DataFrame, count: int) -> npt.NDArray[np.int64]:
    """How many rows lost against what each slice holds."""
    dropped = pairs.join(judged, on=["row", "slice"], how="anti")["slice"].to_numpy()
    return np.bincount(dropped, minlength=count)


def _homes(judged: pl.DataFrame) -> pl.DataFrame:
    """Where the rows that are written go; -1: into a new file group."""
    stays = judged.filter("is_home").select("row", "slice")
    new = judged.filter(~pl.col("is_delete")).join(stays, on="row", how="anti").select("row").unique()
    return pl.concat([stays, new.with_columns(pl.lit(-1, dtype=pl.Int64).alias("slice"))])


def _held(
    storage: Storage, context: WriteContext, file_slice: FileSlice, pairs: pl.DataFrame, keys: pl.Series
) -> pl.DataFrame:
    """The pairs of one slice, with what it holds of their keys: ``alive``, and the ordering value of the row or its end."""
    spec = context.merge
    if file_slice.base is None:
        raise InternalError("a file group without a base file has no keys", instant=context.instant)
    schema = pa.schema([f for f in with_meta(context.schema) if f.name in spec.columns or f.name == RECORD_KEY])
    wanted = pairs.with_columns(key=keys.gather(pairs["row"]))
    values = pc.cast(wanted["key"].to_arrow(), pa.string())
    base = (b.filter(pc.is_in(b.column(RECORD_KEY), values)) for b in read_base(storage, file_slice.base, schema))
    logged = read_logs(storage, file_slice.logs, spec, LogContext(schema, None, {}, frozenset()))
    records = LogRecords(
        logged.rows,
        logged.entries.join(wanted.select("key"), on="key", how="semi", maintain_order="left"),
        logged.partials,
    )
    combine = merge_partial if records.partials else merge_whole
    merged = pa.Table.from_batches(base if records.is_empty else combine(base, records, spec), schema)
    order = {f"o{i}": column for i, column in enumerate(ordering_values(merged, context))}
    alive = pl.DataFrame(
        {"key": pl.Series(merged.column(RECORD_KEY), dtype=pl.String), **{n: pl.Series(c) for n, c in order.items()}}
    ).unique("key", keep="first", maintain_order=True)
    ended = fold(records.entries, spec).filter((pl.col("kind") != DATA) & ~pl.col("unconditional"))
    ended = ended.join(alive, on="key", how="anti").select("key", *order)
    known = pl.concat([alive.with_columns(alive=True), ended.with_columns(alive=False)], how="vertical_relaxed")
    joined = wanted.join(known, on="key", how="left", maintain_order="left")
    return joined.with_columns(pl.col("alive").fill_null(False)).drop("key")


def _placed(rows: pa.Table, kept: pl.DataFrame, numbers: npt.NDArray[np.int64]) -> pa.Table:
    at = kept["slice"].to_numpy()
    places = np.where(at >= 0, numbers[at], -1) if len(numbers) else at
    taken = rows.take(pa.array(kept["row"].to_numpy()))
    return _marked(taken, places, False)


def _left(rows: pa.Table, gone: pl.DataFrame, numbers: npt.NDArray[np.int64], paths: pa.Array) -> pa.Table:
    at = gone["slice"].to_numpy()
    taken = rows.take(pa.array(gone["row"].to_numpy()))
    return _marked(_with_path(taken, paths.take(pa.array(at))), numbers[at], True)


def _with_path(rows: pa.Table, paths: pa.Array | pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.column_names.index(PATH), PATH, paths)


def _marked(rows: pa.Table, places: npt.NDArray[np.int64], is_gone: bool) -> pa.Table:
    marks = pa.repeat(pa.scalar(is_gone), rows.num_rows)
    return rows.append_column(PLACE, pa.array(places, pa.int64())).append_column(GONE, marks)
