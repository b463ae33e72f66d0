"""Splitting at an event time, against a naive oracle that goes record by record."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tidelake.errors import UnsupportedError
from tidelake.merge import Deletes, Leftover, LogRecords, MergeSpec, SplitMerge
from tidelake.merge.log_records import BLOCK_DELETE, DATA, DATA_DELETE
from tidelake.schema import RECORD_KEY

SEED = os.environ.get("TIDELAKE_SEED", "1")
SPEC = MergeSpec(True, ("ts",), (pa.int64(),), (), False, None, None, None, None, False, False)
SCHEMA = pa.schema([(RECORD_KEY, pa.string()), ("ts", pa.int64()), ("value", pa.int64())])


@dataclass(frozen=True)
class Entry:
    """A record or delete of a log; ``value`` tells records apart."""

    key: str
    ts: int | None
    value: int
    kind: int = DATA
    unconditional: bool = False

    @property
    def order(self) -> float:
        return float("-inf") if self.ts is None else self.ts


Rows = dict[str, Entry]


def applied(base: Rows, entries: Sequence[Entry]) -> Rows:
    """What a reader of Apache Hudi's rules shows: logs folded one record after the other, then met with the base."""
    held: Rows = {}
    for new in entries:
        old = held.get(new.key)
        if new.kind == BLOCK_DELETE and old is not None and old.unconditional:
            continue
        if old is None or old.unconditional or new.unconditional or new.order >= old.order:
            held[new.key] = new
    shown = dict(base)
    for key, new in held.items():
        stored = base.get(key)
        if stored is None or new.unconditional or new.order >= stored.order:
            shown.pop(key, None)
            if new.kind == DATA:
                shown[key] = new
    return shown


def before(base: Rows, entries: Sequence[Entry], threshold: int) -> Rows:
    """The merge of what is before the threshold."""
    shown: Rows = {}
    for key in {*base, *(e.key for e in entries)}:
        mine = [e for e in entries if e.key == key]
        stored = base.get(key)
        last = max((i for i, e in enumerate(mine) if e.unconditional), default=None)
        if last is not None:
            mine = mine[last + 1 :]
            while mine and mine[0].kind == BLOCK_DELETE:
                mine = mine[1:]
            if not mine or (stored is not None and max(e.order for e in mine) >= stored.order):
                stored = None
        early = [e for e in mine if e.ts is None or e.ts < threshold]
        kept = {key: stored} if stored is not None and (stored.ts is None or stored.ts < threshold) else {}
        shown.update(applied(kept, early))
    return shown


def records(entries: Sequence[Entry]) -> LogRecords:
    data = [e for e in entries if e.kind != BLOCK_DELETE]
    places = iter(range(len(data)))
    frame = pl.DataFrame(
        {
            "key": pl.Series([e.key for e in entries], dtype=pl.String),
            "row": pl.Series([-1 if e.kind == BLOCK_DELETE else next(places) for e in entries], dtype=pl.Int64),
            "kind": np.array([e.kind for e in entries], dtype=np.int8),
            "unconditional": np.array([e.unconditional for e in entries], dtype=np.bool_),
            "part": np.full(len(entries), -1, dtype=np.int32),
            "o0": pl.Series([e.ts for e in entries], dtype=pl.Int64),
        }
    )
    return LogRecords(table(data), frame, ())


def table(entries: Sequence[Entry]) -> pa.Table:
    columns = [[e.key for e in entries], [e.ts for e in entries], [e.value for e in entries]]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def split(base: Rows, entries: Sequence[Entry], threshold: int) -> tuple[SplitMerge, Rows, Leftover]:
    merge = SplitMerge(records(entries), SPEC, threshold)
    stored = table(list(base.values()))
    rows = pa.Table.from_batches(merge.merged(stored.to_batches(max_chunksize=2)), SCHEMA).to_pylist()
    found = {row[RECORD_KEY]: Entry(row[RECORD_KEY], row["ts"], row["value"]) for row in rows}
    assert len(found) == len(rows)
    return merge, found, merge.leftover()


