"""Tables that we wrote at random on local disk, read by hudi-rs: snapshot, read-optimised, time travel, incremental."""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hudi import HudiQueryType, HudiReadOptions, HudiTable, HudiTableBuilder

import tidelake as tl
from model.deep import IS_DEEP
from model.write_machine import META, SHAPES, Machine, Shape, Write
from model.write_oracle import Row, multiset
from tidelake.storage import open_storage

STEPS = 8
# hudi-rs refuses several ordering fields (format/13-hudi-rs-oracle.md).
READABLE = [shape for shape in SHAPES if len(shape.ordering) < 2]
COUNT = 200 if IS_DEEP else 20


@dataclass(frozen=True)
class Committed:
    """A commit: the rows then, those that it changed, and how many records had been written."""

    requested: str
    completion: str
    rows: Counter[str]
    changed: Counter[str]
    written: int


@dataclass
class OnDisk(Machine):
    """A machine on local disk, in whose tables every version of a row has a name of its own."""

    path: Path = field(kw_only=True)
    versions: Any = field(default_factory=itertools.count)
    commits: list[Committed] = field(default_factory=list)

    def make_storage(self) -> Any:
        return open_storage(str(self.path), None, self.clock)

    def row(self, id: int | None = None, deleted: bool | None = None) -> Row:
        return {**super().row(id, deleted), "name": f"version {next(self.versions)}"}

    def any_delete(self) -> Write:
        write = super().any_delete()
        # After an unconditional delete hudi-rs shows what Apache Hudi does not (13.3).
        return write if "True" not in write.name else self.any_upsert()

    def do(self, write: Write) -> None:
        before = self.oracle.rows()
        known = len(self.past)
        super().do(write)
        if len(self.past) > known:
            requested, completion, rows = self.past[-1]
            self.commits.append(Committed(requested, completion, rows, rows - before, len(self.oracle.written)))

    def fill(self) -> None:
        for _ in range(STEPS):
            self.random.choices([self.plain, self.add_column], [9, 1])[0]()


def rows_of(batches: list[Any]) -> Counter[str]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return multiset({name: value for name, value in row.items() if name not in META} for row in rows)


def changed_between(machine: OnDisk, first: int, last: int) -> Counter[str]:
    """The rows at the commit ``last`` whose last change is one of the commits after ``first``.

    Of a merge-on-read table with event-time ordering an incremental query merges what was written in between, and only
    that: hudi-rs delivers a late record that lost against an earlier one.
    """
    if machine.shape.is_merge_on_read and machine.shape.ordering:
        return _merged_between(machine, first, last)
    changes: Counter[str] = Counter()
    for commit in machine.commits[first + 1 : last + 1]:
        changes |= commit.changed
    return machine.commits[last].rows & changes


def _merged_between(machine: OnDisk, first: int, last: int) -> Counter[str]:
    begin = machine.commits[first].written if first >= 0 else 0
    best: dict[Any, tuple[Any, Row | None]] = {}
    for key, order, row in machine.oracle.written[begin : machine.commits[last].written]:
        if order is None:
            best.pop(key, None)
        elif key not in best or order >= best[key][0]:
            best[key] = (order, row)
    return multiset(row for _, row in best.values() if row is not None)


def cases() -> list[tuple[Shape, str]]:
    start = int(os.environ.get("TIDELAKE_SEED") or random.SystemRandom().randrange(10**9))
    return [(READABLE[number % len(READABLE)], f"{start + number}") for number in range(COUNT)]


@pytest.mark.parametrize(("shape", "seed"), cases(), ids=lambda value: "" if isinstance(value, str) else str(value))
def test_hudi_rs_table_written_by_us_reads_equal(shape: Shape, seed: str, tmp_path: Path) -> None:
    """What we write is, for hudi-rs, the table that the oracle holds: now, at each commit, and between any two."""
    print(f"TIDELAKE_SEED={seed} {shape}")
    path = tmp_path / "table"
    machine = OnDisk(shape, random.Random(f"{shape}/{seed}"), path=path)
    machine.fill()
    if not machine.commits:
        return
    table = HudiTable(str(path))
    assert rows_of(table.read()) == machine.oracle.rows()
    optimised = HudiTableBuilder.from_base_uri(str(path)).with_options({"hoodie.read.use.read_optimized.mode": "true"})
    ours = tl.open_table(str(path)).scan(mode="read_optimized").to_arrow()
    assert rows_of(optimised.build().read()) == rows_of(ours.to_batches())
    for commit in machine.commits:
        read = table.read(HudiReadOptions().with_as_of_timestamp(commit.requested))
        assert rows_of(read) == commit.rows, commit.requested
    for first, last in itertools.combinations(range(-1, len(machine.commits)), 2):
        begin = "19700101000000000" if first < 0 else machine.commits[first].completion
        options = HudiReadOptions().with_query_type(HudiQueryType.Incremental)
        options = options.with_start_timestamp(begin).with_end_timestamp(machine.commits[last].completion)
        assert rows_of(table.read(options)) == changed_between(machine, first, last), (first, last)
