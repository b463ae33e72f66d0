"""The table state is disposable, kept by writers now and then, and spares full scans their listings."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import tidelake as tl
from model.tables import TableWriter
from small_rows import rows
from tidelake.errors import MissingFileError
from tidelake.filegroup import TableState, build_state, load_state, save_state
from tidelake.filegroup.state_codec import decode_state, encode_state, identity_of
from tidelake.filegroup.state_store import STATE_DIR
from tidelake.format.commit_metadata import WRITER_KEY, CommitMetadata
from tidelake.query import TableSource
from tidelake.storage import Storage
from tidelake.testing import FaultyStorage, ManualClock, MemoryStorage

DDL = "id bigint, name string, ts bigint, day string"
NEVER = {"tidelake.state.turns": "0"}


def make(clock: ManualClock, name: str = "t", **options: object) -> tl.Table:
    return tl.create_table(
        "memory",
        DDL,
        name=name,
        record_key="id",
        partition_by="day",
        ordering_fields="ts",
        storage=MemoryStorage(clock=clock),
        clock=clock,
        **{"options": NEVER, **options},  # type: ignore[arg-type]
    )


def storage_of(table: tl.Table) -> MemoryStorage:
    return table._source.storage  # type: ignore[return-value]


def reopened(table: tl.Table, storage: Storage | None = None, **options: str) -> tl.Table:
    chosen = {key.replace("_", "."): value for key, value in options.items()} or NEVER
    return tl.open_table("memory", storage=storage or storage_of(table), clock=table._clock, options=chosen)


def many(count: int, start: int = 0) -> pa.Table:
    """One row in each of so many partitions."""
    numbers = range(start, start + count)
    return rows(*((n, "n", n) for n in numbers)).set_column(3, "day", pa.array([f"d{n:03d}" for n in numbers]))


def loaded(storage: Storage) -> TableState | None:
    source = TableSource.load(storage)
    return load_state(storage, source.config, source.timeline, source.reader)


def save(storage: Storage) -> TableState:
    source = TableSource.load(storage)
    state = load_state(storage, source.config, source.timeline, source.reader)
    state = state or build_state(storage, source.config, source.timeline, source.reader)
    save_state(storage, state)
    return state


def states(storage: Storage) -> list[str]:
    return [info.path for info in storage.list_dir(STATE_DIR)[1]]


def listed(storage: Storage) -> list[str]:
    return sorted(repr(s) for s in TableSource.load(storage).view().listed_slices())


def shown(state: TableState | None) -> list[str]:
    assert state is not None
    return sorted(map(repr, state.slices_of()))


def written() -> tuple[ManualClock, tl.Table, MemoryStorage]:
    clock = ManualClock()
    table = make(clock)
    table.upsert(rows((1, "a", 1), (2, "b", 2), (3, "c", 3)))
    clock.advance(1)
    table.upsert(rows((1, "a2", 4), (5, "e", 5)))
    return clock, table, storage_of(table)


def archive_first(table: tl.Table) -> None:
    first = table.timeline.completed_writes[0]
    archiver = TableWriter(storage_of(table), rows().schema, table.config.properties)
    archiver.archive([(first.requested_time, first.completion_time or "", first.action)])
    archiver.forget(first.requested_time)


def test_state_damaged_at_any_place_is_noticed_and_made_again() -> None:
    """Cut anywhere or with one bit flipped, a state is not believed; the one before it is, and then none."""
    _, _, storage = written()
    save(storage)
    (path,) = states(storage)
    whole = storage.get(path)
    identity = identity_of(TableSource.load(storage).config)
    assert shown(decode_state(whole, identity)) == listed(storage)
    places = [*range(0, len(whole), max(1, len(whole) // 60)), len(whole) - 1]
    for at in places:
        flipped = bytearray(whole)
        flipped[at] ^= 1 << (at % 8)
        for damaged in (whole[:at], bytes(flipped)):
            storage.put(path, damaged)
            assert loaded(storage) is None, at
    save(storage)
    assert shown(loaded(storage)) == listed(storage)
    assert len(states(storage)) == 1


def test_state_damaged_the_one_before_is_continued() -> None:
    """Readers take the newest that opens."""
    clock, table, storage = written()
    save(storage)
    clock.advance(1)
    table.upsert(rows((1, "a3", 9)))
    save(storage)
    old, new = states(storage)
    storage.put(new, storage.get(new)[:-1])
    state = loaded(storage)
    assert shown(state) == listed(storage)
    storage.delete(old)
    assert loaded(storage) is None


def test_state_deleted_costs_nothing_but_time() -> None:
    """Scans, writes and plans go on without."""
    _, table, storage = written()
    before = table.scan().to_arrow()
    save(storage)
    for path in states(storage):
        storage.delete(path)
    assert loaded(storage) is None
    assert reopened(table).scan().to_arrow().equals(before)


def test_state_of_another_table_is_not_believed() -> None:
    """Neither of one that is configured differently, nor of one that only has other writes, nor under another name."""
    clock, table, storage = written()
    clock.advance(100)
    twin = make(clock)
    twin.upsert(rows((7, "z", 7)))
    other = make(clock, "other")
    other.upsert(rows((8, "y", 8)))
    for stranger in (twin, other):
        save(storage_of(stranger))
        (path,) = states(storage_of(stranger))
        storage.put(path, storage_of(stranger).get(path))
        assert loaded(storage) is None
        assert table.scan().count() == 4
    save(storage)
    mine = min(states(storage))
    assert shown(loaded(storage)) == listed(storage)
    storage.put(f"{STATE_DIR}/20990101000000000.state", storage.get(mine))
    storage.delete(mine)
    assert loaded(storage) is None


def test_state_of_an_older_table_of_the_same_kind_is_not_believed() -> None:
    """Its archived writes look like ours, but not one of its active writes is known here."""
    clock = ManualClock()
    twin = make(clock)
    twin.upsert(rows((7, "z", 7)))
    clock.advance(1)
    twin.upsert(rows((8, "y", 8)))
    archive_first(twin)
    save(storage_of(twin))
    clock.advance(100)
    table = make(clock)
    table.upsert(rows((1, "a", 1)))
    (path,) = states(storage_of(twin))
    storage_of(table).put(path, storage_of(twin).get(path))
    assert loaded(storage_of(table)) is None


def test_state_of_another_version_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a later Tidelake wrote is passed over."""
    _, _, storage = written()
    save(storage)
    monkeypatch.setattr("tidelake.filegroup.state_codec.VERSION", 99)
    assert loaded(storage) is None


