"""Splitting groups at an event time, against a naive oracle that goes version by version."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from tidelake.config import Clocks
from tidelake.merge import Deletes, GroupSplit, LogRecords, MergeSpec, Outcome, merge_records
from tidelake.merge.log_records import BLOCK_DELETE, DATA, DATA_DELETE
from tidelake.schema import RECORD_KEY

SEED = os.environ.get("TIDELAKE_SEED", "1")
FIELDS = ("a_ts", "b_ts", "c_ts")
CLOCKS = Clocks("per_group", FIELDS, (("a",), ("b",), ()), None, False, (), None, False)
"""The third event time has no columns."""
SPEC = MergeSpec(
    False, FIELDS, (pa.int64(),) * 3, (), False, None, None, None, None, False, False, CLOCKS, is_exact=True
)
SCHEMA = pa.schema(
    [
        (RECORD_KEY, pa.string()),
        *((name, pa.int64()) for name in ("a", "a_ts", "b", "b_ts", "c_ts")),
        ("gone", pa.bool_()),
    ]
)
Times = tuple[int | None, ...]


@dataclass(frozen=True)
class Entry:
    """A record or delete; ``value`` tells records apart. A delete without event times is unconditional."""

    key: str
    times: Times
    value: int | None
    kind: int = DATA
    b_value: int | None = None
    """Of a base row, whose groups may have come from two records."""

    @property
    def row(self) -> dict[str, object]:
        a, b, c = self.times
        b_value = self.value if self.b_value is None else self.b_value
        return {
            RECORD_KEY: self.key,
            "a": None if a is None else self.value,
            "a_ts": a,
            "b": None if b is None else b_value,
            "b_ts": b,
            "c_ts": c,
            "gone": self.kind != DATA,
        }


def records_of(entries: list[Entry]) -> LogRecords:
    rows = pa.Table.from_pylist([entry.row for entry in entries], SCHEMA)
    frame = pl.DataFrame(
        {
            "key": [e.key for e in entries],
            "row": range(len(entries)),
            "kind": [e.kind for e in entries],
            "unconditional": [e.kind == BLOCK_DELETE and e.times == (None,) * 3 for e in entries],
            "part": [-1] * len(entries),
            "block": [0] * len(entries),
            **{f"o{i}": [e.times[i] for e in entries] for i in range(3)},
        },
        schema={
            "key": pl.String,
            "row": pl.Int64,
            "kind": pl.Int8,
            "unconditional": pl.Boolean,
            "part": pl.Int32,
            "block": pl.Int32,
            **{f"o{i}": pl.Int64 for i in range(3)},
        },
    )
    return LogRecords(rows, frame, (), ("1",))


Held = dict[str, list[tuple[int | None, int] | None]]
"""Of each key and group, value and time."""


def applied(base: Held, entries: list[Entry], below: int = 10**6) -> Held:
    """Versions before a time, one after the other; groups whose last one is a delete are empty."""
    held: dict[str, list[tuple[int | None, int, bool] | None]] = {
        key: [None if g is None else (*g, True) for g in groups] for key, groups in base.items()
    }
    held = {k: [g if g is None or g[1] < below else None for g in groups] for k, groups in held.items()}
    for entry in entries:
        if entry.kind == BLOCK_DELETE and entry.times == (None,) * 3:
            held.pop(entry.key, None)
        for group, time in enumerate(entry.times):
            groups = held.setdefault(entry.key, [None] * 3)
            old = groups[group]
            if time is not None and time < below and (old is None or time >= old[1]):
                groups[group] = (entry.value if group < 2 else None, time, entry.kind == DATA)
    shown = {key: [None if g is None or not g[2] else g[:2] for g in groups] for key, groups in held.items()}
    return {key: groups for key, groups in shown.items() if any(groups)}


def held_of(rows: pa.Table) -> Held:
    found: Held = {}
    for row in rows.to_pylist():
        assert row[RECORD_KEY] not in found
        values = (row["a"], row["b"], None)
        times = [row[name] for name in FIELDS]
        found[row[RECORD_KEY]] = [None if t is None else (v, t) for v, t in zip(values, times, strict=True)]
    return found


def table_of(base: Held) -> pa.Table:
    made = []
    for key, groups in base.items():
        (a, b, c) = [(None, None) if g is None else g for g in groups]
        made.append({RECORD_KEY: key, "a": a[0], "a_ts": a[1], "b": b[0], "b_ts": b[1], "c_ts": c[1], "gone": False})
    return pa.Table.from_pylist(made, SCHEMA)


def times_of(choice: random.Random) -> Times:
    times = [choice.randrange(1, 8) if choice.random() < 0.6 else None for _ in range(3)]
    if times == [None] * 3:
        times[choice.randrange(3)] = choice.randrange(1, 8)
    return tuple(times)


def test_group_split_random_logs_equal_the_naive_oracle() -> None:
    """The merged base is all before the threshold, and base and leftover together are what all was."""
    for number in range(150):
        choice = random.Random(f"{SEED}/{number}")
        base = applied({}, [Entry(choice.choice("xyz"), times_of(choice), 100 + n) for n in range(choice.randrange(4))])
        entries = []
        for n in range(choice.randrange(8)):
            kind = choice.choices([DATA, DATA_DELETE, BLOCK_DELETE], [6, 2, 2])[0]
            is_reset = kind == BLOCK_DELETE and choice.random() < 0.3
            times = (None,) * 3 if is_reset else times_of(choice)
            entries.append(Entry(choice.choice("xyz"), times, n if kind == DATA else None, kind))
        threshold = choice.randrange(1, 9)
        split = GroupSplit(records_of(entries), SPEC, (threshold,) * 3, Outcome())
        merged = pa.Table.from_batches(split.merged(table_of(base).to_batches()), SCHEMA)
        said = (SEED, number, base, entries, threshold)
        assert held_of(merged) == applied(base, entries, threshold), said
        left = split.leftover()
        log = [*deletes_of(left.first), *rows_of(left.rows), *deletes_of(left.last)]
        assert all(time is None or time >= threshold for entry in log for time in entry.times), said
        whole = pa.Table.from_batches(merge_records(merged.to_batches(), records_of(log), SPEC), SCHEMA)
        assert held_of(whole) == applied(base, entries), said
        unsplit = merge_records(table_of(base).to_batches(), records_of(entries), SPEC)
        assert held_of(pa.Table.from_batches(unsplit, SCHEMA)) == applied(base, entries), said


def rows_of(rows: pa.Table) -> list[Entry]:
    return [
        Entry(
            row[RECORD_KEY],
            tuple(row[name] for name in FIELDS),
            row["a"],
            DATA_DELETE if row["gone"] else DATA,
            row["b"],
        )
        for row in rows.to_pylist()
    ]


def deletes_of(deletes: Deletes) -> list[Entry]:
    columns = [column.to_pylist() for column in deletes.times]
    keys = deletes.keys.to_pylist()
    assert all(any(t is not None for t in times) for times in zip(*columns, strict=True)), "it would end all"
    return [
        Entry(key, tuple(times), None, BLOCK_DELETE)
        for key, times in zip(keys, zip(*columns, strict=True), strict=True)
    ]
