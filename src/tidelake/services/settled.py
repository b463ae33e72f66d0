"""What was left half done is finished before a clean, a savepoint or a restore decides: rollbacks, restores, cleans.

While one of these is pending, the files that it names are neither there nor gone. So each decision looks for them again in
its turn of the head, and begins anew if there is one.
"""

from __future__ import annotations

from tidelake.timeline import Timeline

TRIES = 20
"""How often a decision begins anew, because another process left something half done meanwhile."""


class UnsettledError(Exception):
    """Something has to be finished first."""


def check_settled(timeline: Timeline) -> None:
    """Raise if a clean, rollback or restore is under way."""
    if any(i.action in ("clean", "rollback", "restore") for i in timeline.pending):
        raise UnsettledError
