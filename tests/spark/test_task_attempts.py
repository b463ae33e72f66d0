"""Tasks that fail after their files are written, processes that are killed, and doubles of slow tasks: no row twice, no file too many."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

import tidelake as tl
from model.deep import IS_DEEP
from spark.attempts_job import HEARTBEAT_MS
from spark.standalone import standalone
from tidelake.errors import ConflictError
from tidelake.format.names import parse_base_name, parse_log_name
from tidelake.storage import open_storage
from tidelake.timeline import TimelineReader

pytestmark = pytest.mark.spark
JOB = Path(__file__).with_name("attempts_job.py")
SCHEMA = "id bigint, v string, ts bigint, day string"
TYPES = ("MERGE_ON_READ", "COPY_ON_WRITE")
VICTIMS, WHENS = ("worker", "executor", "driver"), ("none", "one", "all")
Kill = tuple[str, str, str]


def kills() -> list[Kill]:
    """Who is killed, when, over a table of which type: a hundred times, or each once."""
    draw = random.SystemRandom()
    once = [(victim, draw.choice(WHENS), draw.choice(TYPES)) for victim in VICTIMS]
    return (list(product(VICTIMS, WHENS, TYPES)) * 6)[:100] if IS_DEEP else once


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A master and two workers."""
    with standalone(tmp_path_factory.mktemp("cluster")) as master:
        yield master


def make(path: Path, table_type: str) -> tl.Table:
    made = tl.create_table(str(path), SCHEMA, partition_by="day", ordering_fields="ts", table_type=table_type)
    old = range(0, 60, 3)
    made.insert(pa.table({"id": old, "v": ["old"] * 20, "ts": [1] * 20, "day": [f"d{i % 2}" for i in old]}))
    return made


def files_of(table: tl.Table, instant: str) -> set[str]:
    """The data files on storage that carry an instant."""
    root = Path(table.path.removeprefix("file://"))
    found = (p for p in root.rglob("*") if ".hoodie" not in p.relative_to(root).parts)
    named = {str(p.relative_to(root)): parse_base_name(p.name) or parse_log_name(p.name) for p in found}
    return {path for path, name in named.items() if name is not None and name.instant == instant}


def run_job(master: str, table: tl.Table, folder: Path, wrong: str, when: str) -> tuple[int, set[str]]:
    """An upsert whose first attempts go wrong: its exit code, and what these attempts wrote."""
    flags = folder / "flags"
    flags.mkdir()
    done = subprocess.run(
        [sys.executable, str(JOB), master, table.path, str(flags), wrong, when],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-3000:]
    assert any(flags.iterdir()), "no attempt went wrong"
    return done.returncode, {line for flag in flags.iterdir() for line in flag.read_text().splitlines()}


def rows_of(table: tl.Table) -> list[dict[str, object]]:
    return table.scan(columns=["id", "v"]).to_arrow().sort_by("id").to_pylist()


def check_last_write(table: tl.Table, wasted: set[str]) -> None:
    """It has every row once, and the files on storage that carry its instant are those it names."""
    last = table.timeline.completed_writes[-1]
    stats = TimelineReader(open_storage(table.path), table.config).commit(last).stats
    assert files_of(table, last.requested_time) == {stat.path for stat in stats}
    assert not wasted & {stat.path for stat in stats}
    assert rows_of(table) == [
        {"id": i, "v": "new" if i < 40 else "old"} for i in sorted({*range(40), *range(0, 60, 3)})
    ]
    assert not table.timeline.pending


@pytest.mark.parametrize(
    ("wrong", "master", "table_type"),
    [
        ("error", "local[2,4]", "COPY_ON_WRITE"),
        ("worker", "local[2,4]", "MERGE_ON_READ"),
        ("double", "local[2]", "COPY_ON_WRITE"),
    ],
)
def test_attempts_that_go_wrong_leave_no_row_twice_and_no_file(
    wrong: str, master: str, table_type: str, tmp_path: Path
) -> None:
    """Each task's first attempt goes wrong with its files on storage: the commit names all files that are left."""
    table = make(tmp_path / "t", table_type)
    _, wasted = run_job(master, table, tmp_path, wrong, "all")
    assert wasted
    check_last_write(table, wasted)


@pytest.mark.parametrize("table_type", TYPES if IS_DEEP else TYPES[:1])
def test_doubles_that_spark_starts_of_slow_tasks_leave_no_row_twice_and_no_file(
    table_type: str, cluster: str, tmp_path: Path
) -> None:
    """Speculation on a real cluster: the first attempt has written its files and sleeps, and Spark takes another's answer."""
    table = make(tmp_path / "t", table_type)
    _, wasted = run_job(cluster, table, tmp_path, "slow", "all")
    assert wasted
    check_last_write(table, wasted)


@pytest.mark.parametrize(("killed", "when", "table_type"), kills())
def test_processes_of_a_cluster_that_are_killed_lose_and_double_nothing(
    killed: str, when: str, table_type: str, cluster: str, tmp_path: Path
) -> None:
    """kill -9 of each task's Python worker or executor: Spark goes on. Of the driver: the table is as before, and the next writer clears up."""
    table = make(tmp_path / "t", table_type)
    before = rows_of(table)
    code, wasted = run_job(cluster, table, tmp_path, killed, when)
    if killed != "driver":
        assert code == 0
        check_last_write(table, wasted)
        return
    assert code == -signal.SIGKILL
    assert rows_of(table) == before
    (dead,) = (instant.requested_time for instant in table.timeline.pending)
    time.sleep(HEARTBEAT_MS * 3 / 1000)
    options = {"hoodie.client.heartbeat.interval_in_ms": str(HEARTBEAT_MS)}
    more = pa.table({"id": [100], "v": ["more"], "ts": [1], "day": ["d0"]})
    tl.open_table(table.path, options=options).insert(more)
    assert rows_of(table) == [*before, {"id": 100, "v": "more"}]
    assert not table.timeline.pending
    assert not files_of(table, dead)


def test_task_that_ends_after_its_write_removes_its_files(tmp_path, monkeypatch) -> None:
    """A double that is still at work when the write commits leaves nothing behind: no file, and an error in its own log."""
    from tidelake._clock import SystemClock
    from tidelake.locking.lock import NoLock
    from tidelake.query import TableSource
    from tidelake.spark import write
    from tidelake.write.context import FileOptions
    from tidelake.write.job import WriteRequest, context_of, finish, start_of
    from tidelake.write.prepare import prepare
    from tidelake.write.transaction import Transaction

    table = make(tmp_path / "t", "MERGE_ON_READ")
    storage = open_storage(table.path)
    request = WriteRequest("upsert", {}, FileOptions())
    source = TableSource.load(storage)
    transaction = Transaction(start_of(source, SystemClock(), request), NoLock())
    user = pa.schema([field for field in table.schema if not field.name.startswith("_hoodie")])
    context = context_of(source, user, transaction, request)
    rows = prepare(pa.table({"id": [0, 1], "v": ["n", "n"], "ts": [2, 2], "day": ["d0", "d1"]}), user, table.config)
    done = write._write_task(storage, context, transaction.start, request, rows, None)
    stats, paths = tuple(done.stats), done.partitions
    commit = finish(storage, transaction, context, request, stats, paths, {}, done.rejected, done.missed)
    before = files_of(table, commit.requested_time)
    monkeypatch.setattr(write, "_attempt", lambda: ("0-0-1", 1))
    with pytest.raises(ConflictError, match="ended before this task"):
        write._write_task(storage, context, transaction.start, request, rows, None)
    assert files_of(table, commit.requested_time) == before == {stat.path for stat in done.stats}
