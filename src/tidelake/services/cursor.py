"""Where the last pass that made no plan left off: ``.hoodie/.tidelake/cursor/<service>``.

A pass that finds nothing to do writes nothing on the timeline. The cursor spares the next one from looking at the same
commits again: the last completed service it knew, the greatest completion time it saw, and the partitions with work left.
It counts only while that service is still the last one. A new table starts with one, so that its first plan is
incremental too. Losing it costs time, never partitions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tidelake.errors import NotFoundError
from tidelake.storage import Storage

CURSOR_DIR = ".hoodie/.tidelake/cursor"
BEGINNING = "0"


@dataclass(frozen=True, slots=True)
class Cursor:
    """``last`` is (requested, completion) of the last completed service, if there is one."""

    last: tuple[str, str] | None
    upto: str
    carry: frozenset[str]
    layout: str = ""
    """Of a clustering: the order in which it would have sorted."""
    terms: str = ""
    """The sizes by which it judged."""

    def encode(self) -> bytes:
        """The cursor's bytes."""
        fields = {"last": self.last, "upto": self.upto, "carry": sorted(self.carry), "layout": self.layout}
        if self.terms:
            fields["terms"] = self.terms
        return json.dumps(fields, separators=(",", ":")).encode()


def read_cursor(storage: Storage, service: str) -> Cursor | None:
    """The cursor of a service; None if there is none that can be read."""
    try:
        fields = json.loads(storage.get(f"{CURSOR_DIR}/{service}"))
        last = None if fields["last"] is None else (str(fields["last"][0]), str(fields["last"][1]))
        carry = frozenset(map(str, fields["carry"]))
        return Cursor(last, str(fields["upto"]), carry, str(fields.get("layout", "")), str(fields.get("terms", "")))
    except NotFoundError:
        return None
    except (ValueError, KeyError, TypeError, IndexError):
        return None  # derived, and damaged: the window starts at the last service instead


def begin_cursors(storage: Storage) -> None:
    """A new table has no work before its beginning."""
    for service in ("compaction", "clustering"):
        write_cursor(storage, service, Cursor(None, BEGINNING, frozenset()))


def write_cursor(storage: Storage, service: str, cursor: Cursor) -> None:
    """Keep a cursor."""
    storage.put(f"{CURSOR_DIR}/{service}", cursor.encode())
