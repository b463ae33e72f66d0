"""What data may add inside of structs, lists and maps, and what may not be null there."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake.storage import MemoryStorage
from tidelake.testing import ManualClock
from tidelake.write.prepare import evolved_schema

INNER = "struct<x: int, y: string>"
HOLDERS = {
    "s": (INNER, lambda part: part, "s."),
    "l": (f"array<{INNER}>", lambda part: [part], "l.element."),
    "m": (f"map<string, {INNER}>", lambda part: [("k", part)], "m.value."),
    "deep": (f"struct<l: array<{INNER}>>", lambda part: {"l": [part]}, "deep.l.element."),
}


def make(schema: Any, **how: Any) -> tl.Table:
    clock = ManualClock(seed=1)
    given = {"name": "nested", "record_key": "id", **how}
    return tl.create_table("memory", schema, storage=MemoryStorage(clock=clock), clock=clock, **given)


def holding(name: str, part: dict[str, Any], kind: pa.DataType | None = None) -> pa.Table:
    """One row whose column holds a struct in its own way; its type is what Arrow makes of it, or of ``kind``."""
    value = HOLDERS[name][1](part)
    inner = kind or pa.array([part]).type
    whole = {
        "s": inner,
        "l": pa.list_(inner),
        "m": pa.map_(pa.string(), inner),
        "deep": pa.struct([("l", pa.list_(inner))]),
    }[name]
    return pa.table({"id": pa.array([1], pa.int64()), name: pa.array([value], whole)})


@pytest.mark.parametrize("name", HOLDERS)
@pytest.mark.parametrize(
    ("part", "path", "why"),
    [
        ({"x": 1, "nn": None}, "nn", "has no type"),
        ({"x": 1, "more": []}, "more.element", "has no type"),
        ({"x": 1, "X": 5}, "X", "differ by case alone"),
        ({"Y": "a"}, "Y", "differ by case alone"),
        ({"x": 1, "a b": 5}, "a b", "not a legal Avro name"),
        ({"x": "text"}, "x", "cannot become string"),
    ],
)
def test_nested_addition_that_no_table_can_have_is_refused_with_its_path(
    name: str, part: dict[str, Any], path: str, why: str
) -> None:
    """What would be refused as a column is refused inside of one, in structs, lists and maps."""
    table = make(f"id bigint, {name} {HOLDERS[name][0]}")
    with pytest.raises(tl.InvalidError, match=why) as caught:
        table.upsert(holding(name, part))
    assert repr(HOLDERS[name][2] + path) in str(caught.value)
    assert not table.timeline.instants


@pytest.mark.parametrize("name", HOLDERS)
def test_nested_field_without_a_type_is_null_of_the_tables_type(name: str) -> None:
    """None alone, or a field left out, is null where the table has the field; a field with a type is added."""
    table = make(f"id bigint, {name} {HOLDERS[name][0]}")
    for part, expected in (
        ({"x": None, "y": None}, {"x": None, "y": None}),
        ({"x": 1}, {"x": 1, "y": None}),
        ({"x": 1, "z": 2.5}, {"x": 1, "y": None, "z": 2.5}),
    ):
        kind = pa.struct([(n, pa.null() if v is None else pa.int32() if n == "x" else pa.float64())
                          for n, v in part.items()])  # fmt: skip
        table.upsert(holding(name, part, kind))
        found = table.scan(columns=[name]).to_arrow().to_pylist()
        assert found == [{name: HOLDERS[name][1](expected)}]


def test_created_struct_with_names_that_differ_by_case_alone_is_refused() -> None:
    """Spark could not read the struct, wherever it stands."""
    for schema, path in (("s struct<x: int, X: int>", "s.X"), ("l array<struct<x: int, X: int>>", "l.element.X")):
        with pytest.raises(tl.InvalidError, match="differ by case alone") as caught:
            make(f"id bigint, {schema}")
        assert repr(path) in str(caught.value)


def test_twins_that_the_table_has_already_are_no_additions() -> None:
    """A table of another writer may have names that differ by case alone; data that has them adds nothing."""
    schema = pa.schema([("a", pa.int64()), ("A", pa.int64()), ("s", pa.struct([("x", pa.int32()), ("X", pa.int32())]))])
    assert evolved_schema(schema, schema) == schema


STRICT = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.string())])
LOOSE = pa.struct([("x", pa.int32()), ("y", pa.string())])
REQUIRED = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("s", STRICT),
        pa.field("deep", pa.struct([pa.field("in", STRICT, nullable=False)])),
        pa.field("l", pa.list_(pa.field("element", STRICT, nullable=False))),
        pa.field("m", pa.map_(pa.string(), pa.field("value", STRICT, nullable=False))),
    ]
)
GIVEN = pa.schema(
    [
        ("id", pa.int64()),
        ("s", LOOSE),
        ("deep", pa.struct([("in", LOOSE)])),
        ("l", pa.list_(LOOSE)),
        ("m", pa.map_(pa.string(), LOOSE)),
    ]
)
FULL = {"x": 1, "y": "a"}
GOOD: list[dict[str, Any]] = [
    {"id": 1, "s": FULL, "deep": {"in": FULL}, "l": [FULL, FULL], "m": [("k", FULL)]},
    {"id": 2, "s": None, "deep": None, "l": None, "m": None},
    {"id": 3, "s": {"x": 0, "y": None}, "deep": {"in": FULL}, "l": [], "m": []},
]
EMPTY = {"x": None, "y": "a"}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "struct": ({"s": EMPTY}, "s.x"),
    "struct in a struct": ({"deep": {"in": EMPTY}}, "deep.in.x"),
    "a struct that must be": ({"deep": {"in": None}}, "deep.in"),
    "list": ({"l": [FULL, EMPTY]}, "l.element.x"),
    "an element": ({"l": [FULL, None]}, "l.element"),
    "map": ({"m": [("a", FULL), ("b", EMPTY)]}, "m.value.x"),
    "a value": ({"m": [("a", None)]}, "m.value"),
}


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize("log_format", ["parquet", "avro"])
def test_nested_required_fields_stay_required_over_writes(table_type: str, log_format: str) -> None:
    """Data that could hold nulls and holds none is taken, and the table's schema stays as it was made."""
    table = make(REQUIRED, table_type=table_type, options={"hoodie.logfile.data.block.format": log_format})
    made = table.schema
    for given in (GIVEN, REQUIRED, GIVEN):
        table.upsert(pa.Table.from_pylist(GOOD, schema=given))
        assert table.schema == made
        assert table.scan(columns=GIVEN.names).to_arrow().sort_by("id").to_pylist() == GOOD
    table.delete([1])
    table.upsert(pa.Table.from_pylist(GOOD[:1], schema=GIVEN).append_column("more", pa.array(["x"])))
    assert table.schema.field("s").type == STRICT
    if table_type == "MERGE_ON_READ":
        table.compact()
    table.cluster()
    assert table.scan(columns=["id", "s"]).to_arrow().sort_by("id").to_pylist() == [
        {"id": row["id"], "s": row["s"]} for row in GOOD
    ]


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("given", [GIVEN, REQUIRED], ids=["nullable", "declared"])
def test_nested_null_where_none_may_be_is_refused_with_path_and_keys(case: str, given: pa.Schema) -> None:
    """Whatever the data says of itself, its rows are looked at, and the row's key is named."""
    table = make(REQUIRED)
    change, path = BAD[case]
    rows = [*GOOD, {**GOOD[0], "id": 7, **change}]
    with pytest.raises(tl.InvalidError) as caught:
        table.upsert(pa.Table.from_pylist(rows, schema=given))
    assert f"the column {path!r} holds 1 nulls, but may not be null, for the keys 7" in str(caught.value)
    assert not table.timeline.instants


