"""Peak memory of merging one slice, in a process of its own: growth of the resident set over what was there before.

Run as ``python -m bench.memory TABLE``; prints one JSON object.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from tidelake.merge import read_logs
from tidelake.query import ScanRequest, TableSource, plan_scan, read_base, read_slice
from tidelake.storage import open_input, open_storage


def peak_bytes() -> int:
    """The peak of this process alone; ``ru_maxrss`` would count the parent's size at the fork too."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def main(path: str) -> None:
    """Merge the largest slice of a table, dropping every batch, and report."""
    source = TableSource.load(open_storage(path))
    plan = plan_scan(source, ScanRequest())
    largest = max(plan.slices, key=lambda s: s.size_bytes)
    smallest = min(plan.slices, key=lambda s: s.size_bytes)
    assert plan.merge is not None
    assert largest.base is not None
    # Warm up on the base file of another slice's first row group, so that pools and imports are not counted.
    assert smallest.base is not None
    next(read_base(source.storage, smallest.base, pa.schema(list(plan.work_schema)[:1])))
    before = psutil.Process().memory_info().rss
    rows = sum(batch.num_rows for batch in read_slice(source.storage, plan, largest))
    peak = peak_bytes()
    records = read_logs(source.storage, largest.logs, plan.merge, plan.log_context)
    with open_input(source.storage, largest.base.path) as file:
        group = pq.ParquetFile(file).read_row_group(0, columns=plan.work_schema.names)
    print(
        json.dumps(
            {
                "rows": rows,
                "growth_bytes": peak - before,
                "log_bytes": records.rows.nbytes,
                "row_group_bytes": group.nbytes,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
