"""Rolling back a write that will not complete. A rollback is a plan: once it is published, its instant is condemned.

Order matters: publish the plan (a writer that lives after all now fails at its commit), delete the completed file if a user
takes a completed write back (``undo.py``), then the data files that the markers name, then the instant's other files, then
complete the rollback. Each step may be repeated, so a rollback found half done is simply done again; and so is one that is
complete, for a writer that woke up after it and made more files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from tidelake._clock import Clock
from tidelake.config import TableConfig
from tidelake.errors import ConflictError, InvalidError, NotFoundError
from tidelake.filegroup.listing import list_all
from tidelake.format.names import State, TimelineName, parse_base_name, parse_log_name
from tidelake.format.plans import InstantInfo, RollbackPlan, RollbackRequest
from tidelake.format.service_metadata import RollbackMetadata, RollbackPartitionMetadata
from tidelake.locking import Lock
from tidelake.storage import Storage, ensure_object
from tidelake.timeline import WRITE_ACTIONS, Instant, Timeline, TimelineReader
from tidelake.timeline.claim import free_claim
from tidelake.timeline.transitions import HEARTBEAT_DIR, Publication, Published, Transitions
from tidelake.write.files import MARKER_DIR, MARKERS
from tidelake.write.rejects import publish_rejects, recall_rejects

_SYNC = b"tidelake-rollbck"
PLANNED = frozenset({"compaction", "logcompaction", "clustering"})
"""Services whose plan is a requested instant of its own."""


def rollback(
    storage: Storage,
    config: TableConfig,
    clock: Clock,
    instant: Instant,
    lock: Lock | None = None,
    check_completed: Callable[[Instant, Timeline], None] | None = None,
) -> str:
    """Roll back a pending instant; returns the rollback's own instant.

    A completed one is rolled back only for a caller who says by ``check_completed``, on the timeline of the turn that
    decides it, whether it may be.
    """
    moves = Transitions(storage, config, clock, lock)
    reader = TimelineReader(storage, config)
    files = files_of(storage, instant.requested_time)
    plan = _plan(storage, instant, files)

    def decide(timeline: Timeline) -> Publication | Published:
        now = next((i for i in timeline.instants if i.requested_time == instant.requested_time and i.is_write), None)
        takers = [i for i in timeline.takers if instant.requested_time in reader.targets(i)]
        if instant.pending_action in PLANNED:  # it may have been rolled back before, and run again
            takers = [i for i in takers if not i.is_completed]
        known = next(iter(takers), None)
        if known is not None and known.action == "rollback":
            return Published(known.requested_time, None, "")
        if now is not None and now.is_completed:
            if check_completed is None:
                raise ConflictError(
                    "the write completed after all and is not rolled back", instant=instant.requested_time
                )
            check_completed(now, timeline)
        if now is None:
            raise ConflictError("the write has ended and is not rolled back", instant=instant.requested_time)
        return Publication("rollback", State.REQUESTED, None, lambda _: plan.encode(_SYNC))

    own = moves.publish(decide).instant
    finish_rollback(storage, config, clock, own, lock)
    return own


def finish_rollback(storage: Storage, config: TableConfig, clock: Clock, own: str, lock: Lock | None = None) -> None:
    """Carry out a published rollback, from wherever it was left."""
    moves = Transitions(storage, config, clock, lock)
    reader = TimelineReader(storage, config)
    plan = reader.record(RollbackPlan, str(TimelineName(own, "rollback", State.REQUESTED)))
    if plan.instant_to_rollback is None:
        raise InvalidError("a rollback plan names no instant", instant=own)
    target, action = plan.instant_to_rollback.commit_time, plan.instant_to_rollback.action
    is_done_again = any(i.requested_time == own and i.is_completed for i in moves.load().takers)
    if not is_done_again:
        ensure_object(storage, moves.path(TimelineName(own, "rollback", State.INFLIGHT)), b"")
    # Tasks of the dead write may have made files since the plan: markers are read again. After the first time some
    # markers are gone, and files may be there without.
    planned = {_planned_path(r, file) for r in plan.rollback_requests or () for file in r.files_to_be_deleted}
    found = _listed_files(storage, target) if is_done_again else files_of(storage, target)
    removed = sorted({path for path in planned if _carries(path, target)} | set(found))
    names = moves.load().names
    # The plan of a service stays: it may be carried out again, by another executor than the one that had it.
    service = next((n.action for n in names if n.requested_time == target and n.action in PLANNED), None)

    def is_anothers() -> bool:
        """Whether others have finished the rollback: what is there of a service now may be a later executor's."""
        return service is not None and any(i.requested_time == own and i.is_completed for i in moves.load().takers)

    if is_anothers():
        return
    # Of a completed write first what makes it true, so that no reader meets it without its files. A service that has
    # completed did so after this rollback: one that had before would not have been rolled back.
    for name in names if action not in PLANNED else ():
        if name.requested_time == target and name.state is State.COMPLETED and name.action in WRITE_ACTIONS:
            recall_rejects(storage, config, name)
            storage.delete(moves.path(name))
    if service is not None:
        number = free_claim(storage, target, lambda: max(map(token_number, removed), default=1))
        if is_anothers():
            return
        removed = [path for path in removed if token_number(path) <= number]
    for path in bases_first(removed):
        storage.delete(path)
    storage.delete(moves.path(TimelineName(target, service or action, State.INFLIGHT)))
    if service is None:
        storage.delete(moves.path(TimelineName(target, action, State.REQUESTED)))
    metadata = _metadata(own, plan, removed)

    def decide(timeline: Timeline) -> Publication | Published:
        if any(i.requested_time == own and i.is_completed for i in timeline.instants):
            return Published(own, None, "")
        return Publication("rollback", State.COMPLETED, own, lambda _: metadata.encode(_SYNC))

    moves.publish(decide)
    delete_markers(storage, target)
    storage.delete(f"{HEARTBEAT_DIR}/{target}")
    publish_rejects(storage, config)


