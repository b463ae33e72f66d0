"""Where the table state lives: one file for each point, named by it, put if absent; two are kept.

The state is derived and disposable. One that is damaged, of another table or gone while it is read is passed over for the
one before it; there being none costs time, nothing else.
"""

from __future__ import annotations

import re
from contextlib import suppress

from tidelake.errors import AlreadyExistsError, CorruptError, UnavailableError
from tidelake.filegroup.state_codec import decode_state, encode_state
from tidelake.filegroup.state_table import TableState
from tidelake.storage import Storage

STATE_DIR = ".hoodie/.tidelake/state"
_KEPT = 2
_NAME = re.compile(r"\d{1,17}\.state", re.ASCII)


def newest_state(storage: Storage, identity: str) -> TableState | None:
    """The newest state that opens, as it was stored; None if there is none."""
    return next((state for name in _names(storage) if (state := _opened(storage, name, identity)) is not None), None)


def store_state(storage: Storage, state: TableState) -> None:
    """Put a state under its point, and remove those that nobody needs any more."""
    name = f"{state.point}.state"
    data = encode_state(state)
    try:
        storage.put_if_absent(f"{STATE_DIR}/{name}", data)
    except AlreadyExistsError:
        # Another process has stored the same; unless what is there is damaged.
        if _opened(storage, name, state.identity) is None:
            storage.delete(f"{STATE_DIR}/{name}")
            with suppress(AlreadyExistsError):
                storage.put_if_absent(f"{STATE_DIR}/{name}", data)
    for old in [other for other in _names(storage) if other != name][_KEPT - 1 :]:
        storage.delete(f"{STATE_DIR}/{old}")


def _names(storage: Storage) -> list[str]:
    """The states' names, newest first."""
    names = (info.path.rpartition("/")[2] for info in storage.list_dir(STATE_DIR)[1])
    return sorted((name for name in names if _NAME.fullmatch(name)), reverse=True)


def _opened(storage: Storage, name: str, identity: str) -> TableState | None:
    try:
        state = decode_state(storage.get(f"{STATE_DIR}/{name}"), identity)
    except (CorruptError, UnavailableError):
        return None
    return state if f"{state.point}.state" == name else None
