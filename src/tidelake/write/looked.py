"""File groups that a write went by and did not change: everything that came in for them lost against what they hold.

Such a write has no file in them, and yet it is true only as long as they are as it found them. Its commit names them, so
that a write which changes one of them at the same time meets it there, whichever of the two is first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from tidelake.errors import CorruptError
from tidelake.format.commit_metadata import CommitMetadata

LOOKED_KEY = "tidelake.looked"


def encode_looked(groups: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What the commit's extra metadata says of these (partition path, file id); nothing if there are none."""
    found: dict[str, list[str]] = {}
    for partition, file_id in sorted(set(groups)):
        found.setdefault(partition, []).append(file_id)
    return {LOOKED_KEY: json.dumps(found, separators=(",", ":"))} if found else {}


def looked_groups(commit: CommitMetadata) -> list[tuple[str, str]]:
    """The file groups that a commit names so."""
    text = (commit.extra_metadata or {}).get(LOOKED_KEY)
    if text is None:
        return []
    try:
        return [(str(part), str(file_id)) for part, ids in json.loads(text).items() for file_id in ids]
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptError(f"a commit's {LOOKED_KEY} cannot be parsed: {error}", value=text) from error
