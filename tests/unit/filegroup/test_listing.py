"""Which folders a filtered read lists: only those that can hold matching rows, and all of those."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import tidelake as tl
from model.tables import TableWriter, table_properties, time_of
from tidelake.errors import MissingFileError
from tidelake.filegroup.listing import list_all
from tidelake.storage import FaultyStorage, MemoryStorage

FILE_ID = "00000000-0000-4000-8000-000000000000-0"


def _table(
    fields: dict[str, pa.DataType], partitions: dict[str, dict[str, object]], **properties: str
) -> FaultyStorage:
    """A table with one row in each partition; ``v`` numbers them."""
    schema = pa.schema([("id", pa.string()), ("v", pa.int64()), *fields.items()])
    storage = FaultyStorage(MemoryStorage())
    stated = table_properties(hoodie__table__partition__fields=",".join(fields), **properties)
    writer = TableWriter(storage, schema, stated)
    at = time_of(1)
    stats = []
    for number, (path, values) in enumerate(partitions.items()):
        row = writer.row(at, f"k{number}", path, id=f"k{number}", v=number, **values)
        stats.append(writer.base(path, FILE_ID, at, [row]))
    writer.pending(at, "deltacommit")
    writer.complete(at, time_of(2), stats)
    storage.reset()
    return storage


def _values(storage: FaultyStorage, condition: str) -> list[int]:
    table = tl.open_table("memory", storage=storage)
    return sorted(table.scan(columns=["v"], filter=condition).to_arrow()["v"].to_pylist())


def _listed(storage: FaultyStorage) -> set[str]:
    return {
        op.path for op in storage.journal if op.verb in ("list_dir", "list_files") and not op.path.startswith(".hoodie")
    }


def test_listing_one_of_ten_thousand_partitions_lists_that_one_alone() -> None:
    """A filter that names the partition touches no other folder, and not the root."""
    storage = FaultyStorage(MemoryStorage())
    schema = pa.schema([("id", pa.string()), ("p", pa.string())])
    writer = TableWriter(storage, schema, table_properties(hoodie__table__partition__fields="p"))
    for number in range(10_000):
        writer.partition(f"p{number}")
    at = time_of(1)
    stat = writer.base("p77", FILE_ID, at, [writer.row(at, "k", "p77", id="k", p="p77")])
    writer.complete(at, time_of(2), [stat])
    storage.reset()
    assert tl.open_table("memory", storage=storage).scan(filter="p = 'p77'").count() == 1
    assert _listed(storage) == {"p77"}
    assert storage.count("list_dir", prefix="p") == 1
    assert storage.count("list_files") == 0


def test_listing_in_list_lists_those_folders_alone() -> None:
    """IN names folders as = does, each once."""
    storage = _table({"p": pa.string()}, {f"p{i}": {"p": f"p{i}"} for i in range(9)})
    assert _values(storage, "p IN ('p3', 'p5', 'p3', 'nowhere') AND v < 100") == [3, 5]
    assert _listed(storage) == {"p3", "p5", "nowhere"}


def test_listing_null_partition_is_found_by_is_null() -> None:
    """Rows without a partition value lie in Hive's default partition, and IS NULL lists it alone."""
    storage = _table({"p": pa.string()}, {"a": {"p": "a"}, "__HIVE_DEFAULT_PARTITION__": {"p": None}})
    assert _values(storage, "p IS NULL") == [1]
    assert _listed(storage) == {"__HIVE_DEFAULT_PARTITION__"}
    assert _values(storage, "p IS NOT NULL") == [0]
    assert _values(storage, "p <> 'b'") == [0]


@pytest.mark.parametrize("hive_style", ["true", "false"])
@pytest.mark.parametrize(
    ("kind", "texts", "condition", "expected"),
    [
        (pa.date32(), {"2026-01-30": dt.date(2026, 1, 30), "2026-02-01": dt.date(2026, 2, 1)}, "p = '2026-02-01'", [1]),
        (
            pa.date32(),
            {"2026-01-30": dt.date(2026, 1, 30), "2026-02-01": dt.date(2026, 2, 1)},
            "p = DATE '2026-02-01'",
            [1],
        ),
        (pa.date32(), {"2026-01-30": dt.date(2026, 1, 30), "2026-02-01": dt.date(2026, 2, 1)}, "p < '2026-02-01'", [0]),
        (pa.int32(), {"9": 9, "10": 10, "-1": -1}, "p > 9", [1]),
        (pa.int32(), {"9": 9, "10": 10, "-1": -1}, "p = 10.0", [1]),
        (pa.int32(), {"9": 9, "10": 10, "-1": -1}, "p IN (9.0, -1)", [0, 2]),
        (pa.int32(), {"9": 9, "10": 10, "-1": -1}, "p = '10'", [1]),
        (pa.int32(), {"9": 9, "10": 10, "-1": -1}, "p = 9.5", []),
        (pa.int64(), {"9": 9, "10": 10, "-1": -1}, "p BETWEEN -5 AND 9", [0, 2]),
        (pa.bool_(), {"true": True, "false": False}, "p = true", [0]),
        (pa.bool_(), {"true": True, "false": False}, "NOT p", [1]),
        (pa.string(), {"9": "9", "10": "10"}, "p > '10'", [0]),
        (pa.string(), {"a": "a", "b": "b"}, "p LIKE 'a%'", [0]),
        (pa.string(), {"a": "a", "b": "b"}, "p = 'a' OR v = 1", [0, 1]),
        (pa.string(), {"a": "a", "b": "b"}, "'a' = p", [0]),
        (pa.string(), {"a": "a", "b": "b"}, "P = 'a'", [0]),
    ],
)
def test_listing_typed_partitions_are_pruned_right(
    hive_style: str, kind: pa.DataType, texts: dict[str, object], condition: str, expected: list[int]
) -> None:
    """Whatever the type and style of a partition column, a filter on it gives the rows that it should."""
    partitions = {f"p={text}" if hive_style == "true" else text: {"p": value} for text, value in texts.items()}
    storage = _table({"p": kind}, partitions, hoodie__datasource__write__hive_style_partitioning=hive_style)
    assert _values(storage, condition) == expected


