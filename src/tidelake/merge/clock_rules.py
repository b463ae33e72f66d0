"""The rules of several event times, on whole arrays: which version of a record gives which of its values.

A *version* is a stored row, an incoming record or a delete. Versions are sorted by *place* (their key's number), and those
of a place by the order in which they apply. Event times come as numbers that compare as they do; 0 is none.

Mode ``all`` applies versions one by one, in rounds: the first of each place, the second, ... A version is applied if none
of its event times is older than the stored one; then its values overlay the stored ones. A delete that is applied leaves
the event times alone, which later versions must reach.

Mode ``per_group`` needs no rounds: of each group the version with the greatest event time gives all values, the later one
of equals. A group whose last version is a delete is empty; a row without any other group is gone. A group that never had an
event time keeps the values of the row it came with, until a delete ends any group. A reset, a delete without event times, forgets
everything before it.

Where deletes do not outlive a merge, a stored row does not tell a group that a delete ended from one that a record brought
as nulls. There a delete that leaves no value in any group ends the row, and the next record that gives something brings it back:
so it makes no difference which of the versions had been merged before.

On an exact table, whose records are split at a threshold and merged in two steps, a group shows what its own versions say
and nothing else: one that a delete ended shows no event time, and what a row's last change is follows from commit times, not from
the order in which halves are met.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from tidelake._limits import RECORD_VERSIONS
from tidelake.errors import LimitError
from tidelake.merge.arrays import Mask, Places

Ranks = npt.NDArray[np.int64]
APPLIED, OLDER, INCOMPARABLE = 0, 1, 2
REASONS = ("", "older", "incomparable")
NONE = -1


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of records, sorted by place and order. ``ranks`` has an array for each event time."""

    place: Places
    is_base: Mask
    is_delete: Mask
    is_reset: Mask
    is_kept: Mask
    """Deletes that a compaction kept, whose effect the stored row shows already."""
    ranks: tuple[Ranks, ...]
    commits: Ranks | None = None
    """The versions' commit times, as numbers that compare as they do, where these decide which was last."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the versions. All arrays of places hold numbers of versions; -1 is none."""

    is_alive: Mask
    last: Places
    """Of each place, the last version in the order of arrival that changed the row."""
    row: Places
    """Of each place, the last record that gave something to the row."""
    values: tuple[Places, ...]
    """Who gives the values: in ``per_group`` for each group and then for the columns of no group, else for each column."""
    clocks: tuple[Places, ...]
    """Who gives each event time, deletes included."""
    ended: tuple[Places, ...]
    """Of each event time, the delete that it stands for, if it does."""
    reasons: npt.NDArray[np.int8]
    """Of each version, whether and why it was rejected."""
    before: tuple[Places, ...]
    """Of each version that was rejected, who gave the event times that it met."""


def resolve_groups(
    versions: Versions,
    count: int,
    *,
    has_loose: bool,
    is_exact: bool = False,
    filled: tuple[Mask, ...] | None = None,
    tells: bool = True,
) -> Verdict:
    """Mode ``per_group``; ``has_loose`` says whether there are columns of no group.

    ``filled`` says for each group which versions have a value in it, where a delete that leaves none ends the row. If
    nobody wants to be told, ``reasons`` and ``before`` are left out.
    """
    if not tells and len(versions.place) and not versions.is_delete.any():
        return _resolve_records(versions, has_loose=has_loose)
    place, size = versions.place, len(versions.place)
    numbers = np.arange(size, dtype=np.int64)
    starts = np.ones(size, dtype=np.bool_)
    starts[1:] = place[1:] != place[:-1]
    begins = starts | versions.is_reset
    segment = np.cumsum(begins.astype(np.int64))
    ends = np.append(np.flatnonzero(starts)[1:], size) - 1
    in_effect = segment == segment[ends][place]
    is_data = ~versions.is_delete
    holders = [_holders(ranks, segment, begins) for ranks in versions.ranks]
    winners = [held[ends] for held in holders]
    contributes = np.logical_or.reduce([held == numbers for held in holders])
    has_delete = _any(in_effect & versions.is_delete & contributes, place, count)
    data = np.flatnonzero(in_effect & is_data)
    first = np.full(count, NONE, dtype=np.int64)
    first[place[data][::-1]] = data[::-1]
    latest = np.full(count, NONE, dtype=np.int64)
    latest[place[data]] = data
    untimed = np.where(has_delete, NONE, first)
    values = []
    is_timed = np.zeros(count, dtype=np.bool_)
    for winner in winners:
        has = winner >= 0
        is_timed |= has
        values.append(np.where(has & is_data[winner], winner, np.where(has, NONE, untimed)))
    lives = _lives(versions, holders, contributes, filled)
    is_alive = lives[ends] | (~is_timed & (untimed >= 0))
    row = np.maximum.reduce([untimed, *values, *([latest] if has_loose else [])])
    changed = [np.where((w >= 0) & ~versions.is_kept[w], w, NONE) for w in winners]
    last = _latest([row, *values, *changed], versions.commits)
    ended = tuple(np.where((w >= 0) & ~is_data[w], w, NONE) for w in winners)
    has_time = np.logical_or.reduce([ranks > 0 for ranks in versions.ranks])
    lost = has_time & ~contributes & ~versions.is_base & ~versions.is_reset
    if has_loose:
        lost &= ~(is_data & lives)  # it gave the columns of no group
    reasons = np.where(lost, OLDER, APPLIED).astype(np.int8)
    clocks = tuple(values) if is_exact else tuple(np.where(w >= 0, w, untimed) for w in winners)
    before = tuple(_before(held, begins, np.flatnonzero(lost)) for held in holders)
    return Verdict(is_alive, last, row, (*values, latest), clocks, ended, reasons, before)


