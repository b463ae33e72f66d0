"""Generated histories of a table: writes, compactions and overwrites whose requests and completions interleave.

A ``History`` is the list of what was done and when; ``store`` writes the table, and ``visible_rows`` says naively, by
format/07, what a reader must see: now, as of a requested time, as of a completion time, or in base files alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
from hypothesis import strategies as st

from model.oracle import Block, DataBlock, DeleteBlock, Rules, merge
from model.tables import TableWriter, table_properties, time_of
from tidelake.format.names import State
from tidelake.format.plans import CompactionOperation, CompactionPlan
from tidelake.format.service_metadata import SavepointMetadata
from tidelake.storage import MemoryStorage

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])
SHOWN = ("_hoodie_commit_time", "_hoodie_record_key", "id", "p", "ts", "v")
SyncAction = Literal["insert", "delta", "compact", "replace"]
Group = tuple[str, str]
"""Partition path and file id."""


@dataclass
class Action:
    """One instant: what it wrote to which group. Rows and deletes of a group are what its file holds."""

    kind: SyncAction
    requested: int
    completed: int | None = None
    bases: dict[Group, list[tuple[str, dict[str, Any]]]] = field(default_factory=dict)
    logs: dict[Group, list[Block]] = field(default_factory=dict)
    replaces: list[Group] = field(default_factory=list)
    has_files: bool = True
    is_orphan: bool = False
    """Its files are there, its instant is not: what a rollback that died halfway leaves behind."""

    @property
    def groups(self) -> set[Group]:
        return {*self.bases, *self.logs, *self.replaces}


@dataclass
class History:
    """A table's life. ``archived`` says how many of the first instants are in the history, ``savepoint`` keeps one."""

    rules: Rules
    partitions: tuple[str, ...]
    actions: list[Action]
    now: int
    archived: int = 0
    savepoint: int | None = None
    state: State = State.INFLIGHT


@dataclass(frozen=True)
class Point:
    """When a reader looks; at most one is given, in ticks."""

    as_of: int | None = None
    as_of_completion: int | None = None


NOW = Point()


def is_visible(action: Action, point: Point) -> bool:
    """Only what completed is seen; of that, what was requested (or completed) by the point."""
    if action.completed is None:
        return False
    if point.as_of is not None:
        return action.requested <= point.as_of
    return point.as_of_completion is None or action.completed <= point.as_of_completion


def slice_of(
    history: History, group: Group, point: Point
) -> tuple[list[tuple[str, dict[str, Any]]] | None, list[Block]]:
    """The base rows and log blocks that a reader merges, by 7.1 and 7.3: slices, pending compactions included."""
    visible = [a for a in history.actions if is_visible(a, point)]
    bases = {a.requested: a.bases[group] for a in visible if group in a.bases}
    pending = {a.requested for a in history.actions if a.kind == "compact" and a.completed is None and group in a.bases}
    keys = sorted({*bases, *pending})
    logs: dict[int, list[tuple[int, list[Block]]]] = {}
    first_log = min((a.requested for a in visible if group in a.logs), default=0)
    for action in visible:
        if group in action.logs:
            assert action.completed is not None
            key = max((key for key in keys if key <= action.completed), default=first_log)
            logs.setdefault(key, []).append((action.requested, action.logs[group]))
    slices = sorted({*keys, *logs})
    if not slices:
        return None, []
    chosen = [slices[-1]]
    while chosen[-1] in pending and len(chosen) < len(slices):
        chosen.append(slices[-1 - len(chosen)])
    base = next((bases[key] for key in chosen if key in bases), None)
    ordered = sorted(entry for key in chosen for entry in logs.get(key, []))
    return base, [block for _, blocks in ordered for block in blocks]


