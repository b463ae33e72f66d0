"""The planned services: how each names its instants, and what its plans say to the planner of the next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tidelake.config import (
    CLUSTERING_GROUP_BYTES,
    CLUSTERING_ORDER,
    CLUSTERING_SMALL_BYTES,
    CLUSTERING_SORT_COLUMNS,
    CLUSTERING_TARGET_BYTES,
)
from tidelake.errors import CorruptError, NotFoundError, TidelakeError
from tidelake.format.avro_record import AvroRecord, decode_record
from tidelake.format.plans import CompactionPlan, RequestedReplaceMetadata
from tidelake.storage import Storage
from tidelake.timeline import Instant

MARK = "tidelake.planner"
"""A key in the extra metadata of plans of ours: they record every partition that they leave work in."""
SOURCE = "tidelake.partition.source"
CLUSTERING_SIZES = (CLUSTERING_SMALL_BYTES, CLUSTERING_TARGET_BYTES, CLUSTERING_GROUP_BYTES)

Groups = frozenset[tuple[str, str]]
P = TypeVar("P", bound=AvroRecord)


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What any plan says: the file groups it holds, the partitions it left work in, and whether it is ours."""

    groups: Groups
    missing: frozenset[str]
    is_ours: bool
    layout: str = ""
    """Of a clustering: how it sorts, and by what; empty if it does not."""
    is_incremental: bool = False
    """Whether it looked only at what changed."""
    terms: str = ""
    """Of a clustering of ours: the sizes by which it judged what is work; empty if it does not say."""


@dataclass(frozen=True, slots=True)
class ServiceKind:
    """A planned service."""

    name: str
    action: str
    """What its requested file is called."""
    completed_action: str
    operation: str
    facts: Callable[[bytes], PlanFacts | None]
    """What the bytes of its plan say; None if they are no plan of this kind."""


def _compaction_facts(data: bytes) -> PlanFacts | None:
    plan = _decoded(CompactionPlan, data)
    if plan is None:
        return None
    groups = frozenset((op.partition_path or "", op.file_id or "") for op in plan.operations or ())
    extra = plan.extra_metadata or {}
    missing = frozenset(plan.missing_schedule_partitions or ())
    return PlanFacts(groups, missing, MARK in extra, is_incremental=extra.get(SOURCE) == "incremental")


def _clustering_facts(data: bytes) -> PlanFacts | None:
    request = _decoded(RequestedReplaceMetadata, data)
    plan = None if request is None else request.clustering_plan
    if plan is None:
        return None
    groups = frozenset(
        (part.partition_path or "", part.file_id or "")
        for group in plan.input_groups or ()
        for part in group.slices or ()
    )
    missing = frozenset(plan.missing_schedule_partitions or ())
    params = (plan.strategy.strategy_params if plan.strategy else None) or {}
    layout = layout_text(CLUSTERING_SORT_COLUMNS.of(params), CLUSTERING_ORDER.of(params))
    extra = plan.extra_metadata or {}
    is_told = all(option.key in params for option in CLUSTERING_SIZES)
    terms = sizes_text(params) if is_told else ""
    return PlanFacts(groups, missing, MARK in extra, layout, extra.get(SOURCE) == "incremental", terms)


def sizes_text(options: Mapping[str, str]) -> str:
    """A name for the sizes by which a clustering judges."""
    return "/".join(str(option.of(options)) for option in CLUSTERING_SIZES)


def layout_text(columns: Sequence[str], order: str) -> str:
    """A name for a way to sort; empty for none."""
    return f"{order}({','.join(columns)})" if columns else ""


def _decoded(cls: type[P], data: bytes) -> P | None:
    try:
        return decode_record(cls, data)
    except TidelakeError:
        return None


COMPACTION = ServiceKind("compaction", "compaction", "commit", "COMPACT", _compaction_facts)
LOG_COMPACTION = ServiceKind("logcompaction", "logcompaction", "deltacommit", "LOG_COMPACT", _compaction_facts)
CLUSTERING = ServiceKind("clustering", "clustering", "replacecommit", "CLUSTER", _clustering_facts)
KINDS = (COMPACTION, LOG_COMPACTION, CLUSTERING)


def pending_groups(storage: Storage, timeline_dir: str, pending: tuple[Instant, ...]) -> dict[tuple[str, str], str]:
    """The file groups that pending plans of any kind hold, with the instant of the plan."""
    held: dict[tuple[str, str], str] = {}
    for instant in pending:
        kind = next((kind for kind in KINDS if kind.action == instant.pending_action), None)
        if kind is None:
            continue
        path = f"{timeline_dir}/{instant.requested_file_name}"
        try:
            facts = kind.facts(storage.get(path))
        except NotFoundError:
            continue  # withdrawn since the timeline was read: it holds nothing
        if facts is None:
            raise CorruptError("a pending plan cannot be read", file=path, instant=instant.requested_time)
        held.update(dict.fromkeys(facts.groups, instant.requested_time))
    return held
