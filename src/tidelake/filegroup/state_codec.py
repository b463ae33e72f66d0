"""The table state as bytes: magic, checksum, header, columns.

Everything after the checksum is covered by it. The header (JSON) says the version, which table the state is of, and its
point; the columns are Arrow tables, compressed as a whole by zstd: measured with a million files this loads in a tenth of
a second, parquet takes longer, and the header bounds what it may grow to. Whatever does not fit is ``CorruptError``, and
the caller goes on without.
"""

from __future__ import annotations

import hashlib
import json
import struct
from itertools import pairwise

import pyarrow as pa
import pyarrow.ipc as ipc

from tidelake import _limits
from tidelake.config import TableConfig
from tidelake.errors import CorruptError, LimitError
from tidelake.filegroup.state_table import FILES, FOLDED, PARTITIONS, TableState

VERSION = 2
_MAGIC = b"TLSTATE\n"
_DIGEST_BYTES = 32
_SCHEMAS = (PARTITIONS, FILES, FOLDED)


def identity_of(config: TableConfig) -> str:
    """What tells a table from others: a state that was copied from another one is not believed."""
    words = (config.name, config.table_type.value, config.record_key_fields, config.partition_fields)
    return json.dumps(words)


def encode_state(state: TableState) -> bytes:
    """The state's bytes."""
    sink = pa.BufferOutputStream()
    ends = [_write_table(sink, table) for table in state.compacted().columns]
    header = json.dumps(
        {
            "version": VERSION,
            "table": state.identity,
            "point": state.point,
            "first_active": state.first_active,
            "lengths": [end - start for start, end in pairwise([0, *ends])],
        }
    ).encode()
    packed: bytes = pa.compress(sink.getvalue(), "zstd", asbytes=True)
    body = struct.pack(">I", len(header)) + header + packed
    return _MAGIC + hashlib.sha256(body).digest() + body


def decode_state(data: bytes, identity: str) -> TableState:
    """The state from its bytes, if they are whole, of this version, and of that table."""
    start = len(_MAGIC) + _DIGEST_BYTES
    view = memoryview(data)
    if view[: len(_MAGIC)] != _MAGIC or len(data) < start + 4:
        raise CorruptError("a table state does not begin as one")
    if hashlib.sha256(view[start:]).digest() != view[len(_MAGIC) : start]:
        raise CorruptError("a table state does not have its checksum")
    (length,) = struct.unpack_from(">I", data, start)
    try:
        header = json.loads(bytes(view[start + 4 : start + 4 + length]))
        version, table = header["version"], header["table"]
        point, first_active = str(header["point"]), header["first_active"]
        lengths = [int(size) for size in header["lengths"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptError(f"a table state's header cannot be parsed: {error}") from error
    if version != VERSION or table != identity:
        raise CorruptError(f"a table state of version {version} and table {table} is not this table's", value=version)
    tables = _decode_tables(view[start + 4 + length :], lengths)
    if sum(tables[0]["files"].to_pylist()) != tables[1].num_rows:
        raise CorruptError("a table state counts other files than it has")
    return TableState(identity, point, first_active, *tables, is_stored=True)


def _write_table(sink: pa.NativeFile, table: pa.Table) -> int:
    """Append a table; returns where it ends."""
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return int(sink.tell())


def _decode_tables(content: memoryview, lengths: list[int]) -> list[pa.Table]:
    bound = min(_limits.STATE_BYTES, len(content) * _limits.STATE_EXPANSION)
    if len(lengths) != len(_SCHEMAS) or min(lengths) < 0 or sum(lengths) > bound:
        raise LimitError(f"a table state claims tables of {lengths} bytes")
    tables = []
    try:
        plain = pa.decompress(pa.py_buffer(content), sum(lengths), "zstd")
        start = 0
        for schema, length in zip(_SCHEMAS, lengths, strict=True):
            table = ipc.open_stream(plain.slice(start, length)).read_all()
            table.validate()
            if table.schema != schema:
                raise CorruptError(f"a table state has the columns {table.schema.names}")
            tables.append(table.combine_chunks())
            start += length
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptError(f"a table state cannot be read: {error}") from error
    return tables
