"""Tables of many partitions that have no rows: folders, names, a timeline, and data files of four bytes.

For what looks at names alone: listing, planning, the table state. Nothing here can be scanned.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa

import tidelake as tl
from tidelake.config import EVENT_TIME_UNIT, TableConfig
from tidelake.format.commit_metadata import WRITER_KEY, CommitMetadata, RuntimeStats, WriteStat
from tidelake.format.freshness_marks import FreshnessMarks
from tidelake.format.names import PARTITION_META_FILE, TIMELINE_DIR, BaseFileName, LogFileName, State, TimelineName
from tidelake.format.properties import PartitionMetadata, encode_partition_metadata
from tidelake.timeline import Timeline
from tidelake.write.intent import intent

CONTENT = b"PAR1"
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("day", pa.string())])
_SYNC = bytes(16)


@dataclass
class Partitioned:
    """A merge-on-read table with the same number of file groups in every partition."""

    path: Path
    partitions: list[str]
    groups: int
    commits: int = 0
    first_event_ms: int | None = None
    """The event time of all rows of the first commit."""

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {partition: number for number, partition in enumerate(self.partitions)}

    @cached_property
    def config(self) -> TableConfig:
        return tl.open_table(str(self.path)).config

    def touch(self, partitions: Sequence[str], *, is_ours: bool = True, event_ms: int | None = None) -> str:
        """A delta commit: a log for the first file group of each of these partitions. Returns its requested time.

        ``event_ms`` is the event time of all its rows.
        """
        instant, completion = self._times()
        stats = []
        for partition in partitions:
            name = str(LogFileName(self.file_id(partition, 0), instant, 1, "0-0-0"))
            (self.path / partition / name).write_bytes(CONTENT)
            stat = _stat(partition, self.file_id(partition, 0), name, log=name)
            stats.append(replace(stat, min_event_time=event_ms, max_event_time=event_ms))
        self._complete(instant, completion, stats, "UPSERT", is_ours)
        return instant

    def file_id(self, partition: str, group: int) -> str:
        """The id of a file group; no two partitions share one."""
        return f"{self._numbers[partition]:08x}-0000-4000-8000-{group:012x}-0"

    def fill(self) -> None:
        """The first commit: a base file for every file group."""
        instant, completion = self._times()
        metafile = encode_partition_metadata(PartitionMetadata(instant, 1))
        stats = []
        for number, partition in enumerate(self.partitions):
            folder = f"{self.path}/{partition}"
            os.mkdir(folder)
            _put(f"{folder}/{PARTITION_META_FILE}", metafile)
            for group in range(self.groups):
                file_id = f"{number:08x}-0000-4000-8000-{group:012x}-0"
                name = f"{file_id}_0-0-0_{instant}.parquet"
                _put(f"{folder}/{name}", CONTENT)
                stat = _stat(partition, file_id, name)
                stats.append(replace(stat, min_event_time=self.first_event_ms, max_event_time=self.first_event_ms))
        assert not stats or str(BaseFileName(stats[0].file_id or "", "0-0-0", instant)) in (stats[0].path or "")
        self._complete(instant, completion, stats, "BULK_INSERT", True)

    def _times(self) -> tuple[str, str]:
        self.commits += 1
        second = f"202601010{self.commits // 3600}{self.commits // 60 % 60:02d}{self.commits % 60:02d}"
        return f"{second}000", f"{second}500"

    def _complete(self, instant: str, completion: str, stats: list[WriteStat], operation: str, is_ours: bool) -> None:
        extra = {"schema": self.config.create_schema_text or "", **({WRITER_KEY: instant} if is_ours else {})}
        if self.first_event_ms is not None:
            extra.update(FreshnessMarks().encode())
        by_partition: dict[str, list[WriteStat]] = {}
        for stat in stats:
            by_partition.setdefault(stat.partition_path or "", []).append(stat)
        metadata = CommitMetadata({p: tuple(s) for p, s in by_partition.items()}, False, extra, 1, operation)
        said = intent(self.config, operation, Timeline(()))
        begun = {
            State.REQUESTED: b"",
            State.INFLIGHT: CommitMetadata({}, False, said, 1, operation).encode(_SYNC),
        }
        for state, content in begun.items():
            _put(f"{self.path}/{TIMELINE_DIR}/{TimelineName(instant, 'deltacommit', state)}", content)
        name = TimelineName(instant, "deltacommit", State.COMPLETED, completion)
        _put(f"{self.path}/{TIMELINE_DIR}/{name}", metadata.encode(_SYNC))


def make_partitioned(path: Path, partitions: int, groups: int = 1, first_event_ms: int | None = None) -> Partitioned:
    """A table of so many partitions of so many file groups, written by one commit; with event times, if one is given."""
    timed = {} if first_event_ms is None else {"event_time_field": "ts", "options": {EVENT_TIME_UNIT: "ms"}}
    tl.create_table(str(path), SCHEMA, name="wide", record_key="id", partition_by="day", ordering_fields="ts", **timed)
    made = Partitioned(path, [f"day=d{number:06d}" for number in range(partitions)], groups, 0, first_event_ms)
    (path / TIMELINE_DIR).mkdir(parents=True, exist_ok=True)
    made.fill()
    return made


def _stat(partition: str, file_id: str, name: str, log: str | None = None) -> WriteStat:
    return WriteStat(
        file_id=file_id,
        path=f"{partition}/{name}",
        prev_commit="null",
        num_writes=1,
        num_deletes=0,
        num_update_writes=0,
        num_inserts=1,
        total_write_bytes=len(CONTENT),
        total_write_errors=0,
        partition_path=partition,
        file_size_in_bytes=len(CONTENT),
        log_files=None if log is None else (log,),
        runtime_stats=RuntimeStats(0, 0, 0),
    )


def _put(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
