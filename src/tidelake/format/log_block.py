"""Log files: a plain concatenation of blocks, each framed so that damage is noticed.

Layout of a block, all integers big-endian::

    #HUDI#  size:i64  version:i32=1  type:i32  headers  content length:i64  content  footers  reverse pointer:i64

``size`` counts everything after itself; the reverse pointer is ``size + 6``. Every length must add up exactly:
a frame that does not is ``CorruptError``, so a truncated file or a flipped bit never passes for fewer rows.
How many bytes of a file are committed is known from the commit (see ``committed_bytes``): what follows them was
written by nobody who completed, and is ignored.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from tidelake import _limits
from tidelake.errors import CorruptError, InternalError, LimitError, UnsupportedError
from tidelake.format.bytes_reader import BytesReader

MAGIC = b"#HUDI#"
FORMAT_VERSION = 1
_FRAME_BYTES = len(MAGIC) + 8
_REVERSE_BYTES = 8


class BlockType(IntEnum):
    """What a block's content is."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(IntEnum):
    """What a block says about itself."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


@dataclass(frozen=True, slots=True)
class LogBlock:
    """One block. ``headers`` keep the order in which they were written."""

    type: BlockType
    headers: Mapping[HeaderKey, str]
    content: bytes | memoryview
    footers: Mapping[HeaderKey, str] = field(default_factory=dict)

    @property
    def instant_time(self) -> str:
        """The write that this block belongs to."""
        try:
            return self.headers[HeaderKey.INSTANT_TIME]
        except KeyError:
            raise CorruptError(f"a {self.type.name} log block has no INSTANT_TIME header") from None

    @property
    def schema_text(self) -> str:
        """The Avro schema of the block's records."""
        try:
            return self.headers[HeaderKey.SCHEMA]
        except KeyError:
            raise CorruptError(f"a {self.type.name} log block has no SCHEMA header") from None

    @property
    def is_partial(self) -> bool:
        """Whether the records hold only some of the columns."""
        text = self.headers.get(HeaderKey.IS_PARTIAL, "false")
        if text.lower() not in ("true", "false"):
            raise CorruptError(f"a log block's IS_PARTIAL header is {text!r}", value=text)
        return text.lower() == "true"

    @property
    def compacted_instants(self) -> frozenset[str]:
        """The instants whose blocks this log-compacted block stands for."""
        text = self.headers.get(HeaderKey.COMPACTED_BLOCK_TIMES, "")
        times = frozenset(part.strip() for part in text.split(",") if part.strip())
        if not all(time.isascii() and time.isdigit() for time in times):
            raise CorruptError(f"a log block's COMPACTED_BLOCK_TIMES header is {text!r}", value=text)
        return times


def read_blocks(data: bytes | memoryview, committed_bytes: int | None = None) -> Iterator[LogBlock]:
    """The blocks of a log file, in order; ``committed_bytes`` of it count, by default all."""
    end = len(data) if committed_bytes is None else committed_bytes
    if end > len(data):
        raise CorruptError(f"the log file has {len(data)} bytes, the commit wrote {end}", value=len(data))
    reader = BytesReader(data, 0, end)
    while reader.remaining:
        offset = reader.position
        try:
            yield _read_block(reader)
        except CorruptError as error:
            error.message = f"log block at byte {offset}: {error.message}"
            raise


def _read_block(reader: BytesReader) -> LogBlock:
    magic = bytes(reader.take(len(MAGIC), "the block magic"))
    if magic != MAGIC:
        raise CorruptError(f"it begins with {magic!r}, not {MAGIC!r}", value=repr(magic))
    size = reader.int64("the block size")
    if size > _limits.LOG_BLOCK_BYTES:
        raise LimitError(f"it claims {size} bytes, the limit is {_limits.LOG_BLOCK_BYTES}", value=size)
    if size < 0 or size > reader.remaining:
        raise CorruptError(f"it claims {size} bytes, {reader.remaining} are left", value=size)
    block = BytesReader(reader.take(size, "the block"))
    version = block.int32("the log format version")
    if version != FORMAT_VERSION:
        raise UnsupportedError(f"log format version {version} is not read", value=version)
    ordinal = block.int32("the block type")
    if ordinal not in BlockType.__members__.values() or ordinal == BlockType.CORRUPT:
        raise CorruptError(f"block type {ordinal} is unknown", value=ordinal)
    headers = _read_headers(block, "header")
    content = block.take(block.int64("the content length"), "the block content")
    footers = _read_headers(block, "footer")
    reverse = block.int64("the reverse pointer")
    if reverse != size + len(MAGIC):
        raise CorruptError(f"its reverse pointer is {reverse}, not {size + len(MAGIC)}", value=reverse)
    if block.remaining:
        raise CorruptError(f"{block.remaining} bytes are left between content and reverse pointer")
    return LogBlock(BlockType(ordinal), headers, content, footers)


def _read_headers(block: BytesReader, what: str) -> Mapping[HeaderKey, str]:
    count = block.int32(f"the {what} count")
    if not 0 <= count <= _limits.LOG_BLOCK_HEADERS:
        raise LimitError(f"it claims {count} {what}s", value=count)
    headers: dict[HeaderKey, str] = {}
    for _ in range(count):
        ordinal = block.int32(f"a {what} key")
        if ordinal not in HeaderKey.__members__.values():
            raise CorruptError(f"{what} key {ordinal} is unknown", value=ordinal)
        key = HeaderKey(ordinal)
        if key in headers:
            raise CorruptError(f"{what} {key.name} stands twice", value=key.name)
        headers[key] = block.text(block.int32(f"the length of {key.name}"), key.name, _limits.LOG_HEADER_BYTES)
    return headers


def encode_block(block: LogBlock) -> bytes:
    """The bytes of a block; what it makes reads back as the same block."""
    if HeaderKey.INSTANT_TIME not in block.headers:
        raise InternalError("a log block without INSTANT_TIME cannot be written")
    body = b"".join(
        (
            struct.pack(">ii", FORMAT_VERSION, block.type),
            _encode_headers(block.headers),
            struct.pack(">q", len(block.content)),
            block.content,
            _encode_headers(block.footers),
        )
    )
    size = len(body) + _REVERSE_BYTES
    if size > _limits.LOG_BLOCK_BYTES:
        raise LimitError(f"a log block of {size} bytes is larger than {_limits.LOG_BLOCK_BYTES}", value=size)
    return b"".join((MAGIC, struct.pack(">q", size), body, struct.pack(">q", size + len(MAGIC))))


def _encode_headers(headers: Mapping[HeaderKey, str]) -> bytes:
    parts = [struct.pack(">i", len(headers))]
    for key, text in headers.items():
        data = text.encode("utf-8")
        parts.append(struct.pack(">ii", key, len(data)))
        parts.append(data)
    return b"".join(parts)
