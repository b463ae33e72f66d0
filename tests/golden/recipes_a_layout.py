"""Golden tables of the layouts: table types, versions, key generators and partition paths."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import partial
from typing import Any

from lake import COW, MOR, Table
from recipe import add

SHORT = {COW: "cow", MOR: "mor"}
SCHEMA = "id int, name string, price double, ts long"
PLAIN_STYLE = {"hoodie.datasource.write.hive_style_partitioning": "false"}
ENCODED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
KEYGEN = "hoodie.datasource.write.keygenerator.class"
CUSTOM_KEYGEN = "org.apache.hudi.keygen.CustomKeyGenerator"
TIMED = {
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    "hoodie.keygen.timebased.timezone": "UTC",
}
NASTY = ["a/b:c=d", "50% off?", "[x]{y}", 'späß "q" 日本', None, "plain"]
DAY_MS = 86_400_000
FIRST_DAY_MS = 1_705_276_800_000


def life(table: Table, parts: Sequence[tuple[Any, ...]]) -> None:
    """Insert twelve rows over the partitions, update and add some, delete some."""

    def row(key: int, name: str, ts: int) -> tuple[Any, ...]:
        return (key, name, key * 1.5, ts, *parts[key % len(parts)])

    table.insert([row(i, f"n{i}", 10) for i in range(1, 13)])
    table.upsert([row(i, f"u{i}", 20) for i in (1, 2, 3, 4, 13)])
    table.delete([row(i, "", 30) for i in (2, 5, 6)])
    table.upsert([row(i, f"w{i}", 40) for i in (3, 7, 14)])


def build(
    kind: str,
    version: int,
    partition: str,
    schema: str,
    parts: Sequence[tuple[Any, ...]],
    extra: dict[str, str],
    keys: str,
    table: Table,
) -> None:
    """Configure a table with these partition columns and give it its life."""
    columns = f"{SCHEMA}, {schema}" if schema else SCHEMA
    table.configure(kind, version, columns, partition=partition, keys=keys, extra=extra)
    life(table, parts)


def layout(
    suffix: str,
    description: str,
    made: Sequence[tuple[str, int]],
    *,
    partition: str = "",
    schema: str = "",
    parts: Sequence[tuple[Any, ...]] = ((),),
    extra: dict[str, str] | None = None,
    keys: str = "id",
) -> None:
    """Register one layout for several table types and versions."""
    for kind, version in made:
        function = partial(build, kind, version, partition, schema, parts, extra or {}, keys)
        text = f"{SHORT[kind].upper()} v{version}, {description}: inserts, updates, deletes"
        add(f"{SHORT[kind]}_v{version}_{suffix}", text, function)


EVERY = [(kind, version) for kind in (COW, MOR) for version in (8, 9)]
CITIES = [("oslo",), ("rome",), ("lima",)]
DATES = [(date(2024, 1, 15),), (date(1969, 12, 31),), (None,)]
TIMES = [(FIRST_DAY_MS,), (FIRST_DAY_MS + DAY_MS,), (FIRST_DAY_MS + 40 * DAY_MS,)]

layout("nonpart", "not partitioned", EVERY)
layout("hive", "one hive-style partition column", EVERY, partition="city", schema="city string", parts=CITIES)
layout(
    "plainpart",
    "one partition column, not hive-style",
    [(COW, 8), (MOR, 9)],
    partition="city",
    schema="city string",
    parts=CITIES,
    extra=PLAIN_STYLE,
)
layout(
    "urlencode",
    "url-encoded partition values",
    [(COW, 9), (MOR, 8), (MOR, 9)],
    partition="d",
    schema="d string",
    parts=[(value,) for value in NASTY],
    extra=ENCODED,
)
layout(
    "urlencode_plain",
    "url-encoded partition values, not hive-style",
    [(MOR, 9)],
    partition="d",
    schema="d string",
    parts=[(value,) for value in NASTY],
    extra={**ENCODED, **PLAIN_STYLE},
)
layout(
    "twoparts",
    "two keys and two partition columns (COMPLEX)",
    [(COW, 9), (MOR, 8), (MOR, 9)],
    partition="region,day",
    schema="region string, day int",
    parts=[("eu", 1), ("eu", 2), ("us", 1), (None, None)],
    keys="id,price",
)
layout(
    "complex_onekey",
    "one key, two partition columns (COMPLEX)",
    [(MOR, 9)],
    partition="region,day",
    schema="region string, day int",
    parts=[("eu", 1), ("eu", 2), ("us", 1)],
)
layout(
    "timestampkey",
    "TIMESTAMP key generator, yyyy/MM/dd from milliseconds",
    [(COW, 8), (MOR, 9)],
    partition="at",
    schema="at long",
    parts=TIMES,
    extra={**PLAIN_STYLE, **TIMED, KEYGEN: "org.apache.hudi.keygen.TimestampBasedKeyGenerator"},
)
layout(
    "customkey",
    "CUSTOM key generator, simple and timestamp (yyyy/MM/dd), hive-style",
    [(COW, 8), (MOR, 9)],
    partition="city:simple,at:timestamp",
    schema="city string, at long",
    parts=[(*city, *time) for city, time in zip(CITIES, TIMES, strict=True)],
    extra={**TIMED, KEYGEN: CUSTOM_KEYGEN},
)
layout(
    "customkey_plain",
    "CUSTOM key generator, simple and timestamp (yyyyMMdd), not hive-style",
    [(MOR, 9)],
    partition="city:simple,at:timestamp",
    schema="city string, at long",
    parts=[(*city, *time) for city, time in zip(CITIES, TIMES, strict=True)],
    extra={**PLAIN_STYLE, **TIMED, "hoodie.keygen.timebased.output.dateformat": "yyyyMMdd", KEYGEN: CUSTOM_KEYGEN},
)
layout("datepart", "date partition column", [(COW, 9), (MOR, 9)], partition="day", schema="day date", parts=DATES)
layout(
    "intpart", "int partition column", [(COW, 8), (MOR, 9)], partition="n", schema="n int", parts=[(1,), (-2,), (None,)]
)
layout("boolpart", "boolean partition column", [(MOR, 9)], partition="b", schema="b boolean", parts=[(True,), (False,)])