def test_state_two_are_kept_also_beside_damaged_ones_of_the_future() -> None:
    """Old states go; a file that nobody can open never keeps a good one from staying."""
    clock, table, storage = written()
    for future in ("20990101000000000", "20990102000000000"):
        storage.put(f"{STATE_DIR}/{future}.state", b"nonsense")
    for number in range(4):
        clock.advance(1)
        table.upsert(rows((number, "x", 100 + number)))
        state = save(storage)
        assert shown(loaded(storage)) == listed(storage)
        assert len(states(storage)) == 2
        assert f"{STATE_DIR}/{state.point}.state" in states(storage)


def test_state_that_is_stored_is_not_stored_again() -> None:
    """A pass of a service that finds nothing new writes nothing."""
    _, _, storage = written()
    save(storage)
    counting = FaultyStorage(storage)
    state = loaded(counting)
    assert state is not None
    save_state(counting, state)
    assert counting.count("put_if_absent") + counting.count("put") == 0
    assert counting.count("list_dir", prefix=STATE_DIR) == 1
    assert counting.count("list_dir", prefix="d") == 0


def test_state_with_our_mark_is_folded_without_a_listing_and_without_it_by_one() -> None:
    """Our statistics are exact; of others' writes only the partitions that they touched are listed."""
    clock, table, storage = written()
    save(storage)
    clock.advance(1)
    commit = table.upsert(rows((1, "a3", 9)))
    counting = FaultyStorage(storage)
    assert shown(loaded(counting)) == listed(storage)
    assert counting.count("list_dir", prefix="d") == 0
    _without_mark(storage, commit)
    counting.reset()
    assert shown(loaded(counting)) == listed(storage)
    assert [each.path for each in counting.journal if each.verb == "list_dir" and each.path.startswith("d")] == [
        "day=d1"
    ]


def _without_mark(storage: Storage, commit: tl.Commit) -> None:
    """As if Apache Hudi had written it, copying our metadata from an earlier commit."""
    source = TableSource.load(storage)
    instant = source.timeline.by_time[commit.requested_time]
    metadata: CommitMetadata = source.reader.commit(instant)
    extra = {**(metadata.extra_metadata or {}), WRITER_KEY: "20200101000000000"}
    changed = replace(metadata, extra_metadata=extra).encode(bytes(16))
    storage.put(f"{source.config.timeline_dir}/{instant.file_name}", changed)


