"""What a write did: the content of completed commits, delta commits and replace commits.

Values as Apache Hudi writes them (all of a stat's numbers non-null, since its readers unbox them).

*Our mark* says that a commit's statistics name exactly the files that it made: leftovers of repeated tasks were removed
before it. It holds the commit's own instant, so that one that others copied from an earlier commit does not count.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.format.avro_record import (
    BOOLEAN,
    INT,
    LONG,
    STRING,
    AvroRecord,
    array_of,
    avro,
    map_of,
    nullable,
    record_of,
)

WRITER_KEY = "tidelake.writer"
"""Where ``extra_metadata`` keeps our mark."""


@dataclass(frozen=True, slots=True)
class RuntimeStats(AvroRecord):
    """How long a file took, in milliseconds."""

    avro_name = "HoodieRuntimeStats"
    total_scan_time: int | None = avro(nullable(LONG), None)
    total_create_time: int | None = avro(nullable(LONG), None)
    total_upsert_time: int | None = avro(nullable(LONG), None)


@dataclass(frozen=True, slots=True)
class WriteStat(AvroRecord):
    """One file of a commit."""

    avro_name = "HoodieWriteStat"
    file_id: str | None = avro(nullable(STRING), None)
    path: str | None = avro(nullable(STRING), None)
    prev_commit: str | None = avro(nullable(STRING), None)
    num_writes: int | None = avro(nullable(LONG), None)
    num_deletes: int | None = avro(nullable(LONG), None)
    num_update_writes: int | None = avro(nullable(LONG), None)
    total_write_bytes: int | None = avro(nullable(LONG), None)
    total_write_errors: int | None = avro(nullable(LONG), None)
    partition_path: str | None = avro(nullable(STRING), None)
    total_log_records: int | None = avro(nullable(LONG), None)
    total_log_files: int | None = avro(nullable(LONG), None)
    total_updated_records_compacted: int | None = avro(nullable(LONG), None)
    num_inserts: int | None = avro(nullable(LONG), None)
    total_log_blocks: int | None = avro(nullable(LONG), None)
    total_corrupt_log_block: int | None = avro(nullable(LONG), None)
    total_rollback_blocks: int | None = avro(nullable(LONG), None)
    file_size_in_bytes: int | None = avro(nullable(LONG), None)
    log_version: int | None = avro(nullable(INT), None)
    log_offset: int | None = avro(nullable(LONG), None)
    base_file: str | None = avro(nullable(STRING), None)
    log_files: tuple[str, ...] | None = avro(nullable(array_of(STRING)), None)
    cdc_stats: dict[str, int] | None = avro(nullable(map_of(LONG)), None)
    prev_base_file: str | None = avro(nullable(STRING), None)
    min_event_time: int | None = avro(nullable(LONG), None)
    max_event_time: int | None = avro(nullable(LONG), None)
    runtime_stats: RuntimeStats | None = avro(nullable(record_of(RuntimeStats)), None)
    total_log_files_compacted: int | None = avro(nullable(LONG), None)
    total_log_read_time_ms: int | None = avro(nullable(LONG), None)
    total_log_size_compacted: int | None = avro(nullable(LONG), None)
    temp_path: str | None = avro(nullable(STRING), None)
    num_updates: int | None = avro(nullable(LONG), None)


_STATS = nullable(map_of(array_of(record_of(WriteStat))))


@dataclass(frozen=True, slots=True)
class CommitMetadata(AvroRecord):
    """A completed commit or delta commit; also the workload profile in an inflight file."""

    avro_name = "HoodieCommitMetadata"
    partition_to_write_stats: dict[str, tuple[WriteStat, ...]] | None = avro(_STATS, None)
    compacted: bool | None = avro(nullable(BOOLEAN), None)
    extra_metadata: dict[str, str] | None = avro(nullable(map_of(STRING)), None)
    version: int | None = avro(nullable(INT, null_last=True), 1)
    operation_type: str | None = avro(nullable(STRING), None)

    @property
    def stats(self) -> tuple[WriteStat, ...]:
        """All files of the commit."""
        return tuple(stat for stats in (self.partition_to_write_stats or {}).values() for stat in stats)

    def is_ours(self, instant: str) -> bool:
        """Whether the commit of that instant carries our mark."""
        return (self.extra_metadata or {}).get(WRITER_KEY) == instant

    @property
    def schema_text(self) -> str | None:
        """The table's Avro schema as of this commit, if it says so."""
        return (self.extra_metadata or {}).get("schema") or None


@dataclass(frozen=True, slots=True)
class ReplaceCommitMetadata(CommitMetadata):
    """A completed overwrite, partition delete or clustering: a commit that also retires file groups."""

    avro_name = "HoodieReplaceCommitMetadata"
    partition_to_replace_file_ids: dict[str, tuple[str, ...]] | None = avro(nullable(map_of(array_of(STRING))), None)
