"""Text and values: what tables and JSON lines are made of."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest

from tidelake.cli.text import Column, clean, cut, display_width, human_duration, table_lines
from tidelake.cli.values import json_values


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("två 漢字 😀", "två 漢字 😀"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x9b2J", "\\x9b2J"),
        ("abc\u202etxt.exe", "abc\\u202etxt.exe"),
        ("\u2028", "\\u2028"),
        ("\udc80", "\\udc80"),
    ],
)
def test_clean_of_control_characters_escapes_them(raw, shown):
    """Nothing that a table holds steers the terminal or hides from the eye."""
    assert clean(raw) == shown


def test_table_with_hostile_cells_keeps_its_lines():
    """A cell with line breaks and escapes stays one cell of one line."""
    lines = table_lines([Column("a"), Column("b", is_number=True)], [["x\ny\x1b[2J", "1"], ["z", "22"]])
    assert len(lines) == 4
    assert "\x1b" not in "".join(lines)


def test_table_with_wide_characters_is_aligned():
    """Characters of two columns count as two."""
    lines = table_lines([Column("a"), Column("b")], [["漢字", "x"], ["abcd", "x"]])
    assert display_width(lines[2]) == display_width(lines[3])
    assert cut("漢字漢字", 5) == "漢字…"


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_500, "1.5 s"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (7_380_000, "2 h 3 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_duration_of_any_length_has_a_fitting_unit(milliseconds, shown):
    """Durations are told in the units a person would choose."""
    assert human_duration(milliseconds) == shown


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1.5, float("nan"), float("-inf"), None]), [1.5, "NaN", "-Infinity", None]),
        (pa.array([0.1], pa.float32()), [0.1]),
        (
            pa.array([Decimal("0"), Decimal("1.10"), None], pa.decimal128(20, 10)),
            ["0.0000000000", "1.1000000000", None],
        ),
        (pa.array([1], pa.timestamp("ns", "UTC")), ["1970-01-01T00:00:00.000000001Z"]),
        (pa.array([5_000_000], pa.date32()), ["15659-07-15"]),
        (pa.array([5], pa.time64("us")), ["00:00:00.000005"]),
        (pa.array([5], pa.duration("s")), [5]),
        (pa.array([b"\x00\xff", None]), ["AP8=", None]),
        (pa.array(["x", "x"]).dictionary_encode(), ["x", "x"]),
        (pa.array([{"a": [1, None]}, None]), [{"a": [1, None]}, None]),
        (pa.array([[("k", 1)], [("z", 9)], None, []], pa.map_(pa.string(), pa.int32()))[1:], [{"z": 9}, None, {}]),
        (pa.array([[(1, 2)]], pa.map_(pa.int32(), pa.int32())), [[[1, 2]]]),
        (pa.array([[1, 2], None, [3]])[1:], [None, [3]]),
        (pa.array([{}, None], pa.struct([])), [{}, None]),
    ],
)
def test_values_of_any_type_are_json(array, expected):
    """Arrow values of every kind become JSON values that say them exactly."""
    assert json_values(array) == expected
    json.loads(json.dumps(json_values(array), allow_nan=False))
