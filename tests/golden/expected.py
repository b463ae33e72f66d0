"""What Apache Hudi returns for a table: every read as one entry of ``<name>.expected.json``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from encoding import encode_rows
from lake import MOR, Table
from pyspark.sql import types as T

READABLE = {"commit", "deltacommit", "replacecommit"}


def describe(table: Table, description: str) -> dict[str, Any]:
    """Return the whole content of the table's expected file."""
    instants = table.instants()
    reads = [read(table, "snapshot")]
    if table.options.get("hoodie.datasource.write.table.type") == MOR:
        reads.append(read(table, "read_optimized"))
    reads += [read(table, "snapshot", i.requested) for i in instants if i.action in READABLE]
    return {
        "name": table.name,
        "description": description,
        "sql_or_steps": table.steps,
        "instants": [vars(instant) for instant in instants],
        "reads": reads,
    }


def read(table: Table, mode: str, as_of: str | None = None) -> dict[str, Any]:
    """Read the table and return the entry, or the first line of Hudi's refusal."""
    options = {**table.read_options, "hoodie.datasource.query.type": mode}
    if as_of:
        options["as.of.instant"] = as_of
    entry: dict[str, Any] = {"mode": mode, "as_of": as_of}
    reason = table.known_wrong.get(as_of or mode) or table.known_wrong.get(f"every {mode}")
    if reason:
        entry["known_wrong"] = reason
    try:
        frame = table.spark.read.format("hudi").options(**options).load(str(table.path))
        collected = frame.collect()
    except Exception as error:
        return {**entry, "refused": first_line(error, str(table.path))}
    rows = encode_rows(plain(row, frame.schema) for row in collected)
    return {
        **entry,
        "columns": frame.columns,
        "schema": {f.name: f.dataType.simpleString() for f in frame.schema.fields},
        "rows": rows,
    }


def plain(value: Any, kind: T.DataType) -> Any:
    """Turn a value collected by Spark into what pyarrow's ``to_pylist()`` gives for it."""
    if value is None:
        return None
    if isinstance(kind, T.StructType):
        return {f.name: plain(item, f.dataType) for f, item in zip(kind.fields, value, strict=True)}
    if isinstance(kind, T.ArrayType):
        return [plain(item, kind.elementType) for item in value]
    if isinstance(kind, T.MapType):
        return _pairs(value, kind)
    if isinstance(kind, T.TimestampType):
        return _aware(value)
    return value


def first_line(error: Exception, path: str) -> str:
    """Return the line of an error that names its root cause, without the place where the table was made."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    causes = [line for line in lines if line.startswith(("Caused by: ", ": "))]
    return (causes[-1] if causes else lines[0]).removeprefix("Caused by").removeprefix(": ").replace(path, "<path>")


def _pairs(value: Mapping[Any, Any], kind: T.MapType) -> list[tuple[Any, Any]]:
    return [(plain(k, kind.keyType), plain(v, kind.valueType)) for k, v in value.items()]


def _aware(value: datetime) -> datetime:
    return value.replace(tzinfo=timezone.utc)
