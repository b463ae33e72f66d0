"""What can never work is said when the table is made, by the name of the argument or column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from tidelake.config import UnknownOptionWarning
from tidelake.errors import OptionError
from tidelake.storage import MemoryStorage

GOOD: dict[str, Any] = {
    "schema": "id bigint, name string, ts bigint, score double, day string",
    "name": "made",
    "record_key": "id",
    "partition_by": "day",
    "ordering_fields": "ts",
}


def create(storage: MemoryStorage, **how: Any) -> tl.Table:
    return tl.create_table("memory", storage=storage, **{**GOOD, **how})


COLUMNS = [("id", pa.int64()), ("ts", pa.int64()), ("day", pa.string())]
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"name": "no good"}, "'no good'"),
    "no columns": ({"schema": pa.schema([])}, "column|schema"),
    "doubled column": ({"schema": pa.schema([("id", pa.int64()), ("id", pa.int64())])}, "'id' stands more than once"),
    "meta column": ({"schema": "id bigint, _hoodie_record_key string"}, "_hoodie_record_key"),
    "reserved prefix": ({"schema": "id bigint, _hoodie_x string"}, "_hoodie_x"),
    "reserved helper": ({"schema": "id bigint, __tidelake_key string"}, "__tidelake_key"),
    "schema of a wrong kind": ({"schema": 5}, "int"),
    "no key": ({"record_key": ()}, "record key"),
    "unknown key": ({"record_key": "nope"}, "record_key names the column 'nope'"),
    "doubled key": ({"record_key": ["id", "id"]}, "record_key.*'id'"),
    "key of a float": ({"record_key": "score"}, "'score'"),
    "unknown partition": ({"partition_by": "nope"}, "partition_by names the column 'nope'"),
    "doubled partition": ({"partition_by": ["day", "day"]}, "partition_by.*'day'"),
    "partition of a float": ({"partition_by": "score"}, "'score'"),
    "unknown ordering": ({"ordering_fields": "nope"}, "ordering_fields names the column 'nope'"),
    "doubled ordering": ({"ordering_fields": ["ts", "ts"]}, "ordering_fields.*'ts'"),
    "unknown event time": ({"event_time_field": "nope"}, "event_time_field names the column 'nope'"),
    "event time of text": ({"event_time_field": "name"}, "event-time column 'name'"),
    "table type": ({"table_type": "merge"}, "table_type is 'merge'"),
    "version": ({"options": {"hoodie.table.version": "7"}}, "hoodie.table.version|version 7"),
    "version of letters": ({"options": {"hoodie.table.version": "nine"}}, "hoodie.table.version.*nine"),
    "flag": ({"options": {"hoodie.datasource.write.hive_style_partitioning": "maybe"}}, "hive_style.*maybe"),
    "zone": ({"options": {"hoodie.table.timeline.timezone": "Mars"}}, "timezone.*Mars"),
    "log format": ({"options": {"hoodie.logfile.data.block.format": "orc"}}, "block.format.*orc"),
    "merge mode": ({"options": {"hoodie.record.merge.mode": "LUCKY"}}, "merge.mode.*LUCKY"),
    "option of a service": ({"options": {"hoodie.compact.inline.max.delta.commits": "some"}}, "delta.commits.*'some'"),
    "flag of a service": ({"options": {"hoodie.Compact.Inline": "perhaps"}}, "'perhaps'"),
    "option of a writer": ({"options": {"hoodie.write.lock.wait_time_ms": "long"}}, "wait_time_ms.*'long'"),
    "name of dots": ({"name": ".."}, r"'\.\.'"),
    "columns of one name but for case": ({"schema": "id bigint, ID string, ts bigint, day string"}, "'id' and 'ID'"),
    "column without a type": ({"schema": pa.schema([("id", pa.int64()), ("v", pa.null())])}, "'v' has no type"),
    "list without a type": ({"schema": pa.schema([("v", pa.list_(pa.null()))])}, r"'v\.element' has no type"),
    "struct without fields": ({"schema": pa.schema([("v", pa.struct([]))])}, "'v' is a struct without fields"),
    "delete marker of text": ({"schema": "id bigint, _hoodie_is_deleted string"}, "_hoodie_is_deleted.*boolean"),
    "operation of a number": ({"schema": "id bigint, _hoodie_operation int"}, "_hoodie_operation.*string"),
    "no Avro name": ({"schema": pa.schema([*COLUMNS, ("a b", pa.int64())])}, "'a b'"),
    "type that no table holds": ({"schema": pa.schema([*COLUMNS, ("v", pa.uint64())])}, "'v'.*uint64"),
    "ordering by a list": (
        {"schema": "id bigint, ts array<int>", "partition_by": ()},
        "list<.*ordering value",
    ),
    "version 8 with two ordering fields": (
        {"ordering_fields": ["ts", "name"], "options": {"hoodie.table.version": "8"}},
        "version 8 has one ordering field",
    ),
    "version 8 with one key and two partition columns": (
        {"partition_by": ["day", "name"], "options": {"hoodie.table.version": "8"}},
        "version 8 with one record key",
    ),
    "index": ({"options": {"hoodie.index.type": "RECORD_INDEX"}}, "RECORD_INDEX"),
    "buckets without their index": ({"options": {"hoodie.bucket.index.num.buckets": "4"}}, "goes with .*BUCKET"),
    "count of buckets": (
        {"options": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "none"}},
        "num.buckets is 'none'",
    ),
    "too many buckets": (
        {"options": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 1_000_000_000}},
        "num.buckets is '1000000000'.*99,999,999",
    ),
    "buckets without end": (
        {"options": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "9" * 5_000}},
        "num.buckets is '999",
    ),
    "key of None": ({"record_key": None}, "record key"),
    "key of a number": ({"record_key": 5}, "record_key is 5"),
    "partition of a number": ({"partition_by": 5}, "partition_by is 5"),
    "name of a number": ({"name": 5}, "5 is no name"),
    "date format of a number": ({"partition_by": {"ts": 5}}, "date format.*5"),
    "options of a list": ({"options": ["hoodie.index.type"]}, "options is .*index.type"),
    "option without a value": ({"options": {"hoodie.index.type": None}}, "hoodie.index.type is None"),
    "option of a list": ({"options": {"hoodie.index.type": ["BUCKET"]}}, r"hoodie.index.type is \['BUCKET'\]"),
    "option of no name": ({"options": {5: "BUCKET"}}, "option 5"),
    "option twice": (
        {"options": {"hoodie.table.version": "9", "HOODIE.table.Version": "8"}},
        "hoodie.table.version.*'9'.*HOODIE.table.Version.*'8'",
    ),
    "event time without fields": (
        {"ordering_fields": (), "options": {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}},
        "ordering_fields",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_create_bad_argument_is_refused_by_name(case: str) -> None:
    """A wrong argument is named, and no table is made."""
    storage = MemoryStorage()
    how, match = BAD[case]
    with pytest.raises((tl.InvalidError, tl.UnsupportedError), match=match):
        create(storage, **how)
    assert not list(storage.list_files())


def test_create_on_an_existing_table_is_refused_and_changes_nothing() -> None:
    """A second table is not made over the first."""
    storage = MemoryStorage()
    create(storage)
    before = {info.path: storage.get(info.path) for info in storage.list_files()}
    with pytest.raises(tl.InvalidError, match="is a table already"):
        create(storage, name="other")
    assert {info.path: storage.get(info.path) for info in storage.list_files()} == before


def test_create_unknown_option_is_warned_of() -> None:
    """An option that means nothing here is a warning, not an error, and is not kept."""
    storage = MemoryStorage()
    with pytest.warns(UnknownOptionWarning, match="hoodie.unknown.thing"):
        table = create(storage, options={"hoodie.unknown.thing": "1"})
    assert "hoodie.unknown.thing" not in table.config.properties


@pytest.mark.parametrize("version", ["8", "9"])
@pytest.mark.parametrize("mode", ["COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING"])
def test_create_known_options_are_kept_and_the_table_is_written(version: str, mode: str) -> None:
    """Both table versions and both orderings make tables that take rows."""
    table = create(MemoryStorage(), options={"hoodie.table.version": version, "hoodie.record.merge.mode": mode})
    for name, ts in (("new", 2), ("late", 1)):
        table.upsert(
            pa.table({"id": pa.array([1], pa.int64()), "name": [name], "ts": pa.array([ts], pa.int64()), "day": ["d"]})
        )
    expected = "new" if mode == "EVENT_TIME_ORDERING" else "late"
    assert table.scan(columns=["name"]).to_arrow()["name"].to_pylist() == [expected]


def test_create_without_partitions_and_ordering_takes_none() -> None:
    """None is no partition column and no ordering field."""
    table = create(MemoryStorage(), partition_by=None, ordering_fields=None)
    assert (table.config.partition_fields, table.config.ordering_fields) == ((), ())


@pytest.mark.parametrize("value", [True, "True", "TRUE", "true"])
def test_create_options_of_python_values_are_kept_as_apache_hudi_spells_them(value: object) -> None:
    """True is ``true`` in any case, a number is its digits, and a word is kept as it is known."""
    table = create(
        MemoryStorage(),
        options={
            "hoodie.datasource.write.hive_style_partitioning": value,
            "hoodie.datasource.write.partitionpath.urlencode": False,
            "hoodie.compaction.event.time.exact": False,
            "hoodie.table.version": 9,
            "hoodie.parquet.max.file.size": 1_000_000,
            "hoodie.record.merge.mode": "event_time_ordering",
            "hoodie.compact.inline": False,
            "hoodie.client.heartbeat.interval_in_ms": 5_000,
        },
    )
    kept = table.config.properties
    assert kept["hoodie.datasource.write.hive_style_partitioning"] == "true"
    assert kept["hoodie.datasource.write.partitionpath.urlencode"] == "false"
    assert kept["hoodie.compaction.event.time.exact"] == "false"
    assert kept["hoodie.parquet.max.file.size"] == "1000000"
    assert kept["hoodie.record.merge.mode"] == "EVENT_TIME_ORDERING"


def test_create_option_twice_with_one_value_is_one_option() -> None:
    """Case does not count in names: two spellings that agree are no fault."""
    table = create(MemoryStorage(), options={"hoodie.table.version": "8", "HOODIE.table.Version": 8})
    assert table.config.version == 8


def test_open_options_of_python_values_are_taken_and_others_refused() -> None:
    """A handle and a call of a service take booleans and numbers, and refuse None and doubles, as a new table does."""
    storage = MemoryStorage()
    create(storage)
    table = tl.open_table(
        "memory", storage=storage, options={"hoodie.compact.inline": True, "hoodie.write.lock.wait_time_ms": 5}
    )
    assert table.compact(options={"hoodie.compact.inline.max.delta.commits": 3}) is None
    for options, match in (
        ({"hoodie.compact.inline": None}, "hoodie.compact.inline is None"),
        ({"hoodie.compact.inline": "true", "hoodie.Compact.inline": "false"}, "hoodie.Compact.inline"),
    ):
        with pytest.raises(OptionError, match=match):
            tl.open_table("memory", storage=storage, options=options)
        with pytest.raises(OptionError, match=match):
            table.compact(options=options)
