"""Record keys of stored rows: the meta column, or, in tables without meta columns, made from the key columns."""

from __future__ import annotations

import pyarrow as pa

from tidelake.index import keygen
from tidelake.merge.spec import MergeSpec
from tidelake.schema import RECORD_KEY


def record_keys(batch: pa.RecordBatch, spec: MergeSpec) -> pa.Array:
    """The record key of each row."""
    if not spec.key_fields:
        return batch.column(RECORD_KEY)
    return keygen.record_keys(batch, spec.key_fields, spec.is_complex_key)
