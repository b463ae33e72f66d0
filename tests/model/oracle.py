"""What merging must give, record by record: plain Python, slow, and without a line of the engine.

It follows format/08-merge.md. A log side is a list of blocks; each is applied to a dict of versions by key (the delta
merge), and what is left meets the base rows one by one (the final merge).

Where Apache Hudi has no answer (it throws ClassCastException) the engine's promise is written here: a delete whose
ordering value is of another class than the column's counts as an unconditional one; a null ordering value is Hudi's
default, the integer 0, where the column is an int or a date, and smaller than any value elsewhere.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Row = dict[str, Any]
Wrapper = tuple[str, Any] | None
"""The ordering value of a delete-block entry: the wrapper's name and value, or nothing."""

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
DELETE_OPERATIONS = ("D", "-U")
IS_DELETED = "_hoodie_is_deleted"
OPERATION = "_hoodie_operation"

SAME_CLASS = {
    "bool": {"boolean"},
    "int": {"int"},
    "long": {"long"},
    "float": {"float"},
    "double": {"double"},
    "string": {"string"},
    "binary": {"bytes"},
    "date": {"date", "int", "local_date"},
    "timestamp_us": {"long", "timestamp_micros"},
    "timestamp_ms": {"long", "timestamp_micros"},
    "decimal": {"decimal"},
}
"""The wrappers whose Java class is that of a column's values, by the column's kind."""

INTEGER_KINDS = ("int", "date")
"""Kinds whose values are ``java.lang.Integer``, the class of Hudi's default ordering value."""


@dataclass(frozen=True)
class Rules:
    """How a table merges. ``ordering`` is empty for commit time."""

    ordering: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    partial_mode: str | None = None
    placeholder: str | None = None
    text_columns: frozenset[str] = frozenset()
    delete_field: str | None = None
    delete_marker: str | None = None


@dataclass(frozen=True)
class DataBlock:
    """Records of one write; ``columns`` are those that its schema has."""

    instant: str
    rows: tuple[tuple[str, Row], ...]
    columns: tuple[str, ...]
    is_partial: bool = False
    replaces: frozenset[str] = frozenset()


@dataclass(frozen=True)
class DeleteBlock:
    """Keys deleted by one write."""

    instant: str
    deletes: tuple[tuple[str, Wrapper], ...]
    replaces: frozenset[str] = frozenset()


Block = DataBlock | DeleteBlock


@dataclass(frozen=True)
class Version:
    """One version of a record: its values, as far as it has them, and what its ordering says."""

    values: Row = field(default_factory=dict)
    order: tuple[Any, ...] = ()
    is_delete: bool = False
    is_unconditional: bool = False


def merge(base: Iterable[tuple[str, Row]], blocks: Iterable[Block], rules: Rules, columns: Iterable[str]) -> list[Row]:
    """The rows of a slice: base rows (key and values) with the blocks of its logs, in log order, on top."""
    names = list(columns)
    log = delta_merge(in_effect(list(blocks)), rules)
    result: list[Row] = []
    met: set[str] = set()
    for key, row in base:
        if key not in log or key in met:
            result.append(row)
            continue
        met.add(key)
        stored = Version({name: row.get(name) for name in names}, order_of(row, rules))
        merged = combine(stored, log[key], rules)
        if not merged.is_delete:
            result.append(merged.values)
    result.extend(version.values for key, version in log.items() if key not in met and not version.is_delete)
    return [{name: row.get(name) for name in names} for row in result]


def in_effect(blocks: list[Block]) -> list[Block]:
    """Log-compacted blocks stand where the last block stood that they replace; the replaced ones are gone."""
    replaced: set[str] = set()
    for block in blocks:
        replaced |= block.replaces
    lists = {block.instant: block.replaces for block in blocks if block.replaces}

    def place(instant: str) -> str:
        while instant in lists:
            instant = max(place(one) for one in lists[instant])
        return instant

    placed = [
        (place(block.instant), number, block) for number, block in enumerate(blocks) if block.instant not in replaced
    ]
    return [block for _, _, block in sorted(placed, key=lambda entry: entry[:2])]


def delta_merge(blocks: Iterable[Block], rules: Rules) -> dict[str, Version]:
    """The log side: one version of each key."""
    log: dict[str, Version] = {}
    for block in blocks:
        if isinstance(block, DataBlock):
            for key, row in block.rows:
                version = data_version(row, block, rules)
                log[key] = combine(log[key], version, rules) if key in log else version
        else:
            for key, wrapper in block.deletes:
                version = delete_version(wrapper, rules)
                if key not in log or delete_wins(log[key], version, rules):
                    log[key] = version
    return log


