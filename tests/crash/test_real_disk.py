"""A disk that is really full, and a folder that really may not be written: the table stays as it was."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tidelake as tl

NOBODY = 65534
SIZE_KIB = 1_024


def rows(name: str, count: int, size: int = 1) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            # Random text: it must not compress away.
            "name": [name + os.urandom(size).hex() for _ in range(count)],
            "day": [f"d{i % 2}" for i in range(count)],
        }
    )


def make(path: Path, table_type: str) -> tl.Table:
    return tl.create_table(str(path), "id bigint, name string, day string", partition_by="day", table_type=table_type)


def state(table: tl.Table) -> list[tuple[int, str]]:
    found = table.scan(columns=["id", "name"]).to_arrow().to_pylist()
    return sorted((row["id"], row["name"]) for row in found)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one mebibyte."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_KIB}k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no file system may be mounted here: {made.stderr.decode()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("verb", ["insert", "upsert", "insert_overwrite_table"])
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_disk_full_write_is_refused_and_leaves_the_table_as_it_was(
    small_disk: Path, table_type: str, verb: str
) -> None:
    """A write that does not fit is a typed error; its files are taken back, and a smaller one then fits."""
    table = make(small_disk / "t", table_type)
    table.upsert(rows("first", 20))
    before = state(table)
    with pytest.raises(tl.TidelakeError, match=r"No space left|disk is full"):
        getattr(table, verb)(rows("too large", 400, size=8_000))
    again = tl.open_table(str(small_disk / "t"))
    assert state(again) == before
    again.upsert(rows("next", 20))
    assert [name[:4] for _, name in state(again)] == ["next"] * 20
    assert not again.timeline.pending


@pytest.mark.parametrize("verb", ["insert", "upsert", "insert_overwrite_table", "delete"])
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_read_only_folder_write_is_refused_and_leaves_the_table_as_it_was(
    tmp_path: Path, table_type: str, verb: str
) -> None:
    """Whoever may only read gets a typed error that says so, and reads on; whoever may write goes on."""
    table = make(tmp_path / "t", table_type)
    table.upsert(rows("first", 10))
    before = state(table)
    folders = [tmp_path / "t", *(p for p in (tmp_path / "t").rglob("*") if p.is_dir())]
    above = [p for p in (tmp_path / "t").parents if p != Path("/")]
    modes = {p: p.stat().st_mode for p in above}
    is_root = os.geteuid() == 0
    try:
        for folder in folders:
            folder.chmod(0o555)
        if is_root:
            for file in (tmp_path / "t").rglob("*"):
                if file.is_file():
                    file.chmod(0o444)
            for folder in above:
                folder.chmod(folder.stat().st_mode | 0o055)
            os.seteuid(NOBODY)
        reader = tl.open_table(str(tmp_path / "t"))
        with pytest.raises(tl.TidelakeError, match="Permission denied"):
            getattr(reader, verb)([1, 2] if verb == "delete" else rows("never", 10))
        assert state(reader) == before
    finally:
        if is_root:
            os.seteuid(0)
        for folder in folders:
            folder.chmod(0o755)
        for folder, mode in modes.items():
            folder.chmod(mode)
    again = tl.open_table(str(tmp_path / "t"))
    assert state(again) == before
    again.upsert(rows("next", 10))
    assert [name[:4] for _, name in state(again)] == ["next"] * 10
    assert not again.timeline.pending
