"""From a URI to a storage, by its scheme."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from tidelake._clock import Clock
from tidelake.errors import InvalidError
from tidelake.storage.local import LocalStorage
from tidelake.storage.memory import SCHEME as MEMORY_SCHEME
from tidelake.storage.memory import memory_storage
from tidelake.storage.paths import scheme_of
from tidelake.storage.port import Storage

OBJECT_STORE_SCHEMES: Final = frozenset({"s3", "s3a", "gs", "az", "abfs", "abfss"})
KNOWN_SCHEMES: Final = tuple(sorted({"file", MEMORY_SCHEME} | OBJECT_STORE_SCHEMES))


def path_text(path: object) -> str:
    """A path or URI that a caller gave, as text."""
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str) or not text:
        raise InvalidError(f"{path!r} is no path", value=path, hint="give a text that is not empty, or a pathlib.Path")
    return text


def open_storage(
    uri: str | os.PathLike[str], options: Mapping[str, str] | None = None, clock: Clock | None = None
) -> Storage:
    """The storage whose root is ``uri``. Opening looks at nothing and creates nothing.

    ``options`` are for object stores (see ``object_store_options``). The clock gives a memory storage its times and
    object stores their waits between tries; a local disk has its own times, and its lock is held in real time.
    """
    text = path_text(uri)
    scheme = scheme_of(text)
    if scheme is None or scheme == "file":
        return LocalStorage(text)
    if scheme == MEMORY_SCHEME:
        return memory_storage(text.partition("://")[2].strip("/"), clock=clock)
    if scheme in OBJECT_STORE_SCHEMES:
        # Imported here because obstore is a large native library that a local table never needs.
        from tidelake.storage.object_store import ObjectStorage  # noqa: PLC0415

        return ObjectStorage(text, options, clock=clock)
    raise InvalidError(
        f"no storage for {text!r}: unknown scheme {scheme!r}",
        value=text,
        hint=f"use a local path or one of {', '.join(name + '://' for name in KNOWN_SCHEMES)}",
    )
