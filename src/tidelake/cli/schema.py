"""``tidelake schema``: columns, types and nullability, or the Avro schema as the table states it."""

from __future__ import annotations

import json

import pyarrow as pa

from tidelake.cli import text
from tidelake.cli.text import Column
from tidelake.format.avro_arrow import arrow_schema, avro_json
from tidelake.format.avro_schema import load_json, parse_record
from tidelake.query import TableSource, table_schema
from tidelake.schema import without_meta
from tidelake.storage import open_storage


def run(path: str, options: dict[str, str], *, avro: bool, meta: bool, as_json: bool) -> int:
    """Show a table's schema."""
    source = TableSource.load(open_storage(path, options))
    known = table_schema(source).schema
    stated = _stated(source)
    if avro:
        text.write(json.dumps(load_json(stated or avro_json(without_meta(known), source.config.name)), indent=2))
        return 0
    required = _required(stated)
    roles = _roles(source)
    shown = [_plain(field, required, roles) for field in (known if meta else without_meta(known))]
    if as_json:
        text.write_json(shown)
        return 0
    columns = [Column("column"), Column("type"), Column("nullable"), Column("role")]
    rows = [
        [str(f["name"]), str(f["type"]), "yes" if f["nullable"] else "no", ", ".join(roles.get(str(f["name"]), ()))]
        for f in shown
    ]
    for line in text.table_lines(columns, rows):
        text.write(line)
    return 0


def _stated(source: TableSource) -> str | None:
    """The Avro schema of the latest commit that has one, else the one the table was created with."""
    commits = sorted(source.view().commits.items(), reverse=True)
    return next((c.schema_text for _, c in commits if c.schema_text), source.config.create_schema_text)


def _required(stated: str | None) -> frozenset[str]:
    """The columns that the schema says are never null; readers give every column as nullable."""
    if stated is None:
        return frozenset()
    return frozenset(field.name for field in arrow_schema(parse_record(stated)) if not field.nullable)


def _roles(source: TableSource) -> dict[str, list[str]]:
    """What columns are for, where the table says so."""
    config = source.config
    roles: dict[str, list[str]] = {}
    for role, names in (
        ("key", config.record_key_fields),
        ("partition", config.partition_fields),
        ("ordering", config.ordering_fields),
    ):
        for name in names:
            roles.setdefault(name, []).append(role)
    return roles


def _plain(field: pa.Field, required: frozenset[str], roles: dict[str, list[str]]) -> dict[str, object]:
    return {
        "name": field.name,
        "type": str(field.type),
        "nullable": field.name not in required,
        "roles": roles.get(field.name, []),
    }
