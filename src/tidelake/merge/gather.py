"""Gathering columns of versions that stand in two tables: in a batch of the base, and on the log side.

Memory is read fastest in its own order. The log side is large and is met in the order of the base, so the rows that are
wanted of it are copied first, as they stand, and put in order then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidelake.errors import InternalError
from tidelake.merge.arrays import Mask, Places

_DENSE = 16
"""If one row in so many is wanted, going through all of them is quicker than sorting."""


class Gathering:
    """Versions, of which some are stored in rows of a batch, and the others logged in rows of a table."""

    def __init__(self, batch: pa.RecordBatch | None, log: pa.Table, is_stored: Mask, row: Places) -> None:
        self._batch = batch
        self._log = log
        self.is_stored = is_stored
        self.row = row
        """Of each version, where it stands in its table."""
        self._by_row = _sorted_by(row, np.flatnonzero(~is_stored), log.num_rows)

    def any_order(self, names: list[str]) -> tuple[pa.Table, Places]:
        """Columns of all versions, and which version each row is of."""
        stored = np.flatnonzero(self.is_stored)
        logged = self._log.select(names).take(pa.array(self.row[self._by_row]))
        if len(stored) == 0:
            return logged, self._by_row
        return pa.concat_tables([self.stored(names, stored), logged]), np.concatenate([stored, self._by_row])

    def near(self, names: list[str], is_used: Mask) -> Near:
        """Columns of the versions that are used, to be taken in any order."""
        versions = self._by_row[is_used[self._by_row]]
        place = np.zeros(len(self.row), dtype=np.int64)
        place[versions] = np.arange(len(versions))
        return Near(self, self._log.select(names).take(pa.array(self.row[versions])), place)

    def taken(self, names: list[str], giver: Places) -> pa.Table:
        """Columns of some versions; null where there is none."""
        is_used = np.zeros(len(self.row), dtype=np.bool_)
        is_used[giver[giver >= 0]] = True
        return self.near(names, is_used).taken(names, giver)

    def stored(self, names: list[str], versions: Places) -> pa.Table:
        """Columns of versions that are stored."""
        if self._batch is None:
            raise InternalError("a version is stored, and no base file is there")
        return pa.Table.from_batches([self._batch.select(names)]).take(pa.array(self.row[versions]))


@dataclass(frozen=True, slots=True)
class Near:
    """The logged ones of some versions, copied side by side; the stored ones stay where they are, and are in order there."""

    of: Gathering
    logged: pa.Table
    place: Places
    """Of each version, where it stands in ``logged``."""

    def taken(self, names: list[str], giver: Places) -> pa.Table:
        """Columns of some of the versions; null where there is none."""
        nothing = giver < 0
        logged, order = self.logged.select(names), self.place[giver]
        of_stored = np.flatnonzero(self.of.is_stored[giver] & ~nothing)
        if len(of_stored) == 0:
            return logged.take(_numbers(order, nothing)).combine_chunks()
        stored = self.of.stored(names, giver[of_stored])
        if len(of_stored) == len(giver):
            return stored
        order += len(of_stored)
        order[of_stored] = np.arange(len(of_stored))
        return pa.concat_tables([stored, logged]).combine_chunks().take(_numbers(order, nothing))


def _numbers(order: Places, nothing: Mask) -> pa.Array:
    """Rows to take, of which some are none."""
    return pa.array(order, mask=nothing) if nothing.any() else pa.array(order)


def _sorted_by(row: Places, versions: Places, rows: int) -> Places:
    """Versions in the order of their rows, no two of which are the same."""
    if len(versions) * _DENSE < rows:
        return versions[np.argsort(row[versions])]
    at = np.full(rows, -1, dtype=np.int64)
    at[row[versions]] = versions
    return at[at >= 0]
