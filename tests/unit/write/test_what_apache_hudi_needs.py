"""What Apache Hudi's writers stumble over in tables of ours; each was seen with 1.2.0 (tests/interop/jvm)."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelake as tl
from tidelake.errors import InvalidError, UnsupportedError
from tidelake.format.base_footer import decode_footer
from tidelake.format.properties import decode_properties, encode_properties
from tidelake.storage import MemoryStorage
from tidelake.testing import ManualClock

SCHEMA = "id bigint, day string, kind string"


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "day": ["d"] * len(ids), "kind": ["k"] * len(ids)})


def test_base_file_emptied_by_deletes_has_a_bloom_filter() -> None:
    """A base file without rows has a filter too: the BLOOM index fails on a file that has none."""
    storage = MemoryStorage(clock=ManualClock())
    table = tl.create_table(
        "memory", SCHEMA, name="t", table_type="COPY_ON_WRITE", storage=storage, clock=ManualClock()
    )
    table.upsert(rows(1))
    table.delete([1])
    (emptied,) = table.files()
    assert emptied.base is not None
    footer = decode_footer(pq.ParquetFile(io.BytesIO(storage.get(emptied.base.path))).metadata.metadata)
    assert footer.bloom is not None
    assert not footer.bloom.may_contain(pa.array(["1"])).any()
    assert footer.min_key is None


def test_create_version_8_one_key_two_partition_columns_is_refused() -> None:
    """How such a table's keys are written differs between releases, and Apache Hudi refuses to write to it."""
    with pytest.raises(InvalidError, match="version 8"):
        tl.create_table(
            "memory",
            SCHEMA,
            name="t",
            partition_by=["day", "kind"],
            options={"hoodie.table.version": "8"},
            storage=MemoryStorage(),
        )


def test_write_to_version_8_with_one_complex_key_is_refused() -> None:
    """A table whose keys may be written in either of two ways gets no rows under keys that may be others."""
    storage = MemoryStorage(clock=ManualClock())
    tl.create_table("memory", SCHEMA, name="t", partition_by=["day", "kind"], storage=storage, clock=ManualClock())
    properties = decode_properties(storage.get(".hoodie/hoodie.properties"))
    properties["hoodie.table.version"] = "8"
    storage.put(".hoodie/hoodie.properties", encode_properties(properties))
    with pytest.raises(UnsupportedError, match="version 8"):
        tl.open_table("memory", storage=storage).upsert(rows(1))
    assert not tl.open_table("memory", storage=storage).timeline.instants
