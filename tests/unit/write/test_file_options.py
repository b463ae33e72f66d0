"""How a table's properties shape its parquet files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelake as tl
from tidelake.errors import OptionError

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("ts", pa.int64())])
ROWS = 20_000


def rows() -> pa.Table:
    return pa.table(
        {"id": range(ROWS), "name": [f"name {i % 7}" for i in range(ROWS)], "ts": [1] * ROWS}, schema=SCHEMA
    )


def written(path: Path, **options: str) -> list[pq.FileMetaData]:
    """The footers of a table that was bulk loaded with these options."""
    table = tl.create_table(str(path), SCHEMA, record_key="id", ordering_fields="ts", options=options)
    table.bulk_insert(rows())
    assert table.scan().to_arrow().num_rows == ROWS
    return [pq.read_metadata(file) for file in path.glob("*.parquet")]


def column(footer: pq.FileMetaData, name: str) -> pq.ColumnChunkMetaData:
    group = footer.row_group(0)
    return next(c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == name)


def test_file_options_left_out_are_zstd_with_dictionaries_in_one_file(tmp_path: Path) -> None:
    (footer,) = written(tmp_path)
    assert column(footer, "name").compression == "ZSTD"
    assert column(footer, "name").has_dictionary_page
    assert footer.num_row_groups == 1


def test_file_options_given_shape_the_files(tmp_path: Path) -> None:
    footers = written(
        tmp_path,
        **{
            "hoodie.parquet.compression.codec": "GZIP",
            "hoodie.parquet.dictionary.enabled": "false",
            "hoodie.parquet.max.file.size": "200000",
            "tidelake.parquet.row.group.rows": "1000",
        },
    )
    assert len(footers) > 1
    assert {column(footer, "name").compression for footer in footers} == {"GZIP"}
    assert not any(column(footer, "name").has_dictionary_page for footer in footers)
    assert all(footer.row_group(0).num_rows <= 1000 < footer.num_rows for footer in footers)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.parquet.compression.codec", "brotli"),
        ("hoodie.parquet.dictionary.enabled", "perhaps"),
        ("hoodie.parquet.max.file.size", "0"),
        ("hoodie.parquet.small.file.limit", "-1"),
        ("tidelake.parquet.row.group.rows", "many"),
    ],
)
def test_file_options_that_cannot_be_are_refused_at_creation(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(OptionError, match=key.replace(".", r"\.")):
        tl.create_table(str(tmp_path), SCHEMA, record_key="id", options={key: value})
    assert not list(tmp_path.iterdir())
