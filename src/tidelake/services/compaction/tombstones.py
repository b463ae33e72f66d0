"""Deletes that outlive a compaction, so that an older record which comes late stays hidden.

They go to logs of the new slice that hold nothing else, with the event times they had. A delete is kept for
``tombstone.retention`` from its own commit on, however often it is compacted: deletes of about the same age share a log, and
the commit says of each log since when.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.format.names import LogFileName
from tidelake.merge.outcome import BORN, KEY, Outcome
from tidelake.timeline import parse_instant, timeline_zone
from tidelake.write.context import WriteContext
from tidelake.write.deletes import delete_entries
from tidelake.write.rows import KEY as ROW_KEY
from tidelake.write.rows import PATH

AGES = 4
"""Into how many logs the deletes of one retention time are spread, at most one more."""


def tombstone_names(context: WriteContext, file_id: str, token: str) -> list[LogFileName]:
    """The logs that a compaction of a file group may leave."""
    if not context.config.tombstone_seconds:
        return []
    return [LogFileName(file_id, context.instant, version, token) for version in range(1, AGES + 2)]


def kept_tombstones(context: WriteContext, partition: str, outcome: Outcome) -> Iterator[tuple[str, pa.StructArray]]:
    """The deletes that are still to be kept, as log entries: those of about one age together, with its newest instant."""
    if not outcome.tombstones or not context.config.tombstone_seconds:
        return
    found = pa.concat_tables(outcome.tombstones)
    zone = timeline_zone(context.config.timezone_is_utc)
    instants = found.column(BORN).combine_chunks().dictionary_encode()
    born_ms = np.array([parse_instant(text, zone) for text in instants.dictionary.to_pylist()], dtype=np.int64)
    now_ms, kept_ms = parse_instant(context.instant, zone), context.config.tombstone_seconds * 1000
    ages = np.clip((now_ms - born_ms) * AGES // kept_ms, 0, AGES)
    of_row = ages[np.asarray(instants.indices)]
    alive = (now_ms - born_ms < kept_ms)[np.asarray(instants.indices)]
    for age in np.unique(of_row[alive]):
        some = found.filter(pa.array(alive & (of_row == age)))
        paths = pa.chunked_array([pa.repeat(pa.scalar(partition, pa.string()), some.num_rows)])
        rows = some.drop_columns([BORN]).rename_columns([ROW_KEY if n == KEY else n for n in _names(some)])
        yield pc.max(some.column(BORN)).as_py(), delete_entries(rows.append_column(PATH, paths), context)


def _names(table: pa.Table) -> list[str]:
    return [name for name in table.column_names if name != BORN]
