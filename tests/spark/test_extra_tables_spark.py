"""Further tables that Apache Hudi wrote, on Spark: the rows of hudi-rs, now and at each commit."""

from __future__ import annotations

import pytest
from hudi import HudiReadOptions, HudiTable

import tidelake as tl
from interop.test_extra_tables import EXTRA, ZIPS, by_hudi_rs, by_tidelake, extra, refusal_of, rows  # noqa: F401

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(EXTRA is None, reason="TIDELAKE_EXTRA_TABLES names no folder of further tables"),
]


@pytest.mark.parametrize("name", [name for name in ZIPS if refusal_of(name) is None])
def test_extra_table_read_on_spark_equals_hudi_rs(name: str, extra, spark) -> None:  # noqa: F811
    """Snapshot, read-optimised view and time travel on Spark give the rows of hudi-rs."""
    path = extra(name)
    assert by_tidelake(path, spark) == by_hudi_rs(path)
    optimised = by_hudi_rs(path, **{"hoodie.read.use.read_optimized.mode": "true"})
    assert by_tidelake(path, spark, mode="read_optimized") == optimised
    for instant in tl.open_table(str(path)).timeline.completed_writes:
        time = instant.requested_time
        read = HudiTable(str(path)).read(HudiReadOptions().with_as_of_timestamp(time))
        assert by_tidelake(path, spark, as_of=time) == sorted(rows(read)), time
