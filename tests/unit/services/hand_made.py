"""Timelines written file by file with our codecs, and plans as Apache Hudi makes them."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

import tidelake as tl
from model.tables import HISTORY_DIR, HISTORY_SCHEMA
from tidelake.filegroup import FileSlice
from tidelake.format.commit_metadata import CommitMetadata, ReplaceCommitMetadata, WriteStat
from tidelake.format.history import HistoryFile, encode_manifest
from tidelake.format.names import State, TimelineName
from tidelake.format.plans import CompactionOperation, CompactionPlan, InstantInfo, RollbackPlan
from tidelake.format.service_metadata import RollbackMetadata
from tidelake.query import TableSource
from tidelake.services.kinds import COMPACTION, MARK
from tidelake.services.window import Window, WindowFinder
from tidelake.storage import Storage
from tidelake.timeline import Timeline
from tidelake.timeline.transitions import Publication, Published, Transitions
from unit.services.service_tables import World

SYNC = bytes(16)


def at(number: int) -> str:
    """The time that a number stands for."""
    return f"20300101{number:09d}"


def number_of(time: str) -> int:
    return int(time[8:])


class Hand:
    """Writes the timeline of a table; times are small numbers."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.storage: Storage = world.storage
        self.folder = world.open().config.timeline_dir

    def put(self, name: TimelineName, data: bytes) -> None:
        self.storage.put(f"{self.folder}/{name}", data)

    def write(self, requested: int, completion: int | None, *partitions: str, replaced: Iterable[str] = ()) -> None:
        """A write into partitions: a delta commit, or, if it retires groups of some, a replace commit."""
        retired = dict.fromkeys(replaced, ("old",))
        action = "replacecommit" if retired else "deltacommit"
        stats = {p: (WriteStat(file_id=f"fg-{p}", path=f"{p}/none", partition_path=p),) for p in partitions}
        self.put(TimelineName(at(requested), action, State.REQUESTED), b"")
        self.put(TimelineName(at(requested), action, State.INFLIGHT), b"")
        if completion is not None:
            metadata: CommitMetadata = CommitMetadata(stats, False, {}, 1, "UPSERT")
            if retired:
                metadata = ReplaceCommitMetadata(stats, False, {}, 1, "INSERT_OVERWRITE", retired)
            self.put(TimelineName(at(requested), action, State.COMPLETED, at(completion)), metadata.encode(SYNC))

    def service(
        self,
        requested: int,
        completion: int | None,
        *partitions: str,
        missing: Iterable[str] | None = (),
        is_ours: bool = True,
    ) -> None:
        """A compaction of one file group in each of some partitions."""
        operations = tuple(CompactionOperation(at(0), (), None, f"fg-{p}", p) for p in partitions)
        left = None if missing is None else tuple(missing)
        plan = CompactionPlan(operations, {MARK: "1"} if is_ours else {}, 2, None, False, left)
        self.put(TimelineName(at(requested), "compaction", State.REQUESTED), plan.encode(SYNC))
        if completion is not None:
            stats = {p: (WriteStat(file_id=f"fg-{p}", path=f"{p}/none", partition_path=p),) for p in partitions}
            done = CommitMetadata(stats, True, {}, 1, "COMPACT").encode(SYNC)
            self.put(TimelineName(at(requested), "compaction", State.INFLIGHT), b"")
            self.put(TimelineName(at(requested), "commit", State.COMPLETED, at(completion)), done)

    def rollback(self, requested: int, completion: int, target: int, action: str) -> None:
        """A rollback that is done; the files of its target are gone."""
        for info in list(self.storage.list_files(self.folder)):
            if info.path.rpartition("/")[2].startswith(at(target)):
                self.storage.delete(info.path)
        plan = RollbackPlan(InstantInfo(at(target), action), (), 1).encode(SYNC)
        self.put(TimelineName(at(requested), "rollback", State.REQUESTED), plan)
        self.put(TimelineName(at(requested), "rollback", State.INFLIGHT), b"")
        info = InstantInfo(at(target), action)
        done = RollbackMetadata(at(requested), 0, 0, (at(target),), {}, 1, (info,)).encode(SYNC)
        self.put(TimelineName(at(requested), "rollback", State.COMPLETED, at(completion)), done)

    def window(self, kind: object = COMPACTION, cursor: object = None) -> Window:
        source = TableSource.load(self.storage)
        finder = WindowFinder(self.storage, source.config, source.timeline, source.reader, kind)  # type: ignore[arg-type]
        return finder.find(cursor)  # type: ignore[arg-type]

    def archive(self, *requested: int) -> None:
        archive(self.world, [at(number) for number in requested])


