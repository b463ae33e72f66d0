"""Golden tables of payload classes, delete markers and partial updates."""

from __future__ import annotations

from functools import partial

from lake import COW, MOR, Table
from recipe import add, recipe
from recipes_b_merge import BLOCK_FORMAT, MERGE_MODE, MODES, ONE_GROUP

PAYLOAD = "hoodie.datasource.write.payload.class"
MODEL = "org.apache.hudi.common.model."
UNAVAILABLE = "__debezium_unavailable_value"


def build_delete_marker(kind: str, blocks: str, table: Table) -> None:
    """Rows whose column op holds D are deletes."""
    extra = {
        "hoodie.payload.delete.field": "op",
        "hoodie.payload.delete.marker": "D",
        PAYLOAD: MODEL + "DefaultHoodieRecordPayload",
        BLOCK_FORMAT: blocks,
        **ONE_GROUP,
    }
    table.configure(kind, 9, "id int, name string, ts long, op string", extra=extra)
    table.insert([(i, f"base{i}", 20, "I") for i in range(1, 9)])
    table.upsert([(1, "x", 25, "D"), (2, "x", 20, "D"), (3, "x", 15, "D"), (4, "up", 25, "U"), (5, "null", 25, None)])
    table.upsert([(1, "back", 26, "I"), (4, "x", 24, "D"), (6, "x", 30, "D"), (9, "never", 1, "D")])


for _blocks in ("avro", "parquet"):
    add(
        f"mor_v9_delete_marker_{_blocks}",
        f"MOR v9 with a custom delete marker (op = D), {_blocks} blocks",
        partial(build_delete_marker, MOR, _blocks),
    )
add("cow_v9_delete_marker", "COW v9 with a custom delete marker (op = D)", partial(build_delete_marker, COW, "avro"))


def build_dms(kind: str, version: int, table: Table) -> None:
    """Changes as AWS DMS gives them: the column Op holds I, U or D."""
    extra = {PAYLOAD: MODEL + "AWSDmsAvroPayload", **ONE_GROUP}
    table.configure(kind, version, "Op string, id int, name string, ts long", extra=extra)
    table.insert([("I", i, f"base{i}", 20) for i in range(1, 7)])
    table.upsert([("U", 1, "up", 25), ("D", 2, "x", 25), ("U", 3, "late", 5), ("D", 4, "x", 5)])
    table.upsert([("I", 2, "back", 26), ("D", 1, "x", 1), ("I", 7, "new", 1)])


add("mor_v9_dms", "MOR v9 created with AWSDmsAvroPayload", partial(build_dms, MOR, 9))
add("cow_v9_dms", "COW v9 created with AWSDmsAvroPayload", partial(build_dms, COW, 9))

PARTIAL_SCHEMA = "id int, a string, b int, c double, ts long"


def partial_life(table: Table) -> None:
    """Updates with nulls in changing columns, newer, equal and older than what they meet."""
    table.insert([(i, f"a{i}", i, i / 2, 20) for i in range(1, 9)])
    table.upsert(
        [(1, "new", None, None, 25), (2, None, 99, None, 20), (3, None, None, 9.5, 15), (4, None, None, None, 25)]
    )
    table.upsert(
        [(1, None, 77, None, 26), (2, "two", None, None, 19), (5, "five", None, None, 30), (9, None, None, 1.0, 1)]
    )
    table.delete([(6, "", 0, 0.0, 30)])
    table.upsert([(6, None, 66, None, 31), (1, None, None, 0.25, 24), (3, "three", None, None, 40)])


def build_partial(payload: str, version: int, blocks: str, table: Table) -> None:
    """Configure a table whose payload class ignores nulls of the newer row."""
    extra = {PAYLOAD: MODEL + payload, BLOCK_FORMAT: blocks, **ONE_GROUP}
    if version == 8:
        extra[MERGE_MODE] = "CUSTOM"
    table.configure(MOR, version, PARTIAL_SCHEMA, extra=extra)
    partial_life(table)


