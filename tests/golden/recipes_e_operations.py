"""Golden tables of other operations and features: replacing writes, indexes, virtual keys, CDC, metadata table."""

from __future__ import annotations

from functools import partial

from lake import COW, MOR, Table
from recipe import add, recipe
from recipes_b_merge import BLOCK_FORMAT, ONE_GROUP
from recipes_d_services import SCHEMA, rows, schedule_compaction, start


def build_overwrite(kind: str, version: int, table: Table) -> None:
    """One partition is overwritten, then updated."""
    start(table, kind, version)
    table.upsert(rows([1, 2, 3], "up", 25))
    table.write("insert_overwrite", rows([1, 21, 23], "over", 5))
    table.upsert(rows([21, 2, 25], "after", 30))


def build_overwrite_table(kind: str, version: int, table: Table) -> None:
    """The whole table is overwritten by rows of one partition, then updated."""
    start(table, kind, version)
    table.upsert(rows([1, 2, 3], "up", 25))
    table.write("insert_overwrite_table", rows([1, 21, 23], "over", 5))
    table.upsert(rows([21, 2], "after", 30))


def build_delete_partition(kind: str, version: int, table: Table) -> None:
    """One partition is deleted; later a row comes back into it."""
    start(table, kind, version)
    table.upsert(rows([1, 2, 3], "up", 25))
    wanted = {"hoodie.datasource.write.partitions.to.delete": "part=a"}
    table.write("delete_partition", rows([1], "", 30), options=wanted)
    table.upsert(rows([1, 4], "after", 10))


for _kind, _version, _name in ((COW, 8, "cow_v8"), (COW, 9, "cow_v9"), (MOR, 8, "mor_v8"), (MOR, 9, "mor_v9")):
    add(
        f"{_name}_insert_overwrite",
        f"{_name}: insert_overwrite of a partition",
        partial(build_overwrite, _kind, _version),
    )
    add(
        f"{_name}_insert_overwrite_table",
        f"{_name}: insert_overwrite_table",
        partial(build_overwrite_table, _kind, _version),
    )
    add(f"{_name}_delete_partition", f"{_name}: delete_partition", partial(build_delete_partition, _kind, _version))


def build_bucket(version: int, blocks: str, table: Table) -> None:
    """Four buckets; every write but the first of a bucket goes to logs."""
    bucket = {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "4",
        "hoodie.bucket.index.hash.field": "id",
        BLOCK_FORMAT: blocks,
    }
    table.configure(MOR, version, SCHEMA, partition="part", extra=bucket)
    table.upsert(rows(range(1, 9), "base", 20))
    table.upsert(rows([1, 2, 3, 12, 13, 14], "up", 25))
    table.upsert(rows([1, 15, 16, 17], "late", 15))
    table.delete(rows([2, 12], "", 30))
    table.upsert(rows([12, 18], "again", 26))
    schedule_compaction(table)
    table.upsert(rows([3, 12], "after", 30))


for _version, _blocks in ((8, "avro"), (9, "parquet")):
    add(
        f"mor_v{_version}_bucket",
        f"MOR v{_version}, bucket index with four buckets, {_blocks} blocks, a pending compaction",
        partial(build_bucket, _version, _blocks),
    )


def build_bulk_insert(version: int, table: Table) -> None:
    """The row writer creates the table by a commit, not a deltacommit."""
    table.configure(MOR, version, SCHEMA, partition="part", extra=ONE_GROUP)
    table.write("bulk_insert", rows(range(1, 9), "bulk", 20))
    table.upsert(rows([1, 2], "up", 25))
    table.write("bulk_insert", rows([9, 10, 1], "bulk2_", 20))
    table.upsert(rows([9], "up", 25))


for _version in (8, 9):
    add(
        f"mor_v{_version}_bulk_insert",
        f"MOR v{_version} created by bulk_insert; the second one makes a duplicate of key 1",
        partial(build_bulk_insert, _version),
    )


def build_virtual_keys(kind: str, version: int, table: Table) -> None:
    """Base and log files without meta columns."""
    extra = {"hoodie.populate.meta.fields": "false", **ONE_GROUP}
    table.configure(kind, version, SCHEMA, partition="part", extra=extra)
    table.insert(rows(range(1, 9), "base", 20))
    table.upsert(rows([1, 2, 3, 11], "up", 25))
    table.upsert(rows([1, 4], "late", 15))
    table.delete(rows([5], "", 30))


for _kind, _version, _name in ((COW, 9, "cow_v9"), (MOR, 8, "mor_v8"), (MOR, 9, "mor_v9")):
    add(
        f"{_name}_virtual_keys",
        f"{_name} with hoodie.populate.meta.fields=false",
        partial(build_virtual_keys, _kind, _version),
    )