def visible_rows(history: History, point: Point = NOW, *, base_only: bool = False) -> list[dict[str, Any]]:
    """All rows of the table at a point."""
    replaced = {g for a in history.actions if is_visible(a, point) for g in a.replaces}
    groups = {g for a in history.actions if is_visible(a, point) for g in (*a.bases, *a.logs)} - replaced
    rows: list[dict[str, Any]] = []
    for group in sorted(groups):
        base, blocks = slice_of(history, group, point)
        if base_only:
            rows.extend(row for _, row in base or ())
        else:
            rows.extend(merge(base or (), blocks, history.rules, SHOWN))
    return [{name: row[name] for name in SHOWN} for row in rows]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """A history of up to 14 steps, each of which begins or ends an instant."""
    is_event_time = draw(st.booleans())
    rules = Rules(("ts",), ("long",)) if is_event_time else Rules()
    partitions = draw(st.sampled_from([("",), ("a",), ("a", "b")]))
    history = History(rules, partitions, [], 0)
    steps = _Steps(draw, history)
    steps.begin("insert")
    steps.finish()
    for _ in range(draw(st.integers(0, 14))):
        steps.step()
    history.now = steps.tick
    history.state = draw(st.sampled_from([State.REQUESTED, State.INFLIGHT]))
    whole = [a.completed is not None and a.kind != "replace" for a in history.actions]
    prefix = whole.index(False) if False in whole else len(whole) - 1
    history.archived = draw(st.integers(0, max(0, prefix)))
    if history.archived and draw(st.booleans()):
        history.savepoint = draw(st.integers(0, history.archived - 1))
    # Files of no instant are invisible as long as an earlier instant is active; so the first active one is never one.
    for action in history.actions[history.archived + 1 :]:
        if action.completed is None and action.kind != "compact":
            action.is_orphan = draw(st.booleans())
    return history


class _Steps:
    """Draws steps, as writers would take them: a group under an overwrite or another compaction is left alone."""

    def __init__(self, draw: st.DrawFn, history: History) -> None:
        self.draw = draw
        self.history = history
        self.tick = 0
        self.values = 0

    def step(self) -> None:
        pending = [a for a in self.history.actions if a.completed is None]
        choice = self.draw(st.sampled_from(["finish", "delta", "delta", "delta", "compact", "insert", "replace"]))
        if choice == "finish" and pending:
            self.finish(self.draw(st.sampled_from(pending)))
            return
        action = self.begin(choice if choice != "finish" else "delta")
        if action is not None and self.draw(st.booleans()):
            self.finish(action)

    def finish(self, action: Action | None = None) -> None:
        self.tick += 1
        (action or self.history.actions[-1]).completed = self.tick

    def begin(self, kind: str) -> Action | None:
        self.tick += 1
        action = Action(kind, self.tick, has_files=self.draw(st.sampled_from([True, True, True, False])))  # type: ignore[arg-type]
        free = self._free(kind)
        if kind in ("insert", "replace"):
            partition = self.draw(st.sampled_from(self.history.partitions))
            fresh = (partition, f"{len(self.history.actions):08d}-0000-4000-8000-000000000000-0")
            action.bases[fresh] = self._rows(fresh, self.draw(st.lists(st.integers(0, 4), unique=True, max_size=4)))
            if kind == "replace":
                action.replaces = [group for group in free if group[0] == partition]
        elif not free:
            return None
        elif kind == "compact":
            for group in self.draw(st.lists(st.sampled_from(free), min_size=1, unique=True)):
                # What a compaction folds is what had completed when it was planned.
                base, blocks = slice_of(self.history, group, NOW)
                folded = merge(base or (), blocks, self.history.rules, SHOWN_AND_META)
                action.bases[group] = [(row["_hoodie_record_key"], row) for row in folded]
        else:
            for group in self.draw(st.lists(st.sampled_from(free), min_size=1, max_size=2, unique=True)):
                action.logs[group] = self._blocks(group)
        self.history.actions.append(action)
        return action

    def _free(self, kind: str) -> list[Group]:
        """The groups that a new action of this kind may take on."""
        done = [a for a in self.history.actions if a.completed is not None]
        replaced = {g for a in self.history.actions for g in a.replaces}
        groups = {g for a in done for g in a.bases} - replaced
        for other in self.history.actions:
            if other.completed is None and (kind == "replace" or (kind == "compact" and other.kind == "compact")):
                groups -= other.groups
        return sorted(groups)

    def _rows(self, group: Group, keys: Iterable[int]) -> list[tuple[str, dict[str, Any]]]:
        rows = []
        for number in keys:
            self.values += 1
            key = f"{group[1][:8]}-k{number}"
            ts = self.draw(st.integers(0, 4))
            meta = (time_of(self.tick), f"{time_of(self.tick)}_0_{self.values}", key, group[0], "f")
            row = dict(zip(META, meta, strict=True))
            rows.append((key, {**row, "id": key, "p": group[0], "ts": ts, "v": self.values}))
        return rows

    def _blocks(self, group: Group) -> list[Block]:
        at = time_of(self.tick)
        rows = self._rows(group, self.draw(st.lists(st.integers(0, 6), unique=True, max_size=3)))
        keys = [f"{group[1][:8]}-k{n}" for n in self.draw(st.lists(st.integers(0, 6), unique=True, max_size=2))]
        order = st.sampled_from([None, ("int", 0), ("long", 1), ("long", 3)])
        deletes = tuple((key, self.draw(order)) for key in keys if key not in dict(rows))
        blocks: list[Block] = [DataBlock(at, tuple(rows), SHOWN_AND_META)] if rows else []
        return [*blocks, DeleteBlock(at, deletes)] if deletes or not rows else blocks


META = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
SHOWN_AND_META = (*META, "id", "p", "ts", "v")
ACTIONS = {"insert": "deltacommit", "delta": "deltacommit", "compact": "commit", "replace": "replacecommit"}
OPERATIONS = {"insert": "INSERT", "delta": "UPSERT", "compact": "COMPACT", "replace": "INSERT_OVERWRITE"}


def store(history: History, *, is_marked: bool = False) -> MemoryStorage:
    """Write the table: every file of every action, completed or not, and the timeline that says which count."""
    storage = MemoryStorage()
    ordering = {"hoodie.table.ordering.fields": "ts", "hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
    properties = table_properties(hoodie__table__partition__fields="p" if history.partitions != ("",) else None)
    writer = TableWriter(storage, SCHEMA, {**properties, **(ordering if history.rules.ordering else {})})
    writer.is_marked = is_marked
    for action in history.actions:
        _store_action(writer, action, history.state)
    gone = [a for number, a in enumerate(history.actions[: history.archived]) if number != history.savepoint]
    if gone:
        writer.archive([(time_of(a.requested), time_of(a.completed or 0), ACTIONS[a.kind]) for a in gone])
        for action in gone:
            writer.forget(time_of(action.requested))
    if history.savepoint is not None:
        kept = time_of(history.actions[history.savepoint].requested)
        data = SavepointMetadata("us", 0, "", {}).encode(bytes(16))
        storage.put(f".hoodie/timeline/{kept}_{time_of(history.now + 1)}.savepoint", data)
    return storage


def _store_action(writer: TableWriter, action: Action, state: State) -> None:
    at = time_of(action.requested)
    stats = []
    if action.completed is not None or action.has_files:
        stats.extend(writer.base(p, f, at, [row for _, row in rows], 2) for (p, f), rows in action.bases.items())
        stats.extend(_store_log(writer, group, at, blocks) for group, blocks in action.logs.items())
    if action.is_orphan:
        return
    pending = "compaction" if action.kind == "compact" else ACTIONS[action.kind]
    plan = None
    if action.kind == "compact":
        operations = tuple(CompactionOperation(at, (), None, f, p, {}) for p, f in action.bases)
        plan = CompactionPlan(operations)
    writer.pending(at, pending, State.INFLIGHT if action.completed is not None else state, plan)
    if action.completed is not None:
        replaces: dict[str, list[str]] = {}
        for partition, file_id in action.replaces:
            replaces.setdefault(partition, []).append(file_id)
        writer.complete(
            at,
            time_of(action.completed),
            stats,
            ACTIONS[action.kind],
            OPERATIONS[action.kind],
            replaces if action.kind == "replace" else None,
        )


def _store_log(writer: TableWriter, group: Group, at: str, blocks: list[Block]) -> Any:
    rows = [row for block in blocks if isinstance(block, DataBlock) for _, row in block.rows]
    deletes = [
        (key, None if wrapper is None else {wrapper[0]: wrapper[1]})
        for block in blocks
        if isinstance(block, DeleteBlock)
        for key, wrapper in block.deletes
    ]
    return writer.log(*group, at, rows, deletes)
