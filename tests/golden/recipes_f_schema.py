"""Golden tables of schemas: every type in base files and logs, and schema evolution."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from lake import COW, MOR, Table
from recipe import add, recipe
from recipes_b_merge import BLOCK_FORMAT, ONE_GROUP
from recipes_d_services import schedule_compaction

FLAT = (
    "id int, ts long, flag boolean, i int, l long, f float, d double, small decimal(5,2), mid decimal(18,6), "
    "wide decimal(38,10), s string, raw binary, day date, at timestamp"
)
NESTED = (
    "tags array<string>, nums array<int>, attrs map<string,int>, place struct<lat:double,lon:double,label:string>, "
    "items array<struct<sku:string,qty:int,price:decimal(10,2)>>, boxes map<string,struct<w:int,at:timestamp>>, "
    "deep struct<a:int,b:struct<c:array<int>,d:map<string,string>>>"
)
EPOCH = datetime(1970, 1, 1)
OLD_LISTS = "parquet.avro.write-old-list-structure"


def flat_values(seed: int) -> tuple[Any, ...]:
    """Values of the flat columns; some of them at the ends of their ranges."""
    sign = -1 if seed % 2 else 1
    return (
        seed % 2 == 0,
        sign * (2**31 - 1 if seed == 3 else seed),
        sign * (2**63 - 1 if seed == 3 else seed * 10**12),
        float("nan") if seed == 4 else sign * seed / 4,
        float("inf") if seed == 4 else sign * seed / 10,
        Decimal(sign * seed * 99) / 100,
        Decimal(sign * seed * 10**9 + 1) / 10**6,
        Decimal(f"{sign * seed}234567890123456789012345.0123456789"),
        f"text {seed} äöü 漢字 \U0001f600" if seed % 3 else "",
        bytes([seed, 0, 255]) if seed % 3 else b"",
        date(1970, 1, 1) + timedelta(days=sign * seed * 1000),
        EPOCH + timedelta(days=sign * seed * 1000, microseconds=seed * 111_111),
    )


def nested_values(seed: int, holes: bool) -> tuple[Any, ...]:
    """Values of the nested columns, with nulls and empty ones inside; ``holes`` puts nulls into arrays."""
    at = EPOCH + timedelta(days=seed, microseconds=seed)
    hole = [None] if holes else []
    return (
        [f"t{seed}", *hole, "x"] if seed % 3 else [],
        [seed, *hole, -seed],
        {"one": seed, "none": None} if seed % 3 else {},
        (seed / 2, None, f"p{seed}"),
        [(f"sku{seed}", seed, Decimal(seed) / 4), (None, None, None), *hole],
        {"b": (seed, at), "a": (None, None)},
        (seed, ([1, seed], {"k": f"v{seed}"})) if seed % 2 else (seed, None),
    )


def flat_row(key: int, ts: int, seed: int) -> tuple[Any, ...]:
    """A row of the flat columns; seed 0 gives nulls."""
    values = flat_values(seed)
    return (key, ts, *(values if seed else (None,) * len(values)))


def full_row(key: int, ts: int, seed: int, holes: bool) -> tuple[Any, ...]:
    """A row of all columns; seed 0 gives nulls."""
    values = nested_values(seed, holes)
    return (*flat_row(key, ts, seed), *(values if seed else (None,) * len(values)))


def build_types(kind: str, version: int, blocks: str, holes: bool, table: Table) -> None:
    """All types in base files and, by updates, in logs."""
    table.configure(kind, version, f"{FLAT}, {NESTED}", extra={BLOCK_FORMAT: blocks, **ONE_GROUP})
    with table.hadoop_setting(OLD_LISTS, "false" if holes else "true"):
        table.insert([full_row(key, 20, key, holes) for key in range(8)])
        table.upsert([full_row(key, 25, key + 3, holes) for key in range(4)] + [full_row(4, 25, 0, holes)])
        table.upsert([full_row(8, 20, 9, holes), full_row(5, 10, 1, holes)])


for _kind, _version, _blocks, _prefix in (
    (COW, 9, "avro", "cow_v9"),
    (MOR, 8, "avro", "mor_v8"),
    (MOR, 9, "avro", "mor_v9"),
    (MOR, 9, "parquet", "mor_v9_parquet"),
):
    for _holes in (False, True):
        add(
            f"{_prefix}_types_{'threelevel' if _holes else 'twolevel'}",
            f"{_prefix}: all types, flat and nested, with nulls; "
            + ("three-level lists with null elements" if _holes else "two-level lists (Hudi's default)"),
            partial(build_types, _kind, _version, _blocks, _holes),
        )


def build_ntz(blocks: str, table: Table) -> None:
    """Timestamps without time zone beside those with one."""
    schema = "id int, ts long, at timestamp, local timestamp_ntz, n struct<local:timestamp_ntz>"
    table.configure(MOR, 9, schema, extra={BLOCK_FORMAT: blocks, **ONE_GROUP})
    moment = datetime(2024, 1, 15, 1, 2, 3, 456_789)
    table.insert([(i, 20, moment, moment + timedelta(days=i), (moment,)) for i in range(1, 5)])
    table.upsert([(1, 25, moment, datetime(1960, 1, 1, 0, 0, 0, 1), (None,)), (2, 25, None, None, None)])


for _blocks in ("avro", "parquet"):
    add(f"mor_v9_ntz_{_blocks}", f"MOR v9 with timestamp_ntz, {_blocks} blocks", partial(build_ntz, _blocks))


FIRST = "id int, name string, ts long"
SECOND = f"{FIRST}, extra string"
THIRD = f"{SECOND}, score double, tags array<string>"


def build_added(kind: str, version: int, blocks: str, table: Table) -> None:
    """Columns added twice; base files and logs of each schema remain."""
    table.configure(kind, version, FIRST, extra={BLOCK_FORMAT: blocks, **ONE_GROUP})
    table.insert([(i, f"base{i}", 20) for i in range(1, 8)])
    table.upsert([(1, "old", 21), (2, "old", 21)])
    table.upsert([(2, "mid", 22, "e2"), (3, "mid", 22, None)], schema=SECOND)
    table.insert([(11, "new", 20, "e11"), (12, "new", 20, "e12")], schema=SECOND)
    table.upsert([(4, "wide", 23, "e4", 4.5, ["a"]), (11, "wide", 23, None, None, None)], schema=THIRD)
    table.delete([(5, "", 30)])


for _kind, _version, _blocks, _name in (
    (COW, 9, "avro", "cow_v9_added_columns"),
    (MOR, 8, "avro", "mor_v8_added_columns_avro"),
    (MOR, 9, "avro", "mor_v9_added_columns_avro"),
    (MOR, 9, "parquet", "mor_v9_added_columns_parquet"),
):
    add(_name, f"{_name}: columns added, old schemas in bases and logs", partial(build_added, _kind, _version, _blocks))


def build_widened(kind: str, version: int, blocks: str, table: Table) -> None:
    """int to long, float to double, then int and long to double."""
    first = "id int, ts long, n int, f float, x int, g long"
    second = "id int, ts long, n long, f double, x int, g long"
    third = "id int, ts long, n long, f double, x double, g double"
    table.configure(kind, version, first, extra={BLOCK_FORMAT: blocks, **ONE_GROUP})
    table.insert([(i, 20, i, i / 10, i, i) for i in range(1, 8)])
    table.upsert([(1, 21, -1, 0.1, -1, 2**40), (2, 21, None, None, None, None)])
    table.upsert([(2, 22, 2**40, 1e300, 2, 2), (3, 22, 3, 0.1, 3, 3)], schema=second)
    table.upsert([(3, 23, 2**41, 0.5, 0.25, 0.5), (4, 23, 4, 4.5, 1e20, 1e30)], schema=third)


for _kind, _version, _blocks, _name in (
    (COW, 9, "avro", "cow_v9_widened"),
    (MOR, 8, "avro", "mor_v8_widened_avro"),
    (MOR, 9, "avro", "mor_v9_widened_avro"),
    (MOR, 9, "parquet", "mor_v9_widened_parquet"),
):
    add(
        _name,
        f"{_name}: int to long, float to double, int and long to double",
        partial(build_widened, _kind, _version, _blocks),
    )


def build_struct(kind: str, blocks: str, table: Table) -> None:
    """A struct, and a struct in an array, that get a field."""
    first = "id int, ts long, s struct<a:int,b:string>, l array<struct<k:string,n:int>>"
    second = "id int, ts long, s struct<a:int,b:string,c:double>, l array<struct<k:string,n:int,v:int>>"
    table.configure(kind, 9, first, extra={BLOCK_FORMAT: blocks, **ONE_GROUP})
    table.insert([(i, 20, (i, f"b{i}"), [(f"k{i}", i)]) for i in range(1, 6)])
    table.upsert([(1, 21, (-1, None), [("old", None)]), (2, 21, None, None)])
    table.upsert([(2, 22, (2, "two", 2.5), [("new", 1, 2)]), (3, 22, (3, None, None), [])], schema=second)


for _kind, _blocks, _name in (
    (COW, "avro", "cow_v9_struct_added"),
    (MOR, "avro", "mor_v9_struct_added_avro"),
    (MOR, "parquet", "mor_v9_struct_added_parquet"),
):
    add(_name, f"{_name}: nested structs with an added field", partial(build_struct, _kind, _blocks))


@recipe("mor_v9_added_compacted", "MOR v9: columns added, then compacted with the new schema, then logs of it")
def added_compacted(table: Table) -> None:
    """The compacted base file has the columns that its logs brought."""
    build_added(MOR, 9, "avro", table)
    schedule_compaction(table)
    table.call("run_compaction", "op => 'run'")
    table.upsert([(1, "last", 40, None, None, None)], schema=THIRD)
