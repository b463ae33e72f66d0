"""``tl.view``: a view by name, fresh in every statement that names it, and known to CALL."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake.errors import InvalidError

pytestmark = pytest.mark.spark

SCHEMA = "id bigint, v string, ts bigint"


def rows(*ids: int, v: str = "a", ts: int = 1) -> pa.Table:
    return pa.table({"id": ids, "v": [v] * len(ids), "ts": [ts] * len(ids)})


@pytest.fixture
def table(tmp_path) -> tl.Table:
    made = tl.create_table(str(tmp_path / "trips"), SCHEMA, ordering_fields="ts")
    made.upsert(rows(1, 2))
    return made


@pytest.fixture
def trips(spark, table):
    tl.view(spark, "trips", table.path)
    yield spark
    spark.catalog.dropTempView("trips")


def contents(frame) -> dict[int, str]:
    return {row.id: row.v for row in frame.select("id", "v").collect()}


def test_view_reads_the_newest_commit_in_every_statement(trips, table) -> None:
    """Commits made after the view are seen by spark.sql and by spark.table; inserts and updates, whatever the case."""
    assert contents(trips.sql("SELECT * FROM trips")) == {1: "a", 2: "a"}
    table.upsert(rows(3, v="new"))
    assert contents(trips.sql("SELECT t.id, t.v FROM TRIPS AS t")) == {1: "a", 2: "a", 3: "new"}
    table.upsert(rows(2, v="changed", ts=2))
    assert contents(trips.table("Trips")) == {1: "a", 2: "changed", 3: "new"}
    table.insert_overwrite_table(rows(9))
    assert contents(trips.sql("WITH x AS (SELECT * FROM `trips`) SELECT * FROM x")) == {9: "a"}


def test_view_sees_a_column_that_a_later_commit_added(trips, table) -> None:
    """The view has the table's schema of the moment."""
    table.upsert(rows(3).append_column("added", pa.array(["x"])))
    assert {r.id: r.added for r in trips.sql("SELECT id, added FROM trips").collect()} == {1: None, 2: None, 3: "x"}


def test_view_frame_that_was_made_keeps_its_snapshot(trips, table) -> None:
    """A DataFrame stands for the moment at which it was made, however late it is read."""
    before = trips.sql("SELECT id, v FROM trips")
    table.upsert(rows(3))
    assert contents(before) == {1: "a", 2: "a"}


def test_view_is_a_native_scan_with_pruned_columns(trips) -> None:
    """Slices without logs are Spark's own parquet scan, and only the columns of the query are read."""
    plan = trips.sql("SELECT v FROM trips")._jdf.queryExecution().executedPlan().toString()
    assert "FileScan parquet" in plan
    assert "ReadSchema: struct<v:string>" in plan


def test_view_name_stands_for_the_table_in_call(trips, table) -> None:
    """CALL finds the table by the view's name, in any case."""
    table.upsert(rows(3))
    assert trips.sql("CALL show_commits(table => 'TRIPS')").count() == 2


def test_view_made_again_stands_for_the_other_table(trips, tmp_path) -> None:
    """A second tl.view of the same name replaces the first."""
    other = tl.create_table(str(tmp_path / "other"), SCHEMA, ordering_fields="ts")
    other.upsert(rows(7))
    tl.view(trips, "trips", other.path)
    assert contents(trips.sql("SELECT * FROM trips")) == {7: "a"}
    assert trips.sql("CALL show_commits('trips')").count() == 1


def test_view_replaced_or_dropped_by_the_user_is_left_alone(trips, table) -> None:
    """A view that is no longer ours is neither made anew nor taken for the table."""
    from pyspark.errors import AnalysisException

    trips.range(5).createOrReplaceTempView("trips")
    with pytest.raises(InvalidError, match="no view 'trips'"):
        trips.sql("CALL show_commits('trips')")
    table.upsert(rows(3))
    assert trips.sql("SELECT * FROM trips").count() == 5
    tl.view(trips, "trips", table.path)
    trips.sql("DROP VIEW trips")
    table.upsert(rows(4))
    with pytest.raises(AnalysisException):
        trips.sql("SELECT * FROM trips")


@pytest.mark.parametrize("name", ["", "a b", "db.trips", "a`b", 3])
def test_view_with_a_wrong_name_is_refused(spark, table, name) -> None:
    """Only a plain name is a view's name."""
    with pytest.raises(InvalidError, match="no name of a view"):
        tl.view(spark, name, table.path)


def test_view_of_an_empty_table_fills_with_its_first_commit(spark, tmp_path) -> None:
    """A table without commits is a view without rows, until it has some."""
    made = tl.create_table(str(tmp_path / "fresh"), SCHEMA, ordering_fields="ts")
    tl.view(spark, "fresh", made.path)
    assert spark.sql("SELECT * FROM fresh").count() == 0
    made.upsert(rows(1))
    assert contents(spark.sql("SELECT * FROM fresh")) == {1: "a"}
    spark.catalog.dropTempView("fresh")
