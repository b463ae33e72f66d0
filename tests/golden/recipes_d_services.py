"""Golden tables of table services: compaction, clustering, cleaning, archiving, savepoints, rollback, restore."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from lake import COW, MOR, Table
from recipe import add, recipe
from recipes_b_merge import BLOCK_FORMAT, MERGE_MODE, MODES, ONE_GROUP

SCHEMA = "id int, name string, ts long, part string"
AT_ONCE = {"hoodie.compact.inline.max.delta.commits": "1"}
LISTED_ROLLBACK = {"hoodie.rollback.using.markers": "false"}


def rows(keys: Iterable[int], name: str, ts: int) -> list[tuple[Any, ...]]:
    """Rows of these keys, odd ones in partition a, even ones in b."""
    return [(key, f"{name}{key}", ts, "a" if key % 2 else "b") for key in keys]


def start(table: Table, kind: str, version: int = 9, extra: dict[str, str] | None = None) -> None:
    """Configure a table of two partitions and insert ten rows."""
    table.configure(kind, version, SCHEMA, partition="part", extra={**ONE_GROUP, **(extra or {})})
    table.insert(rows(range(1, 11), "base", 20))


def schedule_compaction(table: Table) -> None:
    """Leave a compaction plan on the timeline."""
    table.call("run_compaction", "op => 'schedule'", AT_ONCE)


def build_compacted(version: int, blocks: str, table: Table) -> None:
    """Logs, compaction, logs on the new base files."""
    start(table, MOR, version, {BLOCK_FORMAT: blocks})
    table.upsert(rows([1, 2, 3], "up", 25))
    table.delete(rows([4], "", 25))
    schedule_compaction(table)
    table.call("run_compaction", "op => 'run'")
    table.upsert(rows([1, 5], "after", 30))
    table.upsert(rows([2], "late", 21))
    table.sql("DELETE FROM {t} WHERE id = 6")


for _version, _blocks in ((8, "avro"), (9, "avro"), (9, "parquet")):
    add(
        f"mor_v{_version}_compacted_{_blocks}",
        f"MOR v{_version}, {_blocks} blocks: compaction done, logs after it",
        partial(build_compacted, _version, _blocks),
    )


def build_pending(version: int, table: Table) -> None:
    """A plan between two generations of logs, not executed."""
    start(table, MOR, version)
    table.upsert(rows([1, 2, 3], "before", 25))
    table.delete(rows([4], "", 25))
    schedule_compaction(table)
    table.upsert(rows([1, 5], "after", 30))
    table.upsert(rows([2], "late", 21))
    table.upsert(rows([4, 11], "back", 30))
    table.sql("DELETE FROM {t} WHERE id IN (3, 6)")


for _version in (8, 9):
    add(
        f"mor_v{_version}_compaction_pending",
        f"MOR v{_version}: compaction scheduled, logs before and after the plan",
        partial(build_pending, _version),
    )


@recipe("mor_v9_compaction_after_writes", "MOR v9: compaction scheduled, writes made on top of the plan, then executed")
def compaction_after_writes(table: Table) -> None:
    """The new slice begins at the plan's instant and gets the logs written before the compaction ended."""
    build_pending(9, table)
    table.call("run_compaction", "op => 'run'")
    table.upsert(rows([7], "last", 40))


@recipe("mor_v9_inline_compaction", "MOR v9: compactions inline after every two deltacommits, COMMIT_TIME_ORDERING")
def inline_compaction(table: Table) -> None:
    """Several compactions of the same groups."""
    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
    start(table, MOR, 9, {MERGE_MODE: MODES["commit"], **inline})
    for n in range(5):
        table.upsert(rows([1 + n, 2 + n], f"v{n}_", 30 - n))


def cluster(table: Table, operation: str) -> None:
    """Schedule or run clustering with one output group per partition."""
    table.call("run_clustering", f"op => '{operation}'")


def build_clustered(kind: str, version: int, table: Table) -> None:
    """Several small groups per partition, clustered to one, then updated."""
    start(table, kind, version)
    table.insert(rows(range(11, 15), "more", 20))
    table.upsert(rows([1, 2, 12], "up", 25))
    table.delete(rows([3], "", 25))
    cluster(table, "schedule")
    cluster(table, "execute")
    table.upsert(rows([1, 11], "after", 30))


for _kind, _version, _name in ((COW, 9, "cow_v9"), (MOR, 8, "mor_v8"), (MOR, 9, "mor_v9")):
    add(f"{_name}_clustered", f"{_name}: clustering done, updates after it", partial(build_clustered, _kind, _version))


def build_clustering_pending(kind: str, table: Table) -> None:
    """A clustering plan, then inserts that it does not know."""
    start(table, kind)
    table.insert(rows(range(11, 15), "more", 20))
    table.upsert(rows([1, 2, 12], "up", 25))
    cluster(table, "schedule")
    table.insert(rows(range(15, 18), "after", 20))


for _kind, _name in ((COW, "cow_v9"), (MOR, "mor_v9")):
    add(f"{_name}_clustering_pending", f"{_name}: clustering scheduled only", partial(build_clustering_pending, _kind))


@recipe("mor_v9_log_compaction", "MOR v9 with completed log compaction (COMPACTED_BLOCK_TIMES), logs after it")
def log_compaction(table: Table) -> None:
    """Blocks of several deltacommits folded into one."""
    extra = {
        "hoodie.log.compaction.inline": "true",
        "hoodie.log.compaction.blocks.threshold": "3",
        "hoodie.log.compaction.enable": "true",
    }
    start(table, MOR, 9, extra)
    for n in range(4):
        table.upsert(rows([1, 2, 3 + n], f"v{n}_", 25 + n))
    table.delete(rows([8], "", 30))
    table.upsert(rows([1, 9], "last", 40))


