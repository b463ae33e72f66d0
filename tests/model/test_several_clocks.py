"""Generated records with several event times: the vectorised merge gives what a record-by-record oracle gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.clock_cases import ClockCase, clock_cases
from model.deep import examples
from model.several_clocks_oracle import Change, ClockRules, State, merge_one_by_one, visible
from tidelake.config import parse_table_config
from tidelake.merge import MergeSpec, Outcome, merge_records, merge_spec, records_of
from tidelake.schema import RECORD_KEY

Kept = dict[str, dict[str, Any]]


def spec_of(case: ClockCase, schema: pa.Schema) -> MergeSpec:
    properties = {
        "hoodie.table.name": "t",
        "hoodie.table.version": "9",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.record.merge.mode": "CUSTOM",
        "hoodie.table.recordkey.fields": "id",
        **case.options,
        **({} if case.rules.keeps_deletes else {"tombstone.retention": "0"}),
    }
    return merge_spec(parse_table_config(properties), schema)


def stored_table(case: ClockCase, changes: tuple[tuple[str, Change], ...]) -> pa.Table:
    rows = case.table(changes)
    return rows.add_column(0, RECORD_KEY, rows.column("id"))


def engine(case: ClockCase, *batches: tuple[tuple[str, Change], ...]) -> tuple[pa.Table, Outcome]:
    """Each batch merged into what the one before left: rows, and what the last left beside them."""
    rows = stored_table(case, ())
    outcome = Outcome()
    for batch in batches:
        outcome = Outcome()
        records = records_of(stored_table(case, batch), spec_of(case, rows.schema))
        merged = list(merge_records(rows.to_batches(max_chunksize=2), records, spec_of(case, rows.schema), outcome))
        rows = pa.Table.from_batches(merged, rows.schema)
    return rows, outcome


def seen(rows: pa.Table) -> Kept:
    """The rows by key, without what no rule speaks of."""
    hidden = (RECORD_KEY, "id", "_hoodie_is_deleted")
    found = {row["id"]: {n: v for n, v in row.items() if n not in hidden} for row in rows.to_pylist()}
    assert len(found) == rows.num_rows
    return found


def oracle(case: ClockCase, *batches: tuple[tuple[str, Change], ...]) -> tuple[Kept, dict[str, int]]:
    """What the rules give one by one. A key that is gone leaves nothing between batches, and what is stored is data."""
    kept: Kept = {}
    reasons: dict[str, int] = {}
    for batch in batches:
        reasons = {}
        found: Kept = {}
        for key in {*kept, *(key for key, _ in batch)}:
            before = [Change(kept[key])] if key in kept else []
            state, _ = merge_one_by_one(before, case.rules, State())
            state, verdicts = merge_one_by_one([c for k, c in batch if k == key], case.rules, state)
            for verdict in verdicts:
                if verdict:
                    reasons[verdict] = reasons.get(verdict, 0) + 1
            row = visible(state, case.rules)
            if row is not None:
                found[key] = row
        kept = found
    return kept, reasons


@given(clock_cases())
@examples(100)
def test_merge_with_several_event_times_equals_one_by_one(case: ClockCase) -> None:
    """Records and deletes of new keys give the oracle's rows and rejects."""
    rows, outcome = engine(case, case.changes)
    kept, reasons = oracle(case, case.changes)
    assert seen(rows) == kept
    assert outcome.rejected == reasons


@given(clock_cases(), st.integers(0, 12), st.integers(0, 12))
@examples(100)
def test_merge_with_several_event_times_into_stored_rows(case: ClockCase, one: int, two: int) -> None:
    """The same where some of the changes are stored rows already."""
    first, second = sorted((one, two))
    parts = (case.changes[:first], case.changes[first:second], case.changes[second:])
    rows, outcome = engine(case, *parts)
    kept, reasons = oracle(case, *parts)
    assert seen(rows) == kept
    assert outcome.rejected == reasons


@given(clock_cases(lawful=True, mode="per_group"), st.randoms(use_true_random=False))
@examples(100)
def test_merge_per_group_does_not_depend_on_order_or_batches(case: ClockCase, random: Any) -> None:
    """Where equal event times mean equal values: any order, any batches and doubled records give the same rows."""
    wanted, _ = engine(case, case.changes)
    changes = [*case.changes, *random.sample(case.changes, len(case.changes) // 2)]
    random.shuffle(changes)
    cuts = sorted(random.sample(range(len(changes) + 1), k=min(2, len(changes))))
    parts = [tuple(changes[a:b]) for a, b in zip([0, *cuts], [*cuts, len(changes)], strict=True)]
    rows, _ = engine(case, *parts)
    assert seen(rows) == seen(wanted)


@pytest.mark.parametrize("folded", [False, True])
def test_merge_all_never_folds_incoming_records(folded: bool) -> None:
    """Folding the two incoming records first would let a rejected record give a value."""
    case = ClockCase(
        rules=_rules_of_all(),
        kinds=("long", "long"),
        changes=(
            ("k", Change({"a": 5, "p": 1, "y": "S"})),
            ("k", Change({"a": 4, "p": 3, "y": "Y1"})),
            ("k", Change({"a": 6, "p": 4, "y": None})),
        ),
    )
    parts = [case.changes] if folded else [case.changes[:1], case.changes[1:]]
    rows, outcome = engine(case, *parts)
    assert seen(rows) == {"k": {"y": "S", "a": 6, "p": 4}}
    assert outcome.rejected == {"incomparable": 1}


@pytest.mark.parametrize("folded", [False, True])
def test_a_record_that_gives_a_column_of_no_group_is_not_rejected(folded: bool) -> None:
    """It is older in every group and changed the row; what comes to a row that is gone is rejected all the same."""
    old = Change({"a": 1, "x": "a1", "p": 1, "y": "b1", "u": "c2"})
    case = ClockCase(
        rules=ClockRules("per_group", ("a", "p"), {"a": ("x",), "p": ("y",)}, ("x", "y"), ("u",)),
        kinds=("long", "long"),
        changes=(
            ("k", Change({"a": 5, "x": "a5", "p": 5, "y": "b5", "u": "c1"})),
            ("k", old),
            ("gone", Change({"a": 5, "x": "a5", "p": 5, "y": "b5", "u": "c1"})),
            ("gone", Change({"a": 6, "p": 6}, is_delete=True)),
            ("gone", old),
        ),
    )
    parts = [case.changes] if folded else [case.changes[:1], case.changes[1:]]
    rows, outcome = engine(case, *parts)
    assert seen(rows) == {"k": {"x": "a5", "y": "b5", "u": "c2", "a": 5, "p": 5}}
    assert outcome.rejected == {"older": 1}


def _rules_of_all() -> ClockRules:
    return ClockRules("all", ("a", "p"), {}, ("y",))
