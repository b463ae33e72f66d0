"""Errors of the local file system as the storage kinds of ``tidelake.errors``.

What decides the kind is what the caller should do: look elsewhere (``NotFoundError``), change the name
(``InvalidError``), try again (``UnavailableError``), or ask an administrator (the same, with ``retryable`` off).
"""

from __future__ import annotations

import errno
from typing import Final

from tidelake.errors import InvalidError, NotFoundError, TidelakeError, UnavailableError

_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR})
_BAD_NAME: Final = frozenset({errno.ENAMETOOLONG, errno.EILSEQ})
_NEEDS_A_PERSON: Final = {
    errno.EACCES: "give this user the right to the folder",
    errno.EPERM: "give this user the right to the folder; the file system must know hard links",
    errno.EROFS: "the file system is mounted read-only",
    errno.ELOOP: "a symbolic link leads back to itself",
    errno.EXDEV: "the table must lie on one file system",
    errno.EMLINK: "the file system must know hard links",
    errno.EOPNOTSUPP: "the file system must know hard links",
    errno.EISDIR: "a folder has the name of an object",
    errno.ENOTDIR: "an object has the name of a folder",
    errno.EEXIST: "an object has the name of a folder",
}
_MAY_PASS: Final = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EMFILE: "this process has too many open files",
    errno.EIO: "the disk reports a fault",
}


def read_error(error: OSError, path: str, table: str) -> TidelakeError:
    """What failed when an object was read."""
    if error.errno in _ABSENT:
        return NotFoundError(f"no object {path!r}", value=path, table=table, file=path)
    return _other(error, "read", path, table)


def write_error(error: OSError, path: str, table: str) -> TidelakeError:
    """What failed when an object was written or deleted."""
    return _other(error, "write", path, table)


def _other(error: OSError, verb: str, path: str, table: str) -> TidelakeError:
    code = error.errno or 0
    said = f"cannot {verb} {path!r}: {error.strerror or error}"
    if code in _BAD_NAME:
        return InvalidError(said, value=path, table=table, file=path, hint="use shorter names")
    hint = _NEEDS_A_PERSON.get(code)
    result = UnavailableError(said, value=path, table=table, file=path, hint=hint or _MAY_PASS.get(code))
    if hint is not None:
        result.retryable = False
    return result
