"""What a table is at a glance: for notebooks and ``tidelake show``."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidelake.errors import TidelakeError
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
    rows_deleted: int
    bytes_written: int
    files: int


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
    return tuple(
        CommitSummary(
            instant.requested_time,
            instant.completion_time or "",
            instant.action,
            commits[instant.requested_time].operation_type or "UNKNOWN",
            sum(stat.num_writes or 0 for stat in commits[instant.requested_time].stats),
            sum(stat.num_deletes or 0 for stat in commits[instant.requested_time].stats),
            sum(stat.total_write_bytes or 0 for stat in commits[instant.requested_time].stats),
            len(commits[instant.requested_time].stats),
        )
        for instant in instants
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