def test_state_knows_rows_event_times_and_last_writes() -> None:
    """What services and TTL ask of partitions and files is there, without opening one."""
    clock = ManualClock()
    table = make(clock, options={**NEVER, "hoodie.payload.event.time.unit": "ms"}, event_time_field="ts")
    storage = storage_of(table)
    first = table.upsert(rows((1, "a", 10), (3, "c", 30), (2, "b", 20)))
    save(storage)
    clock.advance(1)
    second = table.upsert(rows((1, "a2", 40)))
    for state in (loaded(storage), save(storage), loaded(storage)):
        assert state is not None
        files = [
            (row["partition"], row["version"], row["rows"], row["min_event_ms"], row["max_event_ms"], row["completion"])
            for row in state.file_statistics().to_pylist()
        ]
        assert files == [
            ("day=d0", None, 1, 20, 20, first.completion_time),
            ("day=d1", None, 2, 10, 30, first.completion_time),
            ("day=d1", "1", 1, 40, 40, second.completion_time),
        ]
        lasts = [(row["last_requested"], row["last_is_exact"]) for row in state.statistics().to_pylist()]
        assert lasts == [(first.requested_time, True), (second.requested_time, True)]


def test_state_last_write_goes_back_when_a_write_is_undone() -> None:
    """The last write of a partition is one that stands."""
    clock, table, storage = written()
    earlier = [row["last_requested"] for row in save(storage).statistics().to_pylist()]
    clock.advance(1)
    commit = table.upsert(rows((1, "a3", 9)))
    assert commit.requested_time in [row["last_requested"] for row in save(storage).statistics().to_pylist()]
    table.rollback(commit.requested_time)
    state = loaded(storage)
    assert state is not None
    assert [row["last_requested"] for row in state.statistics().to_pylist()] == earlier


def test_writer_keeps_the_state_at_its_turn_and_others_do_nothing() -> None:
    """Every n turns of the head a state is stored; the writes between do not look at it."""
    clock = ManualClock()
    table = make(clock, options={"tidelake.state.turns": "3"})
    counting = FaultyStorage(storage_of(table))
    table = reopened(table, counting, tidelake_state_turns="3")
    touched = []
    for number in range(1, 8):
        clock.advance(1)
        counting.reset()
        table.upsert(rows((number, "x", number)))
        touched.append(counting.count(prefix=STATE_DIR) > 0)
        assert counting.count("list_files", prefix="d") == 0
    assert touched == [False, False, True, False, False, True, False]
    assert shown(loaded(counting.inner)) == listed(counting.inner)


