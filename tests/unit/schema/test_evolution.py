"""Old data under a newer schema, and schemas merged."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelake.errors import InvalidError
from tidelake.schema import can_widen, conform, merge_schemas

NUMBERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]


def _batch(values: list[object], kind: pa.DataType, name: str = "a") -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, kind)], names=[name])


def test_conform_same_schema_is_the_same_batch() -> None:
    """Nothing is copied or rebuilt when the schema is right already."""
    batch = _batch([1, None], pa.int32())
    assert conform(batch, batch.schema) is batch


def test_conform_columns_of_the_right_type_are_not_copied() -> None:
    """Adding, dropping and reordering columns shares the buffers of those that stay."""
    batch = pa.RecordBatch.from_pydict({"a": pa.array([1, 2]), "s": pa.array(["x", "y"]), "gone": pa.array([1.0, 2.0])})
    out = conform(batch, pa.schema([("new", pa.string()), ("s", pa.string()), ("a", pa.int64())]))
    assert out.to_pylist() == [{"new": None, "s": "x", "a": 1}, {"new": None, "s": "y", "a": 2}]
    for name in ("a", "s"):
        ours, theirs = out.column(name).buffers(), batch.column(name).buffers()
        assert [b and b.address for b in ours] == [b and b.address for b in theirs]


@pytest.mark.parametrize("old", NUMBERS)
@pytest.mark.parametrize("new", NUMBERS)
def test_conform_numbers_widen_and_never_narrow(old: pa.DataType, new: pa.DataType) -> None:
    """Numbers follow int, long, float, double; the other way is refused with the column and both types."""
    batch = _batch([1, None, -5], old)
    target = pa.schema([("a", new)])
    if NUMBERS.index(old) <= NUMBERS.index(new):
        out = conform(batch, target)
        assert out.schema == target
        assert out.column(0).to_pylist() == [1, None, -5]
    else:
        with pytest.raises(InvalidError, match=f"'a' is {old} and cannot become {new}"):
            conform(batch, target)


def test_conform_long_beyond_float_digits_becomes_the_nearest() -> None:
    """A long that a float cannot hold exactly is rounded, as Hudi rounds it."""
    out = conform(_batch([2**53 + 1, 2**24 + 1], pa.int64()), pa.schema([("a", pa.float32())]))
    assert out.column(0).to_pylist() == [float(2**53), float(2**24)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.float32(), pa.string()),
        (pa.float64(), pa.string()),
        (pa.string(), pa.int32()),
        (pa.string(), pa.binary()),
        (pa.int32(), pa.decimal128(10, 2)),
        (pa.decimal128(10, 2), pa.decimal128(9, 2)),
        (pa.decimal128(10, 2), pa.decimal128(10, 3)),
        (pa.decimal128(10, 2), pa.decimal128(12, 1)),
        (pa.int32(), pa.date32()),
        (pa.date32(), pa.timestamp("us", "UTC")),
        (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us")),
        (pa.timestamp("ns", "UTC"), pa.timestamp("us")),
        (pa.uint64(), pa.int64()),
        (pa.uint32(), pa.int32()),
        (pa.bool_(), pa.int32()),
        (pa.list_(pa.int64()), pa.list_(pa.int32())),
        (pa.list_(pa.int64()), pa.int64()),
        (pa.int64(), pa.list_(pa.int64())),
        (pa.struct([("x", pa.int64())]), pa.struct([("x", pa.int32())])),
        (pa.map_(pa.string(), pa.string()), pa.map_(pa.string(), pa.int32())),
        (pa.struct([("x", pa.int64())]), pa.map_(pa.string(), pa.int64())),
    ],
)
def test_conform_other_changes_of_type_are_invalid_and_named(old: pa.DataType, new: pa.DataType) -> None:
    """What is not a widening is refused, in columns and inside of them, also when there are no rows."""
    for rows in (0, 3):
        with pytest.raises(InvalidError, match=r"'a[a-z.]*' is .* and cannot become"):
            conform(pa.RecordBatch.from_arrays([pa.nulls(rows, old)], names=["a"]), pa.schema([("a", new)]))


@pytest.mark.parametrize(
    ("old", "new", "values"),
    [
        (pa.large_string(), pa.string(), ["x", None, "é"]),
        (pa.string_view(), pa.string(), ["x", None, "a long enough text not to be inline"]),
        (pa.dictionary(pa.int8(), pa.string()), pa.string(), ["x", None, "x"]),
        (pa.dictionary(pa.int8(), pa.int32()), pa.int64(), [1, None, 1]),
        (pa.large_binary(), pa.binary(), [b"x", None]),
        (pa.binary_view(), pa.binary(), [b"x", None]),
        (pa.uint32(), pa.int64(), [2**32 - 1, None]),
        (pa.float16(), pa.float64(), [0.5, None]),
        (pa.decimal128(3, 2), pa.decimal128(10, 2), [Decimal("1.25"), None]),
        (pa.decimal128(5, 1), pa.decimal128(10, 2), [Decimal("-1.5"), None]),
        (pa.timestamp("ns"), pa.timestamp("us"), [dt.datetime(2026, 1, 31), None]),
        (pa.null(), pa.struct([("x", pa.int32())]), [None, None]),
        (pa.large_list(pa.int32()), pa.list_(pa.int64()), [[1, None], None, []]),
        (pa.list_(pa.int32(), 2), pa.list_(pa.int64()), [[1, 2], [3, 4]]),
        (pa.list_(pa.large_string()), pa.list_(pa.string()), [["x", None], None]),
        (pa.map_(pa.large_string(), pa.int32()), pa.map_(pa.string(), pa.float64()), [[("k", 1)], None, []]),
    ],
)
def test_conform_other_layouts_are_taken_for_their_values(
    old: pa.DataType, new: pa.DataType, values: list[object]
) -> None:
    """Large, view, dictionary and fixed-size layouts become the plain type, with equal values."""
    target = pa.schema([("a", new)])
    out = conform(_batch(values, old), target)
    out.validate(full=True)
    assert out.schema == target
    assert out.column(0).to_pylist() == values


def test_conform_timestamps_become_finer_and_keep_their_instant() -> None:
    """Milliseconds become microseconds, and another time zone is the same instant in UTC."""
    instant = dt.datetime(2026, 3, 7, 13, 58, 27, 749_000, tzinfo=dt.timezone.utc)
    for kind in (pa.timestamp("ms", "UTC"), pa.timestamp("ms", "Asia/Tokyo"), pa.timestamp("us", "Asia/Tokyo")):
        out = conform(_batch([instant, None], kind), pa.schema([("a", pa.timestamp("us", "UTC"))]))
        assert out.column(0).to_pylist() == [instant, None]
    local = conform(_batch([instant.replace(tzinfo=None)], pa.timestamp("ms")), pa.schema([("a", pa.timestamp("us"))]))
    assert local.column(0).to_pylist() == [instant.replace(tzinfo=None)]


OLD_NESTED = pa.struct([("y", pa.int32()), ("x", pa.string()), ("gone", pa.bool_())])
NEW_NESTED = pa.struct([("x", pa.string()), ("added", pa.list_(pa.int32())), ("y", pa.int64())])


@pytest.mark.parametrize("part", [slice(0, 5), slice(1, 4), slice(2, 2)])
def test_conform_nested_fields_are_matched_by_name_at_every_depth(part: slice) -> None:
    """Structs inside structs, lists and maps gain, lose, reorder and widen fields; slices and nulls survive."""

    def old(i: int) -> dict[str, object]:
        return {"y": i, "x": f"v{i}", "gone": True}

    def new(i: int) -> dict[str, object]:
        return {"x": f"v{i}", "added": None, "y": i}

    def row(make: object, i: int) -> dict[str, object]:
        some = make(i)  # type: ignore[operator]
        return {
            "s": None if i == 1 else {"in": some},
            "l": None if i == 2 else [some, None][: i % 3],
            "m": None if i == 3 else [(f"k{j}", some) for j in range(i % 3)],
        }

    def schema(inner: pa.DataType) -> pa.Schema:
        kinds = {"s": pa.struct([("in", inner)]), "l": pa.list_(inner), "m": pa.map_(pa.string(), inner)}
        return pa.schema(list(kinds.items()))

    batch = pa.RecordBatch.from_pylist([row(old, i) for i in range(5)], schema=schema(OLD_NESTED))
    out = conform(batch.slice(part.start, part.stop - part.start), schema(NEW_NESTED))
    out.validate(full=True)
    assert out.schema == schema(NEW_NESTED)
    assert out.to_pylist() == [row(new, i) for i in range(5)][part]


def test_conform_missing_column_takes_its_default() -> None:
    """A default is used where it is given, also inside of structs, and null elsewhere."""
    batch = pa.RecordBatch.from_pylist([{"s": {"x": 1}}, {"s": None}])
    target = pa.schema(
        [
            ("s", pa.struct([pa.field("x", pa.int64()), pa.field("d", pa.int32(), nullable=False)])),
            pa.field("n", pa.string(), nullable=False),
            ("other", pa.int32()),
        ]
    )
    out = conform(batch, target, {"s.d": pa.scalar(7), "n": pa.scalar("none")})
    assert out.schema == target
    assert out.to_pylist() == [{"s": {"x": 1, "d": 7}, "n": "none", "other": None},
                               {"s": None, "n": "none", "other": None}]  # fmt: skip


def test_conform_null_where_none_may_be_is_invalid() -> None:
    """Nulls in a required column, at any depth, and a required column that is missing are refused by name."""
    required = pa.field("a", pa.int64(), nullable=False)
    with pytest.raises(InvalidError, match="'a'"):
        conform(_batch([1, None], pa.int32()), pa.schema([required]))
    with pytest.raises(InvalidError, match="'a'"):
        conform(_batch([1], pa.int32(), "b"), pa.schema([required]))
    nested = pa.schema([("s", pa.struct([required]))])
    with pytest.raises(InvalidError, match=r"'s\.a'"):
        conform(_batch([{"a": None}], pa.struct([("a", pa.int64())]), "s"), nested)
    out = conform(_batch([None, {"a": 1}], pa.struct([("a", pa.int32())]), "s"), nested)
    assert out.to_pylist() == [{"s": None}, {"s": {"a": 1}}]


def test_conform_column_twice_in_the_data_is_invalid() -> None:
    """Which of two columns of one name is meant cannot be known."""
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(InvalidError, match="more than once"):
        conform(batch, pa.schema([("a", pa.int64())]))


def test_conform_to_no_columns_keeps_the_row_count() -> None:
    """A target without columns still says how many rows there are."""
    assert conform(_batch([1, 2], pa.int32()), pa.schema([])).num_rows == 2


def test_merge_schemas_columns_are_united_and_widened() -> None:
    """Old columns keep their place, new ones follow; what one side lacks may be null; types hold both."""
    old = pa.schema(
        [
            pa.field("id", pa.int32(), nullable=False),
            pa.field("dropped", pa.string(), nullable=False),
            ("s", pa.struct([("x", pa.int32()), ("y", pa.string())])),
            ("l", pa.list_(pa.float32())),
            ("t", pa.timestamp("ms", "UTC")),
            ("n", pa.null()),
        ],
        metadata={"k": "v"},
    )
    new = pa.schema(
        [
            pa.field("added", pa.large_string(), nullable=False),
            ("n", pa.int32()),
            ("t", pa.timestamp("us", "UTC")),
            ("l", pa.list_(pa.float64())),
            ("s", pa.struct([("z", pa.bool_()), ("x", pa.int64())])),
            pa.field("id", pa.int64(), nullable=False),
        ]
    )
    expected = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("dropped", pa.string()),
            ("s", pa.struct([("x", pa.int64()), ("y", pa.string()), ("z", pa.bool_())])),
            ("l", pa.list_(pa.float64())),
            ("t", pa.timestamp("us", "UTC")),
            ("n", pa.int32()),
            ("added", pa.string()),
        ],
        metadata={"k": "v"},
    )
    assert merge_schemas(old, new).equals(expected, check_metadata=True)


def test_merge_schemas_narrower_column_is_invalid_unless_the_wider_is_kept() -> None:
    """A narrower new type is refused by name; on request the old type stays, for data that will be widened."""
    old = pa.schema([("s", pa.struct([("x", pa.int64())]))])
    new = pa.schema([("s", pa.struct([("x", pa.int32())]))])
    with pytest.raises(InvalidError, match=r"'s\.x' is int64 and cannot become int32"):
        merge_schemas(old, new)
    assert merge_schemas(old, new, keep_wider=True) == old


def test_merge_schemas_of_data_keeps_what_may_not_be_null_at_every_depth() -> None:
    """Data that lacks a required column, or could be null there, does not make it nullable; what it adds is."""
    required = pa.field("x", pa.int32(), nullable=False)
    old = pa.schema([pa.field("s", pa.struct([required]), nullable=False), ("l", pa.list_(pa.struct([required])))])
    new = pa.schema([("l", pa.list_(pa.struct([("x", pa.int32()), pa.field("y", pa.int32(), nullable=False)])))])
    merged = merge_schemas(old, new, keep_wider=True)
    assert merged == pa.schema([old.field("s"), ("l", pa.list_(pa.struct([required, ("y", pa.int32())])))])
    assert merge_schemas(old, new).field("s").nullable


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.decimal128(10, 2), pa.decimal128(3, 2)),
        (pa.decimal128(10, 2), pa.decimal128(5, 1)),
        (pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC")),
        (pa.timestamp("ms"), pa.timestamp("ns")),
        (pa.float32(), pa.float16()),
    ],
)
def test_merge_schemas_of_data_that_loses_nothing_keeps_the_type(old: pa.DataType, new: pa.DataType) -> None:
    """Such data is taken as the table's type, and never changes it; a schema of a table is not merged so."""
    ours, theirs = pa.schema([("a", old)]), pa.schema([("a", new)])
    assert merge_schemas(ours, theirs, keep_wider=True) == ours
    if new != pa.float16():
        with pytest.raises(InvalidError, match="'a'"):
            merge_schemas(ours, theirs)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.string(), pa.float64()),
        (pa.float64(), pa.string()),
        (pa.list_(pa.int32()), pa.struct([("x", pa.int32())])),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.int32(), pa.int32())),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    ],
)
def test_merge_schemas_incompatible_types_are_invalid_and_named(old: pa.DataType, new: pa.DataType) -> None:
    """Types that no type holds both of are refused, whichever is kept."""
    for keep in (False, True):
        with pytest.raises(InvalidError, match="'a'"):
            merge_schemas(pa.schema([("a", old)]), pa.schema([("a", new)]), keep_wider=keep)


