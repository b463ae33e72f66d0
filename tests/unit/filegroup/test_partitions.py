"""Partition paths: escaping as Hive does it, and values to folders and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.deep import examples
from model.tables import table_properties
from tidelake import _limits
from tidelake.config import parse_table_config
from tidelake.errors import InvalidError, LimitError
from tidelake.filegroup.partitions import (
    NULL_PARTITION,
    PartitionCodec,
    check_depth,
    check_partition,
    escape_path_value,
    unescape_path_value,
)


@given(st.text(max_size=20))
@examples()
def test_escape_any_value_reads_back_and_holds_no_separator(value: str) -> None:
    """An escaped value is one folder name, and gives the value again."""
    escaped = escape_path_value(value)
    assert "/" not in escaped
    assert unescape_path_value(escaped) == value


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        ("a/b", "a%2Fb"),
        ("a=b:c", "a%3Db%3Ac"),
        ("50%", "50%25"),
        ("a b", "a b"),
        ("é", "é"),
        ("\x01", "%01"),
        ("{x}", "%7Bx}"),
    ],
)
def test_escape_known_values_are_as_hive_writes_them(value: str, escaped: str) -> None:
    """The letters that Hive escapes, and those that it does not."""
    assert escape_path_value(value) == escaped


def test_unescape_percent_that_begins_no_escape_stands_for_itself() -> None:
    """Half an escape is text."""
    assert unescape_path_value("100%") == "100%"
    assert unescape_path_value("%zz%2f%") == "%zz/%"


@pytest.mark.parametrize("hive_style", [False, True])
@pytest.mark.parametrize("url_encoded", [False, True])
@given(
    values=st.tuples(
        *[st.none() | st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=8)] * 2
    )
)
@examples(50, 1_000)
def test_codec_values_go_to_a_path_and_back(
    hive_style: bool, url_encoded: bool, values: tuple[str | None, str | None]
) -> None:
    """Two columns in every style: the path's values are those that made it."""
    codec = PartitionCodec(("a", "b"), hive_style, url_encoded, True)
    if NULL_PARTITION in values:
        return
    path = "/".join(codec.segment(level, value) for level, value in enumerate(values))
    assert codec.values(path) == dict(zip("ab", values, strict=True))


def test_codec_null_and_empty_values_lie_in_the_null_partition() -> None:
    """Null and the empty text have no folder of their own."""
    codec = PartitionCodec(("p",), True, False, True)
    assert codec.segment(0, None) == codec.segment(0, "") == f"p={NULL_PARTITION}"
    assert codec.values(f"p={NULL_PARTITION}") == {"p": None}


def test_codec_path_that_does_not_tell_its_values_gives_none() -> None:
    """Too many or too few levels, or a generator that formats its values."""
    two = PartitionCodec(("a", "b"), False, False, True)
    assert two.values("x") is None
    assert two.values("x/y/z") is None
    formatted = PartitionCodec(("t",), False, False, False)
    assert formatted.values("2026/01") is None
    assert PartitionCodec((), False, False, True).values("") == {}


def test_codec_single_plain_column_takes_the_whole_path() -> None:
    """One column without encoding: slashes belong to the value."""
    assert PartitionCodec(("p",), False, False, True).values("a/b") == {"p": "a/b"}
    assert PartitionCodec(("p",), True, False, True).values("p=a/b") == {"p": "a/b"}
    assert PartitionCodec(("p",), False, True, True).values("a/b") is None


def test_codec_of_a_table_follows_its_key_generator() -> None:
    """Only generators whose folders hold the text of the value are prunable."""
    simple = parse_table_config(table_properties(hoodie__table__partition__fields="p"))
    assert PartitionCodec.of(simple) == PartitionCodec(("p",), False, False, True)
    formatted = table_properties(hoodie__table__partition__fields="p", hoodie__table__keygenerator__type="TIMESTAMP")
    assert not PartitionCodec.of(parse_table_config(formatted)).is_prunable


def test_check_depth_refuses_folders_deeper_than_any_partition() -> None:
    """A folder within a folder without end is refused."""
    check_depth("/".join("a" * _limits.PARTITION_DEPTH))
    with pytest.raises(LimitError):
        check_depth("/".join("a" * (_limits.PARTITION_DEPTH + 2)))


@pytest.mark.parametrize(
    ("fields", "style", "path", "is_one"),
    [
        ("day", "hive", "day=d0", True),
        ("day", "hive", "d0", False),
        ("day", "hive", "hour=1", False),
        ("day", "hive", "day=", False),
        ("day", "plain", "2026/01/31", True),
        ("day", "plain", ".hoodie", False),
        ("day", "plain", ".hoodie/x", False),
        ("day", "plain", "", False),
        ("day", "encoded", "2026/01/31", False),
        ("day", "encoded", "2026%2F01", True),
        ("day,hour", "hive", "day=1/hour=2", True),
        ("day,hour", "hive", "hour=2/day=1", False),
        ("day,hour", "hive", "day=1", False),
        ("day,hour", "plain", "1/2", True),
        ("day,hour", "plain", "1/2/3", False),
        ("", "plain", "", True),
        ("", "plain", "day=d0", False),
    ],
)
def test_check_partition_refuses_paths_that_the_keys_of_the_table_never_make(
    fields: str, style: str, path: str, is_one: bool
) -> None:
    """Levels, names of hive style, the table's own folder, and tables without partitions."""
    config = parse_table_config(
        table_properties(
            **{
                "hoodie.table.partition.fields": fields,
                "hoodie.datasource.write.hive_style_partitioning": str(style == "hive").lower(),
                "hoodie.datasource.write.partitionpath.urlencode": str(style == "encoded").lower(),
            }
        )
    )
    if is_one:
        assert check_partition(config, path) == path
        return
    with pytest.raises(InvalidError) as error:
        check_partition(config, path)
    assert error.value.value == path
