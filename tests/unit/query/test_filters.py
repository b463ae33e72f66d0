"""Filters mean what they mean in SQL: three-valued logic, typed literals, and the same rows however they are pruned."""

from __future__ import annotations

import datetime as dt
import io
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.deep import examples
from tidelake.errors import ColumnNotFoundError, FilterError, TidelakeError
from tidelake.filegroup import BaseFile
from tidelake.format.names import parse_base_name
from tidelake.query.filters import parse_filter
from tidelake.query.read_slice import read_base
from tidelake.storage import MemoryStorage

UTC = dt.timezone.utc
SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("i", pa.int32()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("m", pa.decimal128(10, 2)),
        ("f", pa.float64()),
        ("b", pa.bool_()),
        ("n", pa.struct([("x", pa.int64()), ("y", pa.string())])),
    ]
)
VALUES: dict[str, list[Any]] = {
    "i": [None, -1, 0, 3, 7],
    "s": [None, "", "a", "ab", "b%", "B"],
    "d": [None, dt.date(2026, 1, 30), dt.date(2026, 1, 31), dt.date(1969, 12, 31)],
    "t": [None, dt.datetime(2026, 1, 31, 12, tzinfo=UTC), dt.datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC)],
    "m": [None, Decimal("0.00"), Decimal("1.10"), Decimal("-3.05")],
    "f": [None, 0.0, 1.1, -3.5, math.nan, math.inf],
    "b": [None, True, False],
    "n.x": [None, 0, 5],
}
LITERALS: dict[str, list[tuple[str, Any]]] = {
    "i": [("0", 0), ("3", 3), ("-1", -1), ("2.5", 2.5), ("NULL", None)],
    "s": [("'a'", "a"), ("''", ""), ("'ab'", "ab"), ("NULL", None)],
    "d": [("'2026-01-31'", dt.date(2026, 1, 31)), ("DATE '2026-01-30'", dt.date(2026, 1, 30)), ("NULL", None)],
    "t": [
        ("'2026-01-31 12:00:00'", dt.datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("'2026-01-31T13:00:00+01:00'", dt.datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("TIMESTAMP '2026-01-31 12:00:00.000001'", dt.datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC)),
    ],
    "m": [("1.1", Decimal("1.1")), ("0", Decimal(0)), ("-3.05", Decimal("-3.05")), ("1.105", Decimal("1.105"))],
    "f": [("1.1", 1.1), ("0", 0.0), ("-3.5", -3.5)],
    "n.x": [("0", 0), ("5", 5)],
}
Verdict = bool | None
Condition = tuple[str, Callable[[dict[str, Any]], Verdict]]


def _value(row: dict[str, Any], name: str) -> Any:
    head, _, rest = name.partition(".")
    value = row[head]
    return value if not rest else None if value is None else value[rest]


def _rank(value: Any) -> Any:
    """NaN is the greatest number, and equal to itself, as in Spark and DuckDB."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _compare(operator: str, a: Any, b: Any) -> Verdict:
    if a is None or b is None:
        return None
    if isinstance(a, float) or isinstance(b, float):
        return OPERATORS[operator](_rank(float(a)), _rank(float(b)))
    return OPERATORS[operator](a, b)


def _and(a: Verdict, b: Verdict) -> Verdict:
    return False if a is False or b is False else None if a is None or b is None else True


def _or(a: Verdict, b: Verdict) -> Verdict:
    return True if a is True or b is True else None if a is None or b is None else False


def _not(a: Verdict) -> Verdict:
    return None if a is None else not a


@st.composite
def leaves(draw: st.DrawFn) -> Condition:
    form = draw(st.sampled_from(["compare", "compare", "in", "between", "null", "like", "bool", "null_safe"]))
    name = draw(st.sampled_from(sorted(LITERALS)))
    if form == "bool":
        return "b", lambda row: row["b"]
    if form == "like":
        pattern, test = draw(
            st.sampled_from(
                [
                    ("a%", lambda s: s.startswith("a")),
                    ("%b", lambda s: s.endswith("b")),
                    ("_", lambda s: len(s) == 1),
                    ("a_", lambda s: len(s) == 2 and s[0] == "a"),
                    ("", lambda s: s == ""),
                ]
            )
        )
        return f"s LIKE '{pattern}'", lambda row: None if row["s"] is None else test(row["s"])
    if form == "null":
        negated = draw(st.booleans())
        text = f"{name} IS {'NOT ' if negated else ''}NULL"
        return text, lambda row: (_value(row, name) is None) is not negated
    if form == "between":
        (low, least), (high, most) = (draw(st.sampled_from(LITERALS[name])) for _ in range(2))
        return f"{name} BETWEEN {low} AND {high}", lambda row: _and(
            _compare(">=", _value(row, name), least), _compare("<=", _value(row, name), most)
        )
    if form == "in":
        items = draw(st.lists(st.sampled_from(LITERALS[name]), min_size=1, max_size=3))

        def is_in(row: dict[str, Any]) -> Verdict:
            verdict: Verdict = False
            for _, item in items:
                verdict = _or(verdict, _compare("=", _value(row, name), item))
            return verdict

        return f"{name} IN ({', '.join(text for text, _ in items)})", is_in
    text, literal = draw(st.sampled_from(LITERALS[name]))
    if form == "null_safe":
        both = lambda row: _value(row, name) is None and literal is None  # noqa: E731
        return f"{name} <=> {text}", lambda row: both(row) or _compare("=", _value(row, name), literal) is True
    operator = draw(st.sampled_from(sorted(OPERATORS)))
    if draw(st.booleans()):
        return f"{text} {operator} {name}", lambda row: _compare(operator, literal, _value(row, name))
    return f"{name} {operator} {text}", lambda row: _compare(operator, _value(row, name), literal)


def _extend(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    def both(pair: tuple[Condition, Condition], word: str) -> Condition:
        (left, one), (right, two) = pair
        join = _and if word == "AND" else _or
        return f"({left}) {word} ({right})", lambda row: join(one(row), two(row))

    pairs = st.tuples(inner, inner)
    negated = inner.map(lambda c: (f"NOT ({c[0]})", lambda row: _not(c[1](row))))
    return negated | pairs.map(lambda p: both(p, "AND")) | pairs.map(lambda p: both(p, "OR"))


CONDITIONS = st.recursive(leaves(), _extend, max_leaves=4)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = []
    for number in range(draw(st.integers(1, 12))):
        row = {name: draw(st.sampled_from(values)) for name, values in VALUES.items() if "." not in name}
        nested = draw(st.sampled_from([None, *VALUES["n.x"]]))
        rows.append({"row": number, **row, "n": None if nested is None else {"x": nested, "y": None}})
    return pa.Table.from_pylist(rows, SCHEMA)


def _read(table: pa.Table, text: str, row_group: int, schema: pa.Schema = SCHEMA) -> list[int]:
    """Rows of a base file that the filter keeps, row groups being pruned by their statistics."""
    storage = MemoryStorage()
    name = parse_base_name("00000000-0_1-0-1_20260101000000000.parquet")
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=row_group)
    storage.put(str(name), sink.getvalue())
    parsed = parse_filter(text, schema)
    base = BaseFile(str(name), name, len(sink.getvalue()))
    kept: list[int] = []
    for batch in read_base(storage, base, schema, parsed.for_statistics()):
        kept.extend(batch.filter(parsed.to_arrow()).column("row").to_pylist())
    return kept


@given(CONDITIONS, tables(), st.integers(1, 4))
@examples()
def test_filter_any_condition_keeps_the_rows_for_which_it_is_true(
    condition: Condition, table: pa.Table, row_group: int
) -> None:
    """Every condition gives SQL's rows, with and without pruning of row groups."""
    text, verdict = condition
    expected = [row["row"] for row in table.to_pylist() if verdict(row) is True]
    parsed = parse_filter(text, SCHEMA)
    assert table.filter(parsed.to_arrow())["row"].to_pylist() == expected
    assert _read(table, text, row_group) == expected


@pytest.mark.parametrize(
    "text",
    [
        "i + 1 > 3",
        "i * 2 = 6",
        "i - 1 <> -1",
        "i / 2 = 1.5",
        "-i > 0",
        "lower(s) = 'b'",
        "upper(s) LIKE 'A%'",
        "s ILIKE 'A%'",
        "i > f",
        "f > i",
        "m > i",
        "b = true",
        "b IS TRUE",
        "b IS NOT TRUE",
        "s NOT LIKE 'a%'",
        "i NOT IN (0, 3)",
        "i NOT BETWEEN 0 AND 3",
        "NOT b OR i = 3",
        "i IN (0, NULL)",
        "i NOT IN (0, NULL)",
        "n.x = 5",
        "f <> 1.1",
        "f = f",
        "m = 1.1",
        "m < 1.105",
        "d < '2026-01-31' AND t >= '2026-01-31 12:00:00'",
    ],
)
def test_filter_expression_gives_what_duckdb_gives(text: str) -> None:
    """What we accept beyond plain comparisons means the same to another engine."""
    rows = [
        {"row": k, "i": i, "s": s, "d": d, "t": t, "m": m, "f": f, "b": b, "n": {"x": x, "y": None}}
        for k, (i, s, d, t, m, f, b, x) in enumerate(zip(*(values * 8 for values in VALUES.values()), strict=False))
    ]
    table = pa.Table.from_pylist(rows, SCHEMA)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("rows_", table)
        expected = [
            row[0] for row in connection.execute(f'SELECT "row" FROM rows_ WHERE {text} ORDER BY "row"').fetchall()
        ]
    assert table.filter(parse_filter(text, SCHEMA).to_arrow())["row"].to_pylist() == expected
    assert expected or "NULL" in text, "a filter that keeps nothing shows nothing"


@pytest.mark.parametrize(
    ("old", "new", "values", "text", "expected"),
    [
        (pa.float32(), pa.float64(), [0.1, 0.2], "c <= 0.1", [0]),
        (pa.float32(), pa.float64(), [0.1, 0.2], "c = 0.1", [0]),
        (pa.float32(), pa.float64(), [0.1, 0.2], "c > 0.1", [1]),
        (pa.int32(), pa.string(), [9, 10], "c > '10'", [0]),
        (pa.int32(), pa.string(), [9, 10], "c = '10'", [1]),
        (pa.int32(), pa.string(), [9, 10], "c IN ('9', 'x')", [0]),
        (pa.int32(), pa.int64(), [9, 10], "c > 9", [1]),
        (pa.int64(), pa.float64(), [9, 10], "c > 9.5", [1]),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), [0, 1], "c >= '1970-01-01 00:00:00.001'", [1]),
    ],
)
@pytest.mark.parametrize("row_group", [1, 2])
def test_filter_on_a_column_that_was_widened_prunes_no_row(
    old: pa.DataType, new: pa.DataType, values: list[Any], text: str, expected: list[int], row_group: int
) -> None:
    """Statistics of the old type do not prune row groups that match in the type of now."""
    stored = pa.table({"row": [0, 1], "c": pa.array(values, old)})
    assert _read(stored, text, row_group, pa.schema([("row", pa.int64()), ("c", new)])) == expected


