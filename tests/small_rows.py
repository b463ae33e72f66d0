"""Rows that tests of writing share."""

from __future__ import annotations

import pyarrow as pa


def rows(*entries: tuple[int, str, int]) -> pa.Table:
    """Rows of (id, name, ts), in a day that follows from the id."""
    return pa.table(
        {
            "id": pa.array([e[0] for e in entries], pa.int64()),
            "name": [e[1] for e in entries],
            "ts": pa.array([e[2] for e in entries], pa.int64()),
            "day": [f"d{e[0] % 2}" for e in entries],
        }
    )
