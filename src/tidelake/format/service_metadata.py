"""What was done besides writing: completed cleans, rollbacks, savepoints, restores and indexings."""

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
from tidelake.format.plans import IndexPartitionInfo, InstantInfo

_VERSION = nullable(INT, null_last=True)
_TEXT_MAP = nullable(map_of(STRING))
CLEAN_EARLIEST = "tidelake.clean.earliest"
"""Extra metadata of a clean of ours by versions, which retains no commit: the earliest time that can be read."""


@dataclass(frozen=True, slots=True)
class CleanPartitionMetadata(AvroRecord):
    """What a clean removed from one partition."""

    avro_name = "HoodieCleanPartitionMetadata"
    partition_path: str = avro(STRING)
    policy: str = avro(STRING)
    delete_path_patterns: tuple[str, ...] = avro(array_of(STRING))
    success_delete_files: tuple[str, ...] = avro(array_of(STRING))
    failed_delete_files: tuple[str, ...] = avro(array_of(STRING))
    is_partition_deleted: bool | None = avro(nullable(BOOLEAN), None)


@dataclass(frozen=True, slots=True)
class CleanMetadata(AvroRecord):
    """A completed clean."""

    avro_name = "HoodieCleanMetadata"
    start_clean_time: str = avro(STRING)
    time_taken_in_millis: int = avro(LONG)
    total_files_deleted: int = avro(INT)
    earliest_commit_to_retain: str = avro(STRING)
    last_completed_commit_timestamp: str = avro(STRING, "")
    partition_metadata: dict[str, CleanPartitionMetadata] = avro(map_of(record_of(CleanPartitionMetadata)), {})
    version: int | None = avro(_VERSION, 1)
    bootstrap_partition_metadata: dict[str, CleanPartitionMetadata] | None = avro(
        nullable(map_of(record_of(CleanPartitionMetadata))), None
    )
    extra_metadata: dict[str, str] | None = avro(_TEXT_MAP, None)


@dataclass(frozen=True, slots=True)
class RollbackPartitionMetadata(AvroRecord):
    """What a rollback removed from one partition."""

    avro_name = "HoodieRollbackPartitionMetadata"
    partition_path: str = avro(STRING)
    success_delete_files: tuple[str, ...] = avro(array_of(STRING))
    failed_delete_files: tuple[str, ...] = avro(array_of(STRING))
    rollback_log_files: dict[str, int] | None = avro(nullable(map_of(LONG)), None)
    log_files_from_failed_commit: dict[str, int] | None = avro(nullable(map_of(LONG)), None)


@dataclass(frozen=True, slots=True)
class RollbackMetadata(AvroRecord):
    """A completed rollback."""

    avro_name = "HoodieRollbackMetadata"
    start_rollback_time: str = avro(STRING)
    time_taken_in_millis: int = avro(LONG)
    total_files_deleted: int = avro(INT)
    commits_rollback: tuple[str, ...] = avro(array_of(STRING))
    partition_metadata: dict[str, RollbackPartitionMetadata] = avro(map_of(record_of(RollbackPartitionMetadata)))
    version: int | None = avro(_VERSION, 1)
    instants_rollback: tuple[InstantInfo, ...] = avro(array_of(record_of(InstantInfo)), [])


@dataclass(frozen=True, slots=True)
class SavepointPartitionMetadata(AvroRecord):
    """The files of one partition that a savepoint keeps."""

    avro_name = "HoodieSavepointPartitionMetadata"
    partition_path: str = avro(STRING)
    savepoint_data_file: tuple[str, ...] = avro(array_of(STRING))


@dataclass(frozen=True, slots=True)
class SavepointMetadata(AvroRecord):
    """A completed savepoint."""

    avro_name = "HoodieSavepointMetadata"
    savepointed_by: str = avro(STRING)
    savepointed_at: int = avro(LONG)
    comments: str = avro(STRING)
    partition_metadata: dict[str, SavepointPartitionMetadata] = avro(map_of(record_of(SavepointPartitionMetadata)))
    version: int | None = avro(_VERSION, 1)


@dataclass(frozen=True, slots=True)
class RestoreMetadata(AvroRecord):
    """A completed restore."""

    avro_name = "HoodieRestoreMetadata"
    start_restore_time: str = avro(STRING)
    time_taken_in_millis: int = avro(LONG)
    instants_to_rollback: tuple[str, ...] = avro(array_of(STRING))
    hoodie_restore_metadata: dict[str, tuple[RollbackMetadata | None, ...]] = avro(
        map_of(array_of(nullable(record_of(RollbackMetadata))))
    )
    version: int | None = avro(_VERSION, 1)
    restore_instant_info: tuple[InstantInfo, ...] = avro(array_of(record_of(InstantInfo)), [])


@dataclass(frozen=True, slots=True)
class IndexCommitMetadata(AvroRecord):
    """A completed indexing of Apache Hudi's metadata table."""

    avro_name = "HoodieIndexCommitMetadata"
    version: int | None = avro(_VERSION, 1)
    operation_type: str | None = avro(nullable(STRING), None)
    index_partition_infos: tuple[IndexPartitionInfo, ...] | None = avro(
        nullable(array_of(record_of(IndexPartitionInfo))), None
    )
