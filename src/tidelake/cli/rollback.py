"""``tidelake rollback``: take a write back. The one command that changes a table."""

from __future__ import annotations

from tidelake.cli import text
from tidelake.errors import InvalidError
from tidelake.table import open_table


def run(path: str, instant: str, options: dict[str, str], writer: dict[str, str], *, sure: bool, as_json: bool) -> int:
    """Roll a write back; a completed one only if the caller is sure."""
    table = open_table(path, storage_options=options, options=writer)
    completed = table.timeline.by_time.get(instant)
    if completed is not None and not sure:
        raise InvalidError(
            f"{completed} completed at {completed.completion_time}, and readers see its rows",
            value=instant,
            hint="add --yes to take them back",
        )
    own = table.rollback(instant)
    if as_json:
        text.write_json({"instant": instant, "was_completed": completed is not None, "rollback": own})
    else:
        kind = "completed" if completed is not None else "pending"
        text.write(f"{text.clean(instant)}, which was {kind}, is rolled back by {own}")
    return 0
