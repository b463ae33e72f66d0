"""What a write says of itself when it begins, in its inflight file: whether it will make log files.

A load of a hundred thousand partitions has a commit of many megabytes. A compaction need not read it to know that there
is nothing to compact: the inflight file, a few kilobytes, says so.
"""

from __future__ import annotations

from tidelake.config import TableConfig, TableType
from tidelake.format.avro_record import decode_record
from tidelake.format.commit_metadata import CommitMetadata

_FILES = "tidelake.files"
_BASES = "base"


def intent(config: TableConfig, operation: str) -> dict[str, str]:
    """The extra metadata of the inflight file of a write."""
    makes_groups = operation in ("INSERT", "BULK_INSERT") and config.buckets is None
    return {_FILES: _BASES} if makes_groups and config.table_type is TableType.MERGE_ON_READ else {}


def only_bases(inflight: bytes) -> bool:
    """Whether a write of ours said that it makes base files of new file groups and nothing else."""
    if not inflight:
        return False
    return (decode_record(CommitMetadata, inflight).extra_metadata or {}).get(_FILES) == _BASES
