"""Generated slices: the vectorised merge gives what a record-by-record oracle gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from model.deep import examples
from model.kinds import multiset
from model.oracle import Row, merge
from model.slices import SliceCase, plan_of, read, slices, store
from tidelake.merge import merge_partial, merge_whole, read_logs
from tidelake.query.read_slice import read_slice
from tidelake.storage import MemoryStorage

CONDITIONS: dict[str, Any] = {
    "n > 4": lambda row: row["n"] is not None and row["n"] > 4,
    "n IS NULL": lambda row: row["n"] is None,
    "NOT n = 3": lambda row: row["n"] is not None and row["n"] != 3,
    "n IN (1, 2, 7) OR id = 'k1'": lambda row: row["n"] in (1, 2, 7) or row["id"] == "k1",
    "v <= 3 AND id <> 'k2'": lambda row: row["v"] is not None and row["v"] <= 3 and row["id"] != "k2",
}


def expected(case: SliceCase) -> list[Row]:
    return merge(case.base or (), case.blocks, case.rules, case.columns)


@given(slices())
@examples()
def test_merge_whole_records_equals_the_oracle(case: SliceCase) -> None:
    """Data and delete blocks over a base give the oracle's rows, in both merge modes and all types."""
    assert multiset(read(case)) == multiset(expected(case))


@given(slices(with_partials=True))
@examples()
def test_merge_partial_records_equals_the_oracle(case: SliceCase) -> None:
    """Partial blocks and partial-update modes give the oracle's rows, column by column."""
    assert multiset(read(case)) == multiset(expected(case))


@given(slices(), st.data())
@examples()
def test_merge_projection_and_filter_come_after_merging(case: SliceCase, data: st.DataObject) -> None:
    """Fewer columns and a filter change what is shown, never which version won."""
    columns = data.draw(st.lists(st.sampled_from(case.columns), min_size=1, unique=True))
    condition = data.draw(st.sampled_from([None, *CONDITIONS]))
    keep = CONDITIONS[condition] if condition else lambda row: True
    wanted = [{name: row[name] for name in columns} for row in expected(case) if keep(row)]
    assert multiset(read(case, columns, condition)) == multiset(wanted)


@given(slices(with_partials=True), st.data())
@examples()
def test_merge_partial_projection_and_filter_come_after_merging(case: SliceCase, data: st.DataObject) -> None:
    """A column that is not asked for does not change what the others hold, where rows are combined."""
    columns = data.draw(st.lists(st.sampled_from(case.columns), min_size=1, unique=True))
    condition = data.draw(st.sampled_from([None, *CONDITIONS]))
    keep = CONDITIONS[condition] if condition else lambda row: True
    wanted = [{name: row[name] for name in columns} for row in expected(case) if keep(row)]
    assert multiset(read(case, columns, condition)) == multiset(wanted)


@given(slices())
@examples()
def test_merge_partial_of_whole_records_equals_merge_whole(case: SliceCase) -> None:
    """Where every record is whole, both kernels of the engine give the same rows."""
    storage = MemoryStorage()
    plan = plan_of(case, store(case, storage))
    file_slice = plan.slices[0]
    records = read_logs(storage, file_slice.logs, case.spec, plan.log_context)
    if records.is_empty:
        return

    def merged(kernel: Any) -> list[Row]:
        base = read_slice(storage, plan, replace(file_slice, logs=()))
        return pa.Table.from_batches(list(kernel(base, records, case.spec)), plan.work_schema).to_pylist()

    assert multiset(merged(merge_partial)) == multiset(merged(merge_whole))
