"""Which of the kernels merges: rows that win whole, partial rows, or rows with several event times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from tidelake.merge.base_merge import merge_whole
from tidelake.merge.clocks import merge_clocks
from tidelake.merge.log_records import LogRecords
from tidelake.merge.outcome import Outcome
from tidelake.merge.partial import merge_partial
from tidelake.merge.spec import MergeSpec


def merge_records(
    base: Iterable[pa.RecordBatch], records: LogRecords, spec: MergeSpec, outcome: Outcome | None = None
) -> Iterator[pa.RecordBatch]:
    """Merge records into a base file by the rules of the table; ``outcome`` is told what is left beside the rows."""
    if spec.clocks is not None:
        return merge_clocks(base, records, spec, outcome)
    if records.partials or spec.partial_mode is not None:
        return merge_partial(base, records, spec)
    return merge_whole(base, records, spec, outcome)
