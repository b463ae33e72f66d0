"""What dead writers left behind that no pending instant tells of.

- A write that completed, and died before it removed its markers and its heartbeat.
- A task of a write that completed, the double of another one, that made files too late and died before it noticed: they
  would be read beside the other's. Its markers tell, since they come first.
- A write that was taken for dead, rolled back, and woke up: it may make more files and markers before it fails at its
  commit, or dies. Its instant is condemned for ever, so whatever its markers name may go at any time.
- A heartbeat whose writer died before it requested anything; it goes when it has expired.
- The claim and the heartbeat of a service that completed, and died before it removed them.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelake.storage import Storage
from tidelake.storage.port import ObjectInfo
from tidelake.timeline import Instant, Timeline, TimelineReader
from tidelake.timeline.claim import CLAIM_DIR
from tidelake.timeline.transitions import HEARTBEAT_DIR
from tidelake.write.files import MARKER_DIR
from tidelake.write.rollback import delete_markers, files_of, marked_files


def heartbeats(storage: Storage) -> dict[str, ObjectInfo]:
    """The heartbeats by instant. Read before the timeline: what has ended by then has ended."""
    return {info.path.rpartition("/")[2]: info for info in storage.list_dir(HEARTBEAT_DIR)[1]}


def sweep_traces(
    storage: Storage, reader: TimelineReader, timeline: Timeline, left: Iterable[str], expired: frozenset[str]
) -> None:
    """Remove what instants left that are not pending; ``left`` are the heartbeats, ``expired`` those that are too old."""
    pending = {i.requested_time for i in timeline.pending}
    rolled_back = {
        t for i in timeline.of_action("rollback", "restore") for t in reader.targets(i)
    } - timeline.by_time.keys()
    for instant in storage.list_dir(MARKER_DIR)[0]:
        if instant in rolled_back and instant not in pending and not _is_archived(reader, instant):
            for path in files_of(storage, instant):
                storage.delete(path)
        elif instant in timeline.by_time:
            for path in _unnamed(storage, reader, timeline.by_time[instant]):
                storage.delete(path)
        else:
            continue
        delete_markers(storage, instant)
    ended = {i.requested_time for i in timeline.instants} | rolled_back | expired
    for instant in left:
        if instant in ended and instant not in pending:
            storage.delete(f"{CLAIM_DIR}/{instant}")
            storage.delete(f"{HEARTBEAT_DIR}/{instant}")


def _unnamed(storage: Storage, reader: TimelineReader, instant: Instant) -> list[str]:
    """The files that markers of a completed write name and its commit does not."""
    marked = marked_files(storage, instant.requested_time)
    if not marked:
        return []
    named: set[str] = set()
    for stat in reader.commit(instant).stats:
        folder = stat.partition_path or ""
        named.update(f"{folder}/{name}".lstrip("/") for name in stat.log_files or ())
        named.add(stat.path or "")
    # Change data of Apache Hudi's has files of its own, which statistics name elsewhere.
    return [path for path in marked if path not in named and not path.endswith(".cdc")]


def _is_archived(reader: TimelineReader, instant: str) -> bool:
    """Whether it completed after all: a service may be run again, at its instant, after it was rolled back."""
    return any(archived.requested_time == instant for archived in reader.history)
