"""Who sees which files, in tables written by hand, and the failures of our ancestors by name."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake as tl
from model.tables import TableWriter, table_properties, time_of
from tidelake.errors import CorruptError, InvalidError, MissingFileError
from tidelake.filegroup import ViewPoint
from tidelake.format.names import State
from tidelake.format.plans import CompactionOperation, CompactionPlan
from tidelake.format.service_metadata import CleanMetadata
from tidelake.storage import MemoryStorage

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])
FID = "00000000-0000-4000-8000-000000000000-0"
OTHER = "11111111-0000-4000-8000-000000000000-0"


def _writer() -> TableWriter:
    return TableWriter(MemoryStorage(), SCHEMA, table_properties())


def _row(writer: TableWriter, tick: int, key: str = "k") -> dict[str, object]:
    return writer.row(time_of(tick), key, "", id=key, v=tick)


def _base(writer: TableWriter, tick: int, completed: int | None, value: int | None = None, file_id: str = FID) -> None:
    stat = writer.base("", file_id, time_of(tick), [_row(writer, tick if value is None else value)])
    writer.pending(time_of(tick), "deltacommit")
    if completed is not None:
        writer.complete(time_of(tick), time_of(completed), [stat])


def _log(writer: TableWriter, tick: int, completed: int | None) -> None:
    stat = writer.log("", FID, time_of(tick), [_row(writer, tick)])
    writer.pending(time_of(tick), "deltacommit")
    if completed is not None:
        writer.complete(time_of(tick), time_of(completed), [stat])


def _compaction(writer: TableWriter, tick: int, completed: int | None, value: int) -> None:
    plan = CompactionPlan((CompactionOperation(time_of(1), (), None, FID, "", {}),))
    writer.pending(time_of(tick), "compaction", State.INFLIGHT, plan)
    stat = writer.base("", FID, time_of(tick), [_row(writer, value)])
    if completed is not None:
        writer.complete(time_of(tick), time_of(completed), [stat], "commit", "COMPACT")


def _values(writer: TableWriter, **options: object) -> list[int]:
    scan = tl.open_table("memory", storage=writer.storage).scan(columns=["v"], **options)  # type: ignore[arg-type]
    return sorted(scan.to_arrow()["v"].to_pylist())


def test_view_pending_compaction_read_optimised_still_shows_the_old_base() -> None:
    """A file group under pending compaction is not judged empty, though the new base lies there already."""
    writer = _writer()
    _base(writer, 1, 2)
    _log(writer, 3, 4)
    _compaction(writer, 5, None, value=3)
    assert _values(writer, mode="read_optimized") == [1]
    assert _values(writer) == [3]


def test_view_log_completed_after_the_compaction_was_requested_lies_on_top() -> None:
    """7.2 end to end: B was requested before the compaction and completed after it, and wins."""
    writer = _writer()
    _base(writer, 10, 11)
    _log(writer, 12, 13)
    _log(writer, 14, 20)
    _compaction(writer, 16, 18, value=12)
    assert _values(writer) == [14]
    assert _values(writer, mode="read_optimized") == [12]
    assert _values(writer, as_of_completion=time_of(19)) == [12]
    assert _values(writer, as_of_completion=time_of(17)) == [12]
    assert _values(writer, as_of_completion=time_of(12)) == [10]
    assert _values(writer, as_of=time_of(13)) == [12]
    assert _values(writer, as_of=time_of(11)) == [10]
    assert _values(writer, as_of=time_of(9)) == []


def test_view_archived_completion_time_that_is_not_found_is_an_error() -> None:
    """An archived commit missing from the history: its log is neither left out nor applied twice, but named."""
    writer = _writer()
    _base(writer, 1, 2)
    _log(writer, 3, 4)
    _compaction(writer, 5, 6, value=3)
    _log(writer, 7, 8)
    for tick in (1, 3):
        writer.forget(time_of(tick))
    with pytest.raises(CorruptError, match="neither on the timeline nor in the history") as error:
        _values(writer)
    assert error.value.instant == time_of(3)
    writer.archive([(time_of(1), time_of(2), "deltacommit"), (time_of(3), time_of(4), "deltacommit")])
    assert _values(writer) == [7]


def test_view_uncommitted_files_are_invisible_until_completed() -> None:
    """Names decide: a file counts when its instant completed, not before."""
    writer = _writer()
    _base(writer, 1, 2)
    _log(writer, 3, None)
    _base(writer, 5, None, file_id=OTHER)
    assert _values(writer) == [1]
    writer.complete(time_of(3), time_of(6))
    assert _values(writer) == [3]
    writer.complete(time_of(5), time_of(7))
    assert _values(writer) == [3, 5]


def test_view_archived_files_are_visible_and_leftovers_of_active_failures_are_not() -> None:
    """Earlier than the first active instant means committed; the same name later does not."""
    writer = _writer()
    _base(writer, 1, 2)
    _base(writer, 9, 10, file_id=OTHER)
    writer.forget(time_of(1))
    assert _values(writer) == [1, 9]
    writer.base("", "22222222-0000-4000-8000-000000000000-0", time_of(11), [_row(writer, 11, "x")])
    assert _values(writer) == [1, 9]


def test_view_replaced_group_is_gone_from_its_replacement_on() -> None:
    """An overwrite hides the groups it names, for points at or after it."""
    writer = _writer()
    _base(writer, 1, 2)
    stat = writer.base("", OTHER, time_of(3), [_row(writer, 3)])
    writer.pending(time_of(3), "replacecommit")
    writer.complete(time_of(3), time_of(4), [stat], "replacecommit", "INSERT_OVERWRITE", {"": [FID]})
    assert _values(writer) == [3]
    assert _values(writer, as_of=time_of(2)) == [1]
    assert _values(writer, as_of_completion=time_of(3)) == [1]


def test_view_missing_file_is_an_error_only_where_it_is_needed() -> None:
    """A lost file of the latest slice is named; one of an old slice that cleaning may have taken is not."""
    writer = _writer()
    _base(writer, 1, 2)
    _base(writer, 3, 4)
    storage = writer.storage
    storage.delete(f"{FID}_1-0-1_{time_of(1)}.parquet")
    assert _values(writer) == [3]
    with pytest.raises(MissingFileError) as error:
        _values(writer, as_of=time_of(1))
    assert error.value.instant == time_of(1)
    storage.delete(f"{FID}_1-0-1_{time_of(3)}.parquet")
    with pytest.raises(MissingFileError) as error:
        _values(writer)
    assert error.value.file == f"{FID}_1-0-1_{time_of(3)}.parquet"


def test_view_point_before_the_last_clean_is_refused() -> None:
    """Files of an earlier time may be gone: the answer says from when on the table can be read."""
    writer = _writer()
    _base(writer, 1, 2)
    _base(writer, 3, 4)
    cleaned = CleanMetadata(
        start_clean_time=time_of(5),
        time_taken_in_millis=1,
        total_files_deleted=0,
        earliest_commit_to_retain=time_of(3),
        last_completed_commit_timestamp=time_of(3),
        partition_metadata={},
    )
    writer.storage.put(f".hoodie/timeline/{time_of(5)}_{time_of(6)}.clean", cleaned.encode(bytes(16)))
    assert _values(writer, as_of=time_of(3)) == [3]
    with pytest.raises(MissingFileError, match=f"earliest time that can be read is {time_of(3)}"):
        _values(writer, as_of=time_of(2))
    with pytest.raises(MissingFileError):
        _values(writer, as_of_completion=time_of(3))


def test_view_two_points_exclude_each_other() -> None:
    """A view is cut once."""
    with pytest.raises(InvalidError):
        ViewPoint("1", "2")
