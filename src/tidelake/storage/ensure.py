"""Objects that anybody may put, all with the same meaning: it matters that they are there, not whose they are."""

from __future__ import annotations

from contextlib import suppress

from tidelake.errors import AlreadyExistsError, UnavailableError
from tidelake.storage.port import Storage


def ensure_object(storage: Storage, path: str, data: bytes) -> None:
    """Put an object unless it is there. If an answer is lost it is put again: then it may be our own that is there."""
    with suppress(AlreadyExistsError):
        try:
            storage.put_if_absent(path, data)
        except UnavailableError as error:
            if not error.retryable:
                raise
            storage.put_if_absent(path, data)
