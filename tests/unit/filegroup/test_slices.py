"""Slices by the completion-time barrier, from names and times alone."""

from __future__ import annotations

import pytest

from tidelake.errors import CorruptError
from tidelake.filegroup.slices import BaseFile, FileGroup, FileSlice, LogFile, build_slices, group_files
from tidelake.format.names import BaseFileName, LogFileName


def t(number: int) -> str:
    return f"20260101000000{number:03d}"


def base(number: int, token: str = "1-0-1", file_id: str = "f", *, is_missing: bool = False) -> BaseFile:
    name = BaseFileName(file_id, token, t(number))
    return BaseFile(str(name), name, 10, is_missing)


def log(number: int, version: int = 1, token: str = "1-0-1", file_id: str = "f") -> LogFile:
    name = LogFileName(file_id, t(number), version, token)
    return LogFile(str(name), name, 5)


def slices(bases: list[BaseFile], logs: list[LogFile], completions: dict[int, int]) -> list[FileSlice]:
    times = {t(requested): t(completed) for requested, completed in completions.items()}
    return build_slices(FileGroup("p", "f", tuple(bases), tuple(logs)), times.get)


def shape(found: list[FileSlice]) -> list[tuple[int, bool, list[int]]]:
    return [(int(s.base_instant[-3:]), s.base is not None, [int(x.name.instant[-3:]) for x in s.logs]) for s in found]


def test_slices_example_of_the_format_before_the_compaction_completes() -> None:
    """7.2: before 130, base 100 carries A and B; the pending compaction makes no slice."""
    found = slices([base(100)], [log(110), log(118)], {100: 101, 110: 115, 118: 140})
    assert shape(found) == [(100, True, [110, 118])]


def test_slices_example_of_the_format_after_the_compaction_completes() -> None:
    """7.2: after 130, B lies on base 120 although it was requested before it, because it completed after."""
    found = slices([base(100), base(120)], [log(110), log(118)], {100: 101, 110: 115, 118: 140, 120: 130})
    assert shape(found) == [(100, True, [110]), (120, True, [118])]


def test_slices_log_completed_exactly_at_the_barrier_lies_on_top() -> None:
    """Completion equal to the compaction's requested time counts as after it."""
    assert shape(slices([base(100), base(120)], [log(110)], {110: 120})) == [(100, True, []), (120, True, [110])]
    assert shape(slices([base(100), base(120)], [log(110)], {110: 119})) == [(100, True, [110]), (120, True, [])]


def test_slices_log_only_group_is_one_slice_at_its_first_log() -> None:
    """Without a base file all logs make one slice."""
    assert shape(slices([], [log(118), log(110)], {110: 140, 118: 120})) == [(110, False, [110, 118])]


def test_slices_logs_before_the_first_base_stay_before_it() -> None:
    """Logs that a later compaction folded do not lie on its base file."""
    assert shape(slices([base(120)], [log(110)], {110: 115})) == [(110, False, [110]), (120, True, [])]


def test_slices_unknown_completion_of_an_old_log_is_an_error() -> None:
    """An archived commit's completion time that is not found: its log belongs nowhere, and no row may be guessed."""
    with pytest.raises(CorruptError, match="neither on the timeline nor in the history") as error:
        slices([base(100), base(120)], [log(110)], {})
    assert error.value.instant == t(110)
    assert error.value.file == str(log(110).name)


def test_slices_completion_of_a_log_after_the_last_base_is_not_asked_for() -> None:
    """A log requested after the newest base completed after it too: the history need not be opened."""

    def never(instant: str) -> str | None:
        raise AssertionError(instant)

    found = build_slices(FileGroup("p", "f", (base(100),), (log(110),)), never)
    assert shape(found) == [(100, True, [110])]


def test_slices_logs_apply_by_instant_version_and_token() -> None:
    """Logs of a slice are in the order in which they apply."""
    given = [log(110, 2), log(110, 10), log(110, 1, "2-0-1"), log(110, 1, "10-0-1"), log(105)]
    (found,) = slices([base(100)], given, {})
    assert [x.name for x in found.logs] == [x.name for x in (given[4], given[2], given[3], given[0], given[1])]


def test_slices_two_bases_of_one_instant_are_one_slice() -> None:
    """A leftover of a repeated attempt does not double rows; a file that is there goes before one that is not."""
    (found,) = slices([base(100, "1-0-1"), base(100, "2-0-1")], [], {})
    assert found.base is not None
    assert found.base.name.write_token == "2-0-1"
    (found,) = slices([base(100, "9-0-1", is_missing=True), base(100, "1-0-1")], [], {})
    assert found.base is not None
    assert not found.base.is_missing


def test_group_files_puts_files_of_one_id_together() -> None:
    """Groups come in order of file id, whatever kinds of file they have."""
    groups = group_files("p", [base(100, file_id="b"), base(101, file_id="b")], [log(100, file_id="a")])
    assert [(g.file_id, len(g.bases), len(g.logs)) for g in groups] == [("a", 0, 1), ("b", 2, 0)]


def test_slice_size_is_that_of_its_files() -> None:
    """What a slice weighs."""
    (found,) = slices([base(100)], [log(110), log(111)], {})
    assert found.size_bytes == 20
    assert len(found.files) == 3
