"""Completion and freshness as properties of a table in Spark's catalog (a Hive metastore, where Spark has one).

A table that the catalog does not have is made there as one that only Tidelake reads: another reader refuses it, and does not
take superseded files for rows.

Idempotent: what the catalog says already is not written again, and a value that is no longer known is removed.
"""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from tidelake.errors import InvalidError
from tidelake.query import TableSource
from tidelake.query.freshness import freshness

_PROPERTY = re.compile(r"(tidelake\.r[to]\.[a-z.]+)=([^,\]\s]*)")


def sync_catalog(spark: SparkSession, source: TableSource, name: str, now_ms: int) -> dict[str, str]:
    """Write what changed; returns it."""
    wanted = freshness(source, now_ms).marks.properties() if source.config.event_time_field is not None else {}
    quoted = _quoted(name)
    if not spark.catalog.tableExists(name):
        location = source.storage.native_path("").rstrip("/").replace("'", "\\'")
        spark.sql(f"CREATE TABLE {quoted} USING tidelake LOCATION '{location}'")
    known = _known(spark, name)
    changed = {key: value for key, value in wanted.items() if known.get(key) != value}
    gone = sorted(known.keys() - wanted.keys())
    if changed:
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in sorted(changed.items()))
        spark.sql(f"ALTER TABLE {quoted} SET TBLPROPERTIES ({pairs})")
    if gone:
        names = ", ".join(f"'{key}'" for key in gone)
        spark.sql(f"ALTER TABLE {quoted} UNSET TBLPROPERTIES IF EXISTS ({names})")
    return changed


def _known(spark: SparkSession, name: str) -> dict[str, str]:
    """Our properties of a table. SHOW TBLPROPERTIES does not tell those of a table that a Python source reads."""
    *database, table = name.split(".")
    within = f"IN {_quoted('.'.join(database))} " if database else ""
    pattern = table.replace("\\", "\\\\").replace("'", "\\'")
    rows = spark.sql(f"SHOW TABLE EXTENDED {within}LIKE '{pattern}'").collect()
    return {key: value for row in rows for key, value in _PROPERTY.findall(row["information"])}


def _quoted(name: str) -> str:
    parts = name.split(".")
    if not all(parts) or len(parts) > 3:
        raise InvalidError(f"{name!r} is no name of a table", value=name, hint="name it as db.table")
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)
