"""One writing process of the benchmarks. Prints one JSON object.

``python -m bench.writer TABLE COMMITS PARTITION`` commits small upserts into a partition;
``python -m bench.writer TABLE PARQUET OPERATION`` writes the rows of a folder and reports how memory grew.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import tidelake as tl
from bench.memory import peak_bytes
from bench.tables import SCHEMA, rows_of


def commits(path: str, count: int, partition: str) -> None:
    """Upsert 100 rows again and again."""
    rng = np.random.default_rng(abs(hash(partition)) % 2**32)
    table = tl.open_table(path)
    batch = rows_of(rng, 100, partition)
    table.upsert(batch, on_conflict="retry")
    start = time.time()
    for _ in range(count - 1):
        table.upsert(batch, on_conflict="retry")
    print(json.dumps({"start": start, "end": time.time()}))


def one_write(path: str, parquet: str, operation: str) -> None:
    """Write once; how much more memory than the rows themselves did it take?"""
    data = pq.read_table(parquet, schema=SCHEMA).combine_chunks()
    pa.default_memory_pool().release_unused()
    before = psutil.Process().memory_info().rss
    getattr(tl.open_table(path), operation)(data)
    print(json.dumps({"rows": data.num_rows, "bytes": data.nbytes, "growth": peak_bytes() - before}))


if __name__ == "__main__":
    if sys.argv[2].isdigit():
        commits(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    else:
        one_write(*sys.argv[1:])
