"""CALL in ``spark.sql`` of an enabled session, and that all other statements go to Spark as they are."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake._clock import SystemClock
from tidelake.errors import ConflictError, InvalidError, NotATableError
from tidelake.locking.lock import NoLock
from tidelake.query import TableSource
from tidelake.sql.procedures import PROCEDURES
from tidelake.storage import open_storage
from tidelake.write.context import FileOptions
from tidelake.write.job import WriteRequest, start_of
from tidelake.write.transaction import Transaction

pytestmark = pytest.mark.spark

SCHEMA = "id bigint, v string, ts bigint, day string"


def rows(*ids: int, ts: int = 1, day: str = "a") -> pa.Table:
    return pa.table({"id": ids, "v": [f"v{i}" for i in ids], "ts": [ts] * len(ids), "day": [day] * len(ids)})


def begin(table: tl.Table) -> str:
    """A write that is under way."""
    source = TableSource.load(open_storage(table.path))
    return Transaction(start_of(source, SystemClock(), WriteRequest("upsert", {}, FileOptions())), NoLock()).instant


@pytest.fixture
def table(tmp_path) -> tl.Table:
    made = tl.create_table(str(tmp_path / "trips"), SCHEMA, partition_by="day", ordering_fields="ts")
    made.upsert(pa.concat_tables([rows(1, 2), rows(3, day="b")]))
    made.upsert(rows(2, 4, ts=2))
    return made


@pytest.fixture
def enabled(spark):
    tl.enable(spark)
    return spark


def test_call_show_commits_tells_what_each_write_did(enabled, table) -> None:
    """Newest first, one row for each completed write, with Apache Hudi's columns and the numbers of the commit's files."""
    shown = enabled.sql(f"CALL show_commits(table => '{table.path}', limit => 10)")
    assert [(f.name, f.dataType.simpleString()) for f in shown.schema] == [
        ("commit_time", "string"),
        ("state_transition_time", "string"),
        ("action", "string"),
        ("total_bytes_written", "bigint"),
        ("total_files_added", "bigint"),
        ("total_files_updated", "bigint"),
        ("total_partitions_written", "bigint"),
        ("total_records_written", "bigint"),
        ("total_update_records_written", "bigint"),
        ("total_errors", "bigint"),
    ]
    second, first = shown.collect()
    instants = [(i.requested_time, i.completion_time) for i in table.timeline.completed_writes]
    assert [(r.commit_time, r.state_transition_time) for r in (first, second)] == instants
    assert (first.total_files_added, first.total_files_updated, first.total_partitions_written) == (2, 0, 2)
    assert (first.total_records_written, first.total_update_records_written) == (3, 0)
    assert (second.total_files_added, second.total_files_updated, second.total_partitions_written) == (1, 1, 1)
    assert (second.total_records_written, second.total_update_records_written) == (2, 1)
    assert first.action == "deltacommit"
    assert first.total_bytes_written > 0


def test_call_arguments_by_position_prefix_path_and_marker_are_the_same(enabled, table) -> None:
    """Each way of writing the same call gives the same rows."""
    path = table.path
    wanted = enabled.sql(f"CALL show_commits(table => '{path}', limit => 1)").collect()
    assert len(wanted) == 1
    for text in (
        f"CALL show_commits('{path}', 1)",
        f"call SYSTEM.Show_Commits(limit => 1, path => '{path}');",
        f"-- the last\nCALL show_commits('{path}', limit => 1)",
    ):
        assert enabled.sql(text).collect() == wanted
    assert enabled.sql("CALL show_commits(:p, :n)", args={"p": path, "n": 1}).collect() == wanted


def test_call_show_timeline_has_instants_of_every_state(enabled, table) -> None:
    """Completed instants and one that is under way, newest first."""
    pending = begin(table)
    shown = enabled.sql(f"CALL show_timeline(path => '{table.path}')").collect()
    assert [(r.action, r.state, r.operation) for r in shown] == [
        ("deltacommit", "INFLIGHT", "UPSERT"),
        ("deltacommit", "COMPLETED", "UPSERT"),
        ("deltacommit", "COMPLETED", "UPSERT"),
    ]
    assert shown[0].instant_time == pending
    assert shown[0].completed_time is None
    assert {r.timeline_type for r in shown} == {"ACTIVE"}
    assert len(enabled.sql(f"CALL show_timeline(path => '{table.path}', limit => 2)").collect()) == 2


def test_call_show_timeline_archived_has_the_history(enabled, golden) -> None:
    """Archived instants are shown when they are asked for."""
    path = golden("mor_v9_archived")
    text = f"CALL show_timeline(path => '{path}', limit => 1000, show_archived => %s)"
    both, active = enabled.sql(text % "true"), enabled.sql(text % "false")
    assert {r.timeline_type for r in both.collect()} == {"ACTIVE", "ARCHIVED"}
    assert active.count() == len(tl.open_table(str(path)).timeline)


def test_call_rollback_to_instant_takes_a_write_back(enabled, table) -> None:
    """A write under way, then the last completed one; the one before is refused while a later one stands."""
    first, last = (i.requested_time for i in table.timeline.completed_writes)
    tl.view(enabled, "rolled", table.path)
    with pytest.raises(ConflictError, match=last):
        enabled.sql(f"CALL rollback_to_instant(table => 'rolled', instant_time => '{first}')")
    for instant in (begin(table), last):
        done = enabled.sql(f"CALL rollback_to_instant('rolled', '{instant}')").collect()
        assert done[0].rollback_result
        assert done[0].rollback_time in {i.requested_time for i in table.timeline.of_action("rollback")}
    assert sorted(r.id for r in enabled.sql("SELECT id FROM rolled").collect()) == [1, 2, 3]
    with pytest.raises(InvalidError, match="needs the argument 'instant_time'"):
        enabled.sql("CALL rollback_to_instant('rolled')")
    enabled.catalog.dropTempView("rolled")


def test_call_help_lists_every_procedure_and_explains_one(enabled) -> None:
    """``help`` lists the registry; with a name it lists that procedure's arguments."""
    assert [r.name for r in enabled.sql("CALL help()").collect()] == list(PROCEDURES)
    about = enabled.sql("CALL help(cmd => 'show_commits')").collect()
    assert [r.name for r in about] == ["show_commits", "table", "limit", "path"]
    assert "limit => int = 10" in about[0].signature
    assert all(r.description for r in about)
    with pytest.raises(InvalidError, match="nothing_like_it"):
        enabled.sql("CALL help(cmd => 'nothing_like_it')")


