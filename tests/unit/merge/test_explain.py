"""Why a value won: every version that files hold, with its reason; what was compacted is not guessed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from clock_tables import smiths, upsert
from tidelake.query.explain import WINS


def test_the_smiths_agent_and_plan_are_explained_per_group() -> None:
    """John won by his event time; Plan A, which came last, is older than Plan C."""
    table = smiths("per_group")
    upsert(table, ("Mike", 1, "C", 3))
    late = upsert(table, ("John", 2, "A", 1))
    agent, plan = table.explain_value("smith", "agent"), table.explain_value("smith", "plan")
    assert (agent.value, plan.value) == ("John", "C")
    assert agent.winner is not None
    assert (agent.winner.commit, agent.winner.event_times) == (late.requested_time, {"a_ts": 2})
    assert plan.winner is not None
    assert plan.winner.commit is None
    assert plan.winner.at_or_before is not None
    (loser,) = [version for version in plan.versions if version.why != WINS]
    assert (loser.value, loser.commit) == ("A", late.requested_time)
    assert loser.why == "older: p_ts=1 is before 3"
    assert "older: p_ts=1 is before 3" in str(plan)


def test_a_record_that_is_newer_and_older_is_explained_in_mode_all() -> None:
    """The record was rejected whole, and the explanation says what it met."""
    table = smiths("all")
    upsert(table, ("Mike", 1, "C", 3))
    upsert(table, ("John", 2, "A", 1))
    told = table.explain_value("smith", "agent")
    assert told.value == "Mike"
    assert [version.why for version in told.versions] == [
        WINS,
        "rejected as incomparable: stored were a_ts=1, p_ts=3",
    ]


def test_what_was_compacted_is_at_or_before_a_commit() -> None:
    """After compaction one version is left, and no commit is claimed for it."""
    table = smiths("per_group")
    upsert(table, ("Mike", 1, "C", 3))
    last = upsert(table, ("John", 2, None, None))
    table.compact()
    (only,) = table.explain_value("smith", "agent").versions
    assert (only.value, only.commit, only.at_or_before, only.why) == ("John", None, last.requested_time, WINS)


@pytest.mark.parametrize("how", [{}, {"table_type": "COPY_ON_WRITE"}, {"options": {"write.resolve": "eager"}}])
def test_the_event_times_are_those_of_the_column(how: dict[str, Any]) -> None:
    """Also of what was merged when it was written, or compacted."""
    table = smiths("per_group", **how)
    upsert(table, ("Mike", 1, "C", 3))
    upsert(table, ("John", 2, "D", 4))
    if how.get("table_type") is None:
        assert [dict(v.event_times) for v in table.explain_value("smith", "plan").versions] == [
            {"p_ts": 3},
            {"p_ts": 4},
        ]
        table.compact()
    (only,) = table.explain_value("smith", "plan").versions
    assert dict(only.event_times) == {"p_ts": 4}


def test_a_deleted_record_is_explained_by_its_delete() -> None:
    """There is no value, and the delete is the winner."""
    table = smiths("per_group")
    upsert(table, ("Mike", 1, "C", 3))
    table.delete(["smith"])
    told = table.explain_value("smith", "plan")
    assert (told.exists, told.value) == (False, None)
    assert told.winner is not None
    assert told.winner.is_delete


@pytest.mark.parametrize(("ordering", "wanted"), [("a_ts", "Mike"), ((), "John")])
def test_standard_modes_are_explained_too(ordering: Any, wanted: str) -> None:
    """Event time: the greater ordering value; commit time: the last."""
    table = smiths(None, ordering_fields=ordering)
    upsert(table, ("Mike", 5, "C", 3))
    upsert(table, ("John", 2, "A", 9))
    told = table.explain_value("smith", "agent")
    assert told.value == wanted == table.scan(columns=["agent"]).to_arrow().column("agent")[0].as_py()
    assert sum(version.why == WINS for version in told.versions) == 1


def test_explain_refuses_what_is_not_there() -> None:
    """An unknown column and a key of other columns are named; an unknown key has no versions."""
    table = smiths("per_group")
    upsert(table, ("Mike", 5, "C", 3))
    with pytest.raises(tl.InvalidError, match="nope"):
        table.explain_value("smith", "nope")
    with pytest.raises(tl.InvalidError, match="id"):
        table.explain_value({"other": 1}, "agent")
    assert table.explain_value("nobody", "agent").versions == ()
    assert pa.types.is_string(table.schema.field("agent").type)


def test_one_ordering_field_is_explained_by_order_and_value() -> None:
    """A tie goes to the later one, and a delete without an ordering value ends everything before it."""
    table = smiths(None, ordering_fields="a_ts")
    for name, at in (("Mike", 5), ("Late", 4), ("John", 5)):
        upsert(table, (name, at, None, None))
    later = "a later record with the same or a greater ordering value won"
    assert [version.why for version in table.explain_value("smith", "agent").versions] == [later, later, WINS]
    upsert(table, ("Late", 3, None, None))
    assert table.explain_value("smith", "agent").versions[-1].why == "a greater ordering value won"
    table.delete(["smith"], unconditional=True)
    told = table.explain_value("smith", "agent").versions
    assert {version.why for version in told[:-1]} == {"a later delete ended it, whatever its ordering value"}


@pytest.mark.parametrize("mode", ["all", "per_group"])
def test_an_unconditional_delete_is_explained(mode: str) -> None:
    """It ends what is before it whatever its event times, and what comes after it owes nothing to those."""
    table = smiths(mode)
    upsert(table, ("Mike", 5, "C", 5))
    upsert(table, ("John", 6, "D", 6))
    table.delete(["smith"], unconditional=True)
    ended = "a later delete ended it, whatever its event times"
    told = table.explain_value("smith", "plan")
    assert (told.exists, [version.why for version in told.versions]) == (False, [ended, ended, WINS])
    upsert(table, ("Anna", 1, None, None))
    told = table.explain_value("smith", "agent")
    back = "applied, and a later record brought the key back"
    assert (told.value, [version.why for version in told.versions]) == ("Anna", [ended, ended, back, WINS])
