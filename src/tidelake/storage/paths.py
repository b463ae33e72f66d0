"""Names on storage: what a path may be, checked once, by every implementation alike.

A *path* is relative to the storage's root and literal: ``%2F``, ``*`` and ``[x]`` are characters like any other. What
is refused is what could lead out of the root (``..``, a leading ``/``), name one object in two ways (``.``, empty
parts) or cannot be written down (NUL, lone surrogates). A *prefix* names a folder; ``""`` is the root.
"""

from __future__ import annotations

import re
from typing import Final

from tidelake.errors import InvalidError

RELATIVE_TEMP_DIR: Final = ".hoodie/.tidelake/tmp"
"""Where the local storage makes its temporary files; never listed."""
RELATIVE_LOCK_FILE: Final = ".hoodie/.tidelake/head.lock"
"""What the local storage locks to compare and replace; never listed, replaced or deleted."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def check_path(path: str) -> str:
    """The path itself, or ``InvalidError``."""
    fault = _fault(path)
    if fault is not None:
        raise InvalidError(
            f"{path!r} is not a path on storage: {fault}",
            value=path,
            hint="give a path relative to the table's folder, with '/' between its parts",
        )
    return path


def check_prefix(prefix: str) -> str:
    """The folder's path itself, or ``InvalidError``; ``""`` is the root."""
    return prefix if prefix == "" else check_path(prefix)


def scheme_of(uri: str) -> str | None:
    """The scheme of a URI in lower case; ``None`` for a plain local path."""
    found = _SCHEME.match(uri)
    return found.group(1).lower() if found else None


def join(folder: str, name: str) -> str:
    """A name in a folder, where the folder may be the root."""
    return f"{folder}/{name}" if folder else name


def parent_of(path: str) -> str:
    """The folder of an object; ``""`` for one in the root."""
    return path.rpartition("/")[0]


def _fault(path: str) -> str | None:
    if not path:
        return "it is empty"
    if "\0" in path:
        return "it contains NUL"
    if path.startswith("/"):
        return "it begins with '/'"
    for part in path.split("/"):
        if part == "":
            return "it has an empty part"
        if part in (".", ".."):
            return f"it has the part {part!r}"
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return "it is not valid Unicode text"
    return None
