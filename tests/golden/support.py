"""Where golden tables are, what is expected of them, and how rows are compared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from golden.encoding import encode_rows, row_text

GOLDEN = Path(__file__).parent / "tables"


@cache
def golden_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in GOLDEN.glob("*.zip")))


@cache
def expected_of(name: str) -> dict[str, Any]:
    return json.loads((GOLDEN / f"{name}.expected.json").read_text())


def reads_of() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in golden_names():
        for read in expected_of(name)["reads"]:
            yield name, read


_SPARK_TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
}


def rows_of(table: pa.Table, spark_schema: Mapping[str, str]) -> list[dict[str, Any]]:
    """Rows in the golden encoding, in the columns and types that Spark reported.

    Ours differ in two ways that are meant: rows of an earlier time come in today's schema (later columns null, types
    widened), and the partition column of time-based key generators keeps its type, where Spark makes it text.
    """
    for name in table.column_names:
        if name not in spark_schema:
            assert table.column(name).null_count == table.num_rows, f"{name} did not exist, and has values"
    table = table.select(list(spark_schema))
    for position, field in enumerate(table.schema):
        wanted = _SPARK_TYPES.get(spark_schema[field.name], field.type)
        if wanted != field.type:
            table = table.set_column(position, field.name, table.column(position).cast(wanted))
    return encode_rows(table.to_pylist())


def without_null_fields(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows whose structs have lost their null fields: how rows compare whose structs have grown since."""

    def prune(value: Any, inside: bool) -> Any:
        if isinstance(value, dict):
            return {key: prune(item, True) for key, item in value.items() if not (inside and item is None)}
        return [prune(item, True) for item in value] if isinstance(value, list) else value

    return sorted((prune(row, False) for row in rows), key=row_text)