def _resolve_records(versions: Versions, *, has_loose: bool) -> Verdict:
    """Mode ``per_group`` where nothing is deleted: every row lives, and each group needs its greatest event time alone."""
    place, size = versions.place, len(versions.place)
    numbers = np.arange(size, dtype=np.int64)
    bits = size.bit_length()
    first = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
    latest = np.append(first[1:], size) - 1
    values = []
    for ranks in versions.ranks:
        greatest = _greatest((ranks << bits) | numbers, first)
        values.append(np.where(greatest >> bits > 0, greatest & ((1 << bits) - 1), first))
    row = reduce(np.maximum, [*values, *([latest] if has_loose else [])])
    last = row if versions.commits is None else _latest([row, *values], versions.commits)
    nobody = np.full(len(first), NONE, dtype=np.int64)
    ended = tuple(nobody for _ in values)
    alive = np.ones(len(first), dtype=np.bool_)
    return Verdict(alive, last, row, (*values, latest), tuple(values), ended, np.zeros(0, dtype=np.int8), ())


def _greatest(numbers: Ranks, first: Places) -> Ranks:
    """The greatest number of each place; of two each, as most are, by comparing one half with the other."""
    if len(numbers) == 2 * len(first) and (first[1:] - first[:-1] == 2).all():
        return np.maximum(numbers[::2], numbers[1::2])
    return np.maximum.reduceat(numbers, first)


def _holders(ranks: Ranks, segment: Places, begins: Mask) -> Places:
    """For each version who holds the event time after it: the greatest so far of the segment, the later of equals."""
    span = int(ranks.max(initial=0)) + 1
    level = segment * span + ranks
    is_top = (level == np.maximum.accumulate(level)) & (ranks > 0)
    held: Places = np.maximum.accumulate(np.where(is_top | begins, np.arange(len(ranks), dtype=np.int64), NONE))
    return np.where(is_top[held], held, NONE)


def _before(held: Places, begins: Mask, at: Places) -> Places:
    """Of some versions, who held the event time before them; NONE of all others."""
    found = np.full(len(held), NONE, dtype=np.int64)
    found[at] = np.where(begins[at], NONE, held[at - 1])
    return found


def _latest(some: list[Places], commits: Ranks | None) -> Places:
    """Of each place the latest of some versions: by commit time, if it counts, and then by their order."""
    found = np.stack(some)
    if commits is None or len(commits) == 0:
        return np.asarray(found.max(axis=0))
    level = np.where(found >= 0, commits[found] * len(commits) + found, NONE)
    return np.asarray(np.take_along_axis(found, level.argmax(axis=0)[None, :], axis=0)[0])


