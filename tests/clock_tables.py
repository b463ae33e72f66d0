"""The Smiths' table: who cares for their insurance, and which plan they have, each with a clock of its own."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import tidelake as tl
from tidelake.storage import MemoryStorage
from tidelake.write import Commit

ENABLE = "multiple.eventime.latest.verification.enable"
FIELDS = "hoodie.eventime.latest.verification.fields"
MODE = "hoodie.eventime.latest.verification.mode"
SMITH_SCHEMA = "id string, agent string, a_ts bigint, plan string, p_ts bigint"
Message = tuple[str | None, int | None, str | None, int | None]


def clock_options(mode: str) -> dict[str, str]:
    """The options of the Smiths' table in a mode."""
    made = {ENABLE: "true", FIELDS: "a_ts,p_ts", MODE: mode}
    if mode == "per_group":
        made |= {"fields.a_ts.sequence-group": "agent", "fields.p_ts.sequence-group": "plan"}
    return made


def smiths(mode: str | None, uri: str = "memory://smiths", **how: Any) -> tl.Table:
    """An empty table of the Smiths."""
    options = {**({} if mode is None else clock_options(mode)), **how.pop("options", {})}
    storage = MemoryStorage() if uri.startswith("memory") and "storage" not in how else how.pop("storage", None)
    made = {"schema": SMITH_SCHEMA, "name": "smiths", "record_key": "id", **how}
    return tl.create_table(uri, options=options, storage=storage, **made)


def rows(*messages: Message, key: str = "smith") -> pa.Table:
    """Messages as rows."""
    return pa.table(
        {
            "id": [key] * len(messages),
            "agent": pa.array([m[0] for m in messages], pa.string()),
            "a_ts": pa.array([m[1] for m in messages], pa.int64()),
            "plan": pa.array([m[2] for m in messages], pa.string()),
            "p_ts": pa.array([m[3] for m in messages], pa.int64()),
        }
    )


def upsert(table: tl.Table, *messages: Message, key: str = "smith") -> Commit:
    """Messages in one batch."""
    return table.upsert(rows(*messages, key=key))


def shown(table: tl.Table, mode: str = "snapshot") -> list[Message]:
    """What the table says of all its families."""
    found = table.scan(columns=["agent", "a_ts", "plan", "p_ts"], mode=mode).to_arrow().to_pylist()
    return [(row["agent"], row["a_ts"], row["plan"], row["p_ts"]) for row in found]


def told(table: tl.Table) -> tl.Table:
    """The Smiths' story in four writes, and another family that comes and goes."""
    upsert(table, ("Mike", 1, "A", 1), ("Mike", 1, "B", 2))
    table.upsert(pa.concat_tables([rows(("Mike", 1, "C", 3)), rows(("Al", 1, "Z", 1), key="jones")]))
    upsert(table, ("John", 2, "A", 1))
    table.delete(["jones"])
    return table
