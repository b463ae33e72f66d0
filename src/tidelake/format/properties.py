"""``hoodie.properties`` and the partition metafile: Java properties text, and the table's checksum.

The checksum is the CRC-32 of ``<database>.<table>`` alone; it detects a half-written file, not an edited one.
Encoding keeps the order of keys it is given and escapes exactly as ``java.util.Properties`` does.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import javaproperties

from tidelake import _limits
from tidelake.errors import CorruptError, LimitError

CHECKSUM_KEY = "hoodie.table.checksum"
NAME_KEY = "hoodie.table.name"
DATABASE_KEY = "hoodie.database.name"
_KEPT_FILES = 16


def decode_properties(data: bytes, limit_bytes: int = _limits.PROPERTIES_BYTES) -> dict[str, str]:
    """Java properties text (ISO-8859-1) as a dict; the last of repeated keys counts, as in Java."""
    if len(data) > limit_bytes:
        raise LimitError(f"a properties file of {len(data)} bytes is larger than the limit of {limit_bytes}")
    if data.count(b"\n") + data.count(b"\r") > 2 * _limits.PROPERTIES_ENTRIES:
        raise LimitError(f"a properties file has more than {_limits.PROPERTIES_ENTRIES} lines")
    return dict(_decoded(data))


@lru_cache(maxsize=_KEPT_FILES)
def _decoded(data: bytes) -> dict[str, str]:
    """Every write asks several times whether a table's properties have changed: what is equal is parsed once."""
    try:
        values = dict(javaproperties.loads(data))
        # An escaped half of a surrogate pair is no text: it could not be written, compared or shown.
        "".join((*values.keys(), *values.values())).encode("utf-8")
    except (ValueError, OverflowError) as error:
        raise CorruptError(f"a properties file cannot be parsed: {error}") from error
    return values


def encode_properties(properties: Mapping[str, str], comments: tuple[str, ...] = ()) -> bytes:
    """The dict as Java properties text, with comment lines in front."""
    lines = [f"#{comment}" for comment in comments]
    lines.extend(javaproperties.join_key_value(key, value) for key, value in properties.items())
    return ("\n".join(lines) + "\n").encode("latin-1")


def table_checksum(properties: Mapping[str, str]) -> int:
    """CRC-32 of ``<database>.<table>``; a missing database counts as empty."""
    text = f"{properties.get(DATABASE_KEY, '')}.{properties.get(NAME_KEY, '')}"
    return zlib.crc32(text.encode("utf-8"))


def check_table_properties(properties: Mapping[str, str]) -> None:
    """Raise CorruptError unless these are the whole properties of a table."""
    if NAME_KEY not in properties:
        raise CorruptError(f"the properties have no {NAME_KEY}")
    stated = properties.get(CHECKSUM_KEY)
    expected = table_checksum(properties)
    if stated is not None and stated != str(expected):
        raise CorruptError(f"{CHECKSUM_KEY} is {stated}, but the table's name gives {expected}", value=stated)


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """``.hoodie_partition_metadata``: which write made the folder, and how deep it lies below the table."""

    commit_time: str
    depth: int


def decode_partition_metadata(data: bytes) -> PartitionMetadata:
    """The partition metafile's two values."""
    values = decode_properties(data, _limits.PARTITION_META_BYTES)
    try:
        depth = int(values["partitionDepth"])
        return PartitionMetadata(values["commitTime"], depth)
    except (KeyError, ValueError) as error:
        raise CorruptError(f"a partition metafile lacks commitTime or a numeric partitionDepth: {values!r}") from error


def encode_partition_metadata(metadata: PartitionMetadata) -> bytes:
    """The bytes of a partition metafile."""
    values = {"commitTime": metadata.commit_time, "partitionDepth": str(metadata.depth)}
    return encode_properties(values, ("partition metadata",))
