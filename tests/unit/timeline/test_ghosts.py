"""Completed files that came back, and turns of which only others can tell: the corners of the commit protocol."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake.format.names import TIMELINE_DIR, State, TimelineName
from tidelake.format.plans import InstantInfo, RestorePlan, RollbackPlan
from tidelake.format.service_metadata import RollbackMetadata
from tidelake.storage import Fault, FaultyStorage, LocalStorage, MemoryStorage, SimulatedCrash
from tidelake.storage.port import ObjectInfo
from tidelake.testing import ManualClock
from tidelake.timeline import Timeline, TimelineReader, load_config, load_timeline
from tidelake.timeline.head import HEAD_FILE, STAGED_DIR, decode_head
from tidelake.timeline.times import next_instant
from tidelake.timeline.transitions import HEARTBEAT_DIR, Publication, Transitions

SYNC = b"0123456789abcdef"


@pytest.fixture
def table_of(golden: Callable[[str], Path], tmp_path: Path) -> Callable[[str], LocalStorage]:
    def copy(name: str) -> LocalStorage:
        shutil.copytree(golden(name), tmp_path / name)
        return LocalStorage(tmp_path / name)

    return copy


def gone_instant(storage: LocalStorage, kind: str) -> str:
    """A write instant that was archived, or that a restore took back."""
    config = load_config(storage)
    reader = TimelineReader(storage, config)
    if kind == "archived":
        return next(i.requested_time for i in reversed(reader.history) if "commit" in i.action)
    return next(t for i in load_timeline(storage, config).takers if i.action == "restore" for t in reader.targets(i))


def rows_of(storage: LocalStorage) -> list[dict[str, object]]:
    found = tl.open_table(storage.uri, storage=storage).scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: str(row["_hoodie_record_key"]))


@pytest.mark.parametrize("name", ["cow_v9_archived", "mor_v9_archived", "cow_v9_restored", "mor_v9_restored"])
def test_ghost_does_not_count_and_the_next_publication_removes_it(
    table_of: Callable[[str], LocalStorage], name: str
) -> None:
    """A completed file that was put after its instant was archived or restored changes no row, and goes with a write."""
    storage = table_of(name)
    before = rows_of(storage)
    config = load_config(storage)
    some = load_timeline(storage, config).completed_writes[-1]
    instant = gone_instant(storage, name.rpartition("_")[2])
    ghost = f"{config.timeline_dir}/{TimelineName(instant, some.action, State.COMPLETED, instant)}"
    storage.put(ghost, storage.get(f"{config.timeline_dir}/{some.file_name}"))
    assert rows_of(storage) == before
    first = tl.open_table(storage.uri, storage=storage).scan().to_arrow().slice(0, 1)
    names = [n for n in first.column_names if not n.startswith("_hoodie_")]
    tl.open_table(storage.uri, storage=storage).upsert(first.select(names))
    assert not storage.exists(ghost)


@pytest.mark.parametrize("name", ["mor_v8_archived", "mor_v9_archived"])
def test_rollback_of_a_run_whose_instant_was_run_again_and_archived_takes_no_file(
    table_of: Callable[[str], LocalStorage], name: str
) -> None:
    """A service may be rolled back and run again at its instant: once the history has it, its files are rows."""
    storage = table_of(name)
    before = rows_of(storage)
    config = load_config(storage)
    archived = {i.requested_time for i in TimelineReader(storage, config).history}
    slices = tl.open_table(storage.uri, storage=storage).files(latest=False)
    base = next(s.base for s in slices if s.base and s.base.name.instant in archived)
    taker = next_instant(load_timeline(storage, config).greatest_time)
    plan = RollbackPlan(InstantInfo(base.name.instant, "compaction"), (), 1).encode(SYNC)
    done = RollbackMetadata(taker, 0, 0, (base.name.instant,), {}).encode(SYNC)
    storage.put(f"{config.timeline_dir}/{TimelineName(taker, 'rollback', State.REQUESTED)}", plan)
    storage.put(f"{config.timeline_dir}/{TimelineName(taker, 'rollback', State.COMPLETED, next_instant(taker))}", done)
    storage.put(f".hoodie/.temp/{base.name.instant}/{base.path}.marker.CREATE", b"")
    assert rows_of(storage) == before
    first = tl.open_table(storage.uri, storage=storage).scan().to_arrow().slice(0, 1)
    names = [n for n in first.column_names if not n.startswith("_hoodie_")]
    tl.open_table(storage.uri, storage=storage).upsert(first.select(names))
    assert storage.exists(base.path)
    assert len(rows_of(storage)) == len(before)


def new_table() -> tuple[MemoryStorage, Transitions, ManualClock]:
    clock = ManualClock(seed=1)
    storage = MemoryStorage(clock=clock)
    tl.create_table("memory", "id bigint", name="t", storage=storage, clock=clock)
    return storage, Transitions(storage, load_config(storage), clock), clock


def clean_plan(_: object) -> Publication:
    return Publication("clean", State.REQUESTED, None, lambda drawn: b"plan")


class Passed(FaultyStorage):
    """The first put-if-match takes place; then others pass, and only then the answer is lost."""

    def __init__(self, inner: MemoryStorage, others: Callable[[], None]) -> None:
        super().__init__(inner)
        self._others: list[Callable[[], None]] = [others]

    def put_if_match(self, path: str, data: bytes, version: str) -> str:
        made = super().put_if_match(path, data, version)
        if self._others:
            self._others.pop()()
            raise tl.UnavailableError("the answer was lost")
        return made


@pytest.mark.parametrize("moved_on", ["on the timeline", "restored"])
def test_publish_unknown_outcome_after_others_had_turns_is_read_from_the_timeline(moved_on: str) -> None:
    """A turn whose answer was lost, and that others have finished since, succeeds; it is not taken twice."""
    storage, moves, clock = new_table()
    instant, _ = moves.begin("deltacommit", b"", b"")
    restore = RestorePlan((InstantInfo(instant, "deltacommit"),), 2).encode(SYNC)

    def others() -> None:
        if moved_on == "restored":
            moves.publish(lambda _: Publication("restore", State.REQUESTED, None, lambda _: restore))
            for info in storage.list_dir(TIMELINE_DIR)[1]:
                if info.path.rpartition("/")[2].startswith(instant):
                    storage.delete(info.path)
        else:
            moves.publish(clean_plan)

    late = Transitions(Passed(storage, others), load_config(storage), clock)
    turns: list[str] = []

    def decide(_: Timeline) -> Publication:
        turns.append(instant)
        return Publication("deltacommit", State.COMPLETED, instant, lambda _: b"")

    assert late.publish(decide).instant == instant
    assert turns == [instant]


def test_publish_lost_answer_of_a_turn_that_did_not_happen_keeps_what_was_staged() -> None:
    """The request may still arrive: what it names must be there then. A later turn of ours removes it."""
    storage, _, clock = new_table()
    counted = FaultyStorage(storage.copy())
    Transitions(counted, load_config(storage), clock).publish(clean_plan)
    at = next(o.number for o in counted.journal if o.verb == "put_if_match")
    faulty = FaultyStorage(storage, [Fault(at, "http_503")])
    staged_at_turn: list[int] = []

    def look(_: int, verb: str, path: str) -> None:
        if verb == "put_if_match":
            staged_at_turn.append(len(list(storage.list_files(STAGED_DIR))))

    faulty.on_operation = look
    Transitions(faulty, load_config(storage), clock).publish(clean_plan)
    assert staged_at_turn == [1, 2]
    assert not list(storage.list_files(STAGED_DIR))


def died_after_its_turn(storage: MemoryStorage, clock: ManualClock, publication: Publication) -> str:
    """A publisher dies between its turn and the put of its file; returns the file's name."""
    counted = FaultyStorage(storage.copy())
    Transitions(counted, load_config(storage), copy.deepcopy(clock)).publish(lambda _: publication)
    at = next(o.number for o in counted.journal if o.verb == "put_if_match")
    with pytest.raises(SimulatedCrash):
        Transitions(FaultyStorage(storage, [Fault(at, "crash_after")]), load_config(storage), clock).publish(
            lambda _: publication
        )
    return decode_head(storage.get(HEAD_FILE)).file


