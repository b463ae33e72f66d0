"""A table with several event times: what cannot work is refused when it is made, with the name that is wrong."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from clock_tables import ENABLE, FIELDS, MODE, clock_options, rows, shown, smiths, upsert
from tidelake.config import UnknownOptionWarning
from tidelake.storage import MemoryStorage

PROPERTIES = ".hoodie/hoodie.properties"
GROUPED = clock_options("per_group")
BAD: dict[str, tuple[dict[str, str], str]] = {
    "unknown event time": ({FIELDS: "a_ts,nope"}, "nope"),
    "no event time": ({FIELDS: ""}, "verification.fields"),
    "doubled event time": ({FIELDS: "a_ts,a_ts"}, "a_ts"),
    "key as event time": ({FIELDS: "a_ts,id"}, "'id'"),
    "type that has no order": ({FIELDS: "a_ts,happy"}, "happy"),
    "unknown mode": ({MODE: "most"}, "most"),
    "unknown column in a group": ({"fields.a_ts.sequence-group": "agent,nope"}, "nope"),
    "column in two groups": ({"fields.p_ts.sequence-group": "plan,agent"}, "'agent' is in the groups of"),
    "shared event time": ({"fields.a_ts.sequence-group": "agent,p_ts"}, "p_ts"),
    "group of no event time": ({"fields.happy.sequence-group": "plan"}, "happy"),
    "key in a group": ({"fields.a_ts.sequence-group": "agent,id"}, "'id'"),
    "two event times for one group": ({"fields.a_ts,p_ts.sequence-group": "plan"}, "a_ts,p_ts"),
    "merger that nobody registered": ({MODE: "custom", "hoodie.eventime.latest.verification.merger": "mine"}, "mine"),
    "default of another type": ({MODE: "all", "fields.p_ts.default-value": "soon"}, "p_ts"),
    "default of no column": ({MODE: "all", "fields.nope.default-value": "x"}, "nope"),
    "retention that is no time": ({"tombstone.retention": "a while"}, "a while"),
    "retention of an eager table": ({"write.resolve": "eager", "tombstone.retention": "1d"}, "retention"),
    "global index": ({"hoodie.index.type": "GLOBAL_SIMPLE"}, "GLOBAL_SIMPLE"),
    "version 8": ({"hoodie.table.version": "8"}, "version 9"),
    "groups of another mode": ({MODE: "all"}, "fields.a_ts.sequence-group goes with mode per_group"),
    "defaults of another mode": ({"fields.agent.default-value": "none"}, "fields.agent.default-value"),
    "merger of another mode": ({"hoodie.eventime.latest.verification.merger": "mine"}, "verification.merger goes with"),
    "custom mode without a merger": ({MODE: "custom"}, "verification.merger"),
    "mode of one ordering": ({"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}, "hoodie.record.merge.mode"),
    "folder of rejects that nobody reaches": ({"hoodie.eventime.latest.verification.rejects.path": "ftp://a/b"}, "ftp"),
    "folder of rejects that moves": ({"hoodie.eventime.latest.verification.rejects.path": "lost/here"}, "lost/here"),
    "two ordering fields": (
        {"write.precombine.field": "a_ts", "hoodie.table.ordering.fields": "p_ts"},
        "write.precombine.field and hoodie.table.ordering.fields",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_event_times_are_refused_by_name(case: str) -> None:
    """Nothing is made, and the error names what is wrong."""
    changed, name = BAD[case]
    storage = MemoryStorage()
    options = {**GROUPED, **changed}
    with pytest.raises(tl.TidelakeError) as refused:
        tl.create_table(
            "memory://bad",
            "id string, agent string, a_ts bigint, plan string, p_ts bigint, happy boolean",
            record_key="id",
            options=options,
            storage=storage,
        )
    assert name in str(refused.value)
    assert not storage.exists(PROPERTIES)


def test_ordering_fields_and_event_times_exclude_each_other() -> None:
    """A table has one rule."""
    with pytest.raises(tl.InvalidError, match="exclude each other"):
        smiths("all", ordering_fields="a_ts")


def test_copy_on_write_refuses_what_it_cannot_keep() -> None:
    """No deletes are kept, and there is nothing to resolve earlier."""
    for option in ({"tombstone.retention": "1d"}, {"write.resolve": "eager"}):
        with pytest.raises(tl.InvalidError):
            smiths("all", table_type="COPY_ON_WRITE", options=option)
    smiths("all", table_type="COPY_ON_WRITE", options={"tombstone.retention": "0"})


def properties(**how: Any) -> bytes:
    storage = MemoryStorage()
    smiths(how.pop("mode", None), storage=storage, **how)
    return bytes(storage.get(PROPERTIES))


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_one_event_time_is_plain_event_time_ordering(table_type: str) -> None:
    """The properties are those of the same table with an ordering field, byte for byte; switched off they are, too."""
    plain = properties(ordering_fields="a_ts", table_type=table_type)
    one = {ENABLE: "true", FIELDS: "a_ts", MODE: "all"}
    assert properties(table_type=table_type, options=one) == plain
    off = {**GROUPED, ENABLE: "false"}
    assert properties(table_type=table_type, options=off, ordering_fields="a_ts") == plain
    alias = {"hoodie.datasource.write.precombine.field": "a_ts"}
    assert properties(table_type=table_type, options=alias) == plain


@pytest.mark.parametrize("name", ["hoodie.table.ordering.fields", "hoodie.table.precombine.field"])
def test_the_names_that_a_table_keeps_name_its_ordering_fields(name: str) -> None:
    """What Apache Hudi's tables hold can be given, too."""
    options = {name: "a_ts", "hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
    assert properties(options=options) == properties(ordering_fields="a_ts")


def test_case_does_not_count_in_names_of_options() -> None:
    """An option that is understood is kept, and under its own name."""
    shouted = {ENABLE.upper(): "true", FIELDS.title(): "a_ts,p_ts", "Tombstone.Retention": "1d"}
    assert properties(options=shouted) == properties(mode="all", options={"tombstone.retention": "1d"})
    with pytest.raises(tl.InvalidError, match="keeps no deletes"):
        properties(options={"Tombstone.Retention": "1d"}, table_type="COPY_ON_WRITE")


def test_an_event_time_has_no_default() -> None:
    """It would look as if such a time were none."""
    with pytest.raises(tl.InvalidError, match="'p_ts' has no default"):
        smiths("all", options={"fields.p_ts.default-value": "0"})


@pytest.mark.parametrize(
    "given",
    [
        {FIELDS: "a_ts,p_ts"},
        {"fields.a_ts.sequence-group": "agent"},
        {"write.resolve": "eager"},
        {"payload.class": "org.example.Unheard"},
        {ENABLE: "true", FIELDS: "a_ts", "hoodie.eventime.latest.verification.rejects.path": "/rejects"},
    ],
)
def test_options_without_an_effect_are_said(given: dict[str, str]) -> None:
    """Who forgot the switch hears of it."""
    with pytest.warns(UnknownOptionWarning, match=list(given)[-1]):
        properties(options=given)


@pytest.mark.parametrize("name", ["VerifyMultipleLatestEventTimesPayload", "PickAndCombineMultipleFieldsPayload"])
def test_the_payload_classes_of_the_proposal_mean_all(name: str) -> None:
    """They switch the mode on without the switch."""
    payload = {"hoodie.datasource.write.payload.class": f"org.apache.hudi.common.model.{name}", FIELDS: "a_ts,p_ts"}
    table = smiths(None, options=payload)
    upsert(table, ("Mike", 1, "C", 3))
    upsert(table, ("John", 2, "A", 1))
    assert shown(table) == [("Mike", 1, "C", 3)]


def test_a_table_keeps_its_rules() -> None:
    """Whoever opens it has them; merge-on-read is marked as merged by a strategy that others do not have."""
    storage = MemoryStorage()
    smiths("per_group", storage=storage)
    opened = tl.open_table("memory://smiths", storage=storage)
    upsert(opened, ("Mike", 1, "C", 3))
    upsert(opened, ("John", 2, "A", 1))
    assert shown(opened) == [("John", 2, "C", 3)]
    text = bytes(storage.get(PROPERTIES)).decode()
    assert "hoodie.record.merge.mode=CUSTOM" in text
    assert "hoodie.record.merge.strategy.id=" in text


@pytest.mark.parametrize("how", [{"table_type": "COPY_ON_WRITE"}, {"options": {"write.resolve": "eager"}}])
def test_tables_that_merge_at_the_write_are_commit_time_tables_to_others(how: dict[str, Any]) -> None:
    """What they hold is resolved: any reader is right."""
    text = properties(mode="per_group", **how).decode()
    assert "hoodie.record.merge.mode=COMMIT_TIME_ORDERING" in text
    assert "strategy.id" not in text


def test_nan_is_no_event_time() -> None:
    """It would be neither older nor newer."""
    table = tl.create_table(
        "memory://nan",
        "id string, a double, b double, v string",
        record_key="id",
        options={ENABLE: "true", FIELDS: "a,b"},
        storage=MemoryStorage(),
    )
    with pytest.raises(tl.InvalidError, match="'b' is NaN in 1 rows, for the keys x"):
        table.upsert(pa.table({"id": ["x"], "a": [1.0], "b": [float("nan")], "v": ["v"]}))


@pytest.mark.parametrize(
    ("made", "asked", "name"),
    [
        (GROUPED, {MODE: "all"}, MODE),
        (GROUPED, {"fields.a_ts.sequence-group": "plan"}, "fields.a_ts.sequence-group"),
        (GROUPED, {FIELDS: "a_ts"}, FIELDS),
        (GROUPED, {"write.resolve": "eager"}, "write.resolve"),
        (GROUPED, {ENABLE: "false"}, ENABLE),
        (GROUPED, {"tombstone.retention": "1d"}, "tombstone.retention"),
        (GROUPED, {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}, "merge.mode"),
        ({}, {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}, "merge.mode"),
        ({}, {"hoodie.datasource.write.precombine.field": "p_ts"}, "precombine.field"),
        ({}, clock_options("all"), "one rule"),
        ({}, {"payload.class": "org.example.VerifyMultipleLatestEventTimesPayload", FIELDS: "a_ts,p_ts"}, "one rule"),
    ],
)
def test_a_table_does_not_change_its_rules(made: dict[str, str], asked: dict[str, str], name: str) -> None:
    """Rules other than those it was made with are refused with the option; the same ones are taken."""
    storage = MemoryStorage()
    schema = "id string, agent string, a_ts bigint, plan string, p_ts bigint"
    how = {} if made else {"ordering_fields": "a_ts"}
    tl.create_table("memory://kept", schema, record_key="id", options=made, storage=storage, **how)
    with pytest.raises(tl.InvalidError, match=name):
        tl.open_table("memory://kept", options=asked, storage=storage)
    tl.open_table("memory://kept", options=made or {"write.precombine.field": "a_ts"}, storage=storage)


@pytest.mark.parametrize("accepts", [False, True])
def test_records_without_any_event_time(accepts: bool) -> None:
    """They are rejected and counted, of a new key or not, unless the table accepts them."""
    option = {"hoodie.eventime.latest.verification.untimed": "accept"} if accepts else {}
    table = smiths("all", options=option)
    upsert(table, ("Mike", 1, "C", 3))
    table.upsert(pa.concat_tables([rows(("John", None, None, None)), rows(("New", None, None, None), key="new")]))
    told = dict(table._refreshed().reader.commit(table.timeline.completed_writes[-1]).extra_metadata or {})
    if accepts:
        assert sorted(shown(table), key=str) == [("John", 1, "C", 3), ("New", None, None, None)]
        assert "tidelake.rejected" not in told
    else:
        assert shown(table) == [("Mike", 1, "C", 3)]
        assert told["tidelake.rejected"] == '{"untimed": 2}'


class Longest:
    """Keeps the version with the longest name of an agent; deletes count."""

    def merge(self, stored: pa.Table, incoming: pa.Table) -> pa.Table:
        own = {"id", "agent", "a_ts", "plan", "p_ts", "_hoodie_record_key"}
        assert (set(stored.column_names), set(incoming.column_names)) == (own, {*own, "is_delete"})
        best: dict[str, dict[str, Any]] = {}
        for row in [*stored.to_pylist(), *incoming.to_pylist()]:
            key = row["_hoodie_record_key"]
            if row.pop("is_delete", False):
                best.pop(key, None)
            elif key not in best or len(row["agent"]) >= len(best[key]["agent"]):
                best[key] = row
        return pa.Table.from_pylist(list(best.values()), schema=stored.schema)


@pytest.mark.parametrize("how", [{}, {"table_type": "COPY_ON_WRITE"}, {"options": {"write.resolve": "eager"}}])
def test_a_registered_merger_merges(how: dict[str, Any]) -> None:
    """User code decides, at write, read and compaction alike."""
    tl.register_merger("longest", Longest)
    custom = {MODE: "custom", ENABLE: "true", "hoodie.eventime.latest.verification.merger": "longest"}
    table = smiths(None, **{**how, "options": {**how.get("options", {}), **custom}})
    upsert(table, ("Al", 1, "A", 1), ("Alexander", 1, "B", 1))
    upsert(table, ("Bo", 2, "C", 2))
    assert shown(table) == [("Alexander", 1, "B", 1)]
    assert table.scan(columns=["plan"]).to_arrow().to_pylist() == [{"plan": "B"}]
    if "table_type" not in how:
        table.compact()
        assert shown(table, "read_optimized") == [("Alexander", 1, "B", 1)]
    table.delete(["smith"])
    assert shown(table) == []
    upsert(table, ("Bo", 2, "C", 2))
    assert shown(table) == [("Bo", 2, "C", 2)]
