"""Choosing P, the instant of an event-time compaction: the one requested time that does not come from the generator.

Back-dating is dangerous, and each rule here keeps one danger away:

1. P is not after the time at which it is planned.
2. It is after the first active write and after everything archived: files of an earlier instant count as archived, and those
   of commits that are archived would vanish behind it for Apache Hudi.
3. It is after the k-th newest commit, or Apache Hudi's cleaner would remove the slice before it under running readers.
4. It is after every compaction, log compaction and clustering: slices and windows of services follow each other by instants.
5. It is no time that the table has had: instants are never used twice, and names tell files apart.
6. It lies within no write on a group that is planned: a log that was begun before P and completed after it would change its
   place among the logs. On an exact table a write that is under way counts as well: its log would come below leftovers.

Each rule is a function of its own, so that a test can take one away and see the danger.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidelake.format.history import ArchivedInstant
from tidelake.timeline import Instant, Timeline, next_instant, previous_instant

Group = tuple[str, str]
Span = tuple[str, str]
"""The (requested, completion] of a write."""

_PLANNED_ACTIONS = frozenset({"compaction", "logcompaction", "clustering"})


@dataclass(frozen=True, slots=True)
class TableTimes:
    """All times of a table that P is held against, as of one turn of the head."""

    drawn: str
    """A fresh instant: now."""
    timeline: Timeline
    archived: tuple[ArchivedInstant, ...]
    named: frozenset[str]
    """The instants that rollbacks and restores on the timeline name."""
    commits_kept: int | None
    """How many of the newest commits P must not lie before; None is no such bound."""
    refused: frozenset[str] = frozenset()
    """Times that another process was found to be taking."""


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """The times of one file group that may be planned."""

    group: Group
    base_instant: str
    spans: tuple[Span, ...]
    """The writes whose files its latest slice has, and the compactions that wrote logs of it."""
    carried: frozenset[str]
    """The instants that files of the group carry, whether they are visible or not."""
    early: tuple[str, ...]
    """The completions of the logs that hold, or may hold, an event before T, in their order."""
    pending: tuple[str, ...] = ()
    """Requested times of the writes under way that may touch the group; asked for exact tables alone."""

    @property
    def planned_after(self) -> str:
        """A P that is not after this time takes nothing of the group."""
        return max(self.base_instant, self.early[0] if self.early else "")

    @property
    def last_early(self) -> str:
        """The completion of the last log with an event before T; empty if it is the base file alone that has to be split."""
        return self.early[-1] if self.early else ""


@dataclass(frozen=True, slots=True)
class Bound:
    """A time that P must be after, and why."""

    time: str
    rule: str


def not_after_now(times: TableTimes) -> str:
    """Rule 1: the greatest P."""
    return times.drawn


def after_archived(times: TableTimes) -> Bound | None:
    """Rule 2."""
    found = [old.requested_time for old in times.archived]
    first = times.timeline.first_active
    if first is not None:
        found.append(first)
    return Bound(max(found), "the first active write, or an archived instant, is not before it") if found else None


def after_cleaner_horizon(times: TableTimes) -> Bound | None:
    """Rule 3."""
    commits = [i.requested_time for i in times.timeline.completed_writes]
    kept = times.commits_kept
    if kept is None or len(commits) < kept:
        return None
    rule = f"{kept} of the newest commits are not before it, and Apache Hudi's cleaner would leave readers no time"
    return Bound(sorted(commits)[-kept], rule)


def after_services(times: TableTimes) -> Bound | None:
    """Rule 4; archived ones are before P by rule 2."""
    found = [i.requested_time for i in times.timeline.instants if is_service(i)]
    return Bound(max(found), "a compaction or clustering is not before it") if found else None


def taken_times(times: TableTimes, groups: Iterable[GroupTimes]) -> frozenset[str]:
    """Rule 5. What an archived rollback or restore names was requested before it, so it is before P by rule 2."""
    taken = {*times.named, *times.refused}
    for instant in times.timeline.instants:
        taken.update((instant.requested_time, instant.completion_time or ""))
    for old in times.archived:
        taken.update((old.requested_time, old.completion_time or ""))
    return frozenset(taken).union(*(group.carried for group in groups))


def spans_of(groups: Iterable[GroupTimes]) -> list[tuple[Span, str]]:
    """Rule 6: the writes within which P must not lie, each with the time up to which its group is not planned anyway."""
    return sorted({(span, group.planned_after) for group in groups for span in group.spans})


def is_begun_before(group: GroupTimes, instant: str) -> bool:
    """Rule 6, of exact tables: whether a write under way that may touch the group was requested before P."""
    return any(requested < instant for requested in group.pending)


def is_service(instant: Instant) -> bool:
    """Whether an instant is a planned service. One whose requested file is gone, and that may be one, counts as such."""
    if instant.pending_action is not None:
        return instant.pending_action in _PLANNED_ACTIONS
    return instant.action in ("commit", "replacecommit")


def lower_bounds(times: TableTimes) -> list[Bound]:
    """What P must be after, whatever is planned."""
    found = (after_archived(times), after_cleaner_horizon(times), after_services(times))
    return [bound for bound in found if bound is not None]


class Allowed:
    """The instants that all rules allow for some groups."""

    def __init__(self, times: TableTimes, groups: Collection[GroupTimes]) -> None:
        self.bound = max(lower_bounds(times), key=lambda bound: bound.time, default=Bound("", ""))
        self._upper = not_after_now(times)
        self._taken = taken_times(times, groups)
        self._spans = spans_of(groups)

    def least_after(self, floor: str) -> str | None:
        """The smallest allowed instant after a time."""
        start = max(floor, self.bound.time)
        found = next_instant(start) if start else self._upper
        while found <= self._upper:
            moved = self._beyond(found, lambda span, _: next_instant(span[1]))
            if moved == found:
                if found not in self._taken:
                    return found
                moved = next_instant(found)
            found = moved
        return None

    def greatest_upto(self, ceiling: str) -> str | None:
        """The greatest allowed instant that is not after a time."""
        found = min(ceiling, self._upper)
        while found > self.bound.time:
            moved = self._beyond(found, lambda span, since: max(span[0], since))
            if moved == found:
                if found not in self._taken:
                    return found
                moved = previous_instant(found)
            found = moved
        return None

    def _beyond(self, instant: str, edge: Callable[[Span, str], str]) -> str:
        """An instant that lies within a write is moved to the write's edge."""
        for span, since in self._spans:
            if span[0] < instant <= span[1] and instant > since:
                return edge(span, since)
        return instant