def test_finish_plan_of_a_dead_publisher_is_put_by_the_next() -> None:
    """A plan that was decided and not put is put, and its staged bytes go."""
    storage, moves, clock = new_table()
    file = died_after_its_turn(storage, clock, clean_plan(None))
    assert not storage.exists(moves.path(file))
    moves.finish_last_turn()
    assert storage.get(moves.path(file)) == b"plan"
    assert not list(storage.list_files(STAGED_DIR))


def test_finish_plan_that_a_rollback_names_is_not_put() -> None:
    """A plan that others finished and rolled back since does not come back."""
    storage, moves, clock = new_table()
    file = died_after_its_turn(storage, clock, clean_plan(None))
    instant = file.partition(".")[0]
    plan = RollbackPlan(InstantInfo(instant, "clean"), (), 1).encode(SYNC)
    storage.put(moves.path(TimelineName(next_instant(instant), "rollback", State.REQUESTED)), plan)
    moves.finish_last_turn()
    assert not storage.exists(moves.path(file))
    assert not list(storage.list_files(STAGED_DIR))


def test_finish_write_whose_requested_file_is_gone_is_not_put() -> None:
    """A write that others finished and took back since does not come back."""
    storage, moves, clock = new_table()
    instant, _ = moves.begin("deltacommit", b"", b"")
    file = died_after_its_turn(storage, clock, Publication("deltacommit", State.COMPLETED, instant, lambda _: b""))
    storage.delete(moves.path(TimelineName(instant, "deltacommit", State.REQUESTED)))
    moves.finish_last_turn()
    assert not storage.exists(moves.path(file))