def test_merge_schemas_column_twice_is_invalid() -> None:
    """A schema with a column twice is refused."""
    twice = pa.schema([("a", pa.int32()), ("a", pa.int32())])
    with pytest.raises(InvalidError, match="'a'"):
        merge_schemas(pa.schema([]), twice)


_KINDS = st.recursive(
    st.sampled_from([*NUMBERS, pa.string(), pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), pa.binary()]),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1).map(lambda parts: pa.struct(list(parts.items()))),
    ),
    max_leaves=6,
)
_SCHEMAS = st.dictionaries(st.sampled_from("abcd"), _KINDS).map(lambda parts: pa.schema(list(parts.items())))


@settings(deadline=None)
@given(_SCHEMAS, _SCHEMAS)
def test_merge_schemas_result_holds_the_data_of_both(old: pa.Schema, new: pa.Schema) -> None:
    """Whatever merges, data of either side conforms to the result, and merging it again changes nothing."""
    try:
        merged = merge_schemas(old, new, keep_wider=True)
    except InvalidError:
        return
    for side in (old, new):
        conform(pa.RecordBatch.from_pylist([{}, {}], schema=side), merged).validate(full=True)
        assert merge_schemas(merged, side, keep_wider=True) == merged


def test_can_widen_is_reflexive_and_one_way() -> None:
    """Every number widens to itself, and of two different ones exactly one widens to the other."""
    for old in NUMBERS:
        for new in NUMBERS:
            assert (can_widen(old, new) and can_widen(new, old)) == (old == new)
            assert can_widen(old, new) or can_widen(new, old)


def test_conform_value_that_overflows_is_invalid_and_named() -> None:
    """Milliseconds beyond the range of microseconds, and a default of another type, are refused by name."""
    micros = pa.schema([("a", pa.timestamp("us", "UTC"))])
    with pytest.raises(InvalidError, match="'a'"):
        conform(_batch([2**62], pa.timestamp("ms", "UTC")), micros)
    with pytest.raises(InvalidError, match="'a'"):
        conform(_batch([1], pa.int32(), "b"), micros, {"a": pa.scalar("text")})


def test_conform_whole_number_becomes_text_and_never_back() -> None:
    """A whole number is read as text where the table's column is text now; text is not read as a number."""
    text, number = pa.schema([("a", pa.string())]), pa.schema([("a", pa.int64())])
    assert conform(_batch([-5, None, 2**40], pa.int64()), text).column(0).to_pylist() == ["-5", None, str(2**40)]
    assert merge_schemas(number, text) == text
    assert merge_schemas(text, number, keep_wider=True) == text
    with pytest.raises(InvalidError, match="'a' is string and cannot become int64"):
        merge_schemas(text, number)
    with pytest.raises(InvalidError, match="'a' is string and cannot become int64"):
        conform(_batch(["5"], pa.string()), number)
