"""Proving that no work was lost: every partition with work is in the next window, in a carry list, or in a pending plan.

The audit looks at the whole table, so it costs what exists. What it finds lost it can heal: the cursor then carries it, and
the next plan takes it in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from tidelake.filegroup import FileSlice, build_state, load_state, save_state
from tidelake.filegroup.state_store import STATE_DIR
from tidelake.query import TableSource
from tidelake.services.clustering.execute import clustering_planner
from tidelake.services.compaction.execute import compaction_planner
from tidelake.services.context import ServiceCall
from tidelake.services.cursor import Cursor, write_cursor
from tidelake.services.kinds import pending_groups
from tidelake.services.planner import ServicePlanner


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit found. ``lost`` are the partitions, by service, with work that the next plan would not see."""

    lost: Mapping[str, tuple[str, ...]]
    with_work: Mapping[str, int]
    """How many partitions have work, by service."""
    state_is_wrong: bool = False
    """The table state, which is derived, does not say what storage has."""
    repaired: bool = False

    @property
    def is_clean(self) -> bool:
        """Nothing was lost, and the table state is right."""
        return not any(self.lost.values()) and not self.state_is_wrong

    def __str__(self) -> str:
        lines = []
        for service, count in self.with_work.items():
            lost = self.lost.get(service, ())
            verdict = "nothing is lost" if not lost else f"{len(lost)} lost: {', '.join(lost)}"
            lines.append(f"{service}: {count} partitions have work, {verdict}")
        if self.state_is_wrong:
            lines.append("the table state does not say what storage has")
        if self.repaired and not self.is_clean:
            lines.append("repaired: the next plans take in what was lost, and the table state was made anew")
        return "\n".join(lines)


def audit_table(call: ServiceCall, *, repair: bool = False) -> AuditReport:
    """Compare what each service would look at with what there is."""
    source = call.source()
    slices = list(source.view().listed_slices())
    lost: dict[str, tuple[str, ...]] = {}
    with_work: dict[str, int] = {}
    planners: tuple[ServicePlanner, ...] = (compaction_planner(call, source), clustering_planner(call, source))
    for planner in planners:
        lost[planner.kind.name], with_work[planner.kind.name] = _audit_one(source, planner, slices, repair)
    is_wrong = _state_is_wrong(source, slices)
    if is_wrong and repair:
        for info in source.storage.list_dir(STATE_DIR)[1]:
            source.storage.delete(info.path)
        save_state(source.storage, build_state(source.storage, source.config, source.timeline, source.reader))
    return AuditReport(lost, with_work, is_wrong, repair)


def _state_is_wrong(source: TableSource, slices: Sequence[FileSlice]) -> bool:
    state = load_state(source.storage, source.config, source.timeline, source.reader)
    if state is None:
        return False
    return {_files_of(s) for s in state.slices_of()} != {_files_of(s) for s in slices}


def _files_of(file_slice: FileSlice) -> frozenset[tuple[str, int]]:
    return frozenset((file.path, file.size_bytes) for file in file_slice.files)


def _audit_one(
    source: TableSource, planner: ServicePlanner, slices: Sequence[FileSlice], repair: bool
) -> tuple[tuple[str, ...], int]:
    kind = planner.kind
    window = planner.window(source)
    by_partition = groupby(slices, key=lambda s: s.partition_path)
    working = {path for path, some in by_partition if planner.work_in(source, tuple(some))}
    if window.partitions is None:
        return (), len(working)  # the next plan looks at everything
    planned = {
        partition
        for partition, _ in pending_groups(source.storage, source.config.timeline_dir, source.timeline.pending)
    }
    lost = tuple(sorted(working - window.partitions - planned))
    if lost and repair:
        times = [i.completion_time for i in source.timeline.instants if i.completion_time]
        carry = window.partitions | set(lost)
        write_cursor(
            source.storage,
            kind.name,
            Cursor(window.last_times, max(times, default="0"), frozenset(carry), planner.layout, planner.terms),
        )
    return lost, len(working)
