"""The table state: every live file slice and partition in one derived file, so that nobody lists 100,000 folders.

``load_state`` is the newest state on storage with everything folded in that completed since; ``build_state`` makes one from
a listing; ``save_state`` stores one. It is never needed: deleting ``.hoodie/.tidelake/state`` costs time, nothing else.
"""

from __future__ import annotations

from contextlib import suppress

from tidelake.config import TableConfig
from tidelake.errors import TidelakeError
from tidelake.filegroup.state_codec import identity_of
from tidelake.filegroup.state_fold import Write, fold, listed_state
from tidelake.filegroup.state_store import newest_state, store_state
from tidelake.filegroup.state_table import TableState
from tidelake.filegroup.view import TableView
from tidelake.storage import Storage
from tidelake.timeline import Timeline, TimelineReader, load_timeline

_MOST_LISTED = 64
"""How many partitions a writer lists at most to bring the state up to date."""


def load_state(storage: Storage, config: TableConfig, timeline: Timeline, reader: TimelineReader) -> TableState | None:
    """The table's state as of this timeline, from what is stored; None if there is none that can be continued."""
    return TableView(storage, config, timeline, reader).state()


def build_state(storage: Storage, config: TableConfig, timeline: Timeline, reader: TimelineReader) -> TableState:
    """The table's state as of this timeline, from a listing of all partitions."""
    view = TableView(storage, config, timeline, reader)
    writes = [Write((i.requested_time, i.completion_time or ""), view.commits[i.requested_time]) for i in view.instants]
    return listed_state(identity_of(config), timeline, writes, view.listed_slices(), view)


def first_state(
    storage: Storage, config: TableConfig, timeline: Timeline, reader: TimelineReader, most_listed: int | None = None
) -> TableState | None:
    """The state of a table whose writes are all on the active timeline, from what they say; None if it has others."""
    if reader.history:
        return None
    view = TableView(storage, config, timeline, reader)
    return fold(TableState.empty(identity_of(config)), timeline, reader, view, most_listed)


def save_state(storage: Storage, state: TableState) -> None:
    """Store a state, unless it is stored already or there is nothing in it."""
    if state.point and not state.is_stored:
        store_state(storage, state)


def keep_state(storage: Storage, config: TableConfig, reader: TimelineReader) -> None:
    """Bring the stored state up to date, after a write; whatever is in the way, the write is true.

    A table whose writes are all on the active timeline gets its first state from them; any other from a service, since
    a writer does not list a table.
    """
    with suppress(TidelakeError):
        timeline = load_timeline(storage, config)
        stored = newest_state(storage, identity_of(config))
        if stored is None:
            state = first_state(storage, config, timeline, reader, _MOST_LISTED)
        else:
            state = fold(stored, timeline, reader, TableView(storage, config, timeline, reader), _MOST_LISTED)
        if state is not None:
            save_state(storage, state)
