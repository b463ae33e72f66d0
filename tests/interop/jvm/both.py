"""One table, read by both engines and compared: snapshot, read-optimised, and incremental by completion times."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import tidelake as tl
from golden.encoding import encode_rows
from golden.support import rows_of
from interop.jvm.hudi_client import NO_METADATA, Hudi
from tidelake.filegroup.partitions import unescape_path_value

SCHEMA = "id bigint, name string, price decimal(10,2), at timestamp, ts bigint, day string, kind string"
ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("ts", pa.int64()),
        ("day", pa.string()),
        ("kind", pa.string()),
    ]
)
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")
Entry = tuple[int, str | None, int]


def rows(*entries: Entry, days: tuple[str, ...] = DAYS, note: str | None = None) -> pa.Table:
    """Rows of (id, name, ts); the rest follows from the id. With ``note``, a column that the table did not have."""
    table = pa.Table.from_pylist(
        [
            {
                "id": key,
                "name": name,
                "price": Decimal(key * 125) / 100 if key % 4 else None,
                "at": 1_767_225_600_000_000 + ts * 1_000_001,
                "ts": ts,
                "day": days[key % len(days)],
                "kind": "even" if key % 2 == 0 else "odd",
            }
            for key, name, ts in entries
        ],
        schema=ARROW,
    )
    return table if note is None else table.append_column("note", pa.repeat(pa.scalar(note), table.num_rows))


@dataclass
class Both:
    """A table, ours and Apache Hudi's at once."""

    hudi: Hudi
    path: Path
    write_options: dict[str, str]

    @property
    def is_merge_on_read(self) -> bool:
        return self.ours.config.table_type.value == "MERGE_ON_READ"

    @property
    def ours(self) -> tl.Table:
        """The table as a process opens it that was not there before."""
        return tl.open_table(str(self.path))

    def theirs(self, data: pa.Table, operation: str = "upsert", **options: str) -> None:
        """Let Apache Hudi write; ``hoodie_x_y`` stands for ``hoodie.x.y``."""
        named = {key.replace("__", "."): value for key, value in options.items()}
        self.hudi.write(self.path, data, operation, {**self.write_options, **named})

    def sql(self, statement: str) -> list[list[str | None]]:
        """Let Apache Hudi run SQL; ``{t}`` is the table."""
        return self.hudi.sql(self.path, statement, self.write_options)

    def state(self) -> dict[int, Any]:
        """Ids and names, by our reader."""
        found = self.ours.scan(columns=["id", "name"]).to_arrow().to_pylist()
        assert len(found) == len({row["id"] for row in found}), f"a key stands twice: {found}"
        return {row["id"]: row["name"] for row in found}

    def check(self, *, options: dict[str, str] = NO_METADATA, incremental: bool = True) -> None:
        """Both read the same, in every way."""
        self.check_snapshot(options)
        table = self.ours
        if self.is_merge_on_read:
            theirs = self.hudi.read(self.path, {**options, "hoodie.datasource.query.type": "read_optimized"})
            assert rows_of(table.scan(mode="read_optimized").to_arrow(), theirs["schema"]) == theirs["rows"]
        if incremental:
            times = sorted(i.completion_time for i in table.timeline.completed_writes)
            self.check_incremental(times[-2] if len(times) > 1 else "000", times[-1], options)
            if len(times) > 3:
                self.check_incremental(times[-4], times[-1], options)

    def check_snapshot(self, options: dict[str, str] = NO_METADATA) -> None:
        """Both read the same rows, with meta columns."""
        theirs = self.hudi.read(self.path, options)
        assert rows_of(self.ours.scan().to_arrow(), theirs["schema"]) == theirs["rows"]

    def check_incremental(self, start: str, end: str, options: dict[str, str] = NO_METADATA) -> None:
        """Rows of the writes that completed in (start, end], as Apache Hudi gives them: those of our snapshot at ``end``.

        On merge-on-read it merges only the files of the range, so it also gives rows that came late and lost against
        older ones; those, and no others, are taken out.
        """
        theirs = self.hudi.read(self.path, {**options, **incremental_options(start, end)})
        found = sans_file(theirs["rows"])
        if self.ours.config.url_encoded:
            found = [unescaped(row, self.ours.config.partition_fields) for row in found]
        expected = sans_file(self.expected_incremental(start, end, theirs["schema"]))
        newest = {
            row["_hoodie_record_key"]: row["ts"] for row in self.ours.scan(as_of_completion=end).to_arrow().to_pylist()
        }
        extra = [row for row in found if row not in expected]
        if self.ours.config.merge_mode.value == "EVENT_TIME_ORDERING" and self.is_merge_on_read:
            extra = [row for row in extra if row["ts"] >= newest.get(row["_hoodie_record_key"], row["ts"])]
        assert not extra, f"Apache Hudi gives more than {expected}"
        assert [row for row in expected if row not in found] == []

    def expected_incremental(self, start: str, end: str, schema: dict[str, str]) -> list[dict[str, Any]]:
        """What an incremental query must return, from our snapshot as of ``end``."""
        table = self.ours
        wanted = [i.requested_time for i in table.timeline.completed_writes if start < (i.completion_time or "") <= end]
        found = table.scan(as_of_completion=end).to_arrow()
        return rows_of(found.filter(pc.is_in(found.column("_hoodie_commit_time"), pa.array(wanted))), schema)


def incremental_options(start: str, end: str) -> dict[str, str]:
    """How Apache Hudi is asked for the writes that completed in (start, end]."""
    return {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": start,
        "hoodie.datasource.read.end.instanttime": end,
    }


def unescaped(row: dict[str, Any], columns: tuple[str, ...]) -> dict[str, Any]:
    """A row as Apache Hudi's incremental query should give it: it gives partition values as their folders are called."""
    return {k: unescape_path_value(v) if k in columns and v is not None else v for k, v in row.items()}


def sans_file(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without the name of the file that they lie in."""
    return encode_rows({k: v for k, v in row.items() if k != "_hoodie_file_name"} for row in found)


def make(hudi: Hudi, path: Path, options: dict[str, str] | None = None, **how: Any) -> Both:
    """A table of ours; ``how`` as in ``create_table``."""
    stored = dict(options or {})
    tl.create_table(str(path), SCHEMA, name=path.name, record_key="id", options=stored, **how)
    version = stored.get("hoodie.table.version", "9")
    return Both(hudi, path, {"hoodie.write.table.version": version})
