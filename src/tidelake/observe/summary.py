"""What a table is at a glance: for notebooks and ``tidelake show``."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidelake.errors import TidelakeError
from tidelake.format.commit_metadata import CommitMetadata
from tidelake.format.names import State
from tidelake.query import TableSource, table_schema
from tidelake.schema import without_meta
from tidelake.timeline import Instant

LAST_COMMITS = 5


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """One completed write."""

    requested_time: str
    completion_time: str
    action: str
    operation: str
    rows_written: int
    rows_updated: int
    rows_deleted: int
    bytes_written: int
    files: int
    files_added: int
    """Files that began a file group; the others added to one or replaced its last."""
    partitions: int
    errors: int

    @property
    def files_updated(self) -> int:
        return self.files - self.files_added


@dataclass(frozen=True, slots=True)
class InstantSummary:
    """One instant, completed or not. ``action`` is what it was requested as: a compaction completes as a commit."""

    requested_time: str
    action: str
    state: str
    completion_time: str | None
    operation: str | None
    is_archived: bool


@dataclass(frozen=True, slots=True)
class TableSummary:
    """A table at a glance; sizes are of the latest slices."""

    name: str
    path: str
    table_type: str
    version: int
    merge_mode: str
    record_key: tuple[str, ...]
    partition_fields: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    schema: pa.Schema | None
    partitions: int
    file_groups: int
    base_bytes: int
    log_bytes: int
    log_files: int
    instants: int
    pending: tuple[str, ...]
    last_commits: tuple[CommitSummary, ...]


def summarise(source: TableSource) -> TableSummary:
    """Look at a table without reading a row."""
    config = source.config
    slices = list(source.view().slices())
    try:
        schema = without_meta(table_schema(source).schema)
    except TidelakeError:
        schema = None
    return TableSummary(
        name=config.name,
        path=source.storage.uri,
        table_type=config.table_type.value,
        version=config.version,
        merge_mode=config.merge_mode.value,
        record_key=config.record_key_fields,
        partition_fields=config.partition_fields,
        ordering_fields=config.ordering_fields,
        schema=schema,
        partitions=len({s.partition_path for s in slices}),
        file_groups=len(slices),
        base_bytes=sum(s.base.size_bytes for s in slices if s.base),
        log_bytes=sum(log.size_bytes for s in slices for log in s.logs),
        log_files=sum(len(s.logs) for s in slices),
        instants=len(source.timeline),
        pending=tuple(str(i) for i in source.timeline.pending),
        last_commits=commit_summaries(source, source.timeline.completed_writes[-LAST_COMMITS:]),
    )


def commit_summaries(source: TableSource, instants: tuple[Instant, ...]) -> tuple[CommitSummary, ...]:
    """What these completed writes did."""
    commits = source.reader.commits(instants)
    return tuple(_commit_summary(instant, commits[instant.requested_time]) for instant in instants)


def _commit_summary(instant: Instant, commit: CommitMetadata) -> CommitSummary:
    stats = commit.stats
    return CommitSummary(
        instant.requested_time,
        instant.completion_time or "",
        instant.action,
        commit.operation_type or "UNKNOWN",
        rows_written=sum(stat.num_writes or 0 for stat in stats),
        rows_updated=sum(stat.num_update_writes or 0 for stat in stats),
        rows_deleted=sum(stat.num_deletes or 0 for stat in stats),
        bytes_written=sum(stat.total_write_bytes or 0 for stat in stats),
        files=len(stats),
        files_added=sum(stat.prev_commit in (None, "null") for stat in stats),
        partitions=len({stat.partition_path for stat in stats}),
        errors=sum(stat.total_write_errors or 0 for stat in stats),
    )


def instant_summaries(source: TableSource, limit: int | None, *, archived: bool = False) -> tuple[InstantSummary, ...]:
    """The last instants, newest first; of archived ones the operation is not looked up."""
    found = [(instant, False) for instant in source.timeline.instants]
    if archived:
        active = {(i.requested_time, i.action) for i in source.timeline.instants}
        past = (Instant(h.requested_time, h.action, State.COMPLETED, h.completion_time) for h in source.reader.history)
        found.extend((i, True) for i in past if (i.requested_time, i.action) not in active)
    found.sort(key=lambda pair: (pair[0].requested_time, pair[0].action), reverse=True)
    shown = found[:limit]
    operations = iter(source.reader.operations([i for i, is_archived in shown if not is_archived]))
    return tuple(
        InstantSummary(
            i.requested_time,
            i.pending_action or i.action,
            i.state.name,
            i.completion_time,
            None if is_archived else next(operations),
            is_archived,
        )
        for i, is_archived in shown
    )


def human_bytes(size: int) -> str:
    """A size in the unit a person would choose."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def summary_html(summary: TableSummary) -> str:
    """The summary for a notebook."""
    facts = [
        ("path", summary.path),
        ("type", f"{summary.table_type}, version {summary.version}, {summary.merge_mode}"),
        ("key", ", ".join(summary.record_key) or "-"),
        ("partitioned by", ", ".join(summary.partition_fields) or "-"),
        (
            "size",
            f"{summary.partitions} partitions, {summary.file_groups} file groups, {human_bytes(summary.base_bytes)}"
            f" base + {human_bytes(summary.log_bytes)} in {summary.log_files} logs",
        ),
        ("pending", ", ".join(summary.pending) or "nothing"),
    ]
    columns = [(field.name, str(field.type)) for field in summary.schema] if summary.schema is not None else []
    commits = [
        (c.requested_time, c.completion_time, c.operation, f"{c.rows_written:,}", human_bytes(c.bytes_written))
        for c in reversed(summary.last_commits)
    ]
    return (
        f"<h4>{html.escape(summary.name)}</h4>"
        + _html_table((), facts)
        + _html_table(("column", "type"), columns)
        + _html_table(("requested", "completed", "operation", "rows", "written"), commits)
    )


def _html_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    def cells(tag: str, row: tuple[str, ...]) -> str:
        return "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row)

    top = f"<thead><tr>{cells('th', head)}</tr></thead>" if head else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table>{top}<tbody>{body}</tbody></table>"
