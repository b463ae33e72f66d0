"""Partition pruning: what a filter says of partition columns, as a constraint on folders."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.query.filters import Filter


class FilterConstraint:
    """The partition columns' part of a filter. Types whose path text is not certain are not constrained."""

    def __init__(self, condition: Filter) -> None:
        self._condition = condition

    @staticmethod
    def of(condition: Filter | None, partition_fields: tuple[str, ...]) -> FilterConstraint | None:
        """The constraint, or None if the filter says nothing of the partition columns."""
        if condition is None:
            return None
        certain = frozenset(
            f for f in partition_fields if f in condition.schema.names and _is_certain(condition.schema, f)
        )
        part = condition.restricted_to(certain)
        return None if part is None else FilterConstraint(part)

    def candidates(self, field: str) -> Sequence[str | None] | None:
        if field not in self._condition.columns:
            return None
        values = self._condition.values_of(field)
        if values is None or any(isinstance(value, float) for value in values):
            # 10.0 is equal to an integer column's 10, but not its text.
            return None
        return [_path_text(value) for value in values]

    def may_span_folders(self, field: str) -> bool:
        schema = self._condition.schema
        return (
            field not in schema.names or not _is_certain(schema, field) or pa.types.is_string(schema.field(field).type)
        )

    def keep(self, values: Sequence[dict[str, str | None]]) -> Sequence[bool]:
        if not values:
            return []
        schema = self._condition.schema
        columns = {
            name: _typed([row[name] for row in values], schema.field(name).type) for name in self._condition.columns
        }
        rows = pa.table({**columns, "__row": np.arange(len(values))})
        kept = set(rows.filter(self._condition.to_arrow())["__row"].to_pylist())
        unsure = {i for column in columns.values() for i in _unparsed(column, values)}
        return [i in kept or i in unsure for i in range(len(values))]


def _is_certain(schema: pa.Schema, field: str) -> bool:
    kind = schema.field(field).type
    tests = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date32)
    return any(test(kind) for test in tests)


def _path_text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


def _typed(texts: list[str | None], kind: pa.DataType) -> pa.Array:
    column = pa.array(texts, pa.string())
    try:
        return pc.cast(column, kind)
    except pa.ArrowException:
        return pa.array([_one(text, kind) for text in texts], kind)


def _one(text: str | None, kind: pa.DataType) -> object:
    try:
        return None if text is None else pa.scalar(text).cast(kind).as_py()
    except pa.ArrowException:
        return None


def _unparsed(column: pa.Array, values: Sequence[dict[str, str | None]]) -> list[int]:
    """Partitions with a null value: their folder may also be one whose text is not of the column's type."""
    return np.flatnonzero(np.asarray(column.is_null())).tolist() if column.null_count else []
