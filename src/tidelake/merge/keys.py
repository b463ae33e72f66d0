"""Record keys of tables without meta columns: made from the key columns, as Apache Hudi's key generators make them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import UnsupportedError
from tidelake.merge.spec import MergeSpec
from tidelake.schema import RECORD_KEY

NULL_KEY = "__null__"
EMPTY_KEY = "__empty__"


def record_keys(batch: pa.RecordBatch, spec: MergeSpec) -> pa.Array:
    """The record key of each row."""
    if not spec.key_fields:
        return batch.column(RECORD_KEY)
    parts = [key_text(batch.column(name), name) for name in spec.key_fields]
    if not spec.is_complex_key:
        return parts[0]
    named = []
    for name, part in zip(spec.key_fields, parts, strict=True):
        text = pc.if_else(pc.equal(part, ""), EMPTY_KEY, part)
        named.append(pc.binary_join_element_wise(name, pc.fill_null(text, NULL_KEY), ":"))
    return named[0] if len(named) == 1 else pc.binary_join_element_wise(*named, ",")


def key_text(column: pa.Array, name: str) -> pa.Array:
    """A key column as text, in the form in which Apache Hudi writes it."""
    kind = column.type
    if pa.types.is_string(kind):
        return column
    if pa.types.is_timestamp(kind):
        return pc.cast(pc.cast(column, pa.int64()), pa.string())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind) or pa.types.is_decimal(kind):
        return pc.cast(column, pa.string())
    raise UnsupportedError(f"the key column {name!r} has type {kind}, of which no record key can be made", value=name)
