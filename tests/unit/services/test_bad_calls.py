"""What callers give to services: partitions, strategies and options as they are meant, and a typed error for the rest."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake.config import CLUSTERING_PARTITIONS, name_list_text
from tidelake.errors import OptionError
from tidelake.testing import ManualClock, MemoryStorage

SMALL = "hoodie.clustering.plan.strategy.small.file.limit"
TARGET = "hoodie.clustering.plan.strategy.target.file.max.bytes"
DAYS = ("a,b", "a", "b", " c ")


def rows(day: str, first: int = 0, count: int = 3) -> pa.Table:
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"{day} {i * 7919 % 1009}" for i in ids],
            "ts": pa.array(ids, pa.int64()),
            "day": [day] * count,
        }
    )


def make(days: tuple[str, ...] = DAYS, **how: Any) -> tl.Table:
    clock = ManualClock(seed=1)
    table = tl.create_table(
        "memory",
        "id bigint, name string, ts bigint, day string",
        name="called",
        record_key="id",
        storage=MemoryStorage(clock=clock),
        clock=clock,
        **{"partition_by": "day", "ordering_fields": "ts", **how},
    )
    for number, day in enumerate(days):
        table.insert(rows(day, number * 10))
        table.insert(rows(day, number * 10 + 5))
        table.upsert(rows(day, number * 10))
    return table


def planned(plan: Any) -> set[str]:
    return set() if plan is None else {operation.partition_path for operation in plan.operations}


@pytest.mark.parametrize("names", [[], [""], ["a,b", "c"], [" a ", "\\", "a\\,b", "\\ "], [",", "", "x y"]])
def test_names_of_partitions_come_back_from_the_text_of_an_option(names: list[str]) -> None:
    assert CLUSTERING_PARTITIONS.of({CLUSTERING_PARTITIONS.key: name_list_text(names)}) == tuple(
        sorted(names, reverse=True)
    )


@pytest.mark.parametrize("verb", ["compact", "cluster"])
@pytest.mark.parametrize("day", DAYS)
def test_partitions_of_a_call_are_those_named_and_no_others(verb: str, day: str) -> None:
    """Also where a path has commas and blanks."""
    table = make()
    assert planned(getattr(table, verb)(partitions=[f"day={day}"], dry_run=True)) == {f"day={day}"}


@pytest.mark.parametrize(("verb", "strategy"), [("compact", "log_file_num"), ("cluster", "size_based")])
def test_partitions_of_a_call_go_with_a_strategy(verb: str, strategy: str) -> None:
    table = make()
    assert planned(getattr(table, verb)(partitions=["day=b"], strategy=strategy, dry_run=True)) == {"day=b"}


@pytest.mark.parametrize("verb", ["compact", "cluster"])
def test_no_partitions_are_none(verb: str) -> None:
    """A job that has worked out an empty list does not rewrite the table."""
    assert getattr(make(), verb)(partitions=[], dry_run=True) is None


def test_selected_partitions_that_are_not_named_are_those_of_the_range() -> None:
    """As in Apache Hudi: without a first and a last one, all."""
    table = make()
    assert planned(table.cluster(strategy="selected_partitions", dry_run=True)) == {f"day={day}" for day in DAYS}
    first = {"hoodie.clustering.plan.strategy.cluster.begin.partition": "day=a"}
    plan = table.cluster(strategy="selected_partitions", options=first, dry_run=True)
    assert planned(plan) == {"day=a,b", "day=a", "day=b"}


def test_partition_of_a_table_without_partitions_is_the_empty_path() -> None:
    table = make(days=("a",), partition_by=())
    assert planned(table.cluster(partitions=[""], dry_run=True)) == {""}
    assert planned(table.compact(partitions=[""], dry_run=True)) == {""}


def test_clustering_by_other_sizes_than_before_looks_at_everything() -> None:
    """What was too large for one call is small enough for the next: no work is lost between them."""
    table = make(days=("small",))
    for first in (100, 5_000):
        table.insert(rows("big", first, 4_000))
    assert {c.partition_path for c in table.files()} == {"day=small", "day=big"}
    limit = max(f.base.size_bytes for f in table.files() if f.base is not None) // 2
    assert planned(table.cluster(options={SMALL: limit}, dry_run=True)) == {"day=small"}
    table.cluster(options={SMALL: limit})
    assert table.audit_services().is_clean
    assert planned(table.cluster(dry_run=True)) == {"day=big"}
    assert table.cluster() is not None
    assert table.cluster() is None


def test_clustering_to_larger_files_than_before_looks_at_everything() -> None:
    table = make(days=("a",))
    for first in (100, 200, 300):
        table.insert(rows("a", first))
    size = max(f.size_bytes for f in table.files())
    assert table.cluster(options={TARGET: size * 2}) is not None
    left = len(table.files())
    assert left > 1
    assert planned(table.cluster(dry_run=True)) == {"day=a"}


@pytest.mark.parametrize(
    "name", ["hoodie.cleaner.commits.retained", "HOODIE.CLEAN.commits.retained", "hoodie.clean.commits.retained"]
)
def test_option_of_a_call_counts_more_than_that_of_the_handle_by_whatever_name(name: str) -> None:
    table = make(days=("a", "a", "a"), table_type="COPY_ON_WRITE")
    opened = tl.open_table(
        "memory",
        storage=table._source.storage,
        clock=table._clock,
        options={"hoodie.clean.commits.retained": "100"},
    )
    assert opened.clean(dry_run=True) is None
    assert opened.clean(options={name: "1"}, dry_run=True) is not None


@pytest.mark.parametrize("name", ["HOODIE.Compact.Inline", "hoodie.Compact.inline", "hoodie.cleaner.commits.retained"])
def test_names_of_options_of_a_handle_have_no_case_and_may_be_aliases(name: str) -> None:
    value = "7" if name.endswith("retained") else "true"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = make(days=(), options={name: value})
        opened = tl.open_table("memory", storage=made._source.storage, options={name: value})
    assert made._service_options == opened._service_options == {name: value}


def test_writer_option_in_other_case_is_known() -> None:
    table = make(days=())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tl.open_table(
            "memory",
            storage=table._source.storage,
            options={"HOODIE.client.heartbeat.interval_in_ms": "30000"},
        )


@pytest.mark.parametrize("about", [{"user": None}, {"comment": 5}, {"comment": b"x"}, {"user": ["x"]}])
def test_savepoint_about_which_no_text_is_said_is_refused_and_leaves_nothing(about: dict[str, Any]) -> None:
    table = make(days=("a",))
    with pytest.raises(tl.InvalidError, match="not a text"):
        table.savepoint(**about)
    assert not table.timeline.pending


@pytest.mark.parametrize("hours", [10**6, 10**9, 10**12, 10**18])
def test_clean_by_more_hours_than_there_were_keeps_everything(hours: int) -> None:
    table = make(days=("a", "a"), table_type="COPY_ON_WRITE")
    assert table.clean("KEEP_LATEST_BY_HOURS", hours) is None
    assert table.clean(options={"tidelake.clean.min.age.seconds": str(hours)}, retain=1) is None


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.run_compaction("nope"),
        lambda t: t.run_compaction(["x"]),
        lambda t: t.run_compaction(20260101000000000),
        lambda t: t.run_clustering(""),
        lambda t: t.withdraw_clustering("nope"),
        lambda t: t.compact(strategy=5),
        lambda t: t.cluster(strategy=b"x"),
        lambda t: t.cluster(strategy=[5]),
        lambda t: t.clean(policy=5),
        lambda t: t.scan(filter=5),
        lambda t: t.scan(filter=["a"]),
        lambda t: t.scan(columns=5),
        lambda t: t.scan(columns=[5]),
        lambda t: t.cleans("nope"),
        lambda t: t.clusterings("nope"),
        lambda t: t.commits(1.5),
        lambda t: t.explain_value(1.5, "name"),
    ],
)
def test_what_makes_no_sense_is_refused(call: Callable[[Any], object]) -> None:
    """By an error of ours, which says what was given."""
    with pytest.raises((tl.InvalidError, OptionError)):
        call(make(days=("a",)))