def test_call_unknown_procedure_names_near_ones(enabled) -> None:
    """A procedure that does not exist is refused, with what may have been meant and the way to the list."""
    with pytest.raises(InvalidError, match=r"show_comits.*did you mean show_commits.*CALL help\(\)"):
        enabled.sql("CALL show_comits(table => '/x')")
    with pytest.raises(InvalidError, match=r"zzzz.*CALL help\(\)"):
        enabled.sql("CALL system.zzzz()")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("tabel => '/x'", r"no argument 'tabel', did you mean 'table'.*CALL show_commits\(\[table => string\]"),
        ("'/x', table => '/x'", "'table' more than once.*CALL show_commits"),
        ("limit => 1, limit => 2", "'limit' more than once"),
        ("table => '/x', limit => 'ten'", "int for 'limit', and not 'ten'.*CALL show_commits"),
        ("table => '/x', limit => 1.5", "int for 'limit'"),
        ("table => '/x', limit => true", "int for 'limit'"),
        ("table => 3", "string for 'table', and not 3"),
        ("'/x', 1, '/y', 4", "takes 3 arguments and was given 4"),
        ("", "by table or by path"),
        ("table => '/x', path => '/x'", "by table or by path"),
        ("table => 'no_such_view'", "no view 'no_such_view'.*tl.view"),
    ],
)
def test_call_wrong_arguments_name_the_argument_and_the_signature(enabled, arguments: str, said: str) -> None:
    """Unknown, doubled, ill-typed, missing and contradicting arguments."""
    with pytest.raises(InvalidError, match=said):
        enabled.sql(f"CALL show_commits({arguments})")


def test_call_on_what_is_no_table_or_with_a_wrong_limit_is_refused(enabled, table, tmp_path) -> None:
    """Errors of the table come through as they are."""
    with pytest.raises(NotATableError):
        enabled.sql(f"CALL show_commits(path => '{tmp_path}/none')")
    with pytest.raises(InvalidError, match="limit"):
        enabled.sql(f"CALL show_commits('{table.path}', 0)")
    with pytest.raises(InvalidError, match="args"):
        enabled.sql("CALL show_commits({t})", t=table.path)


def test_enabled_session_passes_other_statements_on(enabled) -> None:
    """Ordinary SQL, with parameters and formatted values, and Spark's own errors, are as before."""
    from pyspark.errors import AnalysisException

    assert enabled.sql("SELECT 1 AS one").collect()[0].one == 1
    assert enabled.sql("SELECT :x + 1 AS two", args={"x": 1}).collect()[0].two == 2
    assert enabled.sql("SELECT ? AS q", [5]).collect()[0].q == 5
    assert enabled.sql("SELECT count(*) AS n FROM {frame}", frame=enabled.range(4)).collect()[0].n == 4
    assert enabled.sql(sqlQuery="SELECT 'CALL help()' AS c").collect()[0].c == "CALL help()"
    with pytest.raises(AnalysisException):
        enabled.sql("SELECT * FROM no_such_table_at_all")
    with pytest.raises(AnalysisException):
        enabled.sql("CALL no_such_catalog.ns.procedure(1)")


def test_enable_twice_is_enable_once(enabled) -> None:
    """A second call changes nothing, and another session is left alone."""
    before = enabled.sql
    assert tl.enable(enabled) is enabled
    assert enabled.sql == before
    assert "sql" not in vars(enabled.newSession())


def test_call_run_compaction_and_show_compaction(enabled, table) -> None:
    """Plan, show, run; both at once; wrong ops are refused; options of the service are taken."""
    made = enabled.sql(f"CALL run_compaction(op => 'schedule', table => '{table.path}')").collect()
    assert [(row["operation_size"], row["state"]) for row in made] == [(1, "REQUESTED")]
    shown = enabled.sql(f"CALL show_compaction(table => '{table.path}')").collect()
    assert shown == made
    ran = enabled.sql(f"CALL run_compaction(op => 'run', table => '{table.path}')").collect()
    assert [(row["timestamp"], row["state"]) for row in ran] == [(made[0]["timestamp"], "COMPLETED")]
    assert enabled.sql(f"CALL run_compaction('run', '{table.path}')").collect() == []
    table.upsert(rows(1, 3, ts=5))
    both = enabled.sql(
        f"CALL run_compaction(op => 'scheduleAndExecute', table => '{table.path}', "
        "options => 'hoodie.compaction.strategy=unbounded')"
    ).collect()
    assert [row["state"] for row in both] == ["COMPLETED"]
    with pytest.raises(InvalidError, match="op"):
        enabled.sql(f"CALL run_compaction(op => 'never', table => '{table.path}')")