@dataclass(frozen=True, slots=True)
class Barrier:
    """What was chosen: P, and the groups that cannot be planned at it, each with the reason; no P: why not."""

    instant: str | None
    reason: str = ""
    left_out: Mapping[Group, str] | None = None


def covering(times: TableTimes, groups: Sequence[GroupTimes], *, is_exact: bool) -> Barrier:
    """The smallest allowed P after the last log with an event before T; else the greatest allowed one."""
    allowed = Allowed(times, groups)
    last = max(group.last_early for group in groups)
    instant = allowed.least_after(last) or allowed.greatest_upto(times.drawn)
    if instant is None:
        return Barrier(None, f"no instant after {allowed.bound.time} is free: {allowed.bound.rule}")
    found = Barrier(instant, "", _left_out(groups, instant, is_exact=is_exact))
    if is_exact and found.left_out:
        return _best_for_some(times, groups, found)
    return found


def at_threshold(times: TableTimes, groups: Sequence[GroupTimes], threshold: str, *, is_exact: bool) -> Barrier:
    """The greatest allowed P that is not after T and takes something; never one after T."""
    allowed = Allowed(times, groups)
    floor = min(group.planned_after for group in groups)
    instant = allowed.greatest_upto(threshold)
    if instant is not None and instant > floor:
        return Barrier(instant, "", _left_out(groups, instant, is_exact=is_exact))
    if threshold <= allowed.bound.time:
        rule = f"{allowed.bound.rule} ({allowed.bound.time})"
    elif threshold <= floor:
        rule = f"the first log with data before it completed at {floor}"
    else:
        rule = "it would lie within a write on a file group of the plan, or be a time that the table has had"
    return Barrier(
        None,
        f"no instant up to the threshold {threshold} is allowed: {rule}; the oldest threshold that would do is "
        f"{allowed.least_after(floor) or 'later than now'}, the barrier COVERING needs none, and "
        "hoodie.compaction.event.time.backdate=any lifts the bound of the cleaner",
    )


def _left_out(groups: Iterable[GroupTimes], instant: str, *, is_exact: bool) -> dict[Group, str]:
    left = {g.group: f"its base file is not before {instant}" for g in groups if g.base_instant >= instant}
    if is_exact:
        for group in groups:
            if is_begun_before(group, instant):
                left[group.group] = f"a write that was begun before {instant} may touch it"
    return left


def _best_for_some(times: TableTimes, groups: Sequence[GroupTimes], whole: Barrier) -> Barrier:
    """The P at which most groups of an exact table can be split, if writes never pause long enough for one for all.

    A group can be taken at a P that lies within none of its own writes; the others are left out and carried. Between one
    write of a group and its next there is always such a time, so a steady stream of writes does not keep it for ever. The
    group that has waited longest is taken, if it can be, and of several P the smallest.
    """
    best, best_score = whole, _score(groups, whole)
    bound = Allowed(times, ()).bound.time
    edges = {time for group in groups for time in (*group.early, *(span[1] for span in group.spans))}
    for edge in sorted({max(edge, bound) for edge in edges}):
        free = [group for group in groups if not any(span[0] <= edge < span[1] for span in group.spans)]
        instant = Allowed(times, free).least_after(edge) if free else None
        if instant is None:
            continue
        inside = {
            group.group: f"{instant} lies within a write of it"
            for group in groups
            if any(span[0] < instant <= span[1] for span in group.spans)
        }
        found = Barrier(instant, "", {**inside, **_left_out(groups, instant, is_exact=True)})
        score = _score(groups, found)
        if score > best_score:
            best, best_score = found, score
    return best


def _score(groups: Sequence[GroupTimes], barrier: Barrier) -> tuple[bool, int, int]:
    """How good a P is: whether it takes from the group that has waited longest, how many it takes whole, how many logs."""
    left, instant = barrier.left_out or {}, barrier.instant or ""
    taken = {g.group: sum(1 for time in g.early if time < instant) for g in groups if g.group not in left}
    oldest = min(groups, key=lambda g: (g.early[0] if g.early else "~", g.group))
    whole = sum(1 for g in groups if taken.get(g.group) == len(g.early))
    return taken.get(oldest.group, 0) > 0, whole, sum(taken.values())
