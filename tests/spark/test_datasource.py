"""``spark.read.format("tidelake")``: found by Spark by itself, with Apache Hudi's option names."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

import tidelake as tl

pytestmark = pytest.mark.spark
NAME = "mor_v9_event_avro"


def test_datasource_load_equals_scan(golden, spark) -> None:
    """The data source, found by its name alone, gives the rows of a scan."""
    path = str(golden(NAME))
    loaded = spark.read.format("tidelake").load(path).toArrow()
    assert loaded.sort_by("id").to_pylist() == tl.open_table(path).scan().to_arrow().sort_by("id").to_pylist()


def test_datasource_hudi_options_travel_and_choose_the_view(golden, spark) -> None:
    """Apache Hudi's option names choose the view and the time; columns and filter narrow the read."""
    path = str(golden(NAME))
    table = tl.open_table(path)
    then = table.timeline.completed_writes[3].requested_time
    travelled = spark.read.format("tidelake").option("as.of.instant", then).load(path)
    assert travelled.count() == table.scan(as_of=then).count()
    base = spark.read.format("tidelake").option("hoodie.datasource.query.type", "read_optimized").load(path)
    assert base.count() == table.scan(mode="read_optimized").count()
    narrow = spark.read.format("tidelake").options(columns="id,name", filter="id > 3").load(path)
    assert narrow.columns == ["id", "name"]
    assert narrow.toArrow().num_rows == table.scan(filter="id > 3").count()


def test_datasource_wrong_option_value_is_refused(golden, spark) -> None:
    """A view that does not exist is refused, with its name."""
    with pytest.raises(PySparkException, match="no_such_view"):
        spark.read.format("tidelake").option("hoodie.datasource.query.type", "no_such_view").load(str(golden(NAME)))


def test_datasource_without_table_says_so(tmp_path, spark) -> None:
    """A path that holds no table is refused in a sentence."""
    with pytest.raises(PySparkException, match="is not a table"):
        spark.read.format("tidelake").load(str(tmp_path))


def test_scan_filter_and_columns_on_spark_equal_in_process(golden, spark) -> None:
    """A narrowed scan gives the same rows on Spark as in process."""
    table = tl.open_table(str(golden("mor_v9_hive")), spark=spark)
    scan = table.scan(columns=["id", "name"], filter="id > 3 AND name <> 'n7'")
    on_spark = scan.to_spark().toArrow().sort_by("id")
    assert on_spark.to_pylist() == scan.to_arrow().sort_by("id").to_pylist()
    assert on_spark.num_rows > 0
