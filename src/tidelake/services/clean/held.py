"""What holds files against a clean: savepoints and pending plans, as the timeline has them now."""

from __future__ import annotations

from contextlib import suppress

from tidelake.errors import NotFoundError
from tidelake.filegroup import TableView
from tidelake.format.commit_metadata import ReplaceCommitMetadata
from tidelake.format.plans import CompactionPlan, RequestedReplaceMetadata
from tidelake.format.service_metadata import SavepointMetadata
from tidelake.services.clean.plan import Facts
from tidelake.timeline import Instant, Timeline, TimelineReader


def gather_facts(view: TableView, timeline: Timeline, reader: TimelineReader) -> Facts:
    """What this timeline says of files; ``view`` is that of now."""
    held: dict[tuple[str, str], str] = {}
    # What is not found was dropped or rolled back since the timeline was listed: it holds nothing any more.
    for instant in timeline.of_action("savepoint"):
        with suppress(NotFoundError):
            kept = reader.record(SavepointMetadata, instant.file_name).partition_metadata
            reason = f"the savepoint {instant.requested_time} keeps it"
            held.update(((part, name), reason) for part, of in kept.items() for name in of.savepoint_data_file)
    for instant in timeline.pending:
        with suppress(NotFoundError):
            reason = f"the pending {instant.pending_action} {instant.requested_time} reads it"
            held.update((key, reason) for key in _inputs(instant, reader))
    replaced: dict[tuple[str, str], Instant] = {}
    replacing = tuple(i for i in timeline.completed_writes if i.action == "replacecommit")
    for requested_time, commit in reader.commits(replacing).items():
        if isinstance(commit, ReplaceCommitMetadata):
            for part, file_ids in (commit.partition_to_replace_file_ids or {}).items():
                for file_id in file_ids:
                    replaced.setdefault((part, file_id), timeline.by_time[requested_time])
    return Facts(view.is_visible, view.completion_of, replaced, tuple(sorted(timeline.savepoints)), held)


def _inputs(instant: Instant, reader: TimelineReader) -> list[tuple[str, str]]:
    """The files, as (partition path, name), that a pending compaction or clustering reads."""
    found: list[tuple[str, str | None]] = []
    if instant.pending_action in ("compaction", "logcompaction"):
        for operation in reader.record(CompactionPlan, instant.requested_file_name).operations or ():
            part = operation.partition_path or ""
            found.extend((part, path) for path in (operation.data_file_path, *(operation.delta_file_paths or ())))
    elif instant.pending_action == "clustering":
        plan = reader.record(RequestedReplaceMetadata, instant.requested_file_name).clustering_plan
        for group in (plan.input_groups or ()) if plan else ():
            for read in group.slices or ():
                paths = (read.data_file_path, *(read.delta_file_paths or ()))
                found.extend((read.partition_path or "", path) for path in paths)
    return [(part, path.rpartition("/")[2]) for part, path in found if path]
