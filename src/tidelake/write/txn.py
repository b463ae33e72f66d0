"""Batches that are written once: ``txn=(app, version)`` travels in the commit, and a repeated one is recognised by it.

An application numbers its batches upwards (Spark's ``foreachBatch`` does). A batch is a repeat if a commit of the
application with that number or a greater one is on the timeline or in the history.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tidelake.errors import CorruptError, InvalidError
from tidelake.format.avro_record import decode_record
from tidelake.format.commit_metadata import CommitMetadata, ReplaceCommitMetadata
from tidelake.timeline import Timeline, TimelineReader

TXN_KEY = "tidelake.txn"


@dataclass(frozen=True, slots=True)
class Txn:
    """A batch of an application."""

    app: str
    version: int

    def encode(self) -> str:
        """As it stands in the commit."""
        return json.dumps({"app": self.app, "version": self.version}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Earlier:
    """The commit that an application's latest batch has become."""

    requested_time: str
    completion_time: str
    commit: CommitMetadata


def make_txn(txn: tuple[str, int] | None) -> Txn | None:
    """A caller's ``txn``, checked."""
    if txn is None:
        return None
    match txn:
        case (str() as app, int() as version) if app and version >= 0 and not isinstance(version, bool):
            return Txn(app, version)
    raise InvalidError(
        f"txn is {txn!r}, not a pair of an application's name and a number", value=txn, hint='txn=("loader", batch_id)'
    )


def find_repeat(txn: Txn, timeline: Timeline, reader: TimelineReader, known: Timeline | None = None) -> Earlier | None:
    """The commit that has this batch already, or a later one of its application.

    With ``known``, only commits that completed since that timeline are looked at.
    """
    for instant in sorted(timeline.completed_writes, key=lambda i: i.completion_time or "", reverse=True):
        if known is not None and instant.requested_time in known.by_time:
            continue
        commit = reader.commit(instant)
        found = _txn_in(commit)
        if found is not None and found.app == txn.app:
            earlier = Earlier(instant.requested_time, instant.completion_time or "", commit)
            return earlier if found.version >= txn.version else None
    return _in_history(txn, reader) if known is None else None


def _in_history(txn: Txn, reader: TimelineReader) -> Earlier | None:
    """The same among archived commits: looked through only for the first batch since the application's last was archived."""
    latest: Earlier | None = None
    greatest = txn.version - 1
    for archived in reader.load_history(("instantTime", "completionTime", "action", "metadata")):
        if archived.metadata is None or TXN_KEY.encode() not in archived.metadata:
            continue
        kind = ReplaceCommitMetadata if archived.action == "replacecommit" else CommitMetadata
        commit: CommitMetadata = decode_record(kind, archived.metadata)
        found = _txn_in(commit)
        if found is not None and found.app == txn.app and found.version > greatest:
            greatest = found.version
            latest = Earlier(archived.requested_time, archived.completion_time or "", commit)
    return latest


def _txn_in(commit: CommitMetadata) -> Txn | None:
    text = (commit.extra_metadata or {}).get(TXN_KEY)
    if text is None:
        return None
    try:
        fields = json.loads(text)
        return Txn(str(fields["app"]), int(fields["version"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptError(f"a commit's {TXN_KEY} cannot be parsed: {error}", value=text) from error
