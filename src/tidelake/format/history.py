"""The archived timeline: a manifest of parquet files, each a sorted run of past instants.

Only files that the current manifest names are valid; ``_version_`` names the current manifest, and while it is being
replaced the manifest with the greatest number counts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelake import _limits
from tidelake.errors import CorruptError, LimitError

if TYPE_CHECKING:
    import pyarrow as pa  # for its name alone: who hands over a table has loaded it

VERSION_FILE = "_version_"
MANIFEST_PREFIX = "manifest_"
COLUMNS = ("instantTime", "completionTime", "action", "metadata", "plan", "version")


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """One file of a manifest."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """One archived instant; ``metadata`` and ``plan`` are the bytes of its timeline files, if they were read."""

    requested_time: str
    completion_time: str | None
    action: str
    metadata: bytes | None = None
    plan: bytes | None = None


def decode_manifest(data: bytes) -> tuple[HistoryFile, ...]:
    """The files of a manifest."""
    if len(data) > _limits.HISTORY_MANIFEST_BYTES:
        raise LimitError(f"a history manifest of {len(data)} bytes is too large")
    try:
        files = json.loads(data)["files"]
        return tuple(HistoryFile(str(entry["fileName"]), int(entry["fileLen"])) for entry in files)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptError(f"a history manifest cannot be parsed: {error}") from error


def encode_manifest(files: tuple[HistoryFile, ...]) -> bytes:
    """The bytes of a manifest, in the layout that Apache Hudi's JSON writer gives."""
    entries = ", ".join(
        f'{{\n    "fileName" : {json.dumps(file.name)},\n    "fileLen" : {file.size_bytes}\n  }}' for file in files
    )
    inner = f" {entries} " if files else " "
    return f'{{\n  "files" : [{inner}]\n}}'.encode()


def decode_version(data: bytes) -> int:
    """The number of the current manifest."""
    text = data.decode("latin-1").strip()
    if not _is_number(text):
        raise CorruptError(f"the history's {VERSION_FILE} is {text!r}, not a number", value=text)
    return int(text)


def manifest_number(name: str) -> int | None:
    """The N of ``manifest_N``, or None if the name is not that of a manifest."""
    number = name.removeprefix(MANIFEST_PREFIX)
    return int(number) if name.startswith(MANIFEST_PREFIX) and _is_number(number) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def archived_instants(table: pa.Table) -> tuple[ArchivedInstant, ...]:
    """The rows of a history file; columns that were not read are left out."""
    names = table.column_names
    if not {"instantTime", "completionTime", "action"} <= set(names):
        raise CorruptError(f"a history file has the columns {names}")
    columns = [table.column(name).to_pylist() if name in names else [None] * table.num_rows for name in COLUMNS[:5]]
    instants = []
    for requested, completion, action, metadata, plan in zip(*columns, strict=True):
        if requested is None or action is None:
            raise CorruptError("a history file has an instant without a time or an action")
        instants.append(ArchivedInstant(requested, completion, action, metadata, plan))
    return tuple(instants)
