"""Ordering values compare as Apache Hudi compares them, and delete blocks say which deletes are unconditional."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.deep import examples
from tidelake.errors import UnsupportedError
from tidelake.format.delete_block import DELETE_TYPE, decode_deletes, encode_deletes
from tidelake.merge.ordering import comparable, comparable_type, delete_ordering, is_same_or_newer, type_family

UTC = dt.timezone.utc


def _ordered(values: list[Any], kind: pa.DataType) -> list[Any]:
    """The values in the order of their comparable form."""
    form = comparable(pa.array(values, kind), kind).to_pylist()
    return [value for _, value in sorted(zip(form, values, strict=True), key=lambda pair: pair[0])]


def _delete(ordering: dict[str, Any] | None, *kinds: pa.DataType) -> tuple[list[Any], bool]:
    """One delete through the codec: its ordering values in comparable form, and whether it is unconditional."""
    rows = pa.array([{"key": "k", "partition": "", "ordering": ordering}], DELETE_TYPE)
    decoded = decode_deletes(encode_deletes(rows))
    columns, unconditional = delete_ordering(decoded.field("ordering"), kinds)
    return [column[0].as_py() for column in columns], bool(unconditional[0])


def test_comparable_doubles_follow_java() -> None:
    """-0.0 lies before 0.0, NaN after infinity."""
    ordered = _ordered([math.nan, 0.0, math.inf, -0.0, -math.inf, -1.5, 1.5, 5e-324], pa.float64())
    assert [repr(v) for v in ordered] == ["-inf", "-1.5", "-0.0", "0.0", "5e-324", "1.5", "inf", "nan"]


def test_comparable_every_nan_is_the_same() -> None:
    """A NaN with its sign bit set, or another payload, is equal to any other."""
    odd = np.array([0xFFF8000000000001, 0x7FF8000000000000, 0x7FF0000000000001], dtype=np.uint64).view(np.float64)
    assert len(set(comparable(pa.array(odd), pa.float64()).to_pylist())) == 1


@given(st.lists(st.floats(allow_nan=False), min_size=2, max_size=2))
@examples()
def test_comparable_doubles_keep_their_order(pair: list[float]) -> None:
    """The integer form is ordered as the numbers are."""
    low, high = comparable(pa.array(pair), pa.float64()).to_pylist()
    if pair[0] != pair[1]:
        assert (low < high) == (pair[0] < pair[1])


def test_comparable_integers_count_null_as_hudis_default() -> None:
    """Null is Hudi's default, 0, in an int or date column, where Hudi compares it; elsewhere it stays null."""
    assert comparable(pa.array([None, -1]), pa.int32()).to_pylist() == [0, -1]
    days = pa.array([None, dt.date(1969, 12, 31)])
    assert comparable(days, pa.date32()).to_pylist() == [0, -1]
    assert comparable(pa.array([None, -1]), pa.int64()).to_pylist() == [None, -1]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int32()), pa.struct([("a", pa.int32())]), pa.map_(pa.string(), pa.int32())]
)
def test_comparable_nested_types_are_refused(kind: pa.DataType) -> None:
    """What has no order cannot be an ordering value."""
    with pytest.raises(UnsupportedError, match="cannot be an ordering value"):
        type_family(kind)


def test_same_or_newer_tuples_compare_from_the_left_and_ties_go_to_the_new() -> None:
    """Lexicographic order with null smallest; equal tuples count as newer."""
    new = [pa.array([1, 1, 1, None, None, 2]), pa.array([1, 2, None, 1, None, 0])]
    old = [pa.array([1, 1, 1, 1, None, 1]), pa.array([1, 1, 1, 1, None, 9])]
    assert is_same_or_newer(new, old).tolist() == [True, True, False, False, True, True]


@pytest.mark.parametrize(
    ("kind", "ordering", "value"),
    [
        (pa.bool_(), {"boolean": True}, 1),
        (pa.int32(), {"int": 5}, 5),
        (pa.int64(), {"long": 0}, 0),
        (pa.string(), {"string": "b"}, "b"),
        (pa.binary(), {"bytes": b"b"}, b"b"),
        (pa.date32(), {"date": 3}, 3),
        (pa.date32(), {"int": 3}, 3),
        (pa.timestamp("us", "UTC"), {"long": 7}, 7),
        (pa.timestamp("us", "UTC"), {"timestamp_micros": 7}, 7),
        (pa.timestamp("ms", "UTC"), {"long": 7}, 7),
        (pa.timestamp("ms", "UTC"), {"timestamp_micros": 7_999}, 7),
        (pa.timestamp("ms", "UTC"), {"timestamp_micros": -1}, -1),
        (pa.time64("us"), {"time_micros": 7}, 7),
        (pa.decimal128(10, 2), {"decimal": Decimal("1.25")}, Decimal("1.25")),
    ],
)
def test_delete_ordering_of_the_columns_class_is_compared(
    kind: pa.DataType, ordering: dict[str, Any], value: Any
) -> None:
    """A wrapper of the column's class gives a value in the column's own form."""
    values, unconditional = _delete(ordering, kind)
    assert not unconditional
    assert values == [value]
    assert pa.array(values, comparable_type(kind)).type == comparable_type(kind)


@pytest.mark.parametrize(
    ("kind", "ordering"),
    [
        (pa.int64(), None),
        (pa.int64(), {"int": 0}),
        (pa.int32(), {"int": 0}),
        (pa.date32(), {"int": 0}),
        (pa.int64(), {"int": 5}),
        (pa.int32(), {"long": 5}),
        (pa.float64(), {"float": 1.5}),
        (pa.string(), {"bytes": b"b"}),
        (pa.int64(), {"array": [{"long": 5}]}),
        (pa.timestamp("us", "UTC"), {"date": 5}),
    ],
)
def test_delete_ordering_default_or_of_another_class_is_unconditional(
    kind: pa.DataType, ordering: dict[str, Any] | None
) -> None:
    """No value, Hudi's integer 0, and what Hudi would not compare: the delete wins."""
    assert _delete(ordering, kind)[1]


def test_delete_ordering_of_several_fields_is_a_tuple() -> None:
    """An array wrapper with a value of each column's class; 0 within it is a value, and a local date is a date."""
    kinds = (pa.int64(), pa.int32(), pa.date32())
    values, unconditional = _delete({"array": [{"long": 5}, {"int": 0}, {"local_date": 9}]}, *kinds)
    assert (values, unconditional) == ([5, 0, 9], False)
    for other in (
        {"array": [{"long": 5}, {"int": 0}]},
        {"array": [{"long": 5}, {"long": 0}, {"date": 9}]},
        {"array": [{"long": 5}, None, {"date": 9}]},
        {"long": 5},
        {"int": 0},
        None,
    ):
        assert _delete(other, *kinds)[1]


def test_delete_ordering_decimal_beyond_the_columns_digits_is_still_compared() -> None:
    """A delete's decimal of 15 digits behind the point meets a column of two."""
    values, unconditional = _delete({"decimal": Decimal("123456789012.5")}, pa.decimal128(10, 2))
    assert not unconditional
    assert values == [Decimal("123456789012.50")]
