"""Column types with values: what generated slices and tables are made of, and how rows are compared."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

UTC = dt.timezone.utc
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Kind:
    """A column type, values for it, and (for an ordering column) a few values that often tie."""

    type: pa.DataType
    values: st.SearchStrategy[Any]
    ordering: tuple[Any, ...] = ()
    narrow: tuple[pa.DataType, Callable[[Any], Any]] | None = None
    """The type that the column had before, and what a value of now would have been then."""


def _same(value: Any) -> Any:
    return value


def _whole_millis(value: dt.datetime) -> dt.datetime:
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def _without_b(value: Any) -> Any:
    return None if value is None else {"a": value["a"], "b": None}


def _items(item: Any) -> pa.DataType:
    return pa.list_(pa.field("element", item))


def _mapped(item: Any) -> pa.DataType:
    return pa.map_(pa.string(), pa.field("value", item))


_ints = st.integers(-(2**31), 2**31 - 1)
_text = st.text(st.characters(codec="utf-8"), max_size=6)
_moments = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1)).map(lambda t: t.replace(tzinfo=UTC))
_pair = pa.struct([("a", pa.int32()), ("b", pa.string())])
_pairs = st.fixed_dictionaries({"a": st.none() | _ints, "b": st.none() | _text})
_deep = pa.struct(
    [("list", _items(_pair)), ("map", _mapped(_items(pa.int64()))), ("inner", pa.struct([("d", pa.date32())]))]
)
_maps = st.dictionaries(_text, st.none() | st.integers(-9, 9), max_size=3).map(lambda d: list(d.items()))
_short_floats = st.sampled_from([0.0, 0.1, -0.1, 1.5, -2.25, 3.3])

KINDS: dict[str, Kind] = {
    "bool": Kind(pa.bool_(), st.booleans(), (False, True)),
    "int": Kind(pa.int32(), _ints, (-5, 0, 1, 2, 2**31 - 1)),
    "long": Kind(pa.int64(), st.integers(-(2**63), 2**63 - 1), (-5, 0, 1, 2, 2**62)),
    "float": Kind(pa.float32(), st.floats(width=32)),
    "double": Kind(pa.float64(), st.floats(), (math.nan, -0.0, 0.0, math.inf, -math.inf, 1.5, -1.5)),
    "decimal": Kind(
        pa.decimal128(10, 2),
        st.integers(-(10**10) + 1, 10**10 - 1).map(lambda n: Decimal(n).scaleb(-2)),
        (Decimal("-1.50"), Decimal("0.00"), Decimal("1.25"), Decimal("99999999.99")),
    ),
    "string": Kind(pa.string(), _text, ("", "a", "b", "ab", "é", "\uffff", "\U00010000")),
    "binary": Kind(pa.binary(), st.binary(max_size=6), (b"", b"a", b"\xff")),
    "date": Kind(pa.date32(), st.dates(), (dt.date(1969, 12, 30), dt.date(1970, 1, 1), dt.date(2026, 1, 31))),
    "timestamp_us": Kind(
        pa.timestamp("us", "UTC"), _moments, (EPOCH, EPOCH - dt.timedelta(microseconds=1), EPOCH + dt.timedelta(days=9))
    ),
    "timestamp_ms": Kind(
        pa.timestamp("ms", "UTC"),
        _moments.map(_whole_millis),
        (EPOCH, EPOCH - dt.timedelta(milliseconds=1), EPOCH + dt.timedelta(days=9)),
    ),
    "array": Kind(_items(pa.int32()), st.lists(st.none() | _ints, max_size=3)),
    "map": Kind(_mapped(pa.int64()), _maps),
    "struct": Kind(_pair, _pairs, narrow=(pa.struct([("a", pa.int32())]), _without_b)),
    "nested": Kind(
        _deep,
        st.fixed_dictionaries(
            {
                "list": st.none() | st.lists(st.none() | _pairs, max_size=2),
                "map": st.none() | st.just([("k", [1, None])]) | st.just([]),
                "inner": st.none() | st.fixed_dictionaries({"d": st.none() | st.dates()}),
            }
        ),
    ),
    "once_int": Kind(pa.int64(), _ints, narrow=(pa.int32(), _same)),
    "once_float": Kind(pa.float64(), _short_floats, narrow=(pa.float32(), _same)),
    "once_ms": Kind(pa.timestamp("us", "UTC"), _moments.map(_whole_millis), narrow=(pa.timestamp("ms", "UTC"), _same)),
}
ORDERING_KINDS = tuple(name for name, kind in KINDS.items() if kind.ordering)


def multiset(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    """Rows as a multiset of texts that differ whenever a value does."""
    return Counter(str(_canonical(row)) for row in rows)


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    if isinstance(value, dt.datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    return repr(value)
