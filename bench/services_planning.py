"""Planning for what changed: tables of many partitions, ten of which were touched. No rows are read.

Storage operations are counted on their way to the disk. A listing of the whole table is one of them, though it walks every
folder here, and takes a request for each 1,000 files on an object store.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import tidelake as tl
from bench.measure import Results, apache_hudi, timed_in_turns
from bench.partitioned import make_partitioned
from tidelake.filegroup import FileSlice, LogFile, TableState, build_state, load_state, save_state
from tidelake.filegroup.slices import BaseFile
from tidelake.filegroup.state_codec import decode_state, encode_state
from tidelake.filegroup.state_store import STATE_DIR
from tidelake.filegroup.state_table import Facts, PartitionState
from tidelake.format.names import BaseFileName, LogFileName
from tidelake.query import TableSource
from tidelake.services.report import ServicePlan
from tidelake.storage import open_storage
from tidelake.testing import FaultyStorage

T = TypeVar("T")
SIZES = (100, 1_000, 10_000, 100_000)
TOUCHED = 10
COMMITS = 10
HUDI_SIZE = 1_000
"""How many partitions Apache Hudi plans here: a full plan of its takes seconds for as few."""


def planning(results: Results, folder: Path, sizes: tuple[int, ...] = SIZES) -> None:
    """Slices of a whole table, from its state and from a listing, and what the state itself costs."""
    print(f"\nplanning: {COMMITS} delta commits of {TOUCHED} partitions each since the state was stored")
    plans: dict[int, float] = {}
    for size in sizes:
        plans[size] = _compaction(results, folder / f"c{size}", size)
        _table_state(results, folder / f"p{size}", size)
    few, many = min(sizes), max(sizes)
    results.report(f"plan of a compaction, {many:,} partitions / {few:,}", plans[many], plans[few], 1.5)
    _large_state()


def _compaction(results: Results, path: Path, size: int) -> float:
    """Ten of so many partitions have logs: the plan, whatever else there is; a full one beside it; and Apache Hudi's."""
    made = make_partitioned(path, size)
    made.touch(made.partitions[:TOUCHED])
    storage = FaultyStorage(open_storage(str(path)))

    def plan(**options: str) -> int:
        table = tl.open_table(str(path), storage=storage)
        found = table.compact(dry_run=True, options={k.replace("_", "."): v for k, v in options.items()})
        assert isinstance(found, ServicePlan)
        assert sorted({op.partition_path for op in found.operations}) == made.partitions[:TOUCHED]
        return len(found.operations)

    def full() -> int:
        return plan(hoodie_table_services_incremental_enabled="false")

    (listing,) = timed_in_turns((full,), 3)
    source = TableSource.load(storage)
    save_state(storage, build_state(storage, source.config, source.timeline, source.reader))
    incremental, from_state = timed_in_turns((plan, full), 5)
    storage.reset()
    plan()
    listed = storage.count("list_dir", prefix="day=")
    print(
        f"  {size:,} partitions: plan {incremental:.4f} s with {storage.operations} storage operations, {listed} partitions "
        f"listed; full plan {from_state:.3f} s from the table state, {listing:.3f} s from a listing",
        flush=True,
    )
    theirs = apache_hudi("plan", str(path)) if size == HUDI_SIZE else None
    if theirs is not None:
        results.report(
            f"plan of a compaction, {size:,} partitions / Apache Hudi's", incremental, theirs["seconds"], 0.1
        )
    return incremental


def _table_state(results: Results, path: Path, size: int) -> None:
    table = make_partitioned(path, size)
    storage = FaultyStorage(open_storage(str(path)))
    table.touch(table.partitions[:TOUCHED])
    source = TableSource.load(storage)
    state, took = _timed(lambda: build_state(storage, source.config, source.timeline, source.reader))
    _, saving = _timed(lambda: save_state(storage, state))
    (stored,) = storage.list_dir(STATE_DIR)[1]
    print(f"  {size:,} partitions: built in {took:.2f} s, stored in {saving:.2f} s, {stored.size_bytes:,} bytes")
    for _ in range(COMMITS):
        table.touch(table.partitions[:TOUCHED])

    def load() -> TableState:
        now = TableSource.load(storage)
        found = load_state(storage, now.config, now.timeline, now.reader)
        assert found is not None
        return found

    def planned() -> list[FileSlice]:
        return list(TableSource.load(storage).view().slices())

    def listed() -> list[FileSlice]:
        return list(TableSource.load(storage).view().listed_slices())

    aim, repeats = (1.5, 3) if size < 1_000 else (0.5, 1 if size >= 100_000 else 3)
    results.compare(f"{size:,} partitions: all slices, state / listing", planned, listed, aim, repeats)
    (loading,) = timed_in_turns((load,), 3)
    operations = []
    found = []
    for run in (planned, listed):
        storage.reset()
        found.append(sorted(map(repr, run())))
        operations.append(storage.operations)
    assert found[0] == found[1]
    print(
        f"    loaded and folded in {loading:.3f} s; storage operations: {operations[0]:,} from the state, "
        f"{operations[1]:,} by listing"
    )


def _large_state() -> None:
    """A million files, made in memory."""
    state = _made_state(100_000, 5)
    data, encoding = _timed(lambda: encode_state(state))
    (loading,) = timed_in_turns((lambda: decode_state(data, state.identity),), 5)
    loaded = decode_state(data, state.identity)
    names = loaded.partitions()[::10_000]
    (few,) = timed_in_turns((lambda: list(loaded.slices_of(names)),), 5)
    print(
        f"  1,000,000 files in 100,000 partitions: {len(data):,} bytes, encoded in {encoding:.2f} s, "
        f"loaded in {loading:.3f} s, slices of {len(names)} partitions in {few:.3f} s"
    )


def _made_state(partitions: int, groups: int) -> TableState:
    """A state with a base file and a log in every file group."""
    instant, completion = "20260101000000000", "20260101000000500"
    changed = {}
    for number in range(partitions):
        path = f"day=d{number:06d}"
        slices, facts = [], {}
        for group in range(groups):
            file_id = (
                f"{hash((number, group)) & (1 << 64) - 1:016x}-4000-8000-{hash((group, number)) & (1 << 48) - 1:012x}-0"
            )
            base = BaseFileName(file_id, f"{number}-0-0", instant)
            log = LogFileName(file_id, completion, 1, f"{number}-0-0")
            size = 1_000_000 + hash((number, group)) % 100_000_000
            files = (BaseFile(f"{path}/{base}", base, size), LogFile(f"{path}/{log}", log, size // 9, size // 9))
            slices.append(FileSlice(path, file_id, instant, files[0], files[1:]))
            facts.update({file.path: Facts(completion, size // 100) for file in files})
        changed[path] = PartitionState(tuple(slices), facts, None)
    return TableState.empty("bench").advanced(completion, instant, changed).compacted()


def _timed(run: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    found = run()
    return found, time.perf_counter() - started
