"""Records that lost against several event times: counted in the commit that made it so, and kept on demand.

A task that merges *stages* what it rejected under its instant; the commit names the staged files of the tasks that count.
Once the commit is true they are *published*: copied, under names that follow from the commit, to the folder that the table
names, and removed here. Whoever dies in between leaves this to the next one; files of a write that never became true are
removed. So every rejected record is published once.

Who takes a completed write back *recalls* its files first: a note under the instant names them, and publishing removes them
from the folder. What is rejected anew is published by the commit that does so.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from tidelake.config import TableConfig
from tidelake.errors import InvalidError, NotFoundError, UnavailableError
from tidelake.format.commit_metadata import CommitMetadata, ReplaceCommitMetadata
from tidelake.format.names import TimelineName
from tidelake.merge import Outcome
from tidelake.storage import Storage, open_storage
from tidelake.storage.paths import scheme_of
from tidelake.timeline import Timeline, TimelineReader, load_timeline

REJECTED_KEY, FILES_KEY = "tidelake.rejected", "tidelake.rejects"
"""Where a commit's extra metadata says how many records were rejected, by reason, and which files have them."""
_DIR = ".hoodie/.tidelake/rejects"
_RECALL = "recall"
_LOG = logging.getLogger("tidelake.write")


@dataclass(frozen=True, slots=True)
class Rejected:
    """What a write or a compaction rejected."""

    counts: Mapping[str, int] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    @property
    def metadata(self) -> dict[str, str]:
        """What the commit says of it; nothing if nothing was rejected."""
        made = {REJECTED_KEY: json.dumps(dict(sorted(self.counts.items())))} if self.counts else {}
        return {**made, FILES_KEY: ",".join(sorted(self.files))} if self.files else made


def rejected_together(parts: Iterable[Rejected]) -> Rejected:
    """What several tasks rejected."""
    counts: dict[str, int] = {}
    files: list[str] = []
    for part in parts:
        files += part.files
        for reason, count in part.counts.items():
            counts[reason] = counts.get(reason, 0) + count
    return Rejected(counts, tuple(files))


def stage_rejects(storage: Storage, config: TableConfig, instant: str, name: str, outcome: Outcome) -> Rejected:
    """Count what was rejected, and keep it if the table asks for that; ``name`` is the task's own."""
    if not outcome.rejects:
        return Rejected()
    if config.clocks is None or config.clocks.rejects_path is None:
        return Rejected(outcome.rejected)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.concat_tables(outcome.rejects), sink)
    storage.put(f"{_DIR}/{instant}/{name}.parquet", sink.getvalue().to_pybytes())
    return Rejected(outcome.rejected, (name,))


def recall_rejects(storage: Storage, config: TableConfig, completed: TimelineName) -> None:
    """Note what is published of a completed write, before its completed file goes."""
    if config.clocks is None or config.clocks.rejects_path is None:
        return
    kind: type[CommitMetadata] = ReplaceCommitMetadata if completed.action == "replacecommit" else CommitMetadata
    with suppress(NotFoundError):  # others take the same write back, and are further
        files = _files(TimelineReader(storage, config).record(kind, str(completed)))
        if files:
            storage.put(f"{_DIR}/{completed.requested_time}/{_RECALL}", ",".join(sorted(files)).encode())


def publish_rejects(storage: Storage, config: TableConfig) -> None:
    """Publish what is staged of writes that are true, and remove what is there of those that are not.

    A folder that cannot be reached now gets its files with the next write.
    """
    clocks = config.clocks
    if clocks is None or clocks.rejects_path is None:
        return
    staged: dict[str, list[str]] = {}
    for info in storage.list_files(_DIR):
        instant, _, name = info.path.removeprefix(f"{_DIR}/").partition("/")
        staged.setdefault(instant, []).append(name)
    if not staged:
        return
    reader = TimelineReader(storage, config)
    timeline = load_timeline(storage, config)
    try:
        folder = open_storage(clocks.rejects_path, storage.options)
        for instant, names in staged.items():
            if any(i.requested_time == instant for i in timeline.pending):
                continue
            wanted = frozenset() if _RECALL in names else _named(instant, timeline, reader)
            for name in names:
                path = f"{_DIR}/{instant}/{name}"
                with suppress(NotFoundError):  # another publishes at the same time, and is further
                    if name == _RECALL:
                        _remove_published(folder, instant, storage.get(path).decode())
                    elif name.removesuffix(".parquet") in wanted:
                        folder.put(f"{instant}-{name}", storage.get(path))
                storage.delete(path)
    except UnavailableError as error:
        _LOG.warning("rejected records of %s wait for the folder %s: %s", config.name, clocks.rejects_path, error)


def refuse_unfit_folder(path: str | None) -> None:
    """Refuse a folder of rejected records that no writer could reach, or that would be another one for each writer."""
    if path is None:
        return
    storage = open_storage(path)
    if scheme_of(path) is None and not os.path.isabs(path):
        raise InvalidError(
            f"the folder {path!r} of rejected records depends on where a writer runs", value=path, hint=storage.uri
        )


def _remove_published(folder: Storage, instant: str, names: str) -> None:
    for name in names.split(","):
        folder.delete(f"{instant}-{name}.parquet")


def _named(instant: str, timeline: Timeline, reader: TimelineReader) -> frozenset[str]:
    """The staged files that the commit of an instant names; none if there is no such commit."""
    active = next((i for i in timeline.completed_writes if i.requested_time == instant), None)
    return frozenset() if active is None else _files(reader.commit(active))


def _files(commit: CommitMetadata) -> frozenset[str]:
    text = (commit.extra_metadata or {}).get(FILES_KEY, "")
    return frozenset(name for name in text.split(",") if name)