def test_nested_required_field_left_out_is_refused_where_its_struct_is_there() -> None:
    """A field that may not be null cannot be left out, but for structs that are null themselves."""
    table = make(REQUIRED)
    part = pa.struct([("y", pa.string())])
    data = pa.table({"id": pa.array([1, 2], pa.int64()), "s": pa.array([None, {"y": "a"}], part)})
    with pytest.raises(tl.InvalidError, match=r"'s\.x' holds 1 nulls, but may not be null, for the keys 2"):
        table.upsert(data)
    table.upsert(data.slice(0, 1))
    assert table.scan(columns=["id", "s"]).to_arrow().to_pylist() == [{"id": 1, "s": None}]
    assert table.schema.field("s").type == STRICT


def test_nested_nulls_below_a_null_are_no_nulls() -> None:
    """A struct that is null hides what its parts hold, at every depth."""
    inner = pa.StructArray.from_arrays([pa.array([1, None], pa.int32()), pa.array(["a", "b"])], fields=list(LOOSE))
    deep = pa.StructArray.from_arrays([inner], fields=[pa.field("in", LOOSE)], mask=pa.array([False, True]))
    table = make(REQUIRED)
    table.upsert(pa.table({"id": pa.array([1, 2], pa.int64()), "deep": deep}))
    found = table.scan(columns=["id", "deep"]).to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": 1, "deep": {"in": FULL}}, {"id": 2, "deep": None}]
