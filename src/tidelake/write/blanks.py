"""Keys that an unconditional delete has blanked, on merge-on-read tables with event-time ordering.

After such a delete in a log, a record below the base row's ordering value would bring the base row back in Apache Hudi
(in other readers it would show itself): our writer never makes such a log. The record is refused; at or above the base
row's ordering value it is logged as any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import InvalidError
from tidelake.filegroup import FileSlice
from tidelake.format.commit_metadata import CommitMetadata
from tidelake.merge import LogContext, read_logs
from tidelake.merge.fold import fold
from tidelake.merge.ordering import column_at, comparable, is_same_or_newer
from tidelake.query import read_base
from tidelake.schema import RECORD_KEY, with_meta
from tidelake.storage import Storage
from tidelake.write.context import WriteContext
from tidelake.write.rows import KEY

SAMPLES = 5


def may_have_blanks(slices: Iterable[FileSlice], commits: Mapping[str, CommitMetadata]) -> frozenset[str]:
    """The file groups whose logs may hold unconditional deletes: a delete wrote them, or nobody knows what did."""
    return frozenset(s.file_id for s in slices if any(_is_delete(commits.get(log.name.instant)) for log in s.logs))


def _is_delete(commit: CommitMetadata | None) -> bool:
    return commit is None or commit.operation_type == "DELETE"


def refuse_older_than_blanked(storage: Storage, context: WriteContext, file_slice: FileSlice, rows: pa.Table) -> None:
    """Refuse data rows of one group that would bring an older row back."""
    spec = context.merge
    whole = with_meta(context.schema)
    schema = pa.schema([field for field in whole if field.name in spec.columns or field.name == RECORD_KEY])
    logged = read_logs(storage, file_slice.logs, spec, LogContext(schema, None, {}, frozenset()))
    blanked = fold(logged.entries, spec).filter("unconditional").select("key")
    wanted = pl.DataFrame({"key": pl.Series(rows.column(KEY), dtype=pl.String), "row": np.arange(rows.num_rows)})
    hit = wanted.join(blanked, on="key", how="semi")
    if hit.height == 0 or file_slice.base is None:
        return
    for batch in read_base(storage, file_slice.base, schema):
        stored = pl.DataFrame(
            {"key": pl.Series(batch.column(RECORD_KEY), dtype=pl.String), "base": np.arange(batch.num_rows)}
        )
        met = hit.join(stored, on="key", how="inner")
        ours = ordering_values(rows.take(pa.array(met["row"].to_numpy())), context)
        theirs = ordering_values(batch.take(pa.array(met["base"].to_numpy())), context)
        older = met.filter(pl.Series(~is_same_or_newer(ours, theirs)))
        if older.height:
            keys = ", ".join(older["key"].head(SAMPLES))
            raise InvalidError(
                f"{older.height} rows are older than rows that were deleted whatever their age, of the keys {keys}",
                value=keys,
                hint="compact the table first, or give ordering values that are not below those of the deleted rows",
            )


def ordering_values(rows: pa.Table | pa.RecordBatch, context: WriteContext) -> list[pa.Array]:
    """The ordering values of rows, in comparable form."""
    spec = context.merge
    made = []
    for name, kind in zip(spec.ordering_fields, spec.ordering_types, strict=True):
        column = column_at(rows, name)
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        made.append(pc.cast(comparable(whole, kind), comparable(pa.nulls(0, kind), kind).type))
    return made
