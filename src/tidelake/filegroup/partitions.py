"""Partitions as folders: how a partition path encodes values, and which folders hold which.

For SIMPLE and COMPLEX key generators the text in the path is the text of the column's value, escaped if the table says
so, and a filter on partition columns prunes folders. Other generators format their values, and are listed in full.
A folder is a partition if it holds the partition metafile.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelake import _limits
from tidelake.config import TableConfig
from tidelake.errors import InvalidError, LimitError
from tidelake.format.names import PARTITION_META_FILE
from tidelake.storage import check_prefix

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^") | frozenset(map(chr, (*range(0x20), 0x7F)))
METAFILES = tuple(f"{PARTITION_META_FILE}{suffix}" for suffix in ("", ".parquet", ".orc"))
_PRUNABLE = frozenset({"SIMPLE", "COMPLEX"})


def escape_path_value(value: str) -> str:
    """A value as Hive escapes it in a path."""
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in value)


def unescape_path_value(text: str) -> str:
    """The value that was escaped; a % that begins no escape stands for itself."""
    if "%" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        code = text[position + 1 : position + 3]
        if text[position] == "%" and len(code) == 2 and all(c in "0123456789abcdefABCDEF" for c in code):
            out.append(chr(int(code, 16)))
            position += 3
        else:
            out.append(text[position])
            position += 1
    return "".join(out)


@dataclass(frozen=True, slots=True)
class PartitionCodec:
    """Values of the partition columns to a path, and back."""

    fields: tuple[str, ...]
    hive_style: bool
    url_encoded: bool
    is_prunable: bool

    @staticmethod
    def of(config: TableConfig) -> PartitionCodec:
        return PartitionCodec(
            config.partition_fields, config.hive_style, config.url_encoded, config.key_generator in _PRUNABLE
        )

    def segment(self, level: int, value: str | None) -> str:
        """The folder of one partition column's value."""
        text = NULL_PARTITION if value is None or value == "" else value
        if self.url_encoded:
            text = escape_path_value(text)
        return f"{self.fields[level]}={text}" if self.hive_style else text

    def value(self, level: int, segment: str) -> str | None:
        """The value that a folder's name holds; None for the null partition."""
        text = segment.removeprefix(f"{self.fields[level]}=") if self.hive_style else segment
        if self.url_encoded:
            text = unescape_path_value(text)
        return None if text == NULL_PARTITION else text

    def values(self, partition_path: str) -> dict[str, str | None] | None:
        """The values in a whole path, or None if it does not tell them: not one level for each column."""
        if not self.fields:
            return {}
        if len(self.fields) == 1 and self.is_prunable and not self.url_encoded:
            return {self.fields[0]: self.value(0, partition_path)}
        segments = partition_path.split("/")
        if not self.is_prunable or len(segments) != len(self.fields):
            return None
        return {field: self.value(level, segments[level]) for level, field in enumerate(self.fields)}

    def makes(self, partition_path: str) -> bool:
        """Whether there are values with this path; of what formats its values, any path of a folder may be."""
        segments = partition_path.split("/")
        if bool(partition_path) != bool(self.fields) or ".hoodie" in segments:
            return False
        if not self.is_prunable:
            return True
        if self.values(partition_path) is None:
            return False
        names = [f"{field}=" if self.hive_style else "" for field in self.fields]
        return all(segment.startswith(name) and segment != name for segment, name in zip(segments, names, strict=False))


def check_partition(config: TableConfig, path: str) -> str:
    """The path itself, or ``InvalidError`` if it cannot be that of a partition of the table."""
    check_prefix(path)
    codec = PartitionCodec.of(config)
    if codec.makes(path):
        return path
    if not codec.fields:
        hint = "the table has no partitions"
    else:
        levels = "/".join(f"{field}=..." if codec.hive_style else f"<{field}>" for field in codec.fields)
        hint = f"its partitions are folders such as {levels}"
    raise InvalidError(f"{path!r} is no partition of the table", value=path, table=config.name, hint=hint)


def check_depth(folder: str) -> None:
    """Refuse a folder that lies deeper than any partition."""
    if folder.count("/") > _limits.PARTITION_DEPTH:
        raise LimitError(f"the folder {folder} lies deeper than {_limits.PARTITION_DEPTH} levels", value=folder)
