"""Of groups, who wins does not depend on whether somebody wants to be told why; nor do rows on how they are gathered."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidelake.merge.clock_rules import Verdict, Versions, resolve_groups
from tidelake.merge.gather import Gathering


def drawn(random: np.random.Generator, *, with_commits: bool) -> tuple[Versions, int]:
    count = int(random.integers(1, 6))
    place = np.repeat(np.arange(count), random.integers(1, 5, count))
    size = len(place)
    no = np.zeros(size, dtype=np.bool_)
    is_base = np.append(True, place[1:] != place[:-1]) & (random.random(size) < 0.5)
    ranks = tuple(random.integers(0, 4, size) for _ in range(int(random.integers(1, 4))))
    commits = random.integers(1, 9, size) if with_commits else None
    return Versions(place, is_base, no, no, no, ranks, commits), count


@pytest.mark.parametrize("with_commits", [False, True])
@pytest.mark.parametrize("has_loose", [False, True])
def test_resolve_groups_nobody_told_equals_told(has_loose: bool, with_commits: bool) -> None:
    random = np.random.default_rng(20261117)
    for _ in range(500):
        versions, count = drawn(random, with_commits=with_commits)
        told, quiet = (
            resolve_groups(versions, count, has_loose=has_loose, is_exact=with_commits, tells=tells)
            for tells in (True, False)
        )
        assert shown(quiet) == shown(told)


def shown(verdict: Verdict) -> list[object]:
    many = (verdict.values, verdict.clocks, verdict.ended)
    return [x.tolist() for x in (verdict.is_alive, verdict.last, verdict.row)] + [[x.tolist() for x in m] for m in many]


@pytest.mark.parametrize("logged", [40, 4_000])
def test_gathering_any_versions_of_both_tables_in_any_order(logged: int) -> None:
    """Of a small log side most rows are wanted, of a large one few: these are sorted in another way."""
    random = np.random.default_rng(3)
    batch = pa.RecordBatch.from_pydict({"a": [f"b{i}" for i in range(30)], "n": list(range(30))})
    log = pa.table({"a": [f"l{i}" for i in range(logged)], "n": list(range(1_000, 1_000 + logged))})
    is_stored = random.random(30) < 0.4
    row = np.where(is_stored, np.arange(30), random.choice(logged, 30, replace=False))
    rows = Gathering(batch, log, is_stored, row)
    names = [f"b{r}" if s else f"l{r}" for s, r in zip(is_stored, row, strict=True)]
    for giver in (
        np.arange(30),
        np.array([3, -1, 3, 29, 0, -1]),
        np.flatnonzero(is_stored),
        np.flatnonzero(~is_stored),
    ):
        assert rows.taken(["a"], giver).column("a").to_pylist() == [None if g < 0 else names[g] for g in giver]
    every, versions = rows.any_order(["a"])
    assert every.column("a").to_pylist() == [names[v] for v in versions]
    assert sorted(versions.tolist()) == list(range(30))
