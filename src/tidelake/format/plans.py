"""What will be done: the plans of compaction, clustering, clean, rollback, restore and indexing.

A plan is data. It is published on the timeline before anything is touched, and carried out from there.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.format.avro_record import (
    BOOLEAN,
    DOUBLE,
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

_VERSION = nullable(INT, null_last=True)
_TEXTS = nullable(array_of(STRING))
_TEXT_MAP = nullable(map_of(STRING))
_METRICS = nullable(map_of(DOUBLE))


@dataclass(frozen=True, slots=True)
class CompactionOperation(AvroRecord):
    """One file group of a compaction: its base file and the logs to fold in, as plain file names."""

    avro_name = "HoodieCompactionOperation"
    base_instant_time: str | None = avro(nullable(STRING))
    delta_file_paths: tuple[str, ...] | None = avro(_TEXTS, None)
    data_file_path: str | None = avro(nullable(STRING), None)
    file_id: str | None = avro(nullable(STRING), None)
    partition_path: str | None = avro(nullable(STRING), None)
    metrics: dict[str, float] | None = avro(_METRICS, None)
    bootstrap_file_path: str | None = avro(nullable(STRING), None)


@dataclass(frozen=True, slots=True)
class CompactionStrategy(AvroRecord):
    """Which strategy made a compaction plan."""

    avro_name = "HoodieCompactionStrategy"
    compactor_class_name: str | None = avro(nullable(STRING), None)
    strategy_params: dict[str, str] | None = avro(_TEXT_MAP, None)
    version: int | None = avro(_VERSION, 1)


@dataclass(frozen=True, slots=True)
class CompactionPlan(AvroRecord):
    """``compaction.requested`` and ``logcompaction.requested``."""

    avro_name = "HoodieCompactionPlan"
    operations: tuple[CompactionOperation, ...] | None = avro(nullable(array_of(record_of(CompactionOperation))), None)
    extra_metadata: dict[str, str] | None = avro(_TEXT_MAP, None)
    version: int | None = avro(_VERSION, 1)
    strategy: CompactionStrategy | None = avro(nullable(record_of(CompactionStrategy)), None)
    preserve_hoodie_metadata: bool | None = avro(nullable(BOOLEAN, null_last=True), False)
    missing_schedule_partitions: tuple[str, ...] | None = avro(_TEXTS, None)


@dataclass(frozen=True, slots=True)
class EventTimeOperation(CompactionOperation):
    """An operation of an event-time compaction: it says which instant its base file carries."""

    next_base_instant_time: str | None = avro(nullable(STRING), None)


@dataclass(frozen=True, slots=True)
class EventTimePlan(CompactionPlan):
    """The plan of an event-time compaction. Those who do not know its one further field read it as any other."""

    operations: tuple[EventTimeOperation, ...] | None = avro(nullable(array_of(record_of(EventTimeOperation))), None)


@dataclass(frozen=True, slots=True)
class SliceInfo(AvroRecord):
    """One input of a clustering group; paths are absolute, with a scheme."""

    avro_name = "HoodieSliceInfo"
    data_file_path: str | None = avro(nullable(STRING), None)
    delta_file_paths: tuple[str, ...] | None = avro(_TEXTS, None)
    file_id: str | None = avro(nullable(STRING), None)
    partition_path: str | None = avro(nullable(STRING), None)
    bootstrap_file_path: str | None = avro(nullable(STRING), None)
    version: int | None = avro(_VERSION, 1)


@dataclass(frozen=True, slots=True)
class ClusteringGroup(AvroRecord):
    """Slices that are rewritten together."""

    avro_name = "HoodieClusteringGroup"
    slices: tuple[SliceInfo, ...] | None = avro(nullable(array_of(record_of(SliceInfo))), None)
    metrics: dict[str, float] | None = avro(_METRICS, None)
    num_output_file_groups: int | None = avro(_VERSION, 1)
    extra_metadata: dict[str, str] | None = avro(_TEXT_MAP, None)
    version: int | None = avro(_VERSION, 1)


@dataclass(frozen=True, slots=True)
class ClusteringStrategy(AvroRecord):
    """How a clustering plan is to be carried out."""

    avro_name = "HoodieClusteringStrategy"
    strategy_class_name: str | None = avro(nullable(STRING), None)
    strategy_params: dict[str, str] | None = avro(_TEXT_MAP, None)
    version: int | None = avro(_VERSION, 1)


@dataclass(frozen=True, slots=True)
class ClusteringPlan(AvroRecord):
    """Which slices are clustered, and how."""

    avro_name = "HoodieClusteringPlan"
    input_groups: tuple[ClusteringGroup, ...] | None = avro(nullable(array_of(record_of(ClusteringGroup))), None)
    strategy: ClusteringStrategy | None = avro(nullable(record_of(ClusteringStrategy)), None)
    extra_metadata: dict[str, str] | None = avro(_TEXT_MAP, None)
    version: int | None = avro(_VERSION, 1)
    preserve_hoodie_metadata: bool | None = avro(nullable(BOOLEAN), None)
    missing_schedule_partitions: tuple[str, ...] | None = avro(_TEXTS, None)


@dataclass(frozen=True, slots=True)
class RequestedReplaceMetadata(AvroRecord):
    """``replacecommit.requested`` (all null) and ``clustering.requested`` (with its plan)."""

    avro_name = "HoodieRequestedReplaceMetadata"
    operation_type: str | None = avro(nullable(STRING), None)
    clustering_plan: ClusteringPlan | None = avro(nullable(record_of(ClusteringPlan)), None)
    extra_metadata: dict[str, str] | None = avro(_TEXT_MAP, None)
    version: int | None = avro(_VERSION, 1)


@dataclass(frozen=True, slots=True)
class ActionInstant(AvroRecord):
    """An instant named by a clean plan."""

    avro_name = "HoodieActionInstant"
    timestamp: str = avro(STRING)
    action: str = avro(STRING)
    state: str = avro(STRING)


@dataclass(frozen=True, slots=True)
class CleanFileInfo(AvroRecord):
    """A file to clean, by its full path."""

    avro_name = "HoodieCleanFileInfo"
    file_path: str | None = avro(nullable(STRING), None)
    is_bootstrap_base_file: bool | None = avro(nullable(BOOLEAN), None)


@dataclass(frozen=True, slots=True)
class CleanerPlan(AvroRecord):
    """``clean.requested``."""

    avro_name = "HoodieCleanerPlan"
    earliest_instant_to_retain: ActionInstant | None = avro(nullable(record_of(ActionInstant)), None)
    last_completed_commit_timestamp: str = avro(STRING, "")
    policy: str = avro(STRING, "")
    files_to_be_deleted_per_partition: dict[str, tuple[str, ...]] | None = avro(
        nullable(map_of(array_of(STRING))), None
    )
    version: int | None = avro(_VERSION, 1)
    file_paths_to_be_deleted_per_partition: dict[str, tuple[CleanFileInfo, ...]] | None = avro(
        nullable(map_of(array_of(record_of(CleanFileInfo)))), None
    )
    partitions_to_be_deleted: tuple[str, ...] | None = avro(_TEXTS, None)
    extra_metadata: dict[str, str] | None = avro(_TEXT_MAP, None)


@dataclass(frozen=True, slots=True)
class InstantInfo(AvroRecord):
    """An instant named by a rollback or restore."""

    avro_name = "HoodieInstantInfo"
    commit_time: str = avro(STRING)
    action: str = avro(STRING)


@dataclass(frozen=True, slots=True)
class RollbackRequest(AvroRecord):
    """Files of one partition that a rollback deletes."""

    avro_name = "HoodieRollbackRequest"
    partition_path: str = avro(STRING)
    file_id: str | None = avro(nullable(STRING), None)
    latest_base_instant: str | None = avro(nullable(STRING), None)
    files_to_be_deleted: tuple[str, ...] = avro(array_of(STRING), [])
    log_blocks_to_be_deleted: dict[str, int] | None = avro(nullable(map_of(LONG)), None)


@dataclass(frozen=True, slots=True)
class RollbackPlan(AvroRecord):
    """``rollback.requested``: once published, its instant is condemned."""

    avro_name = "HoodieRollbackPlan"
    instant_to_rollback: InstantInfo | None = avro(nullable(record_of(InstantInfo)), None)
    rollback_requests: tuple[RollbackRequest, ...] | None = avro(
        nullable(array_of(record_of(RollbackRequest))), None, name="RollbackRequests"
    )
    version: int | None = avro(_VERSION, 1)


@dataclass(frozen=True, slots=True)
class RestorePlan(AvroRecord):
    """``restore.requested``."""

    avro_name = "HoodieRestorePlan"
    instants_to_rollback: tuple[InstantInfo, ...] = avro(array_of(record_of(InstantInfo)), [])
    version: int | None = avro(_VERSION, 2)
    savepoint_to_restore_timestamp: str | None = avro(nullable(STRING), None)


@dataclass(frozen=True, slots=True)
class IndexPartitionInfo(AvroRecord):
    """One index that Apache Hudi's metadata table builds."""

    avro_name = "HoodieIndexPartitionInfo"
    version: int | None = avro(_VERSION, 1)
    metadata_partition_path: str | None = avro(nullable(STRING), None)
    index_upto_instant: str | None = avro(nullable(STRING), None)
    extra_metadata: dict[str, str] | None = avro(_TEXT_MAP, None)


@dataclass(frozen=True, slots=True)
class IndexPlan(AvroRecord):
    """``indexing.requested``."""

    avro_name = "HoodieIndexPlan"
    version: int | None = avro(_VERSION, 1)
    index_partition_infos: tuple[IndexPartitionInfo, ...] | None = avro(
        nullable(array_of(record_of(IndexPartitionInfo))), None
    )