@recipe("mor_v9_cleaned", "MOR v9 after compactions and a clean that removed old slices")
def cleaned_mor(table: Table) -> None:
    """Old base files and their logs are gone."""
    start(table, MOR)
    for n in range(3):
        table.upsert(rows([1, 2, 3 + n], f"v{n}_", 25 + n))
        schedule_compaction(table)
        table.call("run_compaction", "op => 'run'")
    for instant in table.instants()[:-1]:
        table.mark_wrong(instant.requested, "the files of this state are cleaned; Hudi gives no rows and no error")
    table.call("run_clean", "clean_policy => 'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => 1")
    table.upsert(rows([4], "last", 50))


@recipe("cow_v8_cleaned", "COW v8 after updates and a clean that removed old base files")
def cleaned_cow(table: Table) -> None:
    """Only the latest base file of each group is left."""
    start(table, COW, 8)
    for n in range(4):
        table.upsert(rows([1, 2, 3 + n], f"v{n}_", 25 + n))
    table.call("run_clean", "clean_policy => 'KEEP_LATEST_COMMITS', retain_commits => 1")
    table.upsert(rows([4], "last", 50))


ARCHIVING = {
    "hoodie.archive.automatic": "true",
    "hoodie.clean.automatic": "true",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
    "hoodie.clean.commits.retained": "2",
    "hoodie.clean.max.commits": "1",
}


def build_archived(kind: str, version: int, table: Table) -> None:
    """Many commits, most of which end in the archived timeline."""
    extra = dict(ARCHIVING)
    if kind == MOR:
        extra |= {"hoodie.compact.inline.max.delta.commits": "2"}
    start(table, kind, version, extra)
    for n in range(13):
        table.upsert(rows([1, 2 + n % 3, 5 + n % 2], f"v{n}_", 25 + n))


for _kind, _version, _name in ((COW, 9, "cow_v9"), (COW, 8, "cow_v8"), (MOR, 8, "mor_v8"), (MOR, 9, "mor_v9")):
    add(
        f"{_name}_archived",
        f"{_name}: archived timeline with manifests; instants of visible files are archived",
        partial(build_archived, _kind, _version),
    )


@recipe("mor_v9_archived_replace", "MOR v9: archived timeline with replacecommits and compactions in the history")
def archived_replace(table: Table) -> None:
    """Insert overwrite and inline compactions, all later archived."""
    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"}
    start(table, MOR, 9, {**ARCHIVING, **inline})
    table.write("insert_overwrite", rows([21, 23], "over", 20))
    for n in range(12):
        table.upsert(rows([21, 2 + n % 3 * 2], f"v{n}_", 25 + n))


def build_savepoint(kind: str, version: int, table: Table) -> str:
    """A savepoint in the middle of the history; return its time."""
    start(table, kind, version)
    saved = table.upsert(rows([1, 2], "saved", 25))
    table.call("create_savepoint", f"commit_time => '{saved}'")
    table.upsert(rows([1, 3], "after", 30))
    return saved


def build_saved(kind: str, table: Table) -> None:
    """A table with a savepoint and nothing else."""
    build_savepoint(kind, 9, table)


for _kind, _name in ((COW, "cow_v9"), (MOR, "mor_v9")):
    add(f"{_name}_savepoint", f"{_name}: a savepoint and a write after it", partial(build_saved, _kind))


def build_restored(kind: str, version: int, table: Table) -> None:
    """Back to the savepoint, then another write."""
    saved = build_savepoint(kind, version, table)
    table.upsert(rows([12], "lost", 30))
    table.call("rollback_to_savepoint", f"instant_time => '{saved}'")
    table.upsert(rows([1, 4], "restored", 28))


for _kind, _version, _name in ((COW, 9, "cow_v9"), (MOR, 8, "mor_v8"), (MOR, 9, "mor_v9")):
    add(
        f"{_name}_restored",
        f"{_name}: restored to a savepoint, then written",
        partial(build_restored, _kind, _version),
    )


def build_rolled_back(kind: str, table: Table) -> None:
    """The last commit is rolled back by the procedure, then another write."""
    start(table, kind, 9, LISTED_ROLLBACK)
    table.upsert(rows([1, 2], "kept", 25))
    undone = table.upsert(rows([1, 3, 11], "undone", 30))
    table.call("rollback_to_instant", f"instant_time => '{undone}'")
    table.upsert(rows([3, 4], "later", 26))


def build_failed(kind: str, version: int, table: Table) -> None:
    """A failed write that the next writer rolled back."""
    start(table, kind, version, LISTED_ROLLBACK)
    table.uncommit(table.upsert(rows([1, 3, 11], "failed", 30)))
    table.upsert(rows([3, 4], "later", 26))


def build_inflight(kind: str, version: int, table: Table) -> None:
    """A write that never completed: its files are there, its instant is inflight."""
    start(table, kind, version)
    table.upsert(rows([1, 2], "kept", 25))
    table.uncommit(table.upsert(rows([1, 3, 11], "uncommitted", 30)))


for _kind, _version, _name in ((COW, 9, "cow_v9"), (MOR, 8, "mor_v8"), (MOR, 9, "mor_v9")):
    if _version == 9:
        add(f"{_name}_rolled_back", f"{_name}: a completed commit rolled back", partial(build_rolled_back, _kind))
    add(
        f"{_name}_failed_write",
        f"{_name}: a failed write rolled back by the next",
        partial(build_failed, _kind, _version),
    )
    add(f"{_name}_inflight", f"{_name}: an uncommitted write left behind", partial(build_inflight, _kind, _version))
