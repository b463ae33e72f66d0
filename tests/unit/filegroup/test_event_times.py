"""Event times of files: from commits, from the history, or by reading them; never taken for "none" when not known."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from tidelake.filegroup import LogFile
from tidelake.filegroup.event_times import CACHE_FILE, EventRange
from tidelake.filegroup.slices import data_file
from tidelake.format.commit_metadata import CommitMetadata
from tidelake.query import TableSource
from tidelake.query.event_column import event_times_of
from tidelake.timeline import parse_instant
from unit.services.hand_made import SYNC, archive
from unit.services.service_tables import World

UTC = {"hoodie.table.timeline.timezone": "UTC"}
EVENT = {"hoodie.payload.event.time.field": "ts", "hoodie.payload.event.time.unit": "s", **UTC}


def rows(*entries: tuple[int, int | None]) -> pa.Table:
    ids = [e[0] for e in entries]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"n{i}" for i in ids],
            "ts": pa.array([e[1] for e in entries], pa.int64()),
            "day": ["d"] * len(ids),
        }
    )


def world(**how: object) -> World:
    made = World(EVENT, **how)
    made.open().insert(rows((1, 100), (2, 200)))
    return made


def ranges(made: World) -> dict[str, EventRange]:
    source = TableSource.load(made.storage)
    return event_times_of(source).of(source.view().slices())


def log_ranges(made: World) -> list[EventRange]:
    return [found for path, found in sorted(ranges(made).items()) if ".log." in path]


def forget(made: World, instant: str, *, is_ours: bool = False) -> None:
    """Make a commit one of a writer that keeps no statistics of event times."""
    source = TableSource.load(made.storage)
    done = source.timeline.by_time[instant]
    commit = source.reader.commit(done)
    stats = {
        path: tuple(replace(stat, min_event_time=None, max_event_time=None) for stat in some)
        for path, some in (commit.partition_to_write_stats or {}).items()
    }
    extra = commit.extra_metadata if is_ours else {"schema": (commit.extra_metadata or {})["schema"]}
    bare: CommitMetadata = replace(commit, partition_to_write_stats=stats, extra_metadata=extra)
    made.storage.put(f"{source.config.timeline_dir}/{done.file_name}", bare.encode(SYNC))


def test_from_commits_and_from_the_history() -> None:
    made = world()
    first = made.open().timeline.completed_writes[0].requested_time
    made.clock.advance(1)
    done = made.open().upsert(rows((1, 150), (2, 50)))
    expected = [EventRange(50_000, 150_000)]
    assert log_ranges(made) == expected
    assert EventRange(100_000, 200_000) in ranges(made).values()
    made.open().upsert(rows((1, 300)))
    archive(made, [first, done.requested_time])
    assert log_ranges(made) == [*expected, EventRange(300_000, 300_000)]
    assert EventRange(100_000, 200_000) in ranges(made).values()
    assert not made.storage.exists(CACHE_FILE)


@pytest.mark.parametrize("is_ours", [True, False])
@pytest.mark.parametrize("log_format", ["parquet", "avro"])
def test_without_statistics_the_column_is_read_once(is_ours: bool, log_format: str) -> None:
    made = World({**EVENT, "hoodie.logfile.data.block.format": log_format})
    first = made.open().insert(rows((1, 100), (2, 200)))
    done = made.open().upsert(rows((1, 150), (2, 50)))
    forget(made, done.requested_time, is_ours=is_ours)
    forget(made, first.requested_time, is_ours=is_ours)
    found = ranges(made)
    assert sorted((r.minimum, r.maximum) for r in found.values()) == [(50_000, 150_000), (100_000, 200_000)]
    assert made.storage.exists(CACHE_FILE)
    for path in found:
        made.storage.put(path, b"")  # what is remembered is not read again
    again = [data_file(path, 0) for path in found]
    assert event_times_of(TableSource.load(made.storage)).of_files(f for f in again if f is not None) == found


def test_what_cannot_be_read_is_unknown_with_the_reason() -> None:
    made = world()
    done = made.open().upsert(rows((1, 150)))
    forget(made, done.requested_time)
    source = TableSource.load(made.storage)
    (log,) = [f for s in source.view().slices() for f in s.files if isinstance(f, LogFile)]
    made.storage.put(log.path, b"x" * log.size_bytes)
    (found,) = event_times_of(source).of_files([log]).values()
    assert not found.is_known
    assert "cannot be read" in found.reason
    assert found.may_be_before(0)
    assert found.may_be_from(10**15)
    assert not made.storage.exists(CACHE_FILE)


@pytest.mark.parametrize("remembers", [True, False])
def test_deletes_count(remembers: bool) -> None:
    """By their ordering value; an unconditional one with its commit's time. The column says the same as statistics."""
    made = world()
    made.clock.advance(10)
    conditional = made.open().delete(rows((1, 100)).select(["id", "ts", "day"]))
    unconditional = made.open().delete([2], unconditional=True)
    if not remembers:
        forget(made, conditional.requested_time)
        forget(made, unconditional.requested_time)
    when = parse_instant(unconditional.requested_time, TableSource.load(made.storage).zone)
    assert log_ranges(made) == [EventRange(100_000, 100_000), EventRange(when, when)]


def test_a_table_ordered_by_another_column_counts_deletes_with_their_commit() -> None:
    made = world(ordering_fields="id")
    done = made.open().delete([2])
    when = parse_instant(done.requested_time, TableSource.load(made.storage).zone)
    assert log_ranges(made) == [EventRange(when, when)]


def test_rows_without_an_event_time_are_no_events_and_not_unknown() -> None:
    made = world(ordering_fields="id")
    made.open().upsert(rows((1, None)))
    assert log_ranges(made) == [EventRange(None, None)]
