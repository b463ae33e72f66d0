"""Stitching with Apache Paimon's sequence groups, run by its own Python: ``paimon.py FOLDER COLUMNS_OF_CLOCKS``.

Pure pypaimon refuses sequence groups; its native engine (``pypaimon[rust]``) has them. Reads ``base.parquet`` and
``upsert_*.parquet`` of the folder, prints seconds as JSON, and leaves what it reads at the end in ``paimon.parquet``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pypaimon import CatalogFactory, Schema  # type: ignore[import-not-found]

NATIVE = ("write.native.enabled", "commit.native.enabled", "read.native.enabled", "scan.native-plan.enabled")


def main(folder: Path, groups: dict[str, list[str]], buckets: str) -> None:
    base = pq.read_table(folder / "base.parquet")
    options = {"bucket": buckets, "merge-engine": "partial-update", **dict.fromkeys(NATIVE, "true")}
    options |= {f"fields.{clock}.sequence-group": ",".join(names) for clock, names in groups.items()}
    catalog = CatalogFactory.create({"warehouse": str(folder / "paimon")})
    catalog.create_database("bench", True)
    schema = pa.schema([field.with_nullable(field.name != "id") for field in base.schema])
    catalog.create_table("bench.t", Schema.from_pyarrow_schema(schema, primary_keys=["id"], options=options), False)
    table = catalog.get_table("bench.t")

    def write(rows: pa.Table) -> float:
        began = time.perf_counter()
        builder = table.new_batch_write_builder()
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(rows.cast(schema))
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()
        return time.perf_counter() - began

    load = write(base)
    upserts = [write(pq.read_table(path)) for path in sorted(folder.glob("upsert_*.parquet"))]
    began = time.perf_counter()
    builder = table.new_read_builder()
    found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    scan = time.perf_counter() - began
    pq.write_table(found, folder / "paimon.parquet")
    print(json.dumps({"load": load, "upserts": upserts, "scan": scan}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3])
