"""What a merge leaves beside its rows: records that were rejected, and deletes that are to be remembered."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

KEY, COMMIT, SEQNO, REASON, INCOMING, STORED = "key", "commit", "seqno", "reason", "incoming", "stored"
BORN = "born"


@dataclass(slots=True)
class Outcome:
    """What a merge leaves beside its rows, for the one who makes it durable."""

    rejects: list[pa.Table] = field(default_factory=list)
    """Records that were rejected: key, commit, seqno, reason, and the event times of the record and of what it met."""
    tombstones: list[pa.Table] = field(default_factory=list)
    """Keys that are gone, or have groups that are: key, when the delete was written, and its event times."""

    @property
    def rejected(self) -> dict[str, int]:
        """How many records were rejected, by reason."""
        counts: dict[str, int] = {}
        for table in self.rejects:
            for item in pc.value_counts(table.column(REASON)).to_pylist():
                counts[item["values"]] = counts.get(item["values"], 0) + item["counts"]
        return counts
