"""The one planner that all planned services share: what to look at, what to take, and what is left for next time.

Every partition with work is, after each pass, in one of three places: the window of the next pass, the carry list, or a
pending plan. So whatever this pass leaves out is recorded: partitions that the strategy filtered, partitions of file
groups that it did not choose, and partitions with a file group that another pending plan holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from tidelake.config import INCREMENTAL_SERVICES
from tidelake.errors import InternalError
from tidelake.filegroup import FileSlice, TableView, load_state
from tidelake.filegroup.listing import list_all, list_partitions
from tidelake.query import TableSource
from tidelake.services.cursor import Cursor, read_cursor, write_cursor
from tidelake.services.event_notes import EventTimeNotes
from tidelake.services.kinds import ServiceKind, pending_groups
from tidelake.services.strategy import Candidate, ServiceConfig, ServiceStrategy, is_incremental
from tidelake.services.window import FULL, Window, WindowFinder


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a pass found: the file groups to take, and the partitions in which work is left, each with a reason."""

    window: Window
    chosen: tuple[Candidate, ...]
    left: Mapping[str, str] = field(default_factory=dict)
    instant: str | None = None
    """The instant that the plan has to have; None: a fresh one."""
    notes: EventTimeNotes | None = None
    """Of a compaction by event time: what it goes by."""


@dataclass(frozen=True, slots=True)
class Work:
    """The file groups with work: those that a plan may take, and those that pending plans hold, with the plan's instant."""

    free: tuple[Candidate, ...]
    held: tuple[tuple[Candidate, str], ...] = ()


class ServicePlanner(ABC):
    """Finds the work of one service. A new service says which slices are work for it."""

    kind: ServiceKind

    def __init__(self, config: ServiceConfig, strategy: ServiceStrategy) -> None:
        self.config = config
        self.strategy = strategy

    @abstractmethod
    def work_in(self, source: TableSource, slices: Sequence[FileSlice]) -> Sequence[Candidate]:
        """Which of the latest slices of one partition are work for the service, and why."""

    def limited(self, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """What of the file groups that the strategy chose one plan takes."""
        return candidates

    @property
    def layout(self) -> str:
        """The order that the service brings rows into, if it does: in another one than the last, all is looked at."""
        return ""

    @property
    def terms(self) -> str:
        """By what else the service judges what is work: by other terms than the last ones, all is looked at, too."""
        return ""

    def window(self, source: TableSource) -> Window:
        """What a pass has to look at."""
        finder = WindowFinder(source.storage, source.config, source.timeline, source.reader, self.kind)
        wanted = INCREMENTAL_SERVICES.of(self.config.options) and is_incremental(self.strategy)
        cursor = read_cursor(source.storage, self.kind.name)
        window = finder.find(cursor, incremental=wanted)
        layout, terms = _before(window, cursor)
        if (self.layout and self.layout != layout) or (terms and self.terms != terms):
            return replace(window, source=FULL, partitions=None, left=None)
        return window

    def run(self, source: TableSource) -> Outcome:
        """One pass over the table as the source shows it."""
        window = self.window(source)
        left: dict[str, str] = {}
        work = self._work(source, window, left)
        for candidate, holder in work.held:
            left.setdefault(candidate.partition_path, f"{candidate.file_slice.file_id} is in the pending plan {holder}")
        return self.decide(source, window, work, left)

    def decide(self, source: TableSource, window: Window, work: Work, left: dict[str, str]) -> Outcome:
        """What of the work is taken; ``left`` has what is left already."""
        chosen = self.chosen(work.free)
        self.note_left(work.free, {candidate.group for candidate in chosen}, left)
        return Outcome(window, chosen, dict(sorted(left.items())))

    def chosen(self, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """What the strategy takes of these."""
        # A strategy is a user's: a group that it names twice is taken once.
        named = {candidate.group: candidate for candidate in self.strategy.choose(self.config, candidates)}
        return tuple(self.limited(tuple(named.values())))

    def note_left(
        self, candidates: Iterable[Candidate], taken: Collection[tuple[str, str]], left: dict[str, str]
    ) -> None:
        """Note the partitions of the file groups that are not taken."""
        for candidate in candidates:
            if candidate.group not in taken:
                left.setdefault(candidate.partition_path, f"{candidate.file_slice.file_id} was not chosen")

    def _work(self, source: TableSource, window: Window, left: dict[str, str]) -> Work:
        holders = pending_groups(source.storage, source.config.timeline_dir, source.timeline.pending)
        free: list[Candidate] = []
        held: list[tuple[Candidate, str]] = []
        for _, slices in groupby(self._slices(source, window, left), key=lambda s: s.partition_path):
            for candidate in self.work_in(source, tuple(slices)):
                holder = holders.get(candidate.group)
                if holder is None:
                    free.append(candidate)
                else:
                    held.append((candidate, holder))
        return Work(tuple(free), tuple(held))

    def refuse(self, instant: str) -> None:
        """Another process is taking the instant that the last pass wanted: the next one takes another."""
        raise InternalError("a planner that draws no instants was refused one", instant=instant)

    def keep(self, source: TableSource, outcome: Outcome) -> None:
        """After a pass that made no plan: where the next one goes on."""
        times = [i.completion_time for i in source.timeline.instants if i.completion_time]
        upto = max(times, default="0")
        carry = frozenset(outcome.left)
        write_cursor(
            source.storage, self.kind.name, Cursor(outcome.window.last_times, upto, carry, self.layout, self.terms)
        )

    def _slices(self, source: TableSource, window: Window, left: dict[str, str]) -> Iterator[FileSlice]:
        """The latest slices of the partitions that the strategy lets through; the others are noted as left."""
        view = TableView(source.storage, source.config, source.timeline, source.reader, checked=window.read)
        state = None
        if window.partitions is None:
            state = load_state(source.storage, source.config, source.timeline, source.reader)
        if state is not None:
            places = {path: place for place, path in enumerate(self._filtered(sorted(state.partitions()), left))}
            yield from sorted(state.slices_of(places.keys()), key=lambda s: (places[s.partition_path], s.file_id))
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


def _before(window: Window, cursor: Cursor | None) -> tuple[str, str]:
    """The layout and the terms of the last pass; empty terms if it does not say."""
    if cursor is not None and cursor.last == window.last_times:
        return cursor.layout, cursor.terms
    facts = window.last.facts if window.last is not None else None
    return ("", "") if facts is None else (facts.layout, facts.terms)
