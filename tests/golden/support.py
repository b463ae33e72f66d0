"""Where golden tables are, what is expected of them, and how rows are compared."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from golden.encoding import encode_rows

GOLDEN = Path(__file__).parent / "tables"


@cache
def golden_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in GOLDEN.glob("*.zip")))


@cache
def expected_of(name: str) -> dict[str, Any]:
    return json.loads((GOLDEN / f"{name}.expected.json").read_text())


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    return encode_rows(table.to_pylist())
