"""Mergers that users write. A table holds a merger's name; what a table names is never imported, only looked up here."""

from __future__ import annotations

from typing import Protocol, TypeVar

import pyarrow as pa

from tidelake.errors import InvalidError, UnsupportedError

IS_DELETE = "is_delete"
"""The column of incoming records that says which are deletes."""


class Merger(Protocol):
    """User code that merges records: Arrow tables in, one out."""

    def merge(self, stored: pa.Table, incoming: pa.Table) -> pa.Table:
        """The rows that the keys of ``incoming`` have from now on: at most one for each key, by ``_hoodie_record_key``.

        ``stored`` has at most one row for each key. ``incoming`` has one or more, each key's in the order in which they
        apply, and the column ``is_delete`` beside the table's. Both have the table's columns and ``_hoodie_record_key``;
        so must the result. A key that is not in it is gone.
        """
        ...


M = TypeVar("M", bound=type[Merger])
_KNOWN: dict[str, type[Merger]] = {}


def register_merger(name: str, cls: M) -> M:
    """Make a merger known by a name, which tables may then hold (``hoodie.eventime.latest.verification.merger``)."""
    if not (isinstance(cls, type) and callable(getattr(cls, "merge", None))):
        raise InvalidError(f"{cls!r} is no class with a method merge(stored, incoming)", value=name)
    if not isinstance(name, str) or not name or name != name.strip():
        raise InvalidError(f"{name!r} cannot name a merger", value=name)
    _KNOWN[name] = cls
    return cls


def merger_class(name: str | None) -> type[Merger]:
    """A merger by its name."""
    known = _KNOWN.get(name or "")
    if known is None:
        raise UnsupportedError(
            f"the merger {name!r} is not registered in this process",
            value=name,
            hint=f"tl.register_merger({name!r}, ...); known are {', '.join(sorted(_KNOWN)) or 'none'}",
        )
    return known
