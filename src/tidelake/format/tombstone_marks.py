"""Which logs of a commit hold nothing but deletes that a compaction kept, and since when these are kept.

Scans need not read such logs: the base file beside them has no row of theirs. They are no work for a compaction either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

TOMBSTONES_KEY = "tidelake.tombstones"
"""In a commit's extra metadata: paths of logs with the instant of the newest delete in each, as JSON."""


def encode_tombstones(logs: Mapping[str, str]) -> dict[str, str]:
    """As extra metadata; nothing if there are no such logs."""
    return {TOMBSTONES_KEY: json.dumps(dict(sorted(logs.items())))} if logs else {}


def decode_tombstones(extra: Mapping[str, str | None] | None) -> dict[str, str]:
    """The logs that a commit names. What cannot be understood names none: they are then read as any log."""
    try:
        found = json.loads((extra or {}).get(TOMBSTONES_KEY) or "{}")
    except ValueError:
        return {}
    return {str(path): str(born) for path, born in found.items()} if isinstance(found, dict) else {}
