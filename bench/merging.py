"""Merging with several event times beside event-time ordering: the merge alone, and an upsert from end to end."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import tidelake as tl
from bench.measure import Results
from tidelake.config import parse_table_config
from tidelake.merge import MergeSpec, merge_records, merge_spec, records_of
from tidelake.schema import with_meta
from tidelake.write.rows import KEY, stored_rows

BASE_ROWS, LOG_ROWS = 1_000_000, 200_000
VALUES = 12
BATCH_ROWS = 65_536


def merging(results: Results, work: Path) -> None:
    """Each mode with two and with six event times: a million base rows, a fifth of them with a newer version."""
    for clocks in (2, 6):
        base, log = _stored(BASE_ROWS, clocks, 0), _stored(LOG_ROWS, clocks, 1)
        plain = _merge(base, log, _spec(base.schema, clocks, None))
        for mode in ("per_group", "all"):
            ours = _merge(base, log, _spec(base.schema, clocks, mode))
            results.compare(f"merge {mode}, {clocks} event times / event-time ordering", ours, plain, 1.5, repeats=3)
    for mode in ("per_group", "all"):
        _upserts(results, work, mode)


def _upserts(results: Results, work: Path, mode: str) -> None:
    rows = _rows(BASE_ROWS // 2, 2, 0), _rows(LOG_ROWS // 2, 2, 1)
    for name, of_mode in (("plain", None), ("clocks", mode)):
        shutil.rmtree(work / name, ignore_errors=True)
        options = {} if of_mode is None else _options(2, of_mode)
        table = tl.create_table(
            str(work / name),
            rows[0].schema,
            record_key="id",
            ordering_fields="t0" if of_mode is None else (),
            options=options,
        )
        table.bulk_insert(rows[0])
    results.compare(
        f"upsert {mode}, 2 event times / one ordering field",
        lambda: tl.open_table(str(work / "clocks")).upsert(rows[1]),
        lambda: tl.open_table(str(work / "plain")).upsert(rows[1]),
        1.3,
        repeats=3,
    )


def _merge(base: pa.Table, log: pa.Table, spec: MergeSpec) -> Callable[[], object]:
    def run() -> int:
        batches = base.to_batches(max_chunksize=BATCH_ROWS)
        return sum(batch.num_rows for batch in merge_records(batches, records_of(log, spec), spec))

    return partial(run)


def _rows(count: int, clocks: int, version: int) -> pa.Table:
    random = np.random.default_rng(version)
    ids = np.arange(count) if version == 0 else random.choice(BASE_ROWS // 2, count, replace=False)
    columns: dict[str, object] = {"id": ids}
    columns |= {f"v{i}": pa.array(random.integers(0, 1_000, count)).cast(pa.string()) for i in range(VALUES)}
    columns |= {f"t{i}": random.integers(0, 1_000_000, count) + 500_000 * version for i in range(clocks)}
    return pa.table(columns)


def _stored(count: int, clocks: int, version: int) -> pa.Table:
    rows = _rows(count, clocks, version)
    keyed = rows.append_column(KEY, rows.column("id").cast(pa.string()))
    return stored_rows(keyed, f"2026010100000000{version}", "", "file", 0)


def _options(clocks: int, mode: str) -> dict[str, str]:
    fields = [f"t{i}" for i in range(clocks)]
    groups = {
        f"fields.{field}.sequence-group": ",".join(f"v{i}" for i in range(VALUES) if i % clocks == number)
        for number, field in enumerate(fields)
    }
    return {
        "multiple.eventime.latest.verification.enable": "true",
        "hoodie.eventime.latest.verification.fields": ",".join(fields),
        "hoodie.eventime.latest.verification.mode": mode,
        **(groups if mode == "per_group" else {}),
    }


def _spec(schema: pa.Schema, clocks: int, mode: str | None) -> MergeSpec:
    properties = {
        "hoodie.table.name": "bench",
        "hoodie.table.version": "9",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.recordkey.fields": "id",
        **({"hoodie.table.ordering.fields": "t0"} if mode is None else _options(clocks, mode)),
    }
    return merge_spec(parse_table_config(properties), with_meta(pa.schema(list(schema)[5:])))