def _lives(versions: Versions, holders: list[Places], contributes: Mask, filled: tuple[Mask, ...] | None) -> Mask:
    """For each version whether a group is left after it."""
    is_data = ~versions.is_delete
    given = [(held >= 0) & is_data[held] for held in holders]
    lives: Mask = np.logical_or.reduce(given)
    if filled is not None:
        has_value = np.logical_or.reduce([g & f[held] for g, f, held in zip(given, filled, holders, strict=True)])
        # Who has a group given was the last to contribute, or one after it was: never a version of another place.
        numbers = np.arange(len(contributes), dtype=np.int64)
        last = np.maximum.accumulate(np.where(contributes & ~versions.is_kept, numbers, NONE))
        lives &= has_value | is_data[last]
    return lives


def _any(mask: Mask, place: Places, count: int) -> Mask:
    found = np.zeros(count, dtype=np.bool_)
    found[place[mask]] = True
    return found


def resolve_all(versions: Versions, count: int, counts: tuple[Mask, ...]) -> Verdict:
    """Mode ``all``; ``counts`` says for each column which versions have a value that may overwrite."""
    place, size = versions.place, len(versions.place)
    starts = np.searchsorted(place, np.arange(count))
    many = np.diff(np.append(starts, size))
    most = int(many.max(initial=0))
    if most > RECORD_VERSIONS:
        raise LimitError(
            f"a key has {most} versions, more than the {RECORD_VERSIONS} that are applied one by one in one merge",
            value=most,
            hint="compact more often, or write smaller batches",
        )
    state = _State(versions, starts, counts)
    for number in range(1, most):
        at = np.flatnonzero(many > number)
        state.apply(starts[at] + number, at)
    ended = tuple(np.where(state.is_alive, NONE, held) for held in state.holders)
    return Verdict(
        state.is_alive,
        state.last,
        state.last,
        tuple(state.values),
        tuple(state.holders),
        ended,
        state.reasons,
        tuple(state.before),
    )


class _State:
    """What the places hold, round by round. The first version of each meets nothing, and is always applied."""

    def __init__(self, versions: Versions, first: Places, counts: tuple[Mask, ...]) -> None:
        self._versions = versions
        self._counts = counts
        size = len(versions.place)
        self._levels = [np.where(versions.is_reset[first], 0, ranks[first]) for ranks in versions.ranks]
        self.holders = [np.where(level > 0, first, NONE) for level in self._levels]
        self.is_alive = ~versions.is_delete[first]
        self.last = np.where(self.is_alive, first, NONE)
        self.values = [self.last.copy() for _ in counts]
        self.before = [np.full(size, NONE, dtype=np.int64) for _ in versions.ranks]
        self.reasons = np.zeros(size, dtype=np.int8)

    def apply(self, numbers: Places, at: Places) -> None:
        """Apply one version each to some places."""
        versions = self._versions
        is_older = np.zeros(len(at), dtype=np.bool_)
        is_newer = np.zeros(len(at), dtype=np.bool_)
        for ranks, levels in zip(versions.ranks, self._levels, strict=True):
            rank, level = ranks[numbers], levels[at]
            is_older |= (rank > 0) & (rank < level)
            is_newer |= rank > level
        resets = versions.is_reset[numbers]
        lost = is_older & ~resets
        self.reasons[numbers[lost]] = np.where(is_newer[lost], INCOMPARABLE, OLDER)
        for before, held in zip(self.before, self.holders, strict=True):
            before[numbers[lost]] = held[at[lost]]
        deletes = versions.is_delete[numbers] & ~lost
        self._forget(at[deletes], at[resets])
        self._overlay(numbers[~lost & ~resets], at[~lost & ~resets])
        gives = ~lost & ~versions.is_delete[numbers]
        self._give(numbers[gives], at[gives])

    def _forget(self, ended: Places, reset: Places) -> None:
        self.is_alive[ended] = False
        self.last[ended] = NONE
        for held in self.values:
            held[ended] = NONE
        for held, levels in zip(self.holders, self._levels, strict=True):
            held[reset] = NONE
            levels[reset] = 0

    def _overlay(self, numbers: Places, at: Places) -> None:
        for ranks, held, levels in zip(self._versions.ranks, self.holders, self._levels, strict=True):
            rank = ranks[numbers]
            timed = rank > 0
            held[at[timed]] = numbers[timed]
            levels[at[timed]] = rank[timed]

    def _give(self, numbers: Places, at: Places) -> None:
        is_new = ~self.is_alive[at]
        for held, counts in zip(self.values, self._counts, strict=True):
            takes = is_new | counts[numbers]
            held[at[takes]] = numbers[takes]
        self.last[at] = numbers
        self.is_alive[at] = True
