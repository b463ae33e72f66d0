"""What a slice holds of some keys, merged from its base file and its logs."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.filegroup import FileSlice
from tidelake.merge import LogContext, LogRecords, merge_records, read_logs
from tidelake.query import read_base
from tidelake.schema import RECORD_KEY
from tidelake.storage import Storage
from tidelake.write.context import WriteContext


def rows_in_slice(
    storage: Storage, context: WriteContext, schema: pa.Schema, file_slice: FileSlice, keys: pa.Array
) -> pa.Table:
    """The rows of a slice that have one of the keys, as its files give them."""
    logged = read_logs(storage, file_slice.logs, context.merge, LogContext(schema, None, {}, frozenset()))
    wanted = pl.DataFrame({"key": pl.Series(keys, dtype=pl.String)})
    records = LogRecords(
        logged.rows,
        logged.entries.join(wanted, on="key", how="semi", maintain_order="left"),
        logged.partials,
        logged.born,
    )
    base = () if file_slice.base is None else read_base(storage, file_slice.base, schema)
    some = (batch.filter(pc.is_in(batch.column(RECORD_KEY), keys)) for batch in base)
    return pa.Table.from_batches(some if records.is_empty else merge_records(some, records, context.merge), schema)
