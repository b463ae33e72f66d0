"""The orders of a clustering, against slow oracles."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import random

import numpy as np
import pyarrow as pa
import pytest

import tidelake as tl
from tidelake.errors import ColumnNotFoundError
from tidelake.services.clustering.order import hilbert_axes, interleaved, row_order


def codes(points: list[tuple[int, ...]]) -> list[np.ndarray]:
    return [np.array(axis, dtype=np.uint64) for axis in zip(*points, strict=True)]


def test_interleaved_bits_are_those_of_the_written_numbers() -> None:
    """A z-curve's position has the axes' bits in turn, the first axis' highest bit first."""
    points = list(itertools.product(range(8), repeat=3))
    expected = [int("".join("".join(bits) for bits in zip(*(f"{x:03b}" for x in p), strict=True)), 2) for p in points]
    assert interleaved(codes(points), 3).tolist() == expected


@pytest.mark.parametrize(("axes", "bits"), [(2, 1), (2, 4), (3, 3), (4, 2)])
def test_hilbert_positions_visit_every_cell_without_a_jump(axes: int, bits: int) -> None:
    """The positions are those of all cells, each once, and neighbours on the curve are neighbours in space."""
    points = list(itertools.product(range(1 << bits), repeat=axes))
    places = interleaved(hilbert_axes(codes(points), bits), bits).tolist()
    assert sorted(places) == list(range(len(points)))
    walk = [point for _, point in sorted(zip(places, points, strict=True))]
    assert all(sum(abs(a - b) for a, b in zip(*pair, strict=True)) == 1 for pair in itertools.pairwise(walk))


def oracle_shares(values: list[int | None], bits: int) -> list[int]:
    below = [sum(1 for other in values if value is not None and (other is None or other < value)) for value in values]
    return [(place << bits) // len(values) for place in below]


@pytest.mark.parametrize("seed", range(5))
def test_z_order_of_random_rows_is_that_of_the_oracle(seed: int) -> None:
    """Each column counts by ranks, nulls first, and rows that are equal keep their order."""
    rng = random.Random(seed)
    count = rng.randrange(1, 60)
    columns = [[rng.choice([None, *range(-4, 9)]) for _ in range(count)] for _ in range(3)]
    rows = pa.table({name: pa.array(values, pa.int64()) for name, values in zip("abc", columns, strict=True)})
    bits = max(1, (count - 1).bit_length())
    shares = [oracle_shares(values, bits) for values in columns]
    places = [
        int("".join("".join(each) for each in zip(*(f"{s[at]:0{bits}b}" for s in shares), strict=True)), 2)
        for at in range(count)
    ]
    assert row_order(rows, ("a", "b", "c"), "z-order").tolist() == sorted(range(count), key=lambda at: places[at])


@pytest.mark.parametrize("seed", range(5))
def test_linear_order_of_random_rows_is_that_of_python(seed: int) -> None:
    """The first column counts before the second; nulls come first."""
    rng = random.Random(seed)
    left = [rng.choice([None, "", "a", "b", "ö"]) for _ in range(50)]
    right = [rng.choice([None, 1.5, -2.0, 7.0]) for _ in range(50)]
    rows = pa.table({"l": pa.array(left, pa.string()), "r": pa.array(right, pa.float64())})

    def key(at: int) -> tuple[tuple[bool, object], ...]:
        return tuple((value is not None, value if value is not None else 0) for value in (left[at], right[at]))

    def comparable(at: int) -> tuple[object, ...]:
        (has_left, first), (has_right, second) = key(at)
        return (has_left, first if has_left else "", has_right, second)

    assert row_order(rows, ["l", "r"], "linear").tolist() == sorted(range(50), key=comparable)


@pytest.mark.parametrize("order", ["linear", "z-order", "hilbert"])
def test_every_type_that_compares_is_sorted(order: str) -> None:
    """Times, decimals, booleans, bytes and texts sort; the first column's least row is first in all orders."""
    rows = pa.table(
        {
            "b": pa.array([True, False, None, True]),
            "d": pa.array([dt.date(2026, 1, 3), dt.date(2026, 1, 1), None, dt.date(2026, 1, 2)]),
            "t": pa.array([3, 1, None, 2], pa.timestamp("us", "UTC")),
            "m": pa.array([decimal.Decimal("3.10"), decimal.Decimal("1.10"), None, decimal.Decimal("2.10")]),
            "x": pa.array([b"c", b"a", None, b"b"]),
            "s": pa.array(["c", "a", None, "b"]),
        }
    )
    found = row_order(rows, rows.column_names[1:], order).tolist()
    assert sorted(found) == [0, 1, 2, 3]
    assert found[0] == 2
    assert order != "linear" or found == [2, 1, 3, 0]


def test_columns_that_cannot_sort_are_refused() -> None:
    """Unknown, nested and doubled columns are typed errors that name the column."""
    rows = pa.table({"a": [1], "l": [[1]]})
    with pytest.raises(ColumnNotFoundError, match="zz"):
        row_order(rows, ["zz"], "linear")
    with pytest.raises(tl.InvalidError, match="nested"):
        row_order(rows, ["l"], "linear")
    with pytest.raises(tl.InvalidError, match="twice"):
        row_order(rows, ["a", "a"], "linear")


def test_hilbert_of_no_rows_and_of_one_row() -> None:
    """Nothing to sort is no error."""
    rows = pa.table({"a": [1], "b": [2]})
    assert row_order(rows, ["a", "b"], "hilbert").tolist() == [0]
    assert row_order(rows.slice(0, 0), ["a", "b"], "hilbert").tolist() == []
