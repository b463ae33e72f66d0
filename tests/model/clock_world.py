"""A table with several event times and, beside it, what must become of it: record by record, as the rules say.

A *home* is a file group in which a key's history is kept. A key without one that is written gets one with its row, in a
base file. If it comes with a delete, it gets one with all that came, in a log, or, where deletes are not kept, what left no
row is forgotten. Tables that merge at the write keep rows alone.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import fastavro
import pyarrow as pa

import tidelake as tl
from model.clock_cases import ClockCase
from model.several_clocks_oracle import Change, State, merge_one_by_one, visible
from tidelake.format.avro_arrow import avro_json
from tidelake.storage import MemoryStorage, Storage

KINDS = {
    "merge-on-read": ("MERGE_ON_READ", {}),
    "buckets": ("MERGE_ON_READ", {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}),
    "eager": ("MERGE_ON_READ", {"write.resolve": "eager"}),
    "copy-on-write": ("COPY_ON_WRITE", {}),
    "no deletes kept": ("MERGE_ON_READ", {"tombstone.retention": "0"}),
}
Batch = tuple[tuple[str, Change], ...]


class ClockWorld:
    """The table and the states of its keys."""

    def __init__(self, case: ClockCase, kind: str, uri: str = "memory://world", storage: Storage | None = None) -> None:
        self.keeps_deletes = kind in ("merge-on-read", "buckets")
        self.case = replace(case, rules=replace(case.rules, keeps_deletes=self.keeps_deletes))
        self.kind = kind
        table_type, options = KINDS[kind]
        self.table = tl.create_table(
            uri,
            case.schema,
            name="world",
            record_key="id",
            table_type=table_type,
            options={**case.options, **options},
            storage=(storage or MemoryStorage()) if uri.startswith("memory") else None,
        )
        self.states: dict[str, State] = {}
        self.has_bucket = False
        self.waiting: dict[str, int] = {}
        """What was rejected since the last compaction, on tables that tell it then."""

    @property
    def is_lazy(self) -> bool:
        return self.keeps_deletes or self.kind == "no deletes kept"

    def write(self, batch: Batch, data: Any = None) -> None:
        """Upsert a batch, and check what its commit says of rejects; ``data`` are its rows in another form."""
        self.table.upsert(self.case.table(batch) if data is None else data)
        told: dict[str, int] = {}
        for key in dict.fromkeys(key for key, _ in batch):
            changes = canonical((change for other, change in batch if other == key), self.case)
            has_home = key in self.states or (self.kind == "buckets" and self.has_bucket)
            has_home = has_home or (self.keeps_deletes and any(change.is_delete for change in changes))
            state, verdicts = merge_one_by_one(changes, self.case.rules, self.states.get(key))
            count(verdicts, self.waiting if has_home and self.is_lazy else told)
            if has_home and self.is_lazy:
                self.states[key] = state
            else:
                self._store(key, state)
        self.has_bucket = self.has_bucket or bool(self.states)
        assert self.told() == told

    def _store(self, key: str, state: State) -> None:
        row = visible(state, self.case.rules)
        self.states.pop(key, None)
        if row is not None:
            self.states[key], _ = merge_one_by_one([Change(row)], self.case.rules)

    def compact(self) -> None:
        """Compact, if that is a thing to do, and check what is counted then."""
        if self.kind == "copy-on-write" or self.table.compact() is None:
            return
        if self.is_lazy:
            assert self.told() == self.waiting
            self.waiting = {}
            for key, state in list(self.states.items()):
                if self.keeps_deletes:
                    self.states[key] = self._compacted(state)
                else:
                    self._store(key, state)

    def _compacted(self, state: State) -> State:
        """Rows become base rows, and deletes are kept."""
        row = visible(state, self.case.rules)
        ended = state.dead if self.case.rules.mode == "per_group" else set() if state.is_alive else set(state.times)
        changes = [] if row is None else [Change(row)]
        if ended:
            changes.append(Change({name: state.times[name] for name in ended}, is_delete=True))
        return merge_one_by_one(changes, self.case.rules)[0]

    def told(self) -> dict[str, int]:
        """What the last commit says was rejected."""
        source = self.table._refreshed()
        last = source.timeline.completed_writes[-1]
        found = (source.reader.commit(last).extra_metadata or {}).get("tidelake.rejected", "{}")
        return dict(json.loads(found))

    def check(self, rows: pa.Table | None = None) -> None:
        """The table shows the rows of the states, and those alone."""
        shown = self.table.scan().to_arrow() if rows is None else rows
        names = self.case.schema.names[1:-1]
        found = {row["id"]: {name: row[name] for name in names} for row in shown.to_pylist()}
        wanted = {key: visible(state, self.case.rules) for key, state in self.states.items()}
        assert found == {key: row for key, row in wanted.items() if row is not None}
        assert len(found) == shown.num_rows


def count(verdicts: Iterable[str], into: dict[str, int]) -> None:
    for verdict in verdicts:
        if verdict:
            into[verdict] = into.get(verdict, 0) + 1


def canonical(changes: Iterable[Change], case: ClockCase) -> list[Change]:
    """The changes of one key in the order of a batch: by event times, none first, and then by their Avro bytes."""
    schema = fastavro.parse_schema(json.loads(avro_json(case.schema, "world")))

    def order(change: Change) -> tuple[Any, ...]:
        times = tuple((0,) if change.row[name] is None else (1, change.row[name]) for name in case.rules.fields)
        sink = io.BytesIO()
        row = case.table((("", change),)).to_pylist()[0]
        fastavro.schemaless_writer(sink, schema, row)
        return (*times, sink.getvalue())

    return sorted(changes, key=order)
