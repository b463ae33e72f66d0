"""The schema of a table: that of its latest commit, else the one it was created with, else that of a base file."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq

from tidelake.errors import CorruptError, TidelakeError
from tidelake.filegroup import BaseFile, TableView
from tidelake.format.avro_arrow import arrow_schema
from tidelake.format.avro_schema import parse_record
from tidelake.format.tombstone_marks import decode_tombstones
from tidelake.query.source import TableSource
from tidelake.schema import column_paths, column_types, merge_schemas, with_meta, without_meta
from tidelake.storage import open_input

LOG_COMPACT = "LOG_COMPACT"


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table's schema (with meta columns, if the table has them), and what its commits say of their own."""

    schema: pa.Schema
    commit_columns: dict[str, frozenset[str]]
    """The paths and types of the columns that a commit says it wrote (``column_types``), by requested time."""
    known_columns: frozenset[str]
    """The paths of all columns that the table ever had, as far as the active timeline knows."""
    evolved_instants: frozenset[str]
    """Commits with another type for a column than the table has now."""
    log_compactions: frozenset[str]
    """Commits that compacted logs into logs."""
    declared: pa.Schema
    """The user schema as the table declares it: readers take every column for nullable, writers keep to this."""
    tombstones: dict[str, str] = field(default_factory=dict)
    """Logs of deletes that compactions kept, by path, with the instant since which they are kept."""


def table_schema(source: TableSource) -> TableSchema:
    """The schema as of now; rows of earlier times are read as this schema too."""
    view = source.view()
    latest: pa.Schema | None = None
    commit_columns: dict[str, frozenset[str]] = {}
    known: set[str] = set()
    is_other: dict[str, bool] = {}
    """Of each text, whether a column has another type there than now: most commits have the same one."""
    for instant in sorted(view.commits, reverse=True):
        text = view.commits[instant].schema_text
        if text is None:
            continue
        if text not in is_other:
            schema = _parsed(text, source, instant)
            latest = latest if latest is not None else schema
            is_other[text] = any(latest.field(f.name).type != f.type for f in schema if f.name in latest.names)
            known |= _column_paths(text)
        commit_columns[instant] = _column_types(text)
    evolved = {instant for instant in commit_columns if is_other[view.commits[instant].schema_text or ""]}
    if latest is None and source.config.create_schema_text is not None:
        latest = _parsed(source.config.create_schema_text, source, None)
    if latest is None:
        latest = _from_a_base_file(source, view)
    known |= column_paths(latest)
    nullable = pa.schema([field.with_nullable(True) for field in latest])
    whole = with_meta(nullable) if source.config.has_meta_columns else nullable
    compactions = frozenset(i for i, commit in view.commits.items() if commit.operation_type == LOG_COMPACT)
    tombstones: dict[str, str] = {}
    if source.config.tombstone_seconds:
        for commit in view.commits.values():
            tombstones |= decode_tombstones(commit.extra_metadata)
    own = without_meta(latest)
    return TableSchema(whole, commit_columns, frozenset(known), frozenset(evolved), compactions, own, tombstones)


def _parsed(text: str, source: TableSource, instant: str | None) -> pa.Schema:
    try:
        return _schema_of(text)
    except TidelakeError as error:
        raise error.with_context(table=source.storage.uri, instant=instant) from None


@lru_cache(maxsize=256)
def _schema_of(text: str) -> pa.Schema:
    return without_meta(arrow_schema(parse_record(text)))


@lru_cache(maxsize=256)
def _column_types(text: str) -> frozenset[str]:
    return column_types(_schema_of(text))


@lru_cache(maxsize=256)
def _column_paths(text: str) -> frozenset[str]:
    return column_paths(_schema_of(text))


def _from_a_base_file(source: TableSource, view: TableView) -> pa.Schema:
    for file_slice in view.slices():
        if file_slice.base is not None:
            return _of_base_file(source, file_slice.base)
    raise CorruptError(
        "the table's schema is not known: no commit and no property says it, and there is no base file",
        table=source.storage.uri,
    )


def _of_base_file(source: TableSource, base: BaseFile) -> pa.Schema:
    try:
        with open_input(source.storage, base.path, base.size_bytes) as file:
            return merge_schemas(pa.schema([]), without_meta(pq.read_schema(file).remove_metadata()))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptError(
            f"a base file cannot be read: {error}", file=base.path, instant=base.name.instant, table=source.storage.uri
        ) from error
