"""Completion and freshness of a table of 10,000 file groups and 1,000 instants that has no rows; see ``partitioned.py``."""

from __future__ import annotations

from pathlib import Path

import tidelake as tl
from bench.measure import Results, timed_in_turns
from bench.partitioned import make_partitioned
from tidelake.filegroup.state_store import STATE_DIR
from tidelake.query import TableSource
from tidelake.storage import open_storage

PARTITIONS = 1_000
GROUPS = 10
INSTANTS = 1_000
TOUCHED = 10
AIM_S = 0.5
FIRST_MS = 1_767_225_600_000


def freshness(results: Results, folder: Path) -> None:
    """The first time, when no table state is stored, and after: beside reading the same commits, and listing the table."""
    path = folder / "freshness"
    made = make_partitioned(path, PARTITIONS, GROUPS, FIRST_MS)
    for number in range(INSTANTS - 1):
        start = number * TOUCHED % PARTITIONS
        made.touch(made.partitions[start : start + TOUCHED], event_ms=FIRST_MS + number * 60_000)
    storage = open_storage(str(path))

    def whole() -> None:
        report = tl.open_table(str(path), storage=storage).freshness()
        assert report.ro.completion_ms == FIRST_MS - 1
        assert len(report.holding) == PARTITIONS

    def read_commits() -> None:
        source = TableSource.load(storage)
        assert len(source.reader.commits(source.timeline.completed_writes)) == INSTANTS

    def listing() -> None:
        assert sum(1 for _ in TableSource.load(storage).view().listed_slices()) == PARTITIONS * GROUPS

    def first() -> None:
        for info in storage.list_dir(STATE_DIR)[1]:
            storage.delete(info.path)
        whole()

    first_s, after_s, commits_s, listing_s = timed_in_turns((first, whole, read_commits, listing), 3)
    results.report("freshness, seconds after the first time / 0.5", after_s, AIM_S, 1.0)
    results.report("freshness after the first time / reading the commits", after_s, commits_s, 1.0)
    results.report("freshness the first time / listing, and the commits", first_s, listing_s + commits_s, 2.0)
    made.touch(made.partitions[:TOUCHED], event_ms=FIRST_MS)
    (again_s,) = timed_in_turns((whole,), 3)
    results.report("freshness with one commit more / without", again_s, after_s, 1.5)