def build_cdc(kind: str, mode: str, table: Table) -> None:
    """Change files beside the data files; snapshot readers must skip them."""
    extra = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": mode}
    table.configure(kind, 9, SCHEMA, partition="part", extra=extra)
    table.insert(rows(range(1, 9), "base", 20))
    table.upsert(rows([1, 2, 11], "up", 25))
    table.delete(rows([3], "", 30))
    if kind == MOR:
        schedule_compaction(table)
        table.call("run_compaction", "op => 'run'")
    table.upsert(rows([1, 4], "last", 40))


add("cow_v9_cdc", "COW v9 with CDC files (DATA_BEFORE_AFTER)", partial(build_cdc, COW, "DATA_BEFORE_AFTER"))
add("mor_v9_cdc", "MOR v9 with CDC files (OP_KEY_ONLY)", partial(build_cdc, MOR, "OP_KEY_ONLY"))


@recipe("mor_v9_metadata_table", "MOR v9 with the metadata table, read through it")
def metadata_table(table: Table) -> None:
    """The default of Apache Hudi: files are listed by the metadata table."""
    table.read_options = {"hoodie.metadata.enable": "true"}
    start(table, MOR, 9, {"hoodie.metadata.enable": "true"})
    table.upsert(rows([1, 2, 11], "up", 25))
    table.delete(rows([3], "", 30))


def build_empty(kind: str, table: Table) -> None:
    """A table created by SQL and never written."""
    short = "mor" if kind == MOR else "cow"
    table.options = {"hoodie.datasource.write.table.type": kind}
    statement = (
        f"CREATE TABLE {table.name} (id int, name string, ts long, part string) USING hudi "
        f"TBLPROPERTIES (type = '{short}', primaryKey = 'id', preCombineField = 'ts') "
        f"PARTITIONED BY (part) LOCATION '{table.path}'"
    )
    table.spark.sql(statement)
    table.steps.append(statement.replace(str(table.path), "<path>"))


add("cow_v9_empty", "COW created by SQL, no commits", partial(build_empty, COW))
add("mor_v9_empty", "MOR created by SQL, no commits", partial(build_empty, MOR))


@recipe("cow_v9_all_deleted", "COW v9 whose rows are all deleted")
def all_deleted(table: Table) -> None:
    """Base files without rows, or none at all."""
    start(table, COW)
    table.delete(rows(range(1, 11), "", 30))


@recipe("mor_v9_all_deleted", "MOR v9 whose rows are all deleted, compacted to empty base files")
def all_deleted_mor(table: Table) -> None:
    """Compaction of slices that have nothing left."""
    start(table, MOR)
    table.delete(rows(range(1, 11), "", 30))
    schedule_compaction(table)
    table.call("run_compaction", "op => 'run'")
    table.upsert(rows([1, 2], "back", 5))


@recipe("mor_v9_sql_life", "MOR v9 created and changed by Spark SQL only: insert, update, delete, merge with delete")
def sql_life(table: Table) -> None:
    """The statements a user of Spark SQL gives."""
    build_empty(MOR, table)
    table.registered = True
    table.options |= {"hoodie.metadata.enable": "false", **ONE_GROUP}
    table.sql("INSERT INTO {t} VALUES (1, 'a', 10, 'x'), (2, 'b', 10, 'x'), (3, 'c', 10, 'y'), (4, 'd', 10, null)")
    table.sql("UPDATE {t} SET name = upper(name), ts = 11 WHERE id IN (1, 4)")
    table.sql("DELETE FROM {t} WHERE id = 2")
    table.sql(
        "MERGE INTO {t} AS t USING (SELECT 1 AS id, 'z' AS name, 12L AS ts, 'x' AS part UNION ALL "
        "SELECT 3, 'q', 12L, 'y' UNION ALL SELECT 9, 'new', 12L, 'y') AS s ON t.id = s.id "
        "WHEN MATCHED AND s.id = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    table.sql("INSERT OVERWRITE TABLE {t} PARTITION (part = 'y') SELECT 30, 'over', 13L")


@recipe("cow_v9_many_groups", "COW v9 with many file groups of few rows, sixty rows")
def many_groups(table: Table) -> None:
    """Every insert makes a new group in each partition."""
    table.configure(COW, 9, SCHEMA, partition="part", extra=ONE_GROUP)
    for n in range(5):
        table.insert(rows(range(1 + 12 * n, 13 + 12 * n), "n", 20))
    table.upsert(rows(range(1, 61, 7), "up", 30))
