"""Golden tables on Spark: the same rows as Apache Hudi's, by the native scan and by merging on the workers."""

from __future__ import annotations

import os

import pytest

import tidelake as tl
from golden.support import expected_of, golden_names
from golden.test_golden import assert_read_is_right, is_gone

pytestmark = pytest.mark.spark
DEEP = bool(os.environ.get("TIDELAKE_DEEP"))


@pytest.mark.parametrize("name", golden_names())
def test_golden_table_read_on_spark_equals_apache_hudi(name: str, golden, spark) -> None:
    """A golden table read by Spark's workers gives Apache Hudi's rows: now, and (deep) at each of its commits."""
    table = tl.open_table(str(golden(name)), spark=spark)
    reads = [read for read in expected_of(name)["reads"] if not is_gone(read)]
    now = [read for read in reads if read["as_of"] is None]
    then = [read for read in reads if read["as_of"] is not None]
    for read in now + (then if DEEP else then[len(then) // 2 : len(then) // 2 + 1]):
        found = table.scan(mode=read["mode"], as_of=read["as_of"]).to_spark().toArrow()
        assert_read_is_right(found, read, golden(name))
