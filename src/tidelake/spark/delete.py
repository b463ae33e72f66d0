"""A delete on Spark: the rows to delete are found by a join with the table, and written as deletes by its workers."""

from __future__ import annotations

from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelake._clock import Clock
from tidelake.errors import InvalidError
from tidelake.query import TableSource
from tidelake.schema import can_widen, spark_json_to_arrow
from tidelake.spark.write import write_on_spark
from tidelake.storage import Storage
from tidelake.write.deletes import key_columns
from tidelake.write.job import WriteRequest
from tidelake.write.transaction import Commit


def delete_on_spark(
    storage: Storage, clock: Clock, rows: DataFrame, keys: DataFrame | None, request: WriteRequest
) -> Commit | None:
    """Delete those of the table's rows that have one of the keys, or all of them. None if there are none."""
    doomed = rows if keys is None else _matching(rows, keys, TableSource.load(storage))
    # Kept, since it is looked at twice: a delete of nothing leaves no trace on the timeline.
    doomed.persist()
    try:
        return None if doomed.isEmpty() else write_on_spark(storage, clock, doomed, request)
    finally:
        doomed.unpersist()


def _matching(rows: DataFrame, keys: DataFrame, source: TableSource) -> DataFrame:
    by = key_columns(source.config, keys.columns)
    have = spark_json_to_arrow(rows.schema.json())
    given = spark_json_to_arrow(keys.schema.json())
    wanted, is_same = [], []
    for number, name in enumerate(by):
        ours, theirs = have.field(name).type, given.field(name).type
        column = keys[f"`{name}`"]
        if can_widen(theirs, ours):
            column = column.cast(rows.schema[name].dataType)
        elif not (pa.types.is_integer(ours) and pa.types.is_integer(theirs)):
            raise InvalidError(f"the keys in {name!r} are {theirs}, and not {ours}", value=name)
        wanted.append(column.alias(f"__key_{number}"))
        is_same.append(rows[f"`{name}`"].eqNullSafe(F.col(f"__key_{number}")))
    return rows.join(keys.select(*wanted).distinct(), reduce(and_, is_same), "left_semi")
