"""The one planner that all planned services share: what to look at, what to take, and what is left for next time.

Every partition with work is, after each pass, in one of three places: the window of the next pass, the carry list, or a
pending plan. So whatever this pass leaves out is recorded: partitions that the strategy filtered, partitions of file
groups that it did not choose, and partitions with a file group that another pending plan holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tidelake.config import INCREMENTAL_SERVICES
from tidelake.filegroup import FileSlice, TableView, load_state
from tidelake.filegroup.listing import list_all, list_partitions
from tidelake.query import TableSource
from tidelake.services.cursor import Cursor, read_cursor, write_cursor
from tidelake.services.kinds import ServiceKind, pending_groups
from tidelake.services.strategy import Candidate, ServiceConfig, ServiceStrategy, is_incremental
from tidelake.services.window import Window, WindowFinder


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a pass found: the file groups to take, and the partitions in which work is left, each with a reason."""

    window: Window
    chosen: tuple[Candidate, ...]
    left: Mapping[str, str] = field(default_factory=dict)


class ServicePlanner(ABC):
    """Finds the work of one service. A new service says which slices are work for it."""

    kind: ServiceKind

    def __init__(self, config: ServiceConfig, strategy: ServiceStrategy) -> None:
        self.config = config
        self.strategy = strategy

    @abstractmethod
    def work_in(self, file_slice: FileSlice) -> str | None:
        """Why a slice is work for the service; None if it is none."""

    def run(self, source: TableSource) -> Outcome:
        """One pass over the table as the source shows it."""
        finder = WindowFinder(source.storage, source.config, source.timeline, source.reader, self.kind)
        wanted = INCREMENTAL_SERVICES.of(self.config.options) and is_incremental(self.strategy)
        window = finder.find(read_cursor(source.storage, self.kind.name), incremental=wanted)
        left: dict[str, str] = {}
        held = pending_groups(source.storage, source.config.timeline_dir, source.timeline.pending)
        candidates: list[Candidate] = []
        for file_slice in self._slices(source, window, left):
            reason = self.work_in(file_slice)
            if reason is None:
                continue
            holder = held.get((file_slice.partition_path, file_slice.file_id))
            if holder is None:
                candidates.append(Candidate(file_slice, reason))
            else:
                left.setdefault(file_slice.partition_path, f"{file_slice.file_id} is in the pending plan {holder}")
        # A strategy is a user's: a group that it names twice is taken once.
        taken = {_group(candidate): candidate for candidate in self.strategy.choose(self.config, candidates)}
        chosen = tuple(taken.values())
        for candidate in candidates:
            if _group(candidate) not in taken:
                left.setdefault(candidate.partition_path, f"{candidate.file_slice.file_id} was not chosen")
        return Outcome(window, chosen, dict(sorted(left.items())))

    def keep(self, source: TableSource, outcome: Outcome) -> None:
        """After a pass that made no plan: where the next one goes on."""
        times = [i.completion_time for i in source.timeline.instants if i.completion_time]
        upto = max(times, default="0")
        carry = frozenset(outcome.left)
        write_cursor(source.storage, self.kind.name, Cursor(outcome.window.last_times, upto, carry))

    def _slices(self, source: TableSource, window: Window, left: dict[str, str]) -> Iterator[FileSlice]:
        """The latest slices of the partitions that the strategy lets through; the others are noted as left."""
        view = TableView(
            source.storage, source.config, source.timeline, source.reader, checked=frozenset(window.instants)
        )
        state = None
        if window.partitions is None:
            state = load_state(source.storage, source.config, source.timeline, source.reader)
        if state is not None:
            yield from state.slices_of(list(self._filtered(sorted(state.partitions()), left)))
            return
        if window.partitions is None:
            everything = {listed.path: listed for listed in list_all(source.storage)}
            for path in self._filtered(sorted(everything), left):
                if path in everything:
                    yield from view.latest_of(everything[path])
            return
        for listed in list_partitions(source.storage, self._filtered(sorted(window.partitions), left)):
            yield from view.latest_of(listed)

    def _filtered(self, partitions: list[str], left: dict[str, str]) -> Iterable[str]:
        process, missing = self.strategy.filter_partition_paths(self.config, partitions)
        left.update(dict.fromkeys(missing, "the strategy left the partition for later"))
        lost = set(partitions) - set(process) - set(missing)
        left.update(dict.fromkeys(lost, "the strategy did not name the partition"))
        return dict.fromkeys(process)


def _group(candidate: Candidate) -> tuple[str, str]:
    return candidate.partition_path, candidate.file_slice.file_id