@pytest.mark.parametrize("text", ["f > 5", "NOT f = 1.1", "f <> 1.1", "NOT f <= 5", "NOT (i = 3 OR f <=> 1.1)"])
@pytest.mark.parametrize("others", [[1.1, 1.1], [1.1, 2.0]])
def test_filter_that_nan_satisfies_prunes_no_group_with_nan(text: str, others: list[float]) -> None:
    """Statistics do not show NaN: a group of one value and NaN is not taken for one of that value alone."""
    rows = [{"row": k, "i": 0, "f": f} for k, f in enumerate([*others, math.nan])]
    assert 2 in _read(pa.Table.from_pylist(rows, SCHEMA), text, 3)


def test_filter_statistics_still_prune_what_cannot_match() -> None:
    """Pruning works where it is safe: other columns, and comparisons that NaN fails."""
    assert parse_filter("i > 3 AND f > 1", SCHEMA).for_statistics() is not None
    assert parse_filter("f > 1", SCHEMA).for_statistics() is None
    for text in ("f < 1", "f = 1", "f BETWEEN 1 AND 2", "f IN (1, 2)"):
        assert parse_filter(text, SCHEMA).for_statistics() is not None


def test_filter_on_a_column_that_the_file_lacks_sees_null() -> None:
    """A column added later is null in an old file, and IS NULL keeps its rows."""
    stored = pa.table({"row": [0, 1]})
    schema = pa.schema([("row", pa.int64()), ("c", pa.int32())])
    assert _read(stored, "c IS NULL", 1, schema) == [0, 1]
    assert _read(stored, "c > 0 OR row = 1", 1, schema) == [1]


