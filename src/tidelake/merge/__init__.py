"""Record merging, vectorised: one implementation for every caller."""

from tidelake.merge.base_merge import merge_whole
from tidelake.merge.log_records import LogContext, LogRecords, deleted_rows, read_logs, records_of
from tidelake.merge.partial import merge_partial
from tidelake.merge.spec import MergeSpec, merge_spec
from tidelake.merge.split import Deletes, Leftover, SplitMerge

__all__ = [
    "Deletes",
    "Leftover",
    "LogContext",
    "LogRecords",
    "MergeSpec",
    "SplitMerge",
    "deleted_rows",
    "merge_partial",
    "merge_spec",
    "merge_whole",
    "read_logs",
    "records_of",
]