def left_entries(left: Leftover, kinds: dict[int, int]) -> list[Entry]:
    """What a reader finds in the log of what is left, in its order; ``kinds`` says which values are deletes."""

    def deletes(some: Deletes) -> list[Entry]:
        pairs = zip(some.keys.to_pylist(), some.times[0].to_pylist(), strict=True)
        return [Entry(key, ts, 0, BLOCK_DELETE) for key, ts in pairs]

    rows = [
        Entry(row[RECORD_KEY], row["ts"], row["value"], kinds.get(row["value"], DATA)) for row in left.rows.to_pylist()
    ]
    return [*deletes(left.first), *rows, *deletes(left.last)]


def made(choice: random.Random) -> tuple[Rows, list[Entry], int]:
    """A random base, random logs and a threshold; few keys and times, so that they meet."""
    keys, values = "abc", iter(range(1, 1000))

    def time() -> int | None:
        return None if choice.random() < 0.08 else choice.randrange(1, 8)

    base = {k: Entry(k, time(), next(values)) for k in keys if choice.random() < 0.6}
    entries = []
    for _ in range(choice.randrange(9)):
        key, kind = choice.choice(keys), choice.choices([DATA, DATA_DELETE, BLOCK_DELETE], [6, 1, 3])[0]
        ts = time()
        is_reset = kind != DATA and (ts is None or choice.random() < 0.25)
        entries.append(Entry(key, None if is_reset else ts, next(values), kind, is_reset))
    return base, entries, choice.randrange(1, 9)


@pytest.mark.parametrize("number", range(4))
def test_split_random_logs_keep_what_the_naive_oracle_says(number: int) -> None:
    """What is before the threshold is in the base, and base and left-over log together read as before."""
    choice = random.Random(f"{SEED}/{number}")
    for _ in range(120):
        base, entries, threshold = made(choice)
        merge, found, left = split(base, entries, threshold)
        kinds = {e.value: e.kind for e in entries}
        assert found == before(base, entries, threshold), (SEED, base, entries, threshold)
        after = left_entries(left, kinds)
        assert applied(found, after) == applied(base, entries), (SEED, base, entries, threshold)
        assert all(e.ts is not None and e.ts >= threshold for e in after)
        assert merge.without_time == sum(e.ts is None for e in found.values())


def test_split_keeps_every_version_in_the_order_it_came() -> None:
    entries = [Entry("a", ts, n) for n, ts in enumerate((9, 6, 2, 7, 6), start=1)]
    merge, found, left = split({"a": Entry("a", 8, 100), "b": Entry("b", 1, 101)}, entries, 5)
    assert found == {"a": entries[2], "b": Entry("b", 1, 101)}
    assert left.rows.column("value").to_pylist() == [100, 1, 2, 4, 5]
    assert merge.superseded == 1


def test_split_unconditional_delete_after_a_later_version_leaves_nothing() -> None:
    """k with ts=60 in one log, then an unconditional delete of k, T=50: k stays absent."""
    entries = [Entry("k", 60, 1), Entry("k", None, 2, BLOCK_DELETE, True)]
    _, found, left = split({"k": Entry("k", 70, 3)}, entries, 50)
    assert found == {}
    assert left.count == 0


def test_split_record_after_an_unconditional_delete_that_loses_leaves_the_base_row() -> None:
    entries = [Entry("k", None, 1, BLOCK_DELETE, True), Entry("k", 30, 2)]
    _, found, left = split({"k": Entry("k", 40, 3)}, entries, 50)
    assert found == {"k": Entry("k", 40, 3)}
    assert left.count == 0


def test_split_deletes_stand_before_records_only_where_a_record_of_their_time_follows() -> None:
    entries = [
        Entry("a", 6, 0, BLOCK_DELETE),
        Entry("a", 6, 1),
        Entry("b", 6, 2),
        Entry("b", 6, 0, BLOCK_DELETE),
        Entry("c", 7, 0, BLOCK_DELETE),
    ]
    _, _, left = split({}, entries, 5)
    assert left.first.keys.to_pylist() == ["a"]
    assert left.last.keys.to_pylist() == ["b", "c"]


def test_split_refuses_records_of_some_columns() -> None:
    whole = records([Entry("a", 6, 1)])
    with pytest.raises(UnsupportedError, match="some columns"):
        SplitMerge(LogRecords(whole.rows, whole.entries, (frozenset({"ts"}),)), SPEC, 5)
