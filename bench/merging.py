"""Merging with several event times beside event-time ordering: the merge alone, and an upsert from end to end.

The same stitching with Apache Paimon's sequence groups, too, if ``TIDELAKE_PAIMON_ENV`` is a virtual environment with
``pypaimon[rust]``.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidelake as tl
from bench.measure import Results, timed
from tidelake.config import parse_table_config
from tidelake.merge import MergeSpec, merge_records, merge_spec, records_of
from tidelake.schema import with_meta
from tidelake.write.rows import KEY, stored_rows

BASE_ROWS, LOG_ROWS = 1_000_000, 200_000
VALUES = 12
BATCH_ROWS = 65_536
BUCKETS = "4"


def merging(results: Results, work: Path) -> None:
    """Each mode with two and with six event times: a million base rows, a fifth of them with a newer version."""
    for clocks in (2, 6):
        base, log = _stored(BASE_ROWS, clocks, 0), _stored(LOG_ROWS, clocks, 1)
        plain = _merge(base, log, _spec(base.schema, clocks, None))
        for mode in ("per_group", "all"):
            ours = _merge(base, log, _spec(base.schema, clocks, mode))
            results.compare(f"merge {mode}, {clocks} event times / event-time ordering", ours, plain, 1.5, repeats=9)
    for mode in ("per_group", "all"):
        _upserts(results, work, mode)
    _beside_paimon(results, work / "stitching")


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


def _beside_paimon(results: Results, work: Path) -> None:
    """A load, five upserts of which half is late in each group, and a scan; the two must read the same rows."""
    home = os.environ.get("TIDELAKE_PAIMON_ENV")
    if home is None:
        print("Paimon's sequence groups: not measured here; see bench/merging.py", flush=True)
        return
    clocks = 6
    work.mkdir()
    inputs = [
        _shuffled_times(_rows(BASE_ROWS // 2 if version == 0 else LOG_ROWS // 2, clocks, version), version)
        for version in range(6)
    ]
    names = ["base", *(f"upsert_{number}" for number in range(5))]
    for name, rows in zip(names, inputs, strict=True):
        pq.write_table(rows, work / f"{name}.parquet")
    groups = {f"t{number}": _group(number, clocks) for number in range(clocks)}
    command = [f"{home}/bin/python", "bench/paimon.py", str(work), json.dumps(groups), BUCKETS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    theirs = json.loads(done.stdout.strip().splitlines()[-1])
    index = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": BUCKETS}
    table = tl.create_table(
        str(work / "ours"), inputs[0].schema, record_key="id", options={**_options(clocks, "per_group"), **index}
    )
    load = timed(lambda: table.bulk_insert(inputs[0]))
    upserts = [timed(lambda r=rows: table.upsert(r)) for rows in inputs[1:]]  # type: ignore[misc]
    scan = timed(lambda: table.scan(columns=inputs[0].schema.names).to_arrow())
    ours = table.scan(columns=inputs[0].schema.names).to_arrow().select(inputs[0].schema.names).sort_by("id")
    paimon = pq.read_table(work / "paimon.parquet").select(inputs[0].schema.names).cast(ours.schema).sort_by("id")
    assert ours.equals(paimon), "Paimon reads other rows"
    of = f"per_group, {clocks} event times"
    results.report(f"load {of} / Paimon's sequence groups", load, theirs["load"], 1.0)
    results.report(
        f"upsert {of} / Paimon's sequence groups", statistics.median(upserts), statistics.median(theirs["upserts"]), 1.0
    )
    results.report(f"scan after five upserts, {of} / Paimon's sequence groups", scan, theirs["scan"], 1.0)


def _shuffled_times(rows: pa.Table, version: int) -> pa.Table:
    """Rows with event times of which half are older than those of the versions before; no two are equal."""
    random = np.random.default_rng(100 + version)
    for place, name in enumerate(rows.schema.names):
        if name.startswith("t"):
            times = pa.array(random.integers(0, 1_000_000, rows.num_rows) * 8 + version)
            rows = rows.set_column(place, name, times)
    return rows


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


def _group(number: int, clocks: int) -> list[str]:
    return [f"v{i}" for i in range(VALUES) if i % clocks == number]


def _options(clocks: int, mode: str) -> dict[str, str]:
    fields = [f"t{i}" for i in range(clocks)]
    groups = {f"fields.{field}.sequence-group": ",".join(_group(number, clocks)) for number, field in enumerate(fields)}
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
