"""Type-safe JSON form of table rows, shared by the golden maker and the tests that check against it.

The functions take plain Python values, as pyarrow's ``to_pylist()`` gives them:

=====================  =======================================================
value                  JSON
=====================  =======================================================
null, bool, int, str   the same
float                  number; ``"NaN"``, ``"Infinity"``, ``"-Infinity"``
Decimal                string in plain notation, scale kept: ``"12.50"``
bytes                  string, lower-case hex
date                   string ``"2024-01-15"``
aware datetime         string in UTC, ``"2024-01-15T01:02:03.000000Z"``
naive datetime         string ``"2024-01-15T01:02:03.000000"`` (timestamp_ntz)
list                   array
list of tuples (map)   array of ``[key, value]``, sorted by the key's JSON text
dict (struct)          object, fields in their order
=====================  =======================================================

Rows are objects with the columns in table order, sorted by their JSON text (``row_text``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any


def encode_value(value: Any) -> Any:
    """Return the JSON form of one plain Python value."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return _encode_float(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, datetime):
        return _encode_datetime(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: encode_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return _encode_list(value)
    raise TypeError(f"no JSON form for {type(value).__name__}")


def encode_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the JSON form of the rows, sorted by their JSON text."""
    return sorted((encode_value(row) for row in rows), key=row_text)


def row_text(row: Any) -> str:
    """Return the JSON text that rows and map keys are sorted by."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def _encode_float(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _encode_datetime(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(timespec="microseconds")
    utc = value.astimezone(timezone.utc).replace(tzinfo=None)
    return utc.isoformat(timespec="microseconds") + "Z"


def _encode_list(value: list[Any]) -> list[Any]:
    if value and all(isinstance(item, tuple) for item in value):
        pairs = [[encode_value(key), encode_value(item)] for key, item in value]
        return sorted(pairs, key=lambda pair: row_text(pair[0]))
    return [encode_value(item) for item in value]