def delete_markers(storage: Storage, instant: str) -> None:
    """Remove an instant's marker folder."""
    for info in list(storage.list_files(f"{MARKER_DIR}/{instant}")):
        storage.delete(info.path)


def marked_files(storage: Storage, instant: str) -> list[str] | None:
    """The data files of an instant that its markers name; None if it has no markers at all."""
    folder = f"{MARKER_DIR}/{instant}/"
    found: list[str] = []
    seen = False
    for info in storage.list_files(folder.rstrip("/")):
        seen = True
        name = info.path.removeprefix(folder)
        if name.rpartition("/")[2].startswith(MARKERS) and "/" not in name:
            if name != f"{MARKERS}.type":
                with suppress(NotFoundError):  # others roll the same write back, or are done with it
                    found.extend(line for line in storage.get(info.path).decode("utf-8").splitlines() if line)
        else:
            found.append(name)
    paths = (name.rpartition(".marker.")[0] for name in found)
    return sorted(path for path in paths if _carries(path, instant)) if seen else None


def files_of(storage: Storage, instant: str) -> list[str]:
    """The data files that carry an instant, by its markers; by listing the table if it has none."""
    marked = marked_files(storage, instant)
    return _listed_files(storage, instant) if marked is None else marked


def _listed_files(storage: Storage, instant: str) -> list[str]:
    return sorted(i.path for listed in list_all(storage) for i in listed.files if _carries(i.path, instant))


def bases_first(paths: Iterable[str]) -> list[str]:
    """Files in the order to delete them in: of what an exact compaction wrote no base file outlives its log."""
    return sorted(paths, key=lambda path: parse_log_name(path.rpartition("/")[2]) is not None)


def token_number(path: str) -> int:
    """The first part of a file's write token: of a service's files the number of the claim that made them."""
    name = path.rpartition("/")[2]
    parsed = parse_base_name(name) or parse_log_name(name)
    first = "" if parsed is None else parsed.write_token.partition("-")[0]
    return int(first) if first.isascii() and first.isdigit() else 0


def _carries(path: str, instant: str) -> bool:
    name = path.rpartition("/")[2]
    parsed = parse_base_name(name) or parse_log_name(name)
    return parsed is not None and parsed.instant == instant


def _plan(storage: Storage, instant: Instant, files: Iterable[str]) -> RollbackPlan:
    by_partition: dict[str, list[str]] = {}
    for path in files:
        by_partition.setdefault(path.rpartition("/")[0], []).append(storage.native_path(path))
    requests = tuple(RollbackRequest(part, "", "", tuple(paths), {}) for part, paths in sorted(by_partition.items()))
    action = instant.pending_action or instant.action
    return RollbackPlan(InstantInfo(instant.requested_time, action), requests, 1)


def _planned_path(request: RollbackRequest, file: str) -> str:
    """A planned file's path below the table: plans name it in full, under whatever scheme or folder it was then."""
    name = file.rpartition("/")[2]
    return f"{request.partition_path}/{name}" if request.partition_path else name


def _metadata(own: str, plan: RollbackPlan, removed: list[str]) -> RollbackMetadata:
    assert plan.instant_to_rollback is not None
    by_partition: dict[str, list[str]] = {}
    for path in removed:
        by_partition.setdefault(path.rpartition("/")[0], []).append(path)
    partitions = {
        part: RollbackPartitionMetadata(part, tuple(paths), (), {}, {}) for part, paths in sorted(by_partition.items())
    }
    target = plan.instant_to_rollback
    return RollbackMetadata(own, 0, len(removed), (target.commit_time,), partitions, 1, (target,))
