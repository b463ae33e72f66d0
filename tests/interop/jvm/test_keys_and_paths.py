"""Keys and paths in both engines: keys that move between partitions, and partition paths made of times."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tidelake as tl
from interop.jvm.both import make, rows
from interop.jvm.hudi_client import Hudi

pytestmark = pytest.mark.hudi_jvm
GLOBAL = {"hoodie.index.type": "GLOBAL_SIMPLE"}


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_global_index_rows_moved_in_turns_read_equal(hudi: Hudi, tmp_path: Path, table_type: str) -> None:
    """What we moved, Apache Hudi reads once and moves on, and the other way round."""
    both = make(hudi, tmp_path / "t", GLOBAL, table_type=table_type, partition_by="day", ordering_fields="ts")
    both.write_options.update(GLOBAL)
    both.ours.upsert(rows((1, "a", 1), (2, "b", 1), (3, "c", 5)))
    both.ours.upsert(rows((1, "a2", 2), (3, "late", 4), days=("x", "y")))
    both.check_snapshot()
    assert both.state() == {1: "a2", 2: "b", 3: "c"}
    both.theirs(rows((1, "a3", 3), (2, "b3", 3), days=("z",)))
    both.check_snapshot()
    assert both.state() == {1: "a3", 2: "b3", 3: "c"}
    both.ours.upsert(rows((1, "a4", 4), (2, "late", 2), (3, "c6", 6)))
    both.ours.delete([2])
    both.check_snapshot()
    assert both.state() == {1: "a4", 3: "c6"}
    both.theirs(rows((1, "a5", 5), (2, "b5", 5), days=("y",)))
    both.check_snapshot()
    assert both.state() == {1: "a5", 2: "b5", 3: "c6"}


DAY_US = 86_400_000_000
MOMENTS_US = [1_705_276_800_000_000, 1_705_363_199_999_999, -1, -DAY_US - 1, 0, None, 1_719_792_000_123_456]
TIMED: dict[str, tuple[str, pa.DataType, dict[str, str]]] = {
    "timestamp": ("yyyy/MM/dd/HH", pa.timestamp("us", "UTC"), {}),
    "timestamp_in_oslo": ("yyyy-MM-dd-HH", pa.timestamp("us", "UTC"), {"timezone": "Europe/Oslo"}),
    "date": ("yyyy/MM/dd", pa.date32(), {}),
    "seconds": ("yyyyMMdd", pa.int64(), {"timestamp.type": "UNIX_TIMESTAMP", "timezone": "GMT+8:00"}),
    "millis": ("yyyy/M/d", pa.int64(), {"timestamp.type": "EPOCHMILLISECONDS"}),
    "micros": ("yyyy-MM-dd'T'HHmmss.SSS", pa.int64(), {"timestamp.type": "EPOCHMICROSECONDS"}),
    "hours": ("yyyy/MM/dd", pa.int64(), {"timestamp.type": "SCALAR", "timestamp.scalar.time.unit": "HOURS"}),
    "text": ("yyyy/MM/dd", pa.string(), {"input.dateformat": "yyyy-MM-dd'T'HH:mm:ss.SSSZ,yyyyMMdd"}),
    "mixed": (
        "yyyy/MM/dd",
        pa.string(),
        {"timestamp.type": "MIXED", "input.dateformat": "yyyy-MM-dd", "input.timezone": "America/New_York"},
    ),
}


def moments(name: str, kind: pa.DataType) -> pa.Array:
    """The moments in the column's type."""
    known = [None if us is None else us for us in MOMENTS_US]
    if name == "text":
        return pa.array(
            [
                "2024-01-15T00:00:00.000Z",
                "2024-01-15T23:59:59.999+0230",
                "19691231",
                "20240229",
                "19700101",
                None,
                "20240701",
            ]
        )
    if name == "mixed":
        return pa.array(["2024-01-15", "2024-01-16", "1969-12-31", "2024-02-29", "1970-01-01", None, "2024-07-01"])
    divisor = {"seconds": 1_000_000, "millis": 1_000, "hours": 3_600_000_000, "date": DAY_US}.get(name, 1)
    whole = pa.array(
        [None if us is None else us // divisor for us in known], pa.int32() if name == "date" else pa.int64()
    )
    return whole.cast(kind)


@pytest.mark.parametrize("hive_style", ["true", "false"])
@pytest.mark.parametrize("name", TIMED)
def test_time_paths_apache_hudi_updates_every_row_in_its_folder(
    hudi: Hudi, tmp_path: Path, name: str, hive_style: str
) -> None:
    """Apache Hudi gives each row the path that we gave it: its upsert of the same rows adds none."""
    pattern, kind, given = TIMED[name]
    options = {f"hoodie.keygen.timebased.{key}": value for key, value in given.items()}
    table = tl.create_table(
        str(tmp_path / "t"),
        pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", kind)]),
        name="t",
        partition_by={"at": pattern},
        options={**options, "hoodie.datasource.write.hive_style_partitioning": hive_style},
    )
    ids = pa.array(range(len(MOMENTS_US)), pa.int64())

    def batch(text: str) -> pa.Table:
        return pa.table({"id": ids, "name": [text] * len(ids), "at": moments(name, kind)})

    table.upsert(batch("ours"))
    paths = {r["id"]: r["_hoodie_partition_path"] for r in table.scan().to_arrow().to_pylist()}
    hudi.write(tmp_path / "t", batch("theirs"))
    found = table.scan().to_arrow().to_pylist()
    assert {r["id"]: r["_hoodie_partition_path"] for r in found} == paths
    assert [r["name"] for r in found] == ["theirs"] * len(ids)
    assert len(hudi.read(tmp_path / "t")["rows"]) == len(ids)


@pytest.mark.parametrize("log_format", ["parquet", "avro"])
def test_log_files_of_several_versions_and_blocks_read_equal_and_compact(
    hudi: Hudi, tmp_path: Path, log_format: str
) -> None:
    """Rows of one write in several log files and blocks are one write to Apache Hudi, before and after it compacts them."""
    options = {
        "hoodie.logfile.max.size": "20000",
        "hoodie.logfile.data.block.max.size": "6000",
        "hoodie.logfile.data.block.format": log_format,
    }
    both = make(hudi, tmp_path / "t", options, ordering_fields="ts")
    both.ours.upsert(rows(*((i, "old", 1) for i in range(200))))
    both.ours.upsert(rows(*((i, f"new {i}", 2) for i in range(200))))
    both.ours.delete([3, 150])
    assert len({stat.path for stat in both.ours.files()[0].logs}) > 3
    both.check_snapshot()
    hudi.compact(tmp_path / "t")
    both.check_snapshot()
    assert both.state() == {i: f"new {i}" for i in range(200) if i not in (3, 150)}
