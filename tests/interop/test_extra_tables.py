"""Tables that Apache Hudi wrote elsewhere, read equal to hudi-rs. They are found through TIDELAKE_EXTRA_TABLES."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiReadOptions, HudiTable, HudiTableBuilder

import tidelake as tl
from golden.encoding import encode_rows

EXTRA = Path(os.environ["TIDELAKE_EXTRA_TABLES"]) if os.environ.get("TIDELAKE_EXTRA_TABLES") else None
ZIPS = sorted(path.stem for path in EXTRA.glob("*.zip")) if EXTRA else []
REFUSED = {
    "_v6_": "table version 6",
    "lance": "LANCE",
    "hfile_log_block": "HFILE_DATA",
}

pytestmark = pytest.mark.skipif(EXTRA is None, reason="TIDELAKE_EXTRA_TABLES names no folder of further tables")


@pytest.fixture(scope="session")
def extra(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    root = tmp_path_factory.mktemp("extra")

    def unpack(name: str) -> Path:
        target = root / name
        if not target.exists():
            assert EXTRA is not None
            with zipfile.ZipFile(EXTRA / f"{name}.zip") as archive:
                archive.extractall(target)
        return next(path.parent for path in sorted(target.glob("*/.hoodie")) if "__MACOSX" not in str(path))

    return unpack


def refusal_of(name: str) -> str | None:
    return next((text for mark, text in REFUSED.items() if mark in f"_{name}"), None)


def rows(batches: list[pa.RecordBatch]) -> list[str]:
    return [json.dumps(row) for batch in batches for row in encode_rows(pa.record_batch(batch).to_pylist())]


def by_hudi_rs(path: Path, **options: str) -> list[str]:
    table = HudiTableBuilder.from_base_uri(str(path)).with_options(options).build()
    return sorted(rows(table.read()))


def by_tidelake(path: Path, spark: object = None, **scan: str) -> list[str]:
    found = tl.open_table(str(path), spark=spark).scan(**scan)
    if spark is None:
        return sorted(rows(found.to_arrow().to_batches()))
    return sorted(rows(found.to_spark().toArrow().to_batches()))


@pytest.mark.parametrize("name", [name for name in ZIPS if refusal_of(name) is None])
def test_extra_table_snapshot_equals_hudi_rs(name: str, extra) -> None:
    """The snapshot of a foreign table is row for row that of hudi-rs."""
    assert by_tidelake(extra(name)) == by_hudi_rs(extra(name))


@pytest.mark.parametrize("name", [name for name in ZIPS if refusal_of(name) is None])
def test_extra_table_read_optimized_equals_hudi_rs(name: str, extra) -> None:
    """The read-optimised view of a foreign table is row for row that of hudi-rs."""
    expected = by_hudi_rs(extra(name), **{"hoodie.read.use.read_optimized.mode": "true"})
    assert by_tidelake(extra(name), mode="read_optimized") == expected


@pytest.mark.parametrize("name", [name for name in ZIPS if refusal_of(name) is None])
def test_extra_table_time_travel_equals_hudi_rs_at_each_commit(name: str, extra) -> None:
    """Time travel to each commit of a foreign table gives the rows of hudi-rs."""
    for instant in tl.open_table(str(extra(name))).timeline.completed_writes:
        time = instant.requested_time
        read = HudiTable(str(extra(name))).read(HudiReadOptions().with_as_of_timestamp(time))
        assert by_tidelake(extra(name), as_of=time) == sorted(rows(read)), time


@pytest.mark.parametrize("name", [name for name in ZIPS if refusal_of(name) is not None])
def test_extra_table_of_unknown_kind_is_refused_by_name(name: str, extra) -> None:
    """What is not read is refused with the name of what is missing, never misread."""
    with pytest.raises(tl.UnsupportedError, match=refusal_of(name)):
        tl.open_table(str(extra(name))).scan().to_arrow()