def test_write_of_many_files_stores_the_state_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a load knows of its files is stored while it is at hand; a small write stores nothing."""
    monkeypatch.setattr("tidelake.write.transaction._MANY_FILES", 5)
    table = make(ManualClock())
    on = {"tidelake_state_turns": "1000"}
    reopened(table, **on).upsert(many(4))
    assert states(storage_of(table)) == []
    reopened(table, **on).upsert(many(5, start=10))
    assert len(states(storage_of(table))) == 1
    assert shown(loaded(storage_of(table))) == listed(storage_of(table))
    reopened(table).upsert(many(6, start=20))
    assert len(states(storage_of(table))) == 1, "it is switched off"


@pytest.mark.parametrize("is_stored", [False, True])
def test_compaction_of_an_event_time_table_lists_what_it_takes_alone(is_stored: bool) -> None:
    """What its commit stores of completion and freshness comes from what writes said, not from a listing of the table."""
    table = make(ManualClock(), event_time_field="ts", options={**NEVER, "hoodie.payload.event.time.unit": "ms"})
    table.bulk_insert(many(20))
    reopened(table).upsert(rows((3, "x", 50)).set_column(3, "day", pa.array(["d003"])))
    if is_stored:
        save(storage_of(table))
    counting = FaultyStorage(storage_of(table))
    reopened(table, counting).compact()
    paths = {each.path for each in counting.journal if each.verb.startswith("list")}
    assert {path for path in paths if not path.startswith(".hoodie")} == {"day=d003"}
    told = reopened(table).freshness()
    assert (told.ro.completion_ms, told.ro.freshness_ms) == (50, 50)


def test_writer_that_cannot_store_the_state_has_written_all_the_same() -> None:
    """Whatever happens to the state, the write is true and says so."""

    class Full(FaultyStorage):
        def put_if_absent(self, path: str, data: bytes) -> str:
            if path.startswith(STATE_DIR):
                raise tl.UnavailableError("no space is left", file=path)
            return super().put_if_absent(path, data)

    clock = ManualClock()
    table = make(clock)
    writer = reopened(table, Full(storage_of(table)), tidelake_state_turns="1")
    writer.upsert(rows((1, "a", 1)))
    assert writer.scan().count() == 1
    assert states(storage_of(table)) == []


def test_writer_does_not_list_a_table_to_make_its_first_state() -> None:
    """Only what the active commits tell is made into a first state: a table with a history waits for a service."""
    clock, table, storage = written()
    archive_first(table)
    counting = FaultyStorage(storage)
    reopened(table, counting, tidelake_state_turns="1").upsert(rows((1, "z", 50)))
    assert states(storage) == []
    save(storage)
    clock.advance(1)
    reopened(table, counting, tidelake_state_turns="1").upsert(rows((1, "z2", 51)))
    assert len(states(storage)) == 2
    assert shown(loaded(storage)) == listed(storage)


def wide() -> tuple[ManualClock, tl.Table, MemoryStorage]:
    clock = ManualClock()
    table = make(clock)
    table.bulk_insert(many(70))
    save(storage_of(table))
    clock.advance(1)
    table.upsert(many(2))
    return clock, table, storage_of(table)


def folders(counting: FaultyStorage) -> set[str]:
    """What was listed beside our own folders."""
    lists = [each.path for each in counting.journal if each.verb in ("list_dir", "list_files")]
    return {path for path in lists if not path.startswith(".hoodie")}


def test_scan_of_many_partitions_starts_from_the_state() -> None:
    """A full scan lists no partition; one that names a partition lists that one alone, as before."""
    _, table, storage = wide()
    counting = FaultyStorage(storage)
    reader = reopened(table, counting)
    assert reader.scan().count() == 70
    assert folders(counting) == set()
    counting.reset()
    assert reader.scan(filter="day >= 'd060'").count() == 10
    assert folders(counting) == set()
    counting.reset()
    assert reader.scan(filter="day = 'd001'").count() == 1
    assert folders(counting) == {"day=d001"}


def test_scan_of_an_earlier_time_does_not_use_the_state() -> None:
    """The state is of now."""
    _, table, storage = wide()
    first = table.timeline.completed_writes[0]
    counting = FaultyStorage(storage)
    assert reopened(table, counting).scan(as_of=first.requested_time).count() == 70
    assert counting.count(prefix=STATE_DIR) == 0
    assert folders(counting) != set()


@pytest.mark.parametrize("kind", ["parquet", "log"])
def test_scan_from_the_state_a_missing_file_is_noticed_when_it_is_opened(kind: str) -> None:
    """Never fewer rows: the file and its instant are named."""
    _, table, storage = wide()
    lost = next(
        info.path
        for info in storage.list_files()
        if not info.path.startswith(".hoodie")
        and (".log." in info.path if kind == "log" else info.path.endswith("parquet"))
    )
    storage.delete(lost)
    scan = reopened(table).scan()
    assert len(scan.plan.slices) == 70
    with pytest.raises(MissingFileError) as error:
        scan.to_arrow()
    assert error.value.file == lost
    assert error.value.instant in lost


def test_scan_from_the_state_a_log_cut_short_is_noticed_when_it_is_read() -> None:
    """A log that has lost its last block is not fewer rows."""
    _, table, storage = wide()
    log = next(info.path for info in storage.list_files() if ".log." in info.path)
    storage.put(log, b"")
    with pytest.raises(tl.CorruptError) as error:
        reopened(table).scan().to_arrow()
    assert error.value.file == log


def test_state_after_a_compaction_is_folded_from_its_statistics() -> None:
    """A compaction of ours has our mark: no listing; and it is no write, so that partitions look no fresher."""
    clock = ManualClock()
    table = make(clock)
    table.bulk_insert(many(5))
    clock.advance(1)
    table.upsert(many(2))
    storage = storage_of(table)
    save(storage)
    (before,) = states(storage)
    kept = storage.get(before)
    compacted = reopened(table).compact()
    assert compacted is not None
    for path in states(storage):
        storage.delete(path)
    storage.put(before, kept)
    counting = FaultyStorage(storage)
    state = loaded(counting)
    assert state is not None
    assert folders(counting) == set()
    assert shown(state) == listed(storage)
    assert all(s.base is not None and not s.logs for s in state.slices_of())
    assert compacted.requested_time not in [row["last_requested"] for row in state.statistics().to_pylist()]


def test_state_encoded_twice_is_the_same() -> None:
    """Two processes that store the same point store the same bytes."""
    _, _, storage = written()
    source = TableSource.load(storage)
    one = build_state(storage, source.config, source.timeline, source.reader)
    assert encode_state(one) == encode_state(decode_state(encode_state(one), one.identity))


def test_state_group_that_was_replaced_while_its_compaction_waited_does_not_come_back() -> None:
    """The compaction completes after the overwrite, and its base file is nobody's: in a listing, and in the state."""
    clock = ManualClock()
    table = make(clock)
    table.upsert(rows((1, "a", 1)))
    table.upsert(rows((1, "b", 2)))
    instant = table.schedule_compaction()
    table.insert_overwrite(rows((1, "c", 3)))
    save(storage_of(table))
    table.run_compaction(instant)
    for info in states(storage_of(table))[1:]:
        storage_of(table).delete(info)
    source = TableSource.load(storage_of(table))
    stored = load_state(storage_of(table), source.config, source.timeline, source.reader)
    assert shown(stored) == listed(storage_of(table))
    assert len(listed(storage_of(table))) == 1
