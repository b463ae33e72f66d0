"""What merging with several event times must give, record by record: plain Python, without a line of the engine.

It follows semantics/merging.md. A *state* is what a key holds: the engine's rows are its visible part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class ClockRules:
    """The event times and, in mode per_group, the columns of each; ``loose`` columns are in no group."""

    mode: str
    fields: tuple[str, ...]
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()
    defaults: Row = field(default_factory=dict)
    keeps_deletes: bool = True
    """Whether deletes outlive a merge; if not, a delete that leaves nothing but nulls ends the row (per_group)."""


@dataclass(frozen=True)
class Change:
    """A record or a delete. A delete without any event time is unconditional."""

    row: Row
    is_delete: bool = False

    def times(self, rules: ClockRules) -> Row:
        return {name: self.row.get(name) for name in rules.fields if self.row.get(name) is not None}


@dataclass
class State:
    """What is known of a key."""

    is_alive: bool = False
    values: Row = field(default_factory=dict)
    times: Row = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    """Of mode per_group: the event times whose last version was a delete."""
    has_data: bool = False
    has_delete: bool = False


def merge_one_by_one(
    changes: Iterable[Change], rules: ClockRules, state: State | None = None
) -> tuple[State, list[str]]:
    """The state after the changes, and for each of them '' or why it was rejected."""
    state = state or State()
    verdicts = []
    for change in changes:
        apply = apply_all if rules.mode == "all" else apply_groups
        state, verdict = apply(state, change, rules)
        verdicts.append(verdict)
    return state, verdicts


def visible(state: State, rules: ClockRules) -> Row | None:
    """The row that a reader sees."""
    if not state.is_alive:
        return None
    names = (*rules.columns, *rules.loose)
    return {
        **{name: state.values.get(name) for name in names},
        **{name: state.times.get(name) for name in rules.fields},
    }


def apply_all(state: State, change: Change, rules: ClockRules) -> tuple[State, str]:
    """Applied iff every event time that the change has is same or newer."""
    times = change.times(rules)
    if change.is_delete and not times:
        return State(), ""
    older = [n for n, t in times.items() if n in state.times and t < state.times[n]]
    newer = [n for n, t in times.items() if n not in state.times or t > state.times[n]]
    if older:
        return state, "incomparable" if newer else "older"
    merged = {**state.times, **times}
    if change.is_delete:
        return State(False, {}, merged), ""
    values = {name: change.row.get(name) for name in rules.columns}
    if state.is_alive:
        counts = {
            n: v for n, v in values.items() if v is not None and not (n in rules.defaults and rules.defaults[n] == v)
        }
        values = {**state.values, **counts}
    return State(True, values, merged), ""


def apply_groups(state: State, change: Change, rules: ClockRules) -> tuple[State, str]:
    """Each group follows its own event time."""
    times = change.times(rules)
    if change.is_delete and not times:
        return State(), ""
    values, held, dead = dict(state.values), dict(state.times), set(state.dead)
    won = any(name not in held or time >= held[name] for name, time in times.items())
    for name, columns in rules.groups.items():
        if name in times and (name not in held or times[name] >= held[name]):
            held[name] = times[name]
            dead = dead | {name} if change.is_delete else dead - {name}
            values.update({column: None if change.is_delete else change.row.get(column) for column in columns})
        elif name not in held and change.is_delete and won:
            values.update(dict.fromkeys(columns))
        elif name not in held and not change.is_delete and not state.has_data and not state.has_delete:
            values.update({column: change.row.get(column) for column in columns})
    if not change.is_delete:
        values.update({column: change.row.get(column) for column in rules.loose})
    has_data = state.has_data or not change.is_delete
    has_delete = state.has_delete or (change.is_delete and won)
    if not held:
        alive = has_data and not has_delete
    elif won:
        alive = any(name not in dead for name in held)
        if change.is_delete and not rules.keeps_deletes:
            alive = alive and any(values.get(column) is not None for column in rules.columns)
    else:
        alive = state.is_alive
    gives_loose = bool(rules.loose) and not change.is_delete and state.is_alive
    verdict = "" if won or not times or gives_loose else "older"
    return State(alive, values, held, dead, has_data, has_delete), verdict
