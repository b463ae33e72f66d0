"""``tidelake show``: what a table is, at a glance."""

from __future__ import annotations

from dataclasses import asdict, fields

from tidelake.cli import text
from tidelake.cli.text import Column
from tidelake.observe import TableSummary, human_bytes
from tidelake.table import open_table


def run(path: str, options: dict[str, str], *, as_json: bool) -> int:
    """Show a table."""
    summary = open_table(path, storage_options=options).summary()
    if as_json:
        text.write_json(_plain(summary))
    else:
        _write(summary)
    return 0


def _plain(summary: TableSummary) -> dict[str, object]:
    plain: dict[str, object] = {
        field.name: getattr(summary, field.name)
        for field in fields(summary)
        if field.name not in ("schema", "last_commits")
    }
    schema = summary.schema
    plain["columns"] = None if schema is None else [{"name": f.name, "type": str(f.type)} for f in schema]
    plain["last_commits"] = [asdict(commit) for commit in summary.last_commits]
    return plain


def _write(summary: TableSummary) -> None:
    text.write(text.coloured(text.clean(summary.name), "bold"))
    for line in text.fact_lines(_facts(summary)):
        text.write(line)
    if not summary.last_commits:
        text.write("no commits on the active timeline")
        return
    text.write()
    columns = [
        Column("requested"),
        Column("completed"),
        Column("action"),
        Column("operation"),
        Column("rows", is_number=True),
        Column("deleted", is_number=True),
        Column("written", is_number=True),
        Column("files", is_number=True),
    ]
    rows = [
        [
            commit.requested_time,
            commit.completion_time,
            commit.action,
            commit.operation,
            f"{commit.rows_written:,}",
            f"{commit.rows_deleted:,}",
            human_bytes(commit.bytes_written),
            f"{commit.files:,}",
        ]
        for commit in reversed(summary.last_commits)
    ]
    for line in text.table_lines(columns, rows):
        text.write(line)


def _facts(summary: TableSummary) -> list[tuple[str, str]]:
    logs = (
        f" + {human_bytes(summary.log_bytes)} in {text.counted(summary.log_files, 'log')}" if summary.log_files else ""
    )
    columns = "not known" if summary.schema is None else ", ".join(summary.schema.names)
    return [
        ("path", summary.path),
        ("type", f"{summary.table_type}, version {summary.version}"),
        ("key", ", ".join(summary.record_key) or "none"),
        ("partitioned by", ", ".join(summary.partition_fields) or "nothing"),
        ("ordered by", ", ".join(summary.ordering_fields) or "nothing"),
        ("merge mode", summary.merge_mode),
        ("columns", text.cut(columns, 200)),
        (
            "size",
            f"{text.counted(summary.partitions, 'partition')}, {text.counted(summary.file_groups, 'file group')}, "
            f"{human_bytes(summary.base_bytes)} in base files{logs}",
        ),
        ("timeline", text.counted(summary.instants, "active instant")),
        ("pending", ", ".join(summary.pending) or "nothing"),
    ]
