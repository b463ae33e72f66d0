"""High-water marks that are in no commit: kept beside the timeline, so that they never go back.

Whoever takes back a completed write keeps its marks first; who looks at a table after another engine's commit keeps what was
shown. ``.hoodie/.tidelake/high-marks`` only grows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from tidelake.errors import AlreadyExistsError, ConflictError, NotFoundError, PreconditionError
from tidelake.format.commit_metadata import CommitMetadata
from tidelake.format.freshness_marks import FreshnessMarks, ViewTimes, decode_freshness_marks
from tidelake.storage import Storage

HIGH_MARKS_FILE = ".hoodie/.tidelake/high-marks"
_TRIES = 20


def kept_high_marks(storage: Storage) -> FreshnessMarks:
    """The high-water marks of commits that are gone."""
    try:
        return _decoded(storage.get(HIGH_MARKS_FILE))
    except NotFoundError:
        return FreshnessMarks()


def keep_commits_marks(storage: Storage, commits: Iterable[CommitMetadata]) -> None:
    """Keep the marks of commits that are about to be taken back."""
    found = [marks for commit in commits if (marks := decode_freshness_marks(commit.extra_metadata)) is not None]
    if found:
        keep_high_marks(storage, *found)


def keep_high_marks(storage: Storage, *found: FreshnessMarks) -> None:
    """Keep high-water marks."""
    for _ in range(_TRIES):
        try:
            data, version = storage.get_with_version(HIGH_MARKS_FILE)
        except NotFoundError:
            data, version = b"", None
        before = _decoded(data)
        raised = before
        for marks in found:
            rt, ro = raised.rt_hwm.raised(marks.rt_hwm), raised.ro_hwm.raised(marks.ro_hwm)
            raised = FreshnessMarks(rt_hwm=rt, ro_hwm=ro)
        if raised == before:
            return
        try:
            if version is None:
                storage.put_if_absent(HIGH_MARKS_FILE, _encoded(raised))
            else:
                storage.put_if_match(HIGH_MARKS_FILE, _encoded(raised), version)
            return
        except (AlreadyExistsError, PreconditionError):
            continue
    raise ConflictError("others keep high-water marks all the time", table=storage.uri, hint="try again")


def _encoded(marks: FreshnessMarks) -> bytes:
    views = {"rt": marks.rt_hwm, "ro": marks.ro_hwm}
    return json.dumps({name: [times.completion, times.freshness] for name, times in views.items()}).encode()


def _decoded(data: bytes) -> FreshnessMarks:
    try:
        stored = json.loads(data)
        rt, ro = (ViewTimes(*(None if v is None else int(v) for v in stored[name])) for name in ("rt", "ro"))
    except (ValueError, TypeError, KeyError):
        return FreshnessMarks()
    return FreshnessMarks(rt_hwm=rt, ro_hwm=ro)
