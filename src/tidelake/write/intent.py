"""What a write says of itself when it begins, in its inflight file: whether it will make log files.

A load of a hundred thousand partitions has a commit of many megabytes. A compaction need not read it to know that there
is nothing to compact: the inflight file, a few kilobytes, says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelake.config import TableConfig, TableType
from tidelake.errors import ConflictError
from tidelake.format.avro_record import decode_record
from tidelake.format.commit_metadata import CommitMetadata, WriteStat
from tidelake.timeline import Timeline
from tidelake.write.conflicts import is_log

_FILES = "tidelake.files"
_BASES = "base"


def intent(config: TableConfig, operation: str, known: Timeline) -> dict[str, str]:
    """The extra metadata of the inflight file of a write, which begins on a table with that timeline.

    Where hashes make groups, rows of an insert go to the logs of groups that are there: only the first write makes none.
    """
    is_first = not known.completed_writes and not known.pending
    if config.is_exact:
        return {}  # new groups begin with a log
    makes_groups = operation in ("INSERT", "BULK_INSERT") and (config.buckets is None or is_first)
    return {_FILES: _BASES} if makes_groups and config.table_type is TableType.MERGE_ON_READ else {}


def refuse_broken_intent(said: Mapping[str, str], stats: Iterable[WriteStat]) -> None:
    """A write that said that it would make no log, and did, since another was first, is not true."""
    broken = next((stat for stat in stats if is_log(stat)), None) if said else None
    if broken is not None:
        raise ConflictError(
            "this write began on an empty table, and another writer was first",
            file=broken.path,
            hint="redo the write",
        )


def only_bases(inflight: bytes) -> bool:
    """Whether a write of ours said that it makes base files of new file groups and nothing else."""
    if not inflight:
        return False
    return (decode_record(CommitMetadata, inflight).extra_metadata or {}).get(_FILES) == _BASES
