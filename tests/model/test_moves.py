"""Tables of the GLOBAL_SIMPLE index at random, against a plain dict: a key stands once, whatever its partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelake as tl
from model.deep import examples
from model.one_thread import in_one_thread
from model.write_oracle import avro_bytes
from tidelake.storage import MemoryStorage
from tidelake.testing import ManualClock

COLUMNS = ["id", "name", "ts", "day", "_hoodie_is_deleted"]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("ts", pa.int64()),
        ("day", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
Row = dict[str, Any]


@dataclass
class Oracle:
    """What each key is: its row, or the ordering value that ended it (merge-on-read remembers it)."""

    is_event_time: bool
    is_merge_on_read: bool
    alive: dict[int, Row] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)

    def upsert(self, batch: list[Row]) -> None:
        best: dict[int, Row] = {}
        for row in batch:
            if row["id"] not in best or self._rank(row) >= self._rank(best[row["id"]]):
                best[row["id"]] = row
        for key, row in best.items():
            stored = self.alive[key]["ts"] if key in self.alive else self.ended.get(key)
            if self.is_event_time and stored is not None and row["ts"] < stored:
                continue
            if not row["_hoodie_is_deleted"]:
                self.alive[key] = row
            elif key in self.alive or key in self.ended:
                self._end(key, row["ts"])

    def delete(self, keys: list[int]) -> None:
        for key in keys:
            if key in self.alive:
                self._end(key, self.alive[key]["ts"])

    def _end(self, key: int, ts: int) -> None:
        self.alive.pop(key, None)
        if self.is_merge_on_read:
            self.ended[key] = ts

    def _rank(self, row: Row) -> tuple[Any, ...]:
        return (row["ts"] if self.is_event_time else 0, avro_bytes(row, COLUMNS))


ROWS = st.builds(
    lambda id, name, ts, day, gone: {"id": id, "name": name, "ts": ts, "day": day, "_hoodie_is_deleted": gone},
    st.integers(0, 4),
    st.sampled_from(["a", "b"]),
    st.integers(1, 6),
    st.sampled_from(["d1", "d2", "d3"]),
    st.sampled_from([False, False, False, True]),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), st.lists(ROWS, min_size=1, max_size=5)),
        st.tuples(st.just("delete"), st.lists(st.integers(0, 4), min_size=1, max_size=2)),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize("is_event_time", [True, False])
@given(steps=STEPS)
@examples(40, 2_000)
def test_moves_random_upserts_and_deletes_equal_the_dict(
    table_type: str, is_event_time: bool, steps: list[Any]
) -> None:
    """After any sequence the table holds what the dict holds, each key once, in the folder of its value."""
    clock = ManualClock(seed=1)
    table = tl.create_table(
        "memory",
        SCHEMA,
        name="moves",
        partition_by="day",
        ordering_fields="ts" if is_event_time else (),
        table_type=table_type,
        options={"hoodie.index.type": "GLOBAL_SIMPLE"},
        storage=MemoryStorage(clock=clock),
        clock=clock,
    )
    oracle = Oracle(is_event_time, table_type == "MERGE_ON_READ")
    with pytest.MonkeyPatch.context() as patch:
        in_one_thread(patch)
        for verb, given_rows in steps:
            data = pa.Table.from_pylist(given_rows, schema=SCHEMA) if verb == "upsert" else given_rows
            getattr(table, verb)(data)
            getattr(oracle, verb)(given_rows)
            found = table.scan().to_arrow().to_pylist()
            assert sorted((r["id"], r["name"], r["ts"], r["day"]) for r in found) == sorted(
                (r["id"], r["name"], r["ts"], r["day"]) for r in oracle.alive.values()
            )
            assert all(r["_hoodie_partition_path"] == f"day={r['day']}" for r in found)