def data_version(row: Row, block: DataBlock, rules: Rules) -> Version:
    """A record of a data block. A whole record has every column, null where its schema does not; a partial one not."""
    values = {name: row.get(name) for name in block.columns} if block.is_partial else dict(row)
    is_delete = (
        values.get(IS_DELETED) is True
        or values.get(OPERATION) in DELETE_OPERATIONS
        or (rules.delete_field is not None and _text(values.get(rules.delete_field)) == rules.delete_marker)
    )
    return Version(values, order_of(values, rules), is_delete, is_delete and is_default(values, rules))


def delete_version(wrapper: Wrapper, rules: Rules) -> Version:
    """An entry of a delete block."""
    unconditional = Version(is_delete=True, is_unconditional=True, order=order_of({}, rules))
    if wrapper is None or wrapper == ("int", 0) or not rules.ordering:
        return unconditional
    parts = [wrapper] if len(rules.ordering) == 1 else wrapper[1] if wrapper[0] == "array" else []
    if len(parts) != len(rules.ordering):
        return unconditional
    order = []
    for part, kind in zip(parts, rules.kinds, strict=True):
        if part is None or part[0] not in SAME_CLASS[kind]:
            return unconditional
        order.append(rank(wrapped_value(part, kind), kind))
    return Version(order=tuple(order), is_delete=True)


def wrapped_value(part: tuple[str, Any], kind: str) -> Any:
    """A delete's ordering value as the column would hold it: plain numbers are days, or counts of the column's unit."""
    name, value = part
    if kind == "date":
        return EPOCH.date() + dt.timedelta(days=value)
    if kind in ("timestamp_us", "timestamp_ms"):
        micros = value if name == "timestamp_micros" or kind == "timestamp_us" else value * 1000
        return EPOCH + dt.timedelta(microseconds=micros)
    return value


def delete_wins(existing: Version, delete: Version, rules: Rules) -> bool:
    """Whether a delete-block entry takes the place of what the log side holds."""
    if not rules.ordering:
        return True
    if existing.is_delete and existing.is_unconditional:
        return False
    return delete.is_unconditional or not existing.order > delete.order


def combine(old: Version, new: Version, rules: Rules) -> Version:
    """The older and the newer version of a record as one."""
    newer_is_high = not rules.ordering or new.is_unconditional or old.is_unconditional or new.order >= old.order
    high, low = (new, old) if newer_is_high else (old, new)
    if high.is_delete or low.is_delete:
        return high
    values = dict(high.values)
    for name, value in low.values.items():
        if name not in high.values or does_not_count(name, high.values[name], rules):
            values[name] = value
    order = tuple(
        high.order[place] if name in high.values else low.order[place] for place, name in enumerate(rules.ordering)
    )
    return replace(high, values=values, order=order)


def does_not_count(name: str, value: object, rules: Rules) -> bool:
    """Whether the table's partial-update mode takes the older value instead of this one."""
    if rules.partial_mode == "IGNORE_DEFAULTS":
        return value is None
    if rules.partial_mode == "FILL_UNAVAILABLE":
        return name in rules.text_columns and rules.placeholder is not None and value == rules.placeholder
    return False


def order_of(values: Mapping[str, Any], rules: Rules) -> tuple[Any, ...]:
    """The ordering value of a record, as a tuple that compares as Apache Hudi compares."""
    return tuple(rank(values.get(name), kind) for name, kind in zip(rules.ordering, rules.kinds, strict=True))


def is_default(values: Mapping[str, Any], rules: Rules) -> bool:
    """Whether a record's ordering value is Hudi's default, which makes a delete unconditional."""
    if len(rules.ordering) != 1:
        return not rules.ordering
    value = values.get(rules.ordering[0])
    return value is None or (rules.kinds[0] in INTEGER_KINDS and rank(value, rules.kinds[0]) == rank(None, "int"))


def rank(value: Any, kind: str) -> tuple[Any, ...]:
    """One ordering value as something that Python compares in the same way."""
    if value is None:
        return (1, 0) if kind in INTEGER_KINDS else (0,)
    if kind in ("float", "double"):
        # Java's Double.compare: NaN is the greatest, and -0.0 lies before 0.0.
        return (1, 1, 0.0, 0.0) if math.isnan(value) else (1, 0, value, math.copysign(1.0, value))
    if kind == "string":
        return (1, value.encode("utf-8"))
    if kind == "date":
        return (1, (value - EPOCH.date()).days)
    return (1, value)


def _text(value: object) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
