"""Java properties, the table's checksum, and partition metafiles."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.deep import examples
from tidelake import _limits
from tidelake.errors import CorruptError, LimitError
from tidelake.format.properties import (
    PartitionMetadata,
    check_table_properties,
    decode_partition_metadata,
    decode_properties,
    encode_partition_metadata,
    encode_properties,
    table_checksum,
)

_text = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.dictionaries(_text.filter(bool), _text, max_size=6))
@examples()
def test_properties_any_text_reads_back(values: dict[str, str]) -> None:
    """Keys and values with colons, equal signs, line ends, backslashes and any letter survive."""
    data = encode_properties(values, ("a comment",))
    assert data.isascii()
    assert decode_properties(data) == values


def test_properties_java_escapes_are_read() -> None:
    """Continued lines, escaped letters, Latin-1 and the last of repeated keys."""
    data = b"#c\n!c\na = 1\nb\\:c:2\nlong=x\\\n  y\nu=\\u00e9\\t\nlatin=\xe9\na=3\n"
    assert decode_properties(data) == {"a": "3", "b:c": "2", "long": "xy", "u": "é\t", "latin": "é"}


def test_properties_damage_and_size_are_typed_errors() -> None:
    """A bad escape is corrupt, too large a file is refused before it is parsed."""
    with pytest.raises(CorruptError):
        decode_properties(b"a=\\u12")
    with pytest.raises(LimitError):
        decode_properties(b"x" * 100, limit_bytes=99)
    with pytest.raises(LimitError):
        decode_properties(b"\n" * (2 * _limits.PROPERTIES_ENTRIES + 1))


def test_checksum_is_crc32_of_database_and_name() -> None:
    """The checksum of a real table, with and without a database."""
    assert table_checksum({"hoodie.table.name": "trips"}) == zlib.crc32(b".trips")
    assert table_checksum({"hoodie.table.name": "trips", "hoodie.database.name": "db"}) == zlib.crc32(b"db.trips")


def test_check_properties_wrong_or_missing_parts_are_corrupt() -> None:
    """A wrong checksum or no name is damage; no checksum is not."""
    check_table_properties({"hoodie.table.name": "t"})
    with pytest.raises(CorruptError, match="checksum is 7"):
        check_table_properties({"hoodie.table.name": "t", "hoodie.table.checksum": "7"})
    with pytest.raises(CorruptError, match=r"hoodie\.table\.name"):
        check_table_properties({})


def test_partition_metadata_reads_back_and_damage_is_corrupt() -> None:
    """The metafile's two values, and what lacks them."""
    metadata = PartitionMetadata("20260101000000000", 2)
    assert decode_partition_metadata(encode_partition_metadata(metadata)) == metadata
    for data in (b"", b"commitTime=1\n", b"commitTime=1\npartitionDepth=x\n"):
        with pytest.raises(CorruptError):
            decode_partition_metadata(data)
