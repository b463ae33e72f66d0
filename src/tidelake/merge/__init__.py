"""Record merging, vectorised: one implementation for every caller."""

from tidelake.merge.base_merge import merge_whole
from tidelake.merge.clocks import merge_clocks
from tidelake.merge.combine import merge_records
from tidelake.merge.log_records import LogContext, LogRecords, deleted_rows, read_logs, records_of
from tidelake.merge.mergers import Merger, register_merger
from tidelake.merge.outcome import Outcome
from tidelake.merge.partial import merge_partial
from tidelake.merge.spec import MergeSpec, merge_spec, resolve_spec
from tidelake.merge.split import Deletes, Leftover, SplitMerge

__all__ = [
    "Deletes",
    "Leftover",
    "LogContext",
    "LogRecords",
    "MergeSpec",
    "Merger",
    "Outcome",
    "SplitMerge",
    "deleted_rows",
    "merge_clocks",
    "merge_partial",
    "merge_records",
    "merge_spec",
    "merge_whole",
    "read_logs",
    "records_of",
    "register_merger",
    "resolve_spec",
]
