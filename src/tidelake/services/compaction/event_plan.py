"""Planning a compaction by event time: the groups with data before T, at a barrier P that the rules allow.

P is fixed first; the plan then holds, of each group, exactly the logs that completed before P. What is left out is carried,
with the reason. A pass that finds nothing to do says why, and leaves the timeline as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tidelake.config import (
    CLEAN_COMMITS,
    EVENT_TIME_BACKDATE,
    EVENT_TIME_BARRIER,
    EVENT_TIME_LATE_DELAY,
    EVENT_TIME_POLICY,
)
from tidelake.errors import InvalidError, NotFoundError, TidelakeError
from tidelake.filegroup import FileSlice, LogFile, TableView
from tidelake.filegroup.event_times import EventRange
from tidelake.filegroup.listing import list_partitions
from tidelake.format.avro_record import decode_record
from tidelake.format.commit_metadata import CommitMetadata
from tidelake.format.event_marks import EventTimeMarks, decode_event_marks
from tidelake.format.names import State, TimelineName, parse_base_name, parse_log_name
from tidelake.format.plans import CompactionPlan
from tidelake.query import TableSource, table_schema
from tidelake.query.event_column import event_times_of
from tidelake.services.compaction import barrier
from tidelake.services.compaction.barrier import Barrier, GroupTimes, TableTimes
from tidelake.services.compaction.plan import CompactionPlanner
from tidelake.services.compaction.thresholds import (
    EventTimeConfig,
    FindsThreshold,
    future_count,
    in_words,
    threshold_of,
)
from tidelake.services.event_notes import EventTimeNotes
from tidelake.services.kinds import COMPACTION
from tidelake.services.planner import Outcome, Work
from tidelake.services.strategy import Candidate, ServiceStrategy
from tidelake.services.window import Window
from tidelake.timeline import WRITE_ACTIONS, Instant, parse_instant

Groups = dict[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class _Early:
    """A file group with data before T, and its logs that hold, or may hold, some."""

    candidate: Candidate
    logs: tuple[LogFile, ...]


class EventTimePlanner(CompactionPlanner):
    """Plans by a strategy that gives a threshold. ``drawn`` is the instant at which it plans."""

    config: EventTimeConfig

    def __init__(self, config: EventTimeConfig, strategy: ServiceStrategy, finder: FindsThreshold, drawn: str) -> None:
        super().__init__(config, strategy)
        self._finder = finder
        self._drawn = drawn
        self._refused: set[str] = set()
        self.marks: EventTimeMarks | None = None
        """What the last pass says in its plan."""

    def refuse(self, instant: str) -> None:
        """Another process is taking the instant."""
        self._refused.add(instant)

    def decide(self, source: TableSource, window: Window, work: Work, left: dict[str, str]) -> Outcome:
        """The groups with data before T, if it is time for them."""
        field = source.config.event_time_field
        if field is None:
            raise InvalidError(
                "a compaction by event time needs a table with an event-time field",
                table=source.config.name,
                hint="give event_time_field when the table is made",
            )
        self._refuse_other_zone()
        threshold = threshold_of(self._finder, self._drawn, self.config)
        if threshold is None:
            return self._nothing(window, work, left, "", "no event time and no watermark has been seen yet")
        threshold_ms = parse_instant(threshold, self.config.zone)
        finder = _EarlyFinder(source, threshold_ms)
        early = finder.find(work.free)
        not_due = self._not_due(source, finder, early, threshold_ms)
        if not_due:
            return self._nothing(window, work, left, in_words(threshold_ms), not_due)
        wanted = {candidate.group for candidate in self.chosen([each.candidate for each in early])}
        chosen = [each for each in early if each.candidate.group in wanted]
        found = self._barrier(source, chosen, threshold)
        if found.instant is None:
            return self._nothing(window, work, left, in_words(threshold_ms), found.reason)
        planned, out = self._cut(finder, chosen, found)
        if not planned:
            reason = next(iter(out.values()), "nothing that completed before the barrier has data before it")
            return self._nothing(window, work, left, in_words(threshold_ms), reason)
        missing = self._uncovered(finder, early, planned, work, left, out)
        self.marks = EventTimeMarks(
            threshold_ms,
            self._policy,
            EVENT_TIME_BARRIER.of(self.config.options),
            source.config.is_exact,
            field,
            source.config.event_time_unit or "",
            not missing,
            missing,
        )
        for (path, file_id), reason in out.items():
            left.setdefault(path, f"{file_id} was left out: {reason}")
        self.note_left(work.free, {candidate.group for candidate in planned}, left)
        if source.config.is_exact:
            for candidate in planned:
                if finder.may_have_leftovers(candidate.file_slice):
                    left.setdefault(candidate.partition_path, f"{candidate.file_slice.file_id} may keep later events")
        notes = self._notes(in_words(threshold_ms), found.instant, missing)
        return Outcome(window, tuple(planned), dict(sorted(left.items())), found.instant, notes)

    @property
    def _policy(self) -> str:
        named = type(self._finder).__name__
        return EVENT_TIME_POLICY.of(self.config.options) if named == _OURS else named

    def _refuse_other_zone(self) -> None:
        """Instants of a table of the zone LOCAL are made in this process's zone: it must be the one that was said."""
        zone = self.config.zone
        if not self.config.table.timezone_is_utc and parse_instant(self._drawn, zone) != parse_instant(
            self._drawn, None
        ):
            raise InvalidError(
                f"the table's timeline has the zone LOCAL, which is not {zone} in this process",
                value=str(zone),
                table=self.config.table.name,
                hint="run in the zone that the table's writers have",
            )

    def _nothing(self, window: Window, work: Work, left: dict[str, str], threshold: str, reason: str) -> Outcome:
        """No plan: everything with logs is left, and the reason is said."""
        self.note_left(work.free, (), left)
        return Outcome(window, (), dict(sorted(left.items())), None, self._notes(threshold, None, reason))

    def _notes(self, threshold: str, instant: str | None, reason: str) -> EventTimeNotes:
        return EventTimeNotes(
            threshold,
            instant,
            self._policy,
            EVENT_TIME_BARRIER.of(self.config.options),
            instant is not None and not reason,
            reason,
            self.config.table.is_exact,
            future_count(self._drawn, self.config) if self._policy in ("LAG", "WATERMARK") else 0,
        )

    def _not_due(self, source: TableSource, finder: _EarlyFinder, early: Iterable[_Early], threshold_ms: int) -> str:
        """Why it is not time to compact; empty if it is."""
        completions = [finder.completion(log) for each in early for log in each.logs]
        if not completions:
            return f"no log that is in no pending plan holds an event before {in_words(threshold_ms)}"
        last = last_marks(source)
        if last is None or threshold_ms > last.threshold_ms or not last.covers:
            return ""
        delay_ms = EVENT_TIME_LATE_DELAY.of(self.config.options)
        first = min(completions)
        waited_ms = parse_instant(self._drawn, self.config.zone) - parse_instant(first, self.config.zone)
        if waited_ms >= delay_ms:
            return ""
        return (
            f"{in_words(last.threshold_ms)} is compacted, and the first log with late events, of {first}, has waited "
            f"{waited_ms // 1000} of {delay_ms // 1000} s"
        )

    def _barrier(self, source: TableSource, chosen: list[_Early], threshold: str) -> Barrier:
        if not chosen:
            return Barrier(None, "the strategy chose no file group")
        kept: int | None = max(1, CLEAN_COMMITS.of(self.config.options) // 2)
        if EVENT_TIME_BACKDATE.of(self.config.options) == "any":
            kept = None
        timeline, reader = source.timeline, source.reader
        named = frozenset(target for taker in timeline.takers for target in reader.targets(taker))
        times = TableTimes(self._drawn, timeline, reader.history, named, kept, frozenset(self._refused))
        groups = _group_times(source, chosen)
        is_exact = source.config.is_exact
        if EVENT_TIME_BARRIER.of(self.config.options) == "AT_THRESHOLD":
            return barrier.at_threshold(times, groups, threshold, is_exact=is_exact)
        return barrier.covering(times, groups, is_exact=is_exact)

    def _cut(self, finder: _EarlyFinder, chosen: list[_Early], found: Barrier) -> tuple[list[Candidate], Groups]:
        """The groups with the logs that completed before P, and those that have nothing to do there."""
        out: Groups = dict(found.left_out or {})
        planned: list[Candidate] = []
        for each in chosen:
            group = each.candidate.group
            if group in out:
                continue
            file_slice = each.candidate.file_slice
            logs = tuple(log for log in file_slice.logs if finder.completion(log) < (found.instant or ""))
            cut = replace(file_slice, logs=logs)
            if finder.is_work(cut):
                planned.append(replace(each.candidate, file_slice=cut, reason=finder.reason(cut)))
            else:
                out[group] = f"no log with data before the threshold completed before {found.instant}"
        return planned, out

    def _uncovered(
        self,
        finder: _EarlyFinder,
        early: Iterable[_Early],
        planned: Iterable[Candidate],
        work: Work,
        left: Mapping[str, str],
        out: Groups,
    ) -> str:
        """Why the plan does not take in all data before T that has arrived; empty if it does."""
        held = {candidate.partition_path for candidate, _ in work.held}
        for candidate, holder in work.held:
            if finder.early_logs(candidate.file_slice):
                return f"{candidate.file_slice.file_id} is in the pending plan {holder}"
        filtered = next((path for path in left if path not in held), None)
        if filtered is not None:
            return f"{filtered or 'the partition'}: {left[filtered]}"
        taken = {candidate.group: {log.path for log in candidate.file_slice.logs} for candidate in planned}
        for each in early:
            if any(log.path not in taken.get(each.candidate.group, ()) for log in each.logs):
                reason = out.get(
                    each.candidate.group, "it was not chosen, or has a log that completed after the barrier"
                )
                return f"{each.candidate.file_slice.file_id}: {reason}"
        return ""


_OURS = "EventTimeBasedCompactionStrategy"


class _EarlyFinder:
    """Finds which logs hold, or may hold, data before T."""

    def __init__(self, source: TableSource, threshold_ms: int) -> None:
        self._times = event_times_of(source)
        self._view: TableView = source.view()
        self._threshold_ms = threshold_ms
        self._is_exact = source.config.is_exact
        self._tombstones = table_schema(source).tombstones if source.config.tombstone_seconds else {}

    def find(self, candidates: Iterable[Candidate]) -> list[_Early]:
        """The groups that are planned: with such a log; on an exact table also with a base file that has to be split."""
        every = list(candidates)
        files = (file for c in every for file in (c.file_slice.files if self._is_exact else c.file_slice.logs))
        self._times.of_files(files)  # all at once
        return [_Early(c, self.early_logs(c.file_slice)) for c in every if self.is_work(c.file_slice)]

    def is_work(self, file_slice: FileSlice) -> bool:
        """Whether a slice is planned."""
        return bool(self.early_logs(file_slice)) or (bool(file_slice.logs) and self._has_late_base(file_slice))

    def early_logs(self, file_slice: FileSlice) -> tuple[LogFile, ...]:
        """The logs of a slice with data before T, in the order of their completion; deletes that a compaction kept are none."""
        logs = [log for log in file_slice.logs if log.path not in self._tombstones]
        ranges = self._times.of_files(logs)
        found = [log for log in logs if ranges[log.path].may_be_before(self._threshold_ms)]
        return tuple(sorted(found, key=self.completion))

    def completion(self, log: LogFile) -> str:
        """When a log's write completed."""
        return self._view.completion_of(log.name.instant) or log.name.instant

    def may_have_leftovers(self, file_slice: FileSlice) -> bool:
        """Whether an exact compaction of the slice may leave something in a log."""
        return any(found.may_be_from(self._threshold_ms) for found in self._ranges(file_slice))

    def reason(self, file_slice: FileSlice) -> str:
        """Why a slice is planned, for people."""
        early = self.early_logs(file_slice)
        if not early:
            return f"its base file has events at or after {in_words(self._threshold_ms)}"
        ranges = self._times.of_files(early)
        unknown = next((found for found in ranges.values() if not found.is_known), None)
        words = f"{len(early)} of {len(file_slice.logs)} logs hold events before {in_words(self._threshold_ms)}"
        return words if unknown is None else f"{words}, or may: {unknown.reason}"

    def _has_late_base(self, file_slice: FileSlice) -> bool:
        if not self._is_exact or file_slice.base is None:
            return False
        (found,) = self._times.of_files((file_slice.base,)).values()
        return found.may_be_from(self._threshold_ms)

    def _ranges(self, file_slice: FileSlice) -> Iterable[EventRange]:
        return self._times.of((file_slice,)).values()


def last_marks(source: TableSource) -> EventTimeMarks | None:
    """What the last compaction by event time, pending or completed, was planned for; None if there was none."""
    for instant in reversed(source.timeline.instants):
        if instant.pending_action == COMPACTION.action:
            try:
                plan = source.reader.record(CompactionPlan, instant.requested_file_name)
            except NotFoundError:
                continue  # withdrawn since
            marks = decode_event_marks(plan.extra_metadata)
            if marks is not None:
                return marks
    if not any(old.action in (COMPACTION.action, COMPACTION.completed_action) for old in source.reader.history):
        return None
    for old in reversed(source.reader.load_history(("instantTime", "completionTime", "action", "plan"))):
        marks = _plan_marks(old.plan) if old.plan else None
        if marks is not None:
            return marks
    return None


def _plan_marks(data: bytes) -> EventTimeMarks | None:
    try:
        return decode_event_marks(decode_record(CompactionPlan, data).extra_metadata)
    except TidelakeError:
        return None  # the plan of another action


def _group_times(source: TableSource, chosen: Iterable[_Early]) -> list[GroupTimes]:
    """The times of the groups that may be planned."""
    every = list(chosen)
    view = source.view()
    carried = _carried(source, {each.candidate.partition_path for each in every})
    writes = _pending_writes(source) if source.config.is_exact else []
    found = []
    for each in every:
        file_slice = each.candidate.file_slice
        group = each.candidate.group
        completions = [view.completion_of(log.name.instant) or log.name.instant for log in each.logs]
        found.append(
            GroupTimes(
                group,
                file_slice.base_instant,
                tuple(_spans(source, view, file_slice)),
                carried.get(group, frozenset()),
                tuple(sorted(completions)),
                tuple(requested for requested, paths in writes if paths is None or group[0] in paths),
            )
        )
    return found


def _spans(source: TableSource, view: TableView, file_slice: FileSlice) -> Iterable[tuple[str, str]]:
    """The (requested, completion] of what wrote the files of a slice; a compaction's base file alone does not count."""
    instants = {log.name.instant for log in file_slice.logs}
    base = file_slice.base.name.instant if file_slice.base else None
    active = source.timeline.by_time.get(base or "")
    if base is not None and (active is None or active.pending_action != COMPACTION.action):
        instants.add(base)
    for instant in sorted(instants):
        completion = view.completion_of(instant)
        if completion is not None:
            yield instant, completion


def _carried(source: TableSource, partitions: Iterable[str]) -> dict[tuple[str, str], frozenset[str]]:
    """The instants that files of each group carry, with those that nobody sees."""
    found: dict[tuple[str, str], set[str]] = {}
    for listed in list_partitions(source.storage, sorted(partitions)):
        for info in listed.files:
            name = info.path.rpartition("/")[2]
            parsed = parse_base_name(name) or parse_log_name(name)
            if parsed is not None:
                found.setdefault((listed.path, parsed.file_id), set()).add(parsed.instant)
    return {group: frozenset(instants) for group, instants in found.items()}


def _pending_writes(source: TableSource) -> list[tuple[str, frozenset[str] | None]]:
    """The writes under way: requested time, and the partitions that they will touch; None if they do not say."""
    return [
        (instant.requested_time, _said_partitions(source, instant))
        for instant in source.timeline.pending
        if instant.pending_action in WRITE_ACTIONS
    ]


def _said_partitions(source: TableSource, instant: Instant) -> frozenset[str] | None:
    name = TimelineName(instant.requested_time, instant.pending_action or instant.action, State.INFLIGHT)
    try:
        said = source.reader.record(CommitMetadata, str(name)).partition_to_write_stats
    except TidelakeError:
        return None  # not there yet, or empty: it may touch all
    return frozenset(said) if said else None
