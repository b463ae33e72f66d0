"""Random records with several event times: of any comparable type, sparse or dense, with ties, nulls and deletes."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from model.several_clocks_oracle import Change, ClockRules, Row

_DAY = dt.date(2026, 1, 1)
_MOMENT = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "long": (pa.int64(), lambda n: n - 2),
    "int": (pa.int32(), lambda n: n - 2),
    "double": (pa.float64(), lambda n: (n - 2) / 4),
    "string": (pa.string(), lambda n: f"{n * 9:02d}é"),
    "date": (pa.date32(), lambda n: _DAY + dt.timedelta(days=n)),
    "timestamp": (pa.timestamp("us", "UTC"), lambda n: _MOMENT + dt.timedelta(microseconds=n)),
    "decimal": (pa.decimal128(12, 3), lambda n: Decimal(n * 9 - 9).scaleb(-3)),
}
"""Types of event times, each with a value for a small number; in order as values, not as text."""


@dataclass(frozen=True)
class ClockCase:
    """A table and what happens to it: changes in the order in which they apply, each with its key."""

    rules: ClockRules
    kinds: tuple[str, ...]
    changes: tuple[tuple[str, Change], ...]

    @property
    def schema(self) -> pa.Schema:
        """The table's columns."""
        clocks = [pa.field(n, KINDS[k][0]) for n, k in zip(self.rules.fields, self.kinds, strict=True)]
        values = [pa.field(name, pa.string()) for name in (*self.rules.columns, *self.rules.loose)]
        return pa.schema([pa.field("id", pa.string()), *values, *clocks, pa.field("_hoodie_is_deleted", pa.bool_())])

    @property
    def options(self) -> dict[str, str]:
        """The options that make such a table."""
        return {
            "multiple.eventime.latest.verification.enable": "true",
            "hoodie.eventime.latest.verification.fields": ",".join(self.rules.fields),
            "hoodie.eventime.latest.verification.mode": self.rules.mode,
            **{f"fields.{name}.sequence-group": ",".join(columns) for name, columns in self.rules.groups.items()},
            **{f"fields.{name}.default-value": value for name, value in self.rules.defaults.items()},
        }

    def table(self, changes: tuple[tuple[str, Change], ...]) -> pa.Table:
        """Some changes as a batch of rows."""
        rows = [{"id": key, **change.row, "_hoodie_is_deleted": change.is_delete} for key, change in changes]
        return pa.Table.from_pylist(rows, schema=self.schema)


@st.composite
def clock_cases(
    draw: st.DrawFn, *, lawful: bool = False, mode: str | None = None, most: int = 12, keys: int = 3
) -> ClockCase:
    """A case. ``lawful`` ones have no two versions that tie with different values, and no column of no group."""
    mode = mode or draw(st.sampled_from(["all", "per_group"]))
    count = draw(st.integers(2, 6))
    fields = tuple(f"t{i}" for i in range(count))
    kinds = tuple(draw(st.sampled_from(sorted(KINDS))) for _ in fields)
    groups = {name: tuple(f"v{i}{j}" for j in range(1 + i % 2)) for i, name in enumerate(fields)}
    columns = tuple(column for group in groups.values() for column in group)
    loose = ("u",) if not lawful and draw(st.booleans()) else ()
    defaults = {"v00": "x0"} if mode == "all" and draw(st.booleans()) else {}
    rules = ClockRules(
        mode,
        fields,
        groups if mode == "per_group" else {},
        (*columns, *loose) if mode == "all" else columns,
        loose if mode == "per_group" else (),
        defaults,
        draw(st.booleans()),
    )
    changes = draw(
        st.lists(
            st.tuples(st.sampled_from([f"k{i}" for i in range(keys)]), _change(rules, kinds, groups, lawful=lawful)),
            min_size=1,
            max_size=most,
        )
    )
    return ClockCase(rules, kinds, tuple(changes))


@st.composite
def _change(
    draw: st.DrawFn, rules: ClockRules, kinds: tuple[str, ...], groups: dict[str, tuple[str, ...]], *, lawful: bool
) -> Change:
    row: Row = {}
    is_delete = draw(st.integers(0, 5)) == 0
    numbers = [draw(st.none() | st.integers(0, 20 if lawful else 4)) for _ in rules.fields]
    if all(number is None for number in numbers):
        numbers[draw(st.integers(0, len(numbers) - 1))] = draw(st.integers(0, 4))
    for name, kind, number in zip(rules.fields, kinds, numbers, strict=True):
        row[name] = None if number is None else KINDS[kind][1](number)
        for column in groups[name]:
            if lawful:
                # One event time is one version, of a delete or of a record.
                row[column] = None if number is None or number % 5 == 1 else f"{column}@{number}"
            else:
                row[column] = draw(st.sampled_from([None, "x0", "x1", "x2"]))
    if lawful:
        is_delete = False
    for column in rules.loose or (("u",) if "u" in rules.columns else ()):
        row[column] = draw(st.sampled_from([None, "l0", "l1"]))
    return Change(row, is_delete)


def random_case(seed: int, count: int = 40) -> ClockCase:
    """A long history of few keys, in which deletes, ties and late records are frequent."""
    random = Random(seed)
    mode = random.choice(["all", "per_group"])
    fields = tuple(f"t{i}" for i in range(random.choice([2, 2, 3, 6])))
    kinds = tuple(random.choice(sorted(KINDS)) for _ in fields)
    groups = {name: (f"v{i}",) for i, name in enumerate(fields)}
    columns = tuple(f"v{i}" for i in range(len(fields)))
    rules = ClockRules(mode, fields, groups if mode == "per_group" else {}, columns)
    span, sparse = random.choice([2, 4, 12]), random.choice([0.0, 0.3, 0.6])
    changes = []
    for place in range(count):
        # Time goes on, and records come late by up to the span.
        now = place * span // count + random.randint(0, span)
        row: Row = {}
        for index, (name, kind) in enumerate(zip(fields, kinds, strict=True)):
            is_there = random.random() >= sparse or index == place % len(fields)
            row[name] = KINDS[kind][1](max(0, now - random.randint(0, 1))) if is_there else None
            row[f"v{index}"] = random.choice([None, "x", "y", f"n{place}"])
        changes.append((f"k{random.randint(0, 2)}", Change(row, random.random() < 0.25)))
    return ClockCase(rules, kinds, tuple(changes))
