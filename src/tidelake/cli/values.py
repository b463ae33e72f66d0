"""Arrow values as JSON: a column at a time, so that long outputs are not paid for value by value.

Whatever JSON cannot say exactly becomes text: dates and times in ISO form, decimals as written, bytes in base64,
``NaN`` and ``Infinity`` by name, durations as a number of their unit. A map is an object if its keys are text, else a
list of pairs.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def json_values(array: pa.Array) -> list[Json]:
    """The values of a column."""
    kind = array.type
    if pa.types.is_floating(kind):
        # Arrow writes the shortest text that reads back: 0.1 as a 32-bit float is 0.1, not 0.10000000149.
        return [None if value is None else _number(float(value)) for value in array.cast(pa.string()).to_pylist()]
    if pa.types.is_decimal(kind):
        return [_decimal(value) for value in array.to_pylist()]
    if pa.types.is_temporal(kind):
        return _temporal(array)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return [None if value is None else base64.b64encode(value).decode("ascii") for value in array.to_pylist()]
    if pa.types.is_dictionary(kind):
        return json_values(array.dictionary_decode())
    if pa.types.is_struct(kind):
        return _structs(array)
    if pa.types.is_map(kind):
        return [_mapping(value) for value in _lists(array)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return list(_lists(array))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or _is_text(kind) or pa.types.is_null(kind):
        plain: list[Json] = array.to_pylist()
        return plain
    return [None if value is None else str(value) for value in array.to_pylist()]


def json_rows(batch: pa.RecordBatch) -> Iterator[dict[str, Json]]:
    """The rows of a batch."""
    names = batch.schema.names
    columns = [json_values(column) for column in batch.columns]
    return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def cell_text(value: Json) -> str:
    """A value in a text table or a CSV file: text as it is, what is nested as JSON, null as nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _number(value: float) -> Json:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decimal(value: Decimal | None) -> Json:
    return None if value is None else format(value, "f")


def _temporal(array: pa.Array) -> list[Json]:
    """Written by Arrow, which knows nanoseconds and years that Python's datetime does not."""
    if pa.types.is_duration(array.type):
        numbers: list[Json] = array.cast(pa.int64()).to_pylist()
        return numbers
    separator = "T" if pa.types.is_timestamp(array.type) else " "
    texts: list[str | None] = array.cast(pa.string()).to_pylist()
    return [None if value is None else value.replace(" ", separator, 1) for value in texts]


def _structs(array: pa.StructArray) -> list[Json]:
    if array.type.num_fields == 0:
        return [{} if is_valid else None for is_valid in array.is_valid().to_pylist()]
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    children = [json_values(child) for child in array.flatten()]
    rows = zip(array.is_valid().to_pylist(), zip(*children, strict=True), strict=True)
    return [dict(zip(names, row, strict=True)) if is_valid else None for is_valid, row in rows]


def _lists(array: pa.Array) -> Iterator[list[Json] | None]:
    if pa.types.is_map(array.type):
        pair = pa.struct([pa.field("key", array.type.key_type), pa.field("value", array.type.item_type)])
        array = array.cast(pa.list_(pair))
    items = iter(json_values(array.flatten()))
    for length in pc.list_value_length(array).to_pylist():
        yield None if length is None else [next(items) for _ in range(length)]


def _mapping(pairs: list[Json] | None) -> Json:
    if pairs is None:
        return None
    entries = [(pair["key"], pair["value"]) for pair in pairs if isinstance(pair, dict)]
    keys = {key for key, _ in entries if isinstance(key, str)}
    if len(keys) == len(entries):
        return {str(key): value for key, value in entries}
    return [[key, value] for key, value in entries]