def test_filter_names_match_in_any_case_if_one_column_does() -> None:
    """Names are looked up exactly first, then without case; two candidates are an error."""
    schema = pa.schema([("Fare", pa.int32()), ("a", pa.int32()), ("A", pa.int32())])
    assert parse_filter("FARE > 1", schema).columns == {"Fare"}
    assert parse_filter("a = 1 AND A = 2", schema).columns == {"a", "A"}
    with pytest.raises(ColumnNotFoundError, match="'b'"):
        parse_filter("b = 1", schema)
    twins = pa.schema([("ab", pa.int32()), ("AB", pa.int32())])
    with pytest.raises(ColumnNotFoundError, match="'Ab'"):
        parse_filter("Ab = 1", twins)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "i =",
        "i = 'x'",
        "s > 3",
        "d = 'yesterday'",
        "t = 'noon'",
        "b = 3",
        "i",
        "n = 3",
        "n.z = 3",
        "i IN (SELECT 1)",
        "foo(i) = 3",
        "i > 1; DROP TABLE t",
        "s LIKE s",
        "i IN ()",
        "(" * 300 + "i = 1" + ")" * 300,
        "i = 1" + " OR i = 1" * 20_000,
        "i = 99999999999999999999999999",
        "m = 1e400",
        "SELECT 1",
        "*",
        "i IS s",
    ],
)
def test_filter_that_makes_no_sense_is_refused_with_its_text(text: str) -> None:
    """What cannot be parsed, typed or evaluated is a typed error before anything is read."""
    with pytest.raises(TidelakeError):
        parse_filter(text, SCHEMA)


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        ("'O''Brien'", "O'Brien"),
        (r"'O\'Brien'", "O'Brien"),
        ("''''", "'"),
        ("''", ""),
        ("'''a'''", "'a'"),
        (r"'a\\''b'", r"a\'b"),
        ('"O""Brien"', 'O"Brien'),
        ("\"O''Brien\"", "O''Brien"),
    ],
)
def test_filter_quote_within_a_text_is_escaped_by_another_or_by_a_backslash(literal: str, expected: str) -> None:
    """A quote within a text is written twice, as in standard SQL, or after a backslash: in every use of the filter."""
    parsed = parse_filter(f"s = {literal} AND i = 1", SCHEMA)
    assert parsed.values_of("s") == [expected]
    part = parsed.restricted_to(frozenset({"s"}))
    assert part is not None
    assert part.values_of("s") == [expected]
    assert parse_filter(parsed.to_spark(), SCHEMA).values_of("s") == [expected]
    table = pa.table({"s": [expected, expected + "x"]})
    assert table.filter(parse_filter(f"s IN ({literal}, 'z')", SCHEMA).to_arrow())["s"].to_pylist() == [expected]