@pytest.mark.parametrize("hive_style", ["true", "false"])
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("p = 'americas/brazil/sao_paulo'", [0]),
        ("p LIKE 'americas%'", [0, 1]),
        ("p > 'asia'", [2, 3]),
        ("p <> 'europe'", [0, 1, 2]),
        ("p IN ('asia/india/chennai', 'europe')", [2, 3]),
    ],
)
def test_listing_values_with_slashes_are_whole_values(hive_style: str, condition: str, expected: list[int]) -> None:
    """A value with slashes spans folders when paths are not encoded (as in Hudi's own examples), and is found."""
    values = ["americas/brazil/sao_paulo", "americas/united_states", "asia/india/chennai", "europe"]
    partitions = {f"p={v}" if hive_style == "true" else v: {"p": v} for v in values}
    storage = _table({"p": pa.string()}, partitions, hoodie__datasource__write__hive_style_partitioning=hive_style)
    assert _values(storage, condition) == expected


def test_listing_slashes_in_a_leading_column_do_not_hide_the_next() -> None:
    """A leading column whose values span folders, not constrained, does not lose rows of a constrained second one."""
    paths = {
        "eu/de/2026-01-01": {"region": "eu/de", "day": "2026-01-01"},
        "us/2026-01-01": {"region": "us", "day": "2026-01-01"},
        "us/2026-01-02": {"region": "us", "day": "2026-01-02"},
    }
    storage = _table({"region": pa.string(), "day": pa.string()}, paths)
    assert _values(storage, "day = '2026-01-01'") == [0, 1]
    assert _values(storage, "region = 'eu/de'") == [0]
    assert _values(storage, "region = 'us' AND day = '2026-01-02'") == [2]


def test_listing_encoded_values_are_listed_by_their_folder() -> None:
    """With encoded paths a value with slashes and signs is one folder."""
    partitions = {"a%2Fb": {"p": "a/b"}, "c%3Dd": {"p": "c=d"}, "e f": {"p": "e f"}}
    storage = _table({"p": pa.string()}, partitions, hoodie__datasource__write__partitionpath__urlencode="true")
    assert _values(storage, "p = 'a/b'") == [0]
    assert _listed(storage) == {"a%2Fb"}
    assert _values(storage, "p >= 'c=d'") == [1, 2]


def test_listing_two_levels_lists_only_what_both_leave() -> None:
    """Values of both columns name the folder; one of them lists below the other."""
    paths = {f"{r}/{d}": {"r": r, "d": d} for r in (1, 2, 3) for d in (7, 8)}
    storage = _table({"r": pa.int32(), "d": pa.int32()}, paths)
    assert _values(storage, "r = 2 AND d = 8") == [3]
    assert _listed(storage) == {"2/8"}
    storage.reset()
    assert _values(storage, "r = 2") == [2, 3]
    assert _listed(storage) == {"2", "2/7", "2/8"}
    storage.reset()
    assert _values(storage, "d = 8 AND r <> 3") == [1, 3]
    assert _listed(storage) == {"", "1/8", "2/8"}


def test_listing_partition_that_is_gone_is_an_error_also_under_a_filter() -> None:
    """A lost partition folder is a missing file, not fewer rows, whether or not a filter names it."""
    storage = _table({"p": pa.string()}, {"a": {"p": "a"}, "b": {"p": "b"}})
    for info in list(storage.inner.list_files("b")):
        storage.inner.delete(info.path)
    table = tl.open_table("memory", storage=storage)
    for condition in (None, "p = 'b'", "p > 'a'"):
        with pytest.raises(MissingFileError):
            table.scan(filter=condition).to_arrow()
    assert table.scan(filter="p = 'a'").count() == 1


def test_listing_whole_table_skips_the_metadata_folder_and_foreign_folders() -> None:
    """Only folders with a partition metafile are partitions."""
    storage = _table({"p": pa.string()}, {"a": {"p": "a"}})
    storage.put(f"foreign/{FILE_ID}_1-0-1_{time_of(1)}.parquet", b"not a partition")
    storage.put(".hoodie/metadata/files/.hoodie_partition_metadata", b"")
    assert [listed.path for listed in list_all(storage)] == ["a"]


def test_listing_many_partitions_is_one_sweep() -> None:
    """Without a filter, ten thousand folders are listed in one go, not one by one."""
    storage = _table({"p": pa.string()}, {f"p{i}": {"p": f"p{i}"} for i in range(100)})
    assert len(list(list_all(storage))) == 100
    assert storage.operations == 2
