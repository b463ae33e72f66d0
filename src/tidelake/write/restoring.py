"""Carrying out a restore, from wherever it was left. What it takes back was decided when its plan was published.

Readers of ours skip the instants that a published restore names. Others see files: so the completed files go first, the
newest completion before the others, then the data, then what is left of the instants, and no reader meets an instant
without its files. Each step may be repeated.
"""

from __future__ import annotations

from collections.abc import Collection

from tidelake._clock import Clock
from tidelake.config import TableConfig
from tidelake.filegroup.listing import list_all
from tidelake.format.names import State, TimelineName, parse_base_name, parse_log_name
from tidelake.format.plans import InstantInfo, RestorePlan
from tidelake.format.service_metadata import RestoreMetadata, RollbackMetadata, RollbackPartitionMetadata
from tidelake.locking import Lock
from tidelake.storage import ObjectInfo, Storage, ensure_object
from tidelake.timeline import WRITE_ACTIONS, Timeline, TimelineReader
from tidelake.timeline.claim import end_claim
from tidelake.timeline.transitions import Publication, Published, Transitions
from tidelake.write.rejects import publish_rejects, recall_rejects
from tidelake.write.rollback import delete_markers

_SYNC = b"tidelake-restore"


def finish_restore(storage: Storage, config: TableConfig, clock: Clock, own: str, lock: Lock | None = None) -> None:
    """Carry out a published restore."""
    moves = Transitions(storage, config, clock, lock)
    began_ms = clock.now_ms()
    plan = TimelineReader(storage, config).record(RestorePlan, str(TimelineName(own, "restore", State.REQUESTED)))
    targets = {info.commit_time: info for info in plan.instants_to_rollback}
    ensure_object(storage, moves.path(TimelineName(own, "restore", State.INFLIGHT)), b"")
    timeline = moves.load()
    names = [n for n in (*timeline.names, *timeline.ghosts) if n.requested_time in targets]
    names = [n for n in names if n.completed_action in WRITE_ACTIONS]
    completed = [n for n in names if n.state is State.COMPLETED]
    for name in sorted(completed, key=lambda n: n.completion_time or "", reverse=True):
        recall_rejects(storage, config, name)
        storage.delete(moves.path(name))
    files = files_carrying(storage, targets)
    for info in files:
        storage.delete(info.path)
    for state in (State.INFLIGHT, State.REQUESTED):
        for name in names:
            if name.state is state:
                storage.delete(moves.path(name))
    metadata = _metadata(own, plan, files, clock.now_ms() - began_ms)

    def decide(now: Timeline) -> Publication | Published:
        mine = next((i for i in now.takers if i.requested_time == own and i.is_completed), None)
        if mine is not None:
            return Published(own, mine.completion_time, mine.file_name)
        return Publication("restore", State.COMPLETED, own, lambda _: metadata.encode(_SYNC))

    moves.publish(decide)
    for target in targets:
        delete_markers(storage, target)
        end_claim(storage, target)
    publish_rejects(storage, config)


def files_carrying(storage: Storage, instants: Collection[str]) -> list[ObjectInfo]:
    """The data files of the table whose names carry one of these instants."""
    return [info for listed in list_all(storage) for info in listed.files if instant_in(info.path) in instants]


def instant_in(path: str) -> str | None:
    """The instant that a data file's name carries; None if it is no data file."""
    name = path.rpartition("/")[2]
    parsed = parse_base_name(name) or parse_log_name(name)
    return None if parsed is None else parsed.instant


def _metadata(own: str, plan: RestorePlan, files: list[ObjectInfo], taken_ms: int) -> RestoreMetadata:
    by_instant: dict[str, dict[str, list[str]]] = {}
    for info in files:
        by_partition = by_instant.setdefault(instant_in(info.path) or "", {})
        by_partition.setdefault(info.path.rpartition("/")[0], []).append(info.path)
    undone: dict[str, tuple[RollbackMetadata | None, ...]] = {
        info.commit_time: (_undone(own, info, by_instant.get(info.commit_time, {})),)
        for info in plan.instants_to_rollback
    }
    instants = tuple(info.commit_time for info in plan.instants_to_rollback)
    return RestoreMetadata(own, taken_ms, instants, undone, 1, plan.instants_to_rollback)


def _undone(own: str, info: InstantInfo, by_partition: dict[str, list[str]]) -> RollbackMetadata:
    partitions = {
        part: RollbackPartitionMetadata(part, tuple(paths), (), {}, {}) for part, paths in by_partition.items()
    }
    total = sum(map(len, by_partition.values()))
    return RollbackMetadata(own, 0, total, (info.commit_time,), partitions, 1, (info,))