def archive(world: World, instants: Collection[str]) -> None:
    """Move completed instants, with all their files say, from the timeline to the history, as Apache Hudi does."""
    table = world.open()
    old = table.history() if world.storage.exists(f"{HISTORY_DIR}/_version_") else ()
    assert not old, "archived once per test"
    rows = []
    for instant in table.timeline.instants:
        if instant.requested_time not in instants:
            continue
        assert instant.is_completed
        requested = world.storage.get(f"{table.config.timeline_dir}/{instant.requested_file_name}")
        rows.append(
            {
                "instantTime": instant.requested_time,
                "completionTime": instant.completion_time,
                "action": instant.action,
                "metadata": world.storage.get(f"{table.config.timeline_dir}/{instant.file_name}"),
                "plan": requested or None,
                "version": 1,
            }
        )
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, HISTORY_SCHEMA), sink)
    name = f"{rows[0]['instantTime']}_{rows[-1]['instantTime']}_0.parquet"
    world.storage.put(f"{HISTORY_DIR}/{name}", sink.getvalue())
    world.storage.put(f"{HISTORY_DIR}/manifest_1", encode_manifest((HistoryFile(name, len(sink.getvalue())),)))
    world.storage.put(f"{HISTORY_DIR}/_version_", b"1")
    for info in list(world.storage.list_files(table.config.timeline_dir)):
        file = info.path.rpartition("/")[2]
        if not info.path.startswith(HISTORY_DIR) and any(file.startswith(i) for i in instants):
            world.storage.delete(info.path)


def foreign_plan(world: World, leave_out: Collection[str] = ()) -> str | None:
    """Schedule a compaction as Apache Hudi does: no mark, nothing recorded of what it leaves (some partitions, and file
    groups of other pending plans)."""
    source = TableSource.load(world.storage)
    moves = Transitions(world.storage, source.config, world.clock)

    def decide(timeline: Timeline) -> Publication | Published:
        now = TableSource(world.storage, source.config, timeline, source.reader)
        held = planned_groups(world)
        slices = [
            s
            for s in now.view().slices()
            if s.logs and s.partition_path not in leave_out and (s.partition_path, s.file_id) not in held
        ]
        plan = CompactionPlan(tuple(map(_operation, slices)), {}, 2, None, False, None)
        if not slices:
            return Published("", None, "")
        return Publication("compaction", State.REQUESTED, None, lambda _: plan.encode(SYNC))

    return moves.publish(decide).instant or None


def planned_groups(world: World) -> list[tuple[str, str]]:
    """The file groups of plans that are not carried out yet, as often as plans have them."""
    source = TableSource.load(world.storage)
    return [
        (op.partition_path or "", op.file_id or "")
        for instant in source.timeline.pending
        if instant.pending_action == "compaction"
        for op in source.reader.record(CompactionPlan, instant.requested_file_name).operations or ()
    ]


def without_mark(world: World, instant: str) -> None:
    """Make a plan of ours one that Apache Hudi might have made."""
    path = f"{world.open().config.timeline_dir}/{instant}.compaction.requested"
    source = TableSource.load(world.storage)
    plan = source.reader.record(CompactionPlan, path.rpartition("/")[2])
    bare = replace(plan, extra_metadata={}, missing_schedule_partitions=None)
    world.storage.put(path, bare.encode(SYNC))


def work_left(table: tl.Table) -> dict[str, int]:
    """How many file groups with logs each partition has, by a full scan."""
    found: dict[str, int] = {}
    for file_slice in table.files():
        if file_slice.logs:
            found[file_slice.partition_path] = found.get(file_slice.partition_path, 0) + 1
    return found


def _operation(file_slice: FileSlice) -> CompactionOperation:
    return CompactionOperation(
        file_slice.base_instant,
        tuple(str(log.name) for log in file_slice.logs),
        None if file_slice.base is None else str(file_slice.base.name),
        file_slice.file_id,
        file_slice.partition_path,
        {},
    )
