"""Names on storage: what is parsed, what is not, and that what we write reads back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.deep import examples
from tidelake.errors import InternalError
from tidelake.format.names import (
    COMPLETED_NAMES,
    COMPLETES_AS,
    PENDING_NAMES,
    BaseFileName,
    HistoryFileName,
    LogFileName,
    State,
    TimelineName,
    parse_base_name,
    parse_history_name,
    parse_log_name,
    parse_timeline_name,
)

T1, T2 = "20260101000001000", "20260101000002000"
FILE_ID = "db2fca8f-03b7-4da7-b042-4b617ab79b9d-0"


@pytest.mark.parametrize("action", sorted(PENDING_NAMES))
@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
def test_timeline_name_pending_reads_back(action: str, state: State) -> None:
    """Every pending action has a name for both states, and the name says it."""
    name = TimelineName(T1, action, state)
    assert parse_timeline_name(str(name)) == name
    assert name.completed_action == COMPLETES_AS.get(action, action)


@pytest.mark.parametrize("action", sorted(COMPLETED_NAMES))
def test_timeline_name_completed_reads_back(action: str) -> None:
    """A completed name holds both times."""
    name = TimelineName(T1, action, State.COMPLETED, T2)
    assert str(name) == f"{T1}_{T2}.{action}"
    assert parse_timeline_name(str(name)) == name


@pytest.mark.parametrize(
    "name",
    [
        f"{T1}.commit",
        f"{T1}_{T2}.compaction",
        f"{T1}_{T2}.clustering",
        f"{T1}.commit.inflight",
        f"{T1}_{T2}.commit.requested",
        f"{T1}.commit.done",
        f".{T1}_{T2}.commit.crc",
        f"{T1}_{T2}.commit.tmp",
        f"{T1}_{T2}.COMMIT",
        f"{T1}0_{T2}.commit",
        "hoodie.properties",
        "",
        f"{T1}_{T2}.commit\n",
        "\u0661\u0662_\u0663.commit",
    ],
)
def test_timeline_name_that_is_none_gives_none(name: str) -> None:
    """Foreign, legacy and damaged names are not instants, and raise nothing."""
    assert parse_timeline_name(name) is None


def test_name_that_would_not_read_back_is_an_internal_error() -> None:
    """We never write a name that we cannot read."""
    for name in (
        TimelineName(T1, "compaction", State.COMPLETED, T2),
        TimelineName("x", "commit", State.REQUESTED),
        BaseFileName("a_b", "1-0-1", T1),
        LogFileName("a.b", T1, 1, "1-0-1"),
        LogFileName("a", T1, 1, "1-0"),
    ):
        with pytest.raises(InternalError):
            str(name)


def test_base_name_real_example_is_parsed() -> None:
    """File id, token, instant and extension of a file that Apache Hudi wrote."""
    name = parse_base_name(f"{FILE_ID}_0-10-23_{T1}.parquet")
    assert name == BaseFileName(FILE_ID, "0-10-23", T1)
    assert str(name) == f"{FILE_ID}_0-10-23_{T1}.parquet"
    for other in (
        f"{FILE_ID}_{T1}.parquet",
        f".{FILE_ID}_0-10-23_{T1}.parquet",
        "part-0000.parquet",
        f"{FILE_ID}_0-10-23_{T1}",
    ):
        assert parse_base_name(other) is None


def test_log_name_real_examples_are_parsed() -> None:
    """Logs with token, of change data, and without token."""
    assert parse_log_name(f".{FILE_ID}_{T1}.log.1_0-10-23") == LogFileName(FILE_ID, T1, 1, "0-10-23")
    assert parse_log_name(f".{FILE_ID}_{T1}.log.1_0-10-23.cdc") == LogFileName(FILE_ID, T1, 1, "0-10-23", True)
    assert parse_log_name(f".{FILE_ID}_{T1}.log.3") == LogFileName(FILE_ID, T1, 3)
    for other in (
        f"{FILE_ID}_{T1}.log.1_0-10-23",
        f".{FILE_ID}_{T1}.log.1_0-10",
        f".{FILE_ID}_{T1}.log.x",
        f".a_b_{T1}.log.1",
    ):
        assert parse_log_name(other) is None


def test_log_names_order_is_numeric_not_textual() -> None:
    """Instant, then version, then token, each number as a number."""
    names = [
        LogFileName("a", T1, 2, "1-0-1"),
        LogFileName("a", T1, 10, "1-0-1"),
        LogFileName("a", T1, 10, "2-0-1"),
        LogFileName("a", T1, 10, "10-0-1"),
        LogFileName("a", T2, 1, "0-0-0"),
    ]
    shuffled = [names[place] for place in (3, 0, 4, 2, 1)]
    assert sorted(shuffled, key=lambda n: n.order) == names


def test_history_name_is_parsed_with_one_digit_of_level() -> None:
    """Two times and a level."""
    assert parse_history_name(f"{T1}_{T2}_0.parquet") == HistoryFileName(T1, T2, 0)
    assert str(HistoryFileName(T1, T2, 2)) == f"{T1}_{T2}_2.parquet"
    assert parse_history_name(f"{T1}_{T2}_10.parquet") is None


@given(st.text(st.characters(codec="utf-8"), max_size=40))
@examples()
def test_names_any_text_parses_or_not_and_never_fails(text: str) -> None:
    """Parsing is total; what parses is written back as it was."""
    for parse in (parse_timeline_name, parse_base_name, parse_log_name, parse_history_name):
        found = parse(text)
        if found is not None and not isinstance(found, LogFileName):
            assert str(found) == text