for _payload, _short in (
    ("PartialUpdateAvroPayload", "partial_payload"),
    ("OverwriteNonDefaultsWithLatestAvroPayload", "nondefaults_payload"),
):
    for _blocks in ("avro", "parquet"):
        add(
            f"mor_v9_{_short}_{_blocks}",
            f"MOR v9 created with {_payload} (IGNORE_DEFAULTS), {_blocks} blocks",
            partial(build_partial, _payload, 9, _blocks),
        )


@recipe("mor_v9_debezium", "MOR v9 created with PostgresDebeziumAvroPayload (FILL_UNAVAILABLE)")
def debezium(table: Table) -> None:
    """Changes as Debezium gives them from Postgres: unavailable values are filled from the older row."""
    schema = "id int, big string, raw binary, n int, _event_lsn long, _change_operation_type string"
    extra = {PAYLOAD: MODEL + "debezium.PostgresDebeziumAvroPayload", **ONE_GROUP}
    table.configure(MOR, 9, schema, ordering="_event_lsn", extra=extra)
    gone = UNAVAILABLE
    table.insert([(i, f"big{i}", b"raw%d" % i, i, 20, "c") for i in range(1, 8)])
    table.upsert(
        [(1, gone, gone.encode(), 11, 25, "u"), (2, gone, b"new", 12, 20, "u"), (3, gone, b"late", 13, 15, "u")]
    )
    table.upsert(
        [(1, gone, b"again", 21, 26, "u"), (4, gone, gone.encode(), 0, 30, "d"), (5, "big", gone.encode(), 15, 30, "u")]
    )
    table.upsert([(5, gone, gone.encode(), None, 31, "u"), (6, gone, None, 16, 30, "u")])


def merge_into(table: Table, source: str, assignments: str, insert: str = "") -> None:
    """Run a MERGE INTO that updates the given columns of the matched rows."""
    statement = f"MERGE INTO {{t}} AS t USING ({source}) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {assignments}"
    table.sql(statement + (f" WHEN NOT MATCHED THEN INSERT {insert}" if insert else ""))


def build_merge_into(mode: str, blocks: str, version: int, table: Table) -> None:
    """Several partial blocks on the same keys, then deletes.

    In event-time mode Hudi refuses a MERGE INTO that does not assign the ordering column.
    """
    extra = {MERGE_MODE: MODES[mode], BLOCK_FORMAT: blocks, **ONE_GROUP}
    table.configure(MOR, version, PARTIAL_SCHEMA, extra=extra)
    table.insert([(i, f"a{i}", i, i / 2, 20) for i in range(1, 13)])
    two = "SELECT {} AS id, {} AS v, {} AS ts UNION ALL SELECT {}, {}, {}"
    merge_into(table, two.format(1, "'m1'", "25L", 2, "'m2'", "20L"), "a = s.v, ts = s.ts")
    merge_into(table, two.format(1, 101, "26L", 3, 103, "15L"), "b = s.v, ts = s.ts")
    if mode == "commit":
        merge_into(table, two.format(1, "1.25D", "50L", 4, "4.25D", "0L"), "c = s.v")
    merge_into(table, two.format(2, "'late'", "19L", 5, "'five'", "30L"), "a = s.v, ts = s.ts")
    table.upsert([(5, "full", None, None, 31), (6, "full", 66, None, 31)])
    merge_into(table, two.format(5, 55, "32L", 6, "cast(null as int)", "33L"), "b = s.v, ts = s.ts")
    table.sql("DELETE FROM {t} WHERE id IN (2, 7)")
    merge_into(
        table,
        two.format(8, "'eight'", "40L", 20, "'twenty'", "1L"),
        "a = s.v, ts = s.ts",
        "(id, a, b, c, ts) VALUES (s.id, s.v, null, null, s.ts)",
    )


for _mode in MODES:
    for _blocks, _version in (("avro", 9), ("parquet", 9), ("avro", 8)):
        add(
            f"mor_v{_version}_mergeinto_{_mode}_{_blocks}",
            f"MOR v{_version}, {MODES[_mode]}, MERGE INTO partial updates in {_blocks} blocks",
            partial(build_merge_into, _mode, _blocks, _version),
        )