def test_filter_error_names_the_value() -> None:
    """The message says which literal does not fit which type."""
    with pytest.raises(FilterError, match=r"'x'.*int32"):
        parse_filter("i = 'x'", SCHEMA)


def test_filter_restricted_to_columns_keeps_only_conjuncts_on_them() -> None:
    """Only what must hold of the partition columns alone is used for pruning."""
    parsed = parse_filter("(i = 1 AND s = 'a') AND (d = '2026-01-31' OR i = 2) AND NOT (s = 'b')", SCHEMA)
    part = parsed.restricted_to(frozenset({"s"}))
    assert part is not None
    assert part.columns == {"s"}
    assert parsed.restricted_to(frozenset({"d"})) is None
    assert parse_filter("i = 1 OR s = 'a'", SCHEMA).restricted_to(frozenset({"i"})) is None


def test_filter_values_of_lists_only_what_the_condition_pins() -> None:
    """=, IN and IS NULL pin a column; OR, NOT and ranges do not."""
    assert parse_filter("i = 3 AND s > 'a'", SCHEMA).values_of("i") == [3]
    assert parse_filter("i IN (1, 2)", SCHEMA).values_of("i") == [1, 2]
    assert parse_filter("s IS NULL", SCHEMA).values_of("s") == [None]
    for text in ("i = 3 OR i = 4", "NOT i = 3", "i > 3", "i = i", "s IS NOT NULL", "i <> 3"):
        assert parse_filter(text, SCHEMA).values_of("i") is None