def test_begin_without_an_answer_to_the_heartbeat_touches_nothing_of_that_instant() -> None:
    """Two writers draw one instant; the one whose heartbeat failed leaves the other's files alone and draws again."""
    storage, _, clock = new_table()
    other, _ = Transitions(storage, load_config(storage), copy.deepcopy(clock)).begin("deltacommit", b"", b"")
    before = {info.path for info in storage.list_files()}

    class Blind(FaultyStorage):
        def list_dir(self, prefix: str = "") -> tuple[list[str], list[ObjectInfo]]:
            folders, files = super().list_dir(prefix)
            return folders, [] if self.operations < 6 else files

        def put_if_absent(self, path: str, data: bytes) -> str:
            if path.endswith(other):
                raise tl.UnavailableError("no answer")
            return super().put_if_absent(path, data)

    mine, _ = Transitions(Blind(storage), load_config(storage), clock).begin("deltacommit", b"", b"")
    assert mine > other
    assert before <= {info.path for info in storage.list_files()}


def test_publish_plan_never_shares_an_instant_with_a_write_that_begins_meanwhile() -> None:
    """A write that takes the time that a planner is about to draw keeps it; the plan gets another."""
    storage, _, clock = new_table()
    held: list[str] = []

    def others(_: int, verb: str, path: str) -> None:
        if verb == "put_if_absent" and path.startswith(HEARTBEAT_DIR) and not held:
            held.append(path.rpartition("/")[2])
            storage.put(path, b"")
            storage.put(f"{TIMELINE_DIR}/{held[0]}.deltacommit.requested", b"")

    planner = Transitions(FaultyStorage(storage, on_operation=others), load_config(storage), clock)
    planned = planner.publish(clean_plan).instant
    assert planned > held[0]
    assert [info.path for info in storage.list_files(HEARTBEAT_DIR)] == [f"{HEARTBEAT_DIR}/{held[0]}"]


def test_inflight_file_of_a_plan_that_was_withdrawn_before_does_not_count_and_goes() -> None:
    """An executor that slept puts its inflight file when the plan is gone: nothing is pending, and the file is removed."""
    clock = ManualClock(seed=1)
    storage = MemoryStorage(clock=clock)

    def opened() -> tl.Table:
        return tl.open_table("memory", storage=storage, clock=clock)

    def start_late(instant: str) -> TimelineName:
        late = TimelineName(instant, "clustering", State.INFLIGHT)
        storage.put(f"{TIMELINE_DIR}/{late}", b"")
        return late

    tl.create_table("memory", "id bigint, name string", name="t", record_key="id", storage=storage, clock=clock)
    opened().upsert(pa.table({"id": [1, 2], "name": ["one", "two"]}))
    gone = opened().schedule_clustering(sort_by="name")
    assert gone is not None
    opened().withdraw_clustering(gone)
    late = start_late(gone)
    assert late in opened().timeline.ghosts
    assert not opened().timeline.pending
    opened().upsert(pa.table({"id": [3], "name": ["three"]}))
    assert not storage.exists(f"{TIMELINE_DIR}/{late}")
    # Of a plan that is there, the inflight file counts.
    waiting = opened().schedule_clustering(sort_by="name")
    assert waiting is not None
    start_late(waiting)
    assert [i.requested_time for i in opened().timeline.pending] == [waiting]
    assert opened().cluster(sort_by="name") is not None
    assert not opened().timeline.pending
