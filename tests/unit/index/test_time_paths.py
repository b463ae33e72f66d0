"""Partition paths made of times: the same folders as Apache Hudi's timestamp key generator makes, and right reads."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hudi import HudiTable
from hypothesis import given
from hypothesis import strategies as st

import tidelake as tl
from model.deep import examples
from tidelake.index.time_paths import TimePaths, Zone
from tidelake.index.time_pattern import TimePattern
from tidelake.storage import MemoryStorage

PREFIX = "hoodie.keygen.timebased."
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MOMENTS = st.datetimes(datetime(1800, 1, 1), datetime(2300, 1, 1)).map(lambda d: d.replace(tzinfo=timezone.utc))
PYTHON = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


def make(kind: pa.DataType, pattern: str = "yyyy/MM/dd", **how: Any) -> tl.Table:
    options = {PREFIX + key: value for key, value in how.pop("times", {}).items()} | how.pop("options", {})
    schema = pa.schema([("id", pa.int64()), ("at", kind)])
    how = {"path": "memory", "storage": MemoryStorage(), **how} if "path" not in how else how
    return tl.create_table(schema=schema, name="timed", partition_by={"at": pattern}, options=options, **how)


def rows(values: pa.Array) -> pa.Table:
    return pa.table({"id": pa.array(range(len(values)), pa.int64()), "at": values})


def paths(table: tl.Table) -> dict[int, str]:
    return {r["id"]: r["_hoodie_partition_path"] for r in table.scan().to_arrow().to_pylist()}


@pytest.mark.parametrize("zone", ["UTC", "Europe/Oslo", "America/New_York", "GMT+5:30"])
@given(times=st.lists(MOMENTS, min_size=1, max_size=8))
@examples(40)
def test_time_paths_random_moments_equal_pythons_calendar(zone: str, times: list[datetime]) -> None:
    """The text of a moment in a zone is what Python's calendar says, to the millisecond."""
    pattern = "yyyy/MM/dd-HH.mm:ss"
    made = TimePaths.of(
        {
            f"{PREFIX}timestamp.type": "EPOCHMILLISECONDS",
            f"{PREFIX}output.dateformat": pattern,
            f"{PREFIX}timezone": zone,
        }
    )
    known = timezone(timedelta(hours=5, minutes=30)) if zone.startswith("GMT") else ZoneInfo(zone)
    # Before 1900 zones have offsets of seconds that engines round differently.
    times = [t for t in times if t.year > 1900] or [EPOCH]
    ms = [(t - EPOCH) // timedelta(milliseconds=1) for t in times]
    texts, bad = made.texts(pa.array(ms, pa.int64()), "at")
    format = pattern
    for letters, code in PYTHON.items():
        format = format.replace(letters, code)
    assert texts.to_pylist() == [(EPOCH + timedelta(milliseconds=m)).astimezone(known).strftime(format) for m in ms]
    assert not bad.any()


@given(times=st.lists(MOMENTS, min_size=1, max_size=8), shift=st.integers(-14 * 60, 14 * 60))
@examples(40)
def test_time_pattern_texts_with_offsets_are_parsed_as_python_does(times: list[datetime], shift: int) -> None:
    """A text with an offset is the instant that Python reads from it; one that is no time is null."""
    pattern = TimePattern.of("yyyy-MM-dd'T'HH:mm:ss.SSSZ", is_input=True)
    there = timezone(timedelta(minutes=shift))
    texts = [t.astimezone(there).isoformat(timespec="milliseconds") for t in times]
    wall, offset = pattern.parse(
        pa.array([*texts, "2024-02-30T00:00:00.000Z", "2024-1-01", "2024-01-01T24:00:00.000Z", None])
    )
    assert wall.to_pylist()[-4:] == [None] * 4
    instants = [w - o for w, o in zip(wall.to_pylist()[:-4], offset.to_pylist()[:-4], strict=True)]
    assert instants == [(t - EPOCH) // timedelta(milliseconds=1) for t in times]


@pytest.mark.parametrize(
    ("kind", "values", "times", "expected"),
    [
        (pa.timestamp("us", "UTC"), [1_705_276_800_000_000, -1, None], {}, ["2024/01/15", "1970/01/01", "1970/01/01"]),
        (pa.timestamp("ms", "UTC"), [1_705_276_800_000, -1, None], {}, ["2024/01/15", "1969/12/31", "1970/01/01"]),
        (pa.date32(), [19_737, -1, None], {}, ["2024/01/15", "1969/12/31", "1970/01/02"]),
        (pa.int64(), [1_705_276_800, -1], {"timestamp.type": "UNIX_TIMESTAMP"}, ["2024/01/15", "1969/12/31"]),
        (pa.int32(), [0, None], {"timestamp.type": "UNIX_TIMESTAMP", "timezone": "GMT-1"}, ["1969/12/31"] * 2),
        (pa.int64(), [1, None], {"timestamp.type": "SCALAR", "timestamp.scalar.time.unit": "days"}, ["1970/01/02"] * 2),
        (
            pa.string(),
            ["15.01.2024", "20240116"],
            {"input.dateformat": "dd.MM.yyyy,yyyyMMdd"},
            ["2024/01/15", "2024/01/16"],
        ),
        (
            pa.string(),
            ["2024-07-01 00", None],
            {"input.dateformat": "yyyy-MM-dd HH", "input.timezone": "Asia/Tokyo", "output.timezone": "UTC"},
            ["2024/06/30", "1970/01/01"],
        ),
    ],
)
@pytest.mark.parametrize("hive_style", ["true", "false"])
def test_time_paths_columns_of_every_type_are_written_updated_and_read(
    kind: pa.DataType, values: list[Any], times: dict[str, str], expected: list[str], hive_style: str, tmp_path: Path
) -> None:
    """Every kind of column gives its folders; updates meet their rows there; hudi-rs reads the same."""
    options = {"hoodie.datasource.write.hive_style_partitioning": hive_style}
    table = make(kind, times=times, options=options, path=str(tmp_path / "t"))
    data = rows(pa.array(values, kind))
    table.upsert(data)
    table.upsert(data)
    prefix = "at=" if hive_style == "true" else ""
    assert paths(table) == {i: prefix + text for i, text in enumerate(expected)}
    assert table.scan().count() == len(values)
    found = [row for batch in HudiTable(str(tmp_path / "t")).read() for row in batch.to_pylist()]
    assert sorted((r["id"], str(r["at"])) for r in found) == sorted(
        (r["id"], str(r["at"])) for r in table.scan().to_arrow().to_pylist()
    )


def test_time_paths_filters_find_rows_by_value_not_by_folder() -> None:
    """A condition on the column is one on its values: folders hold other texts, and none is left out."""
    table = make(pa.timestamp("us", "UTC"))
    moments = [1_705_276_800_000_000 + hour * 3_600_000_000 for hour in range(0, 72, 6)]
    table.upsert(rows(pa.array([*moments, None], pa.timestamp("us", "UTC"))))
    for condition, count in (
        ("at >= timestamp '2024-01-16 00:00:00'", 8),
        ("at = timestamp '2024-01-16 06:00:00'", 1),
        ("at < timestamp '2024-01-15 12:00:00'", 2),
        ("at is null", 1),
        ("at is not null", 12),
    ):
        assert table.scan(filter=condition).count() == count, condition
    text = make(pa.string(), times={"input.dateformat": "yyyyMMdd"})
    text.upsert(rows(pa.array(["20240115", "20240116"])))
    assert text.scan(filter="at = '20240115'").to_arrow()["id"].to_pylist() == [0]


@pytest.mark.parametrize("name", ["mor_v9_timestampkey", "cow_v8_timestampkey"])
def test_time_paths_table_of_apache_hudi_has_our_properties_and_takes_our_rows(
    golden: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    """A table that Apache Hudi made says of its paths what ours say, and rows that we update stay in their folders."""
    path = tmp_path / "t"
    shutil.copytree(golden(name), path)
    theirs = tl.open_table(str(path))
    ours = make(pa.int64(), times={"timestamp.type": "EPOCHMILLISECONDS"})
    for key in ("hoodie.table.keygenerator.type", "hoodie.table.partition.fields"):
        assert ours.config.properties[key] == theirs.config.properties[key]
    stated = [{k: v for k, v in t.config.properties.items() if k.startswith(PREFIX)} for t in (ours, theirs)]
    assert stated[0] == stated[1]
    before = paths(theirs)
    stored = theirs.scan(columns=["id", "name", "price", "ts", "at"]).to_arrow()
    later = stored.set_column(3, "ts", pa.array([99] * stored.num_rows, pa.int64()))
    theirs.upsert(later)
    assert paths(theirs) == before
    assert set(theirs.scan(columns=["ts"]).to_arrow()["ts"].to_pylist()) == {99}
    assert theirs.scan().count() == len(before)


def test_time_paths_old_option_names_are_understood_and_stored_under_the_new() -> None:
    """The names of the delta streamer are the same options."""
    old = {
        "hoodie.deltastreamer.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.deltastreamer.keygen.timebased.output.dateformat": "yyyyMM",
    }
    schema = pa.schema([("id", pa.int64()), ("at", pa.int64())])
    table = tl.create_table("memory", schema, name="t", partition_by="at", options=old, storage=MemoryStorage())
    assert {k: v for k, v in table.config.properties.items() if "timebased" in k} == {
        f"{PREFIX}timestamp.type": "EPOCHMILLISECONDS",
        f"{PREFIX}output.dateformat": "yyyyMM",
        f"{PREFIX}timezone": "UTC",
    }
    table.upsert(rows(pa.array([1_705_276_800_000])))
    assert paths(table) == {0: "at=202401"}


BAD: dict[str, tuple[pa.DataType, str, dict[str, str], str]] = {
    "letter": (pa.date32(), "yyyy/EEE", {}, "'yyyy/EEE' has 'EEE'"),
    "week year": (pa.date32(), "YYYY/MM", {}, "'YYYY/MM' has 'YYYY'"),
    "two digits": (pa.date32(), "yy/MM", {}, "'yy'"),
    "input letter": (pa.string(), "yyyy", {"input.dateformat": "yyyy-MM-dd hh a"}, "'hh'"),
    "no year": (pa.date32(), "MM/dd", {}, "no year"),
    "quote": (pa.date32(), "yyyy'T", {}, "quote"),
    "empty level": (pa.date32(), "yyyy//MM", {}, "no folders"),
    "absolute": (pa.date32(), "/yyyy", {}, "no folders"),
    "up": (pa.date32(), "yyyy/../MM", {}, "no folders"),
    "the table's own folder": (pa.date32(), "'.hoodie'/yyyy", {}, r"\.hoodie.*no folders"),
    "a folder of the table's name below": (pa.date32(), "yyyy/'.hoodie'", {}, r"\.hoodie.*no folders"),
    "no unit": (pa.int64(), "yyyy", {}, "'at' of type int64.*which time"),
    "unit": (pa.int64(), "yyyy", {"timestamp.type": "FORTNIGHTS"}, "FORTNIGHTS"),
    "scalar unit": (pa.int64(), "yyyy", {"timestamp.type": "SCALAR"}, "scalar.time.unit"),
    "no input format": (pa.string(), "yyyy", {}, "input.dateformat"),
    "zone": (pa.date32(), "yyyy", {"timezone": "Mars/Base"}, "Mars/Base"),
    "zone of a date": (pa.date32(), "yyyy", {"timezone": "Asia/Tokyo"}, "'at' is a date"),
    "option": (pa.date32(), "yyyy", {"output.dateform": "x"}, "output.dateform"),
    "unit of a timestamp": (pa.timestamp("us"), "yyyy", {"timestamp.type": "EPOCHMILLISECONDS"}, "EPOCHMICROSECONDS"),
    "text of a number": (pa.int64(), "yyyy", {"timestamp.type": "DATE_STRING", "input.dateformat": "yyyy"}, "'at'"),
}


@pytest.mark.parametrize("case", BAD)
def test_time_paths_what_cannot_work_is_refused_when_the_table_is_made(case: str) -> None:
    """Formats, units, zones and column types that do not go together are named, and no table is made."""
    kind, pattern, times, match = BAD[case]
    storage = MemoryStorage()
    with pytest.raises((tl.InvalidError, tl.UnsupportedError), match=match):
        make(kind, pattern, times=times, path="memory", storage=storage)
    assert not list(storage.list_files())


def test_time_paths_two_keys_or_columns_are_refused() -> None:
    """Apache Hudi's generator knows one key and one column."""
    schema = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("at", pa.date32())])
    how: dict[str, Any] = {"schema": schema, "name": "t", "storage": MemoryStorage()}
    with pytest.raises(tl.InvalidError, match="one record key"):
        tl.create_table("memory", record_key=["id", "k"], partition_by={"at": "yyyy"}, **how)
    with pytest.raises(tl.InvalidError, match="one column"):
        tl.create_table("memory", partition_by={"at": "yyyy", "k": "MM"}, **how)


@pytest.mark.parametrize(
    ("kind", "values", "times"),
    [
        (pa.string(), ["20240115", "soon", "20240230"], {"input.dateformat": "yyyyMMdd"}),
        (pa.int64(), [0, 2**62, -(2**63)], {"timestamp.type": "UNIX_TIMESTAMP"}),
        (pa.int64(), [0, 2**62, -(2**63)], {"timestamp.type": "EPOCHMICROSECONDS"}),
        (pa.timestamp("us"), [0, 2**62, -(2**62)], {}),
        (pa.timestamp("us", "UTC"), [0, 2**62, -(2**62)], {}),
        (pa.date32(), [0, 2**31 - 1, -(2**31)], {}),
    ],
)
def test_time_paths_value_that_is_no_time_is_refused_with_its_keys(
    kind: pa.DataType, values: list[Any], times: dict[str, str]
) -> None:
    """Values without a date leave the table as it was, and are named by column and key."""
    table = make(kind, times=times)
    whole = pa.array(values, pa.int32() if kind == pa.date32() else kind)
    with pytest.raises(tl.InvalidError, match=rf"'at' holds no time .* in 2 rows \({values[1]}\).*keys 1, 2"):
        table.upsert(rows(whole.cast(kind)))
    assert not table.timeline.instants


def test_time_zone_wall_times_that_do_not_exist_are_refused() -> None:
    """A clock that was put forward never showed the hour in between; of an hour shown twice the first counts."""
    oslo = Zone.of("Europe/Oslo")
    gap, twice = (
        int((datetime(*d) - datetime(1970, 1, 1)).total_seconds() * 1000)
        for d in ((2024, 3, 31, 2, 30), (2024, 10, 27, 2, 30))
    )
    with pytest.raises(tl.InvalidError, match="Europe/Oslo"):
        oslo.from_wall(np.array([gap]))
    assert oslo.from_wall(np.array([twice])).tolist() == [twice - 2 * 3_600_000]
    assert oslo.to_wall(np.array([twice - 2 * 3_600_000, twice - 3_600_000])).tolist() == [twice, twice]
