"""The hostile inputs of ``test_hostile_input.py``, run one after the other in a process of their own.

Each case is made outside of the measurement, and then given to the reader that meets such bytes. One line of JSON for
each says what came of it. Cases are plain functions that return the act to measure; their docstrings say what lies.
"""

from __future__ import annotations

import base64
import io
import json
import resource
import struct
import sys
import time
import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidelake as tl
from tidelake.errors import TidelakeError
from tidelake.format.avro_container import decode_container
from tidelake.format.avro_data import decode_avro_block
from tidelake.format.avro_schema import parse_record
from tidelake.format.bloom import decode_bloom
from tidelake.format.delete_block import decode_deletes
from tidelake.format.history import decode_manifest, decode_version
from tidelake.format.log_block import BlockType, HeaderKey, LogBlock, encode_block, read_blocks
from tidelake.format.names import parse_base_name, parse_history_name, parse_log_name, parse_timeline_name
from tidelake.format.properties import decode_partition_metadata, decode_properties
from tidelake.query import parse_filter
from tidelake.storage import MemoryStorage

Act = Callable[[], object]
REFUSED = ("CorruptError", "LimitError", "UnsupportedError")
SYNC = bytes(range(16))


class Case(NamedTuple):
    name: str
    make: Callable[[], Act]
    wanted: tuple[str, ...]


CASES: list[Case] = []


def case(*wanted: str) -> Callable[[Callable[[], Act]], Callable[[], Act]]:
    def keep(make: Callable[[], Act]) -> Callable[[], Act]:
        CASES.append(Case(make.__name__, make, wanted or REFUSED))
        return make

    return keep


# Avro containers, which every timeline file is


def varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag >= 0x80:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def container(
    schema: str | bytes, payload: bytes, codec: bytes | None = None, count: int = 1, size: int | None = None
) -> bytes:
    text = schema.encode() if isinstance(schema, str) else schema
    entries = [(b"avro.schema", text)] + ([(b"avro.codec", codec)] if codec else [])
    head = b"Obj\x01" + varint(len(entries))
    head += b"".join(varint(len(k)) + k + varint(len(v)) + v for k, v in entries) + varint(0)
    return head + SYNC + varint(count) + varint(len(payload) if size is None else size) + payload + SYNC


def record(field: str) -> str:
    return f'{{"type":"record","name":"r","fields":[{{"name":"f","type":{field}}}]}}'


def deflated(data: bytes) -> bytes:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    return squeeze.compress(data) + squeeze.flush()


@case()
def avro_deflate_bomb() -> Act:
    """A block of 1 MB that inflates to 256 MB."""
    squeeze = zlib.compressobj(1, zlib.DEFLATED, -15)
    zeros = bytes(1 << 20)
    payload = b"".join(squeeze.compress(zeros) for _ in range(256)) + squeeze.flush()
    data = container(record('"bytes"'), payload, b"deflate")
    return lambda: decode_container(data)


@case()
def avro_deflate_bomb_in_the_schema_of_the_timeline() -> Act:
    """A deflated block with a length that claims all of memory."""
    data = container(record('"bytes"'), deflated(varint(1 << 60)), b"deflate")
    return lambda: decode_container(data)


@case()
def avro_unknown_codec() -> Act:
    """A codec that only a library of another kind could open."""
    data = container(record('"long"'), b"\x02", b"snappy")
    return lambda: decode_container(data)


@case()
def avro_huge_block_size() -> Act:
    """A block that claims 2**62 bytes."""
    data = container(record('"long"'), b"\x02", size=1 << 62)
    return lambda: decode_container(data)


@case()
def avro_negative_block_size() -> Act:
    """A block of -1 bytes."""
    data = container(record('"long"'), b"\x02", size=-1)
    return lambda: decode_container(data)


@case()
def avro_huge_record_count() -> Act:
    """A block of 2**60 records."""
    data = container(record('"long"'), b"\x02", count=1 << 60)
    return lambda: decode_container(data)


@case()
def avro_negative_string_length() -> Act:
    """A string of a negative length."""
    data = container(record('"string"'), varint(-5) + b"hello")
    return lambda: decode_container(data)


@case()
def avro_string_of_all_memory() -> Act:
    """A string that claims 2**40 bytes."""
    data = container(record('"string"'), varint(1 << 40) + b"hello")
    return lambda: decode_container(data)


@case()
def avro_array_of_nulls_without_end() -> Act:
    """An array of 2**60 nulls, which take no bytes at all."""
    data = container(record('{"type":"array","items":"null"}'), varint(1 << 60) + varint(0))
    return lambda: decode_container(data)


@case()
def avro_array_of_empty_records_without_end() -> Act:
    """An array of 2**60 records without a field."""
    inner = '{"type":"array","items":{"type":"record","name":"e","fields":[]}}'
    data = container(record(inner), varint(1 << 60) + varint(0))
    return lambda: decode_container(data)


@case()
def avro_array_of_unions_of_null_without_end() -> Act:
    """An array of 2**40 unions, each one byte, of which there are none."""
    data = container(record('{"type":"array","items":["null","long"]}'), varint(1 << 40) + bytes(100) + varint(0))
    return lambda: decode_container(data)


@case()
def avro_map_without_end() -> Act:
    """A map of 2**60 entries."""
    data = container(record('{"type":"map","values":"null"}'), varint(1 << 60) + bytes(64))
    return lambda: decode_container(data)


@case()
def avro_array_with_negative_block_count() -> Act:
    """An array block in the form with a byte size, of -2**62 items."""
    data = container(record('{"type":"array","items":"long"}'), varint(-(1 << 62)) + varint(1 << 40) + b"\x02")
    return lambda: decode_container(data)


@case()
def avro_schema_nested_100_000_deep() -> Act:
    """A schema of 100,000 arrays in arrays."""
    deep = '{"type":"array","items":' * 100_000 + '"long"' + "}" * 100_000
    data = container(record(deep), b"\x00")
    return lambda: decode_container(data)


@case()
def avro_schema_of_lists_nested_100_000_deep() -> Act:
    """A schema of 100,000 brackets."""
    data = container("[" * 100_000 + "]" * 100_000, b"\x00")
    return lambda: decode_container(data)


@case()
def avro_schema_that_contains_itself() -> Act:
    """A record of itself, and a payload that goes on for ever."""
    data = container('{"type":"record","name":"r","fields":[{"name":"f","type":["null","r"]}]}', b"\x02" * 1_000_000)
    return lambda: decode_container(data)


@case()
def avro_schema_of_a_billion_laughs() -> Act:
    """Thirty named records, each ten times the one before."""
    inner = '{"type":"record","name":"r0","fields":[{"name":"f","type":"null"}]}'
    for level in range(1, 30):
        more = "".join(f',{{"name":"f{i}","type":"r{level - 1}"}}' for i in range(9))
        inner = f'{{"type":"record","name":"r{level}","fields":[{{"name":"f","type":{inner}}}{more}]}}'
    data = container(inner, b"")
    return lambda: decode_container(data)


@case()
def avro_schema_with_a_million_fields() -> Act:
    """A record of 200,000 fields."""
    fields = ",".join(f'{{"name":"f{i}","type":"null"}}' for i in range(200_000))
    data = container(f'{{"type":"record","name":"r","fields":[{fields}]}}', b"")
    return lambda: decode_container(data)


@case()
def avro_schema_with_a_huge_enum() -> Act:
    """An enum of 200,000 symbols."""
    symbols = ",".join(f'"s{i}"' for i in range(200_000))
    data = container(record(f'{{"type":"enum","name":"e","symbols":[{symbols}]}}'), b"\x00")
    return lambda: decode_container(data)


@case()
def avro_schema_with_a_fixed_of_all_memory() -> Act:
    """A fixed of 2**60 bytes."""
    data = container(record('{"type":"fixed","name":"x","size":1152921504606846976}'), b"\x00")
    return lambda: decode_container(data)


@case()
def avro_schema_that_is_no_record() -> Act:
    """A container of a bare long."""
    data = container('"long"', b"\x02")
    return lambda: decode_container(data)


@case()
def avro_schema_that_is_no_json() -> Act:
    """A schema of half a megabyte of quotes."""
    data = container('"\\' * 250_000, b"\x02")
    return lambda: decode_container(data)


@case()
def avro_schema_with_a_number_of_a_million_digits() -> Act:
    """A size whose digits take quadratic time to read."""
    data = container(record('{"type":"fixed","name":"x","size":' + "9" * 1_000_000 + "}"), b"\x00")
    return lambda: decode_container(data)


@case()
def avro_header_without_end() -> Act:
    """A header map of 2**40 entries."""
    data = b"Obj\x01" + varint(1 << 40) + bytes(1000)
    return lambda: decode_container(data)


@case()
def avro_header_of_many_blocks() -> Act:
    """A header of a million blocks of one entry each."""
    data = b"Obj\x01" + (varint(1) + varint(1) + b"k" + varint(1) + b"v") * 1_000_000
    return lambda: decode_container(data)


@case()
def avro_varint_overflow() -> Act:
    """A number that never ends."""
    data = container(record('"long"'), b"\xff" * 1_000_000)
    return lambda: decode_container(data)


@case()
def avro_varint_overflow_in_the_header() -> Act:
    """A count in the header that never ends."""
    data = b"Obj\x01" + b"\xff" * 1_000_000
    return lambda: decode_container(data)


@case("refused at every byte")
def timeline_file_cut_at_every_byte() -> Act:
    """A commit cut at 300 places."""
    storage, commit = small_table()
    data = storage.get(commit)

    def act() -> object:
        for at in np.linspace(0, len(data) - 1, 300).astype(int).tolist():
            try:
                decode_container(data[:at])
            except TidelakeError:
                continue
            raise AssertionError(f"a commit cut at {at} was read")
        raise Done("refused at every byte")

    return act


class Done(TidelakeError):
    """Says in one word that all of several inputs were refused."""


# Log files


def block(kind: int, headers: dict[int, str], content: bytes) -> bytes:
    return encode_block(LogBlock(BlockType(kind), {HeaderKey(k): v for k, v in headers.items()}, content))


def reading(data: bytes) -> Act:
    return lambda: list(read_blocks(data))


@case()
def log_block_of_2_to_the_62_bytes() -> Act:
    """A block size of 2**62."""
    return reading(b"#HUDI#" + struct.pack(">q", 1 << 62) + bytes(100))


@case()
def log_block_of_negative_size() -> Act:
    """A block size of -1."""
    return reading(b"#HUDI#" + struct.pack(">q", -1) + bytes(100))


@case()
def log_block_with_2_to_the_31_headers() -> Act:
    """A header count of 2**31 - 1."""
    body = struct.pack(">iii", 1, 3, 2**31 - 1) + bytes(100)
    return reading(b"#HUDI#" + struct.pack(">q", len(body)) + body)


@case()
def log_block_with_a_negative_header_length() -> Act:
    """A header of -1 bytes."""
    body = struct.pack(">iiiii", 1, 3, 1, 0, -1) + bytes(100)
    return reading(b"#HUDI#" + struct.pack(">q", len(body)) + body)


@case()
def log_block_whose_content_length_lies() -> Act:
    """A content of 2**40 bytes."""
    good = bytearray(block(3, {0: "20260101000000000"}, b"x" * 50))
    at = good.index(struct.pack(">q", 50))
    good[at : at + 8] = struct.pack(">q", 1 << 40)
    return reading(bytes(good))


@case()
def log_file_of_a_million_magics() -> Act:
    """A file of nothing but magics."""
    return reading(b"#HUDI#" * 1_000_000)


@case()
def avro_block_with_2_to_the_31_records() -> Act:
    """A record count of 2**31 - 1."""
    schema = parse_record(record('"long"'))
    return lambda: decode_avro_block(struct.pack(">ii", 3, 2**31 - 1) + bytes(1000), schema)


@case()
def avro_block_whose_arrays_claim_all_memory() -> Act:
    """10,000 records, each an array of 2**40 longs."""
    schema = parse_record(record('{"type":"array","items":"long"}'))
    one = varint(1 << 40) + b"\x00"
    content = struct.pack(">ii", 3, 10_000) + (struct.pack(">i", len(one)) + one) * 10_000
    return lambda: decode_avro_block(content, schema)


@case()
def avro_block_of_null_arrays_without_end() -> Act:
    """An array of 2**40 nulls in a log record."""
    schema_text = record('{"type":"array","items":"null"}')
    one = varint(1 << 40) + b"\x00"
    content = struct.pack(">ii", 3, 1) + struct.pack(">i", len(one)) + one
    return lambda: decode_avro_block(content, parse_record(schema_text))


def deletes(payload: bytes, version: int = 3, length: int | None = None) -> Act:
    content = struct.pack(">ii", version, len(payload) if length is None else length) + payload
    return lambda: decode_deletes(content)


@case()
def delete_block_whose_length_lies() -> Act:
    """A delete list of 2**31 - 1 bytes."""
    return deletes(b"\x00", length=2**31 - 1)


@case()
def delete_block_of_negative_length() -> Act:
    """A delete list of -1 bytes."""
    return deletes(b"\x00", length=-1)


@case()
def delete_block_of_2_to_the_60_deletes() -> Act:
    """A delete list that claims 2**60 deletes."""
    return deletes(varint(1 << 60) + bytes(300))


@case()
def delete_block_whose_key_claims_all_memory() -> Act:
    """A key of 2**50 bytes."""
    return deletes(varint(1) + varint(1) + varint(1 << 50))


@case()
def delete_block_with_an_unknown_union_branch() -> Act:
    """A key in the union's branch 1,000."""
    return deletes(varint(1) + varint(1000) + bytes(50))


@case()
def delete_block_of_nested_nulls() -> Act:
    """An ordering value of an array of 2**40 nulls."""
    return deletes(varint(1) + b"\x02\x02a\x02\x02a" + varint(12) + varint(1) + varint(1 << 40) + bytes(50))


@case()
def delete_block_with_a_decimal_of_a_megabyte() -> Act:
    """A decimal of 8 million bits."""
    return deletes(varint(1) + b"\x02\x02a\x02\x02a" + varint(9) + varint(1 << 20) + b"\x7f" * (1 << 20) + b"\x00")


@case("UnsupportedError")
def delete_block_of_version_1() -> Act:
    """Java objects, which nobody must ever deserialize."""
    return deletes(b"\xac\xed\x00\x05", version=1)


@case("UnsupportedError")
def delete_block_of_version_2() -> Act:
    """Kryo objects."""
    return deletes(b"\x01\x00", version=2)


@case("UnsupportedError")
def delete_block_of_version_99() -> Act:
    """A version of the future."""
    return deletes(b"\x00", version=99)


# Parquet, and whole tables


SCHEMA = '{"type":"record","name":"t","fields":[{"name":"id","type":["null","long"],"default":null}]}'
META = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
LOG_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "t",
        "fields": [
            *({"name": name, "type": ["null", "string"], "default": None} for name in META),
            {"name": "id", "type": ["null", "long"], "default": None},
        ],
    }
)
FIRST, SECOND = "20260101000000000", "20260102000000000"
BASE = f"f-0_0-0-0_{FIRST}.parquet"
LOG = f".f-0_{SECOND}.log.1_0-0-0"
PROPERTIES = {
    "hoodie.table.name": "t",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.version": "9",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.timeline.layout.version": "2",
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
    "hoodie.table.create.schema": SCHEMA.replace(":", "\\:"),
}


def rows(count: int = 3) -> pa.Table:
    texts = [str(i) for i in range(count)]
    return pa.table({**dict.fromkeys(META, texts), "id": list(range(count))})


def parquet(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def stat(path: str, size: int) -> dict[str, object]:
    return {"path": path, "fileId": "f-0", "partitionPath": "", "fileSizeInBytes": size}


def commit(path: str, size: int) -> bytes:
    from tidelake.format.commit_metadata import CommitMetadata, WriteStat

    stats = {"": (WriteStat(file_id="f-0", path=path, partition_path="", file_size_in_bytes=size),)}
    return CommitMetadata(stats, extra_metadata={"schema": SCHEMA}, operation_type="UPSERT").encode(SYNC)


def small_table(base: bytes | None = None, log: bytes | None = None) -> tuple[MemoryStorage, str]:
    """A table of one base file and perhaps one log file, and the path of its last commit."""
    storage = MemoryStorage(f"hostile-{len(CASES)}-{time.monotonic_ns()}")
    text = "\n".join(f"{key}={value}" for key, value in PROPERTIES.items())
    storage.put(".hoodie/hoodie.properties", text.encode())
    storage.put(".hoodie_partition_metadata", b"commitTime=1\npartitionDepth=0\n")
    data = parquet(rows()) if base is None else base
    storage.put(BASE, data)
    path = f".hoodie/timeline/{FIRST}_{FIRST}.deltacommit"
    storage.put(path, commit(BASE, len(data)))
    if log is not None:
        storage.put(LOG, log)
        path = f".hoodie/timeline/{SECOND}_{SECOND}.deltacommit"
        storage.put(path, commit(LOG, len(log)))
    return storage, path


def scanning(storage: MemoryStorage) -> Act:
    return lambda: tl.open_table(storage.uri, storage=storage).scan().to_arrow()


@case("nothing")
def small_table_that_is_right() -> Act:
    """The control: the table that the next cases damage is read."""
    content = block(5, {0: SECOND, 2: LOG_SCHEMA}, parquet(rows(2)))
    return scanning(small_table(log=content)[0])


def thrift_int(value: int) -> bytes:
    return varint(value)


def with_rows(data: bytes, old: int, new: int) -> bytes:
    """A parquet file whose footer claims another number of rows, everywhere it says so."""
    length = struct.unpack("<I", data[-8:-4])[0]
    footer = data[-8 - length : -8].replace(b"\x16" + varint(old), b"\x16" + varint(new))
    assert footer != data[-8 - length : -8]
    return data[: -8 - length] + footer + struct.pack("<I", len(footer)) + b"PAR1"


def with_footer(data: bytes, footer: bytes) -> bytes:
    length = struct.unpack("<I", data[-8:-4])[0]
    return data[: -8 - length] + footer + struct.pack("<I", len(footer)) + b"PAR1"


def rle_bomb(count: int) -> bytes:
    """A few kilobytes that are honestly ``count`` equal rows."""
    ones = pa.array(np.zeros(count, np.int64))
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), ["k"])
    return parquet(
        pa.table({**dict.fromkeys(META, text), "id": ones}),
        use_dictionary=True,
        compression="zstd",
        data_page_size=1 << 28,
        row_group_size=count,
        write_statistics=False,
    )


@case()
def parquet_log_block_that_claims_2_to_the_60_rows() -> Act:
    """A footer with 2**60 rows."""
    content = with_rows(parquet(rows(7)), 7, 1 << 60)
    return scanning(small_table(log=block(5, {0: SECOND, 2: LOG_SCHEMA}, content))[0])


@case()
def parquet_log_block_that_is_an_rle_bomb() -> Act:
    """A few kilobytes that hold 5 million rows, claimed as a log block."""
    content = rle_bomb(5_000_000)
    assert len(content) < 1_000_000
    return scanning(small_table(log=block(5, {0: SECOND, 2: LOG_SCHEMA}, content))[0])


@case()
def parquet_log_block_that_claims_a_billion_rows_of_rle() -> Act:
    """An RLE run and a footer that both claim 10**9 rows."""
    content = with_rows(rle_bomb(1000), 1000, 10**9)
    return scanning(small_table(log=block(5, {0: SECOND, 2: LOG_SCHEMA}, content))[0])


@case()
def parquet_log_block_that_is_no_parquet() -> Act:
    """A log block of noise."""
    content = b"PAR1" + bytes(range(256)) * 40 + b"PAR1"
    return scanning(small_table(log=block(5, {0: SECOND, 2: LOG_SCHEMA}, content))[0])


@case()
def parquet_log_block_with_a_footer_of_all_memory() -> Act:
    """A footer length of 2**32 - 1."""
    content = b"PAR1" + bytes(1000) + struct.pack("<I", 2**32 - 1) + b"PAR1"
    return scanning(small_table(log=block(5, {0: SECOND, 2: LOG_SCHEMA}, content))[0])


@case()
def base_file_that_claims_2_to_the_60_rows() -> Act:
    """A base file whose footer has 2**60 rows."""
    return scanning(small_table(base=with_rows(parquet(rows(7)), 7, 1 << 60))[0])


@case()
def base_file_with_a_footer_of_noise() -> Act:
    """A base file whose footer is a list that never ends."""
    return scanning(
        small_table(base=with_footer(parquet(rows()), b"\x15\x02\x19\xfc" + b"\xff" * 9 + b"\x01" + bytes(99)))[0]
    )


@case()
def base_file_with_a_footer_nested_without_end() -> Act:
    """A base file whose footer is a structure in a structure, a hundred thousand deep."""
    return scanning(small_table(base=with_footer(parquet(rows()), b"\x1c" * 100_000))[0])


@case()
def base_file_with_a_column_chunk_of_all_memory() -> Act:
    """A base file whose pages claim to inflate to 2**31 - 1 bytes."""
    data = bytearray(parquet(pa.table({**{n: ["k"] * 50 for n in META}, "id": [7] * 50}), compression="zstd"))
    # The first page header: type, uncompressed size, compressed size, each a zigzag varint of a compact i32.
    assert data[4] == 0x15
    at = 6
    assert data[at] == 0x15
    end = at + 1
    while data[end] & 0x80:
        end += 1
    data[at + 1 : end + 1] = varint(2**31 - 1)
    return scanning(small_table(base=bytes(data))[0])


@case()
def base_file_of_one_byte() -> Act:
    """A base file of one byte."""
    return scanning(small_table(base=b"P")[0])


@case()
def history_file_that_claims_a_billion_rows() -> Act:
    """An archived timeline whose file claims 10**9 instants."""
    table = pa.table({"instantTime": ["1"], "completionTime": ["1"], "action": ["commit"]})
    return history(with_rows(parquet(table), 1, 10**9))


@case()
def history_file_that_is_an_rle_bomb() -> Act:
    """An archived timeline of 10 million equal instants in a few kilobytes."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(5_000_000, np.int32)), ["20260101000000000"])
    table = pa.table({"instantTime": text, "completionTime": text, "action": text})
    return history(parquet(table, compression="zstd", row_group_size=5_000_000, write_statistics=False))


@case()
def history_file_whose_name_leads_away() -> Act:
    """A manifest that names a file outside of the history."""
    return history(b"", name="../../../../etc/passwd")


def history(data: bytes, name: str = "1_2_0.parquet") -> Act:
    storage, _ = small_table()
    folder = ".hoodie/timeline/history"
    storage.put(f"{folder}/_version_", b"1")
    listed = {"files": [{"fileName": name, "fileLen": len(data)}]}
    storage.put(f"{folder}/manifest_1", json.dumps(listed).encode())
    if name.startswith("1_"):
        storage.put(f"{folder}/{name}", data)
    return lambda: tl.open_table(storage.uri, storage=storage).history()


@case()
def history_manifest_nested_without_end() -> Act:
    """A manifest of a million brackets."""
    data = b'{"files":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}"
    return lambda: decode_manifest(data)


@case()
def history_manifest_of_numbers_without_end() -> Act:
    """A manifest whose file length has a million digits."""
    data = b'{"files":[{"fileName":"1_2_0.parquet","fileLen":' + b"9" * 1_000_000 + b"}]}"
    return lambda: decode_manifest(data)


@case()
def history_version_of_noise() -> Act:
    """A _version_ of a megabyte of digits."""
    return lambda: decode_version(b"9" * 1_000_000)


@case()
def history_version_of_foreign_digits() -> Act:
    """A _version_ in digits that are not ASCII."""
    return lambda: decode_version("٣".encode())


@case("refused")
def history_manifest_numbers_of_foreign_digits() -> Act:
    """Names manifest_<other digits> and manifest_<a hundred thousand digits> are none of ours."""
    storage, _ = small_table()
    folder = ".hoodie/timeline/history"
    storage.put(f"{folder}/manifest_٣", b"{}")
    storage.put(f"{folder}/manifest_{'9' * 100_000}", b"{}")

    def act() -> object:
        try:
            found = tl.open_table(storage.uri, storage=storage).history()
        except TidelakeError:
            found = ()
        if found:
            raise AssertionError(found)
        raise Done("refused")

    return act


@case()
def bloom_filter_that_claims_2_gb() -> Act:
    """A bloom filter of 2**31 - 1 bits, of which none are there."""
    head = struct.pack(">iibi", -1, 30, 1, 2**31 - 1)
    text = base64.b64encode(head + struct.pack(">iii", 1, 1, 1) + head).decode()
    return lambda: decode_bloom(text)


@case()
def bloom_filter_of_2_to_the_31_rows() -> Act:
    """A bloom filter of 2**31 - 1 rows of one bit."""
    head = struct.pack(">iibi", -1, 1, 1, 1)
    text = base64.b64encode(head + struct.pack(">iii", 1, 1, 2**31 - 1)).decode()
    return lambda: decode_bloom(text)


@case()
def bloom_filter_that_is_no_base64() -> Act:
    """A bloom filter of ten million letters that are not base64."""
    text = "!" * 10_000_000
    return lambda: decode_bloom(text)


# Properties, names, folders, filters


@case()
def properties_of_a_million_lines() -> Act:
    """A properties file of 10**6 lines."""
    data = b"".join(b"k%d=v\n" % i for i in range(1_000_000))
    return lambda: decode_properties(data)


@case()
def properties_of_a_million_lines_of_another_kind() -> Act:
    """A properties file of 10**6 lines that end in a carriage return."""
    data = b"".join(b"k%d=v\r" % i for i in range(1_000_000))
    return lambda: decode_properties(data)


@case()
def properties_of_100_mb() -> Act:
    """A properties file of 100 MB."""
    data = b"k=" + b"v" * 100_000_000
    return lambda: decode_properties(data)


@case()
def properties_of_one_line_continued_without_end() -> Act:
    """A properties file of one line that 5 million backslashes continue."""
    data = b"k=" + b"\\\n" * 5_000_000
    return lambda: decode_properties(data)


@case()
def properties_with_invalid_escapes() -> Act:
    """A properties file whose \\u escapes are not hexadecimal."""
    return lambda: decode_properties(b"hoodie.table.name=\\uZZZZ\nx=\\u12\n")


@case()
def table_whose_properties_escape_to_half_a_character() -> Act:
    """A table name that is one half of a pair, which no UTF-8 text can hold."""
    storage, _ = small_table()
    text = storage.get(".hoodie/hoodie.properties").replace(b"hoodie.table.name=t", b"hoodie.table.name=\\ud800")
    storage.put(".hoodie/hoodie.properties", text + b"\nhoodie.table.checksum=1\n")
    return scanning(storage)


@case()
def table_whose_version_has_a_million_digits() -> Act:
    """A table version whose digits take quadratic time to read."""
    storage, _ = small_table()
    text = storage.get(".hoodie/hoodie.properties")
    storage.put(".hoodie/hoodie.properties", text.replace(b"version=9", b"version=" + b"9" * 1_000_000))
    return scanning(storage)


@case("CorruptError", "LimitError", "InvalidError")
def table_whose_timeline_lies_elsewhere() -> Act:
    """A timeline path that leads out of the table."""
    storage, _ = small_table()
    text = storage.get(".hoodie/hoodie.properties")
    storage.put(".hoodie/hoodie.properties", text + b"\nhoodie.timeline.path=../../../../etc\n")
    return scanning(storage)


@case()
def partition_metafile_of_noise() -> Act:
    """A partition metafile whose depth has a million digits."""
    return lambda: decode_partition_metadata(b"commitTime=1\npartitionDepth=" + b"9" * 60_000)


@case()
def partition_folder_1_000_levels_deep() -> Act:
    """A partition under 1,000 folders."""
    storage, _ = small_table()
    storage.delete(".hoodie_partition_metadata")
    storage.put("/".join(["d"] * 1_000) + "/.hoodie_partition_metadata", b"commitTime=1\npartitionDepth=1000\n")
    return scanning(storage)


@case("nothing")
def timeline_folder_with_hostile_names() -> Act:
    """Names of foreign digits, of 10**5 characters, and of nothing, among 20,000 of them, are none of ours."""
    storage, _ = small_table()
    names = ["٢٠٢٦٠١٠١.commit", "1" * 100_000 + ".commit", "1_" + "2" * 100_000 + ".commit", ".commit", "1_.commit"]
    names += ["1._commit", "1.commit.requested.requested", "²_³.commit", "1_2.commit\n", "\u202e1_2.commit"]
    names += [f"1_2_{i}.commit" for i in range(20_000)]
    for name in names:
        storage.put(f".hoodie/timeline/{name}", b"")
    return scanning(storage)


@case("refused")
def names_that_would_take_exponential_time() -> Act:
    """Names of a million characters that almost match are refused at once by every parser."""
    texts = [
        f"{'1' * 17}_{'2' * 1_000_000}.commit",
        "a-" * 500_000 + "_",
        ".a_1.log.1_" + "1-" * 500_000,
        "1_" * 500_000,
    ]

    def act() -> object:
        for text in texts:
            for parse in (parse_timeline_name, parse_base_name, parse_log_name, parse_history_name):
                if parse(text) is not None:
                    raise AssertionError(text[:50])
        raise Done("refused")

    return act


FILTERED = pa.schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(18, 2))])


def filtering(text: str) -> Act:
    return lambda: parse_filter(text, FILTERED)


@case("FilterError")
def filter_of_a_megabyte() -> Act:
    """A filter of 1 MB."""
    return filtering("name = '" + "x" * 1_000_000 + "'")


@case("FilterError")
def filter_of_10_000_parentheses() -> Act:
    """A filter of 10,000 nested parentheses."""
    return filtering("(" * 10_000 + "id = 1" + ")" * 10_000)


@case("FilterError")
def filter_of_10_000_ors() -> Act:
    """A filter of 10,000 conditions."""
    return filtering(" OR ".join(["id=1"] * 10_000))


@case("FilterError", "nothing")
def filter_of_10_000_nots() -> Act:
    """A filter of 10,000 negations."""
    return filtering("NOT " * 10_000 + "id = 1")


@case("FilterError", "nothing")
def filter_of_10_000_minus_signs() -> Act:
    """A filter of 10,000 minus signs, each with a space."""
    return filtering("id = " + "- " * 10_000 + "1")


@case("nothing")
def filter_of_16_000_values() -> Act:
    """A filter with a list of 16,000 values, which is allowed, and must not exhaust Arrow's stack."""
    return filtering("id IN (" + ",".join(["1"] * 16_000) + ")")


@case("nothing")
def filter_of_4_000_ors() -> Act:
    """A filter of 4,000 conditions, which is allowed, and must not exhaust Python's stack."""
    return filtering(" OR ".join(["id=1"] * 4_000))


@case("FilterError")
def filter_of_brackets() -> Act:
    """A filter of 10,000 square brackets."""
    return filtering("id = " + "[" * 10_000 + "]" * 10_000)


@case("FilterError")
def filter_of_cases() -> Act:
    """A filter of 5,000 CASE words, one in the other."""
    return filtering("CASE WHEN " * 5_000 + "id = 1")


@case("FilterError")
def filter_with_a_number_of_90_000_digits() -> Act:
    """A filter with a number that no column holds."""
    return filtering("id = " + "9" * 90_000)


@case("FilterError")
def filter_with_an_exponent_without_end() -> Act:
    """A filter with a number whose plain form has a billion digits."""
    return filtering("price = 1e999999999")


@case("FilterError")
def filter_with_a_fraction_without_end() -> Act:
    """A filter with a number of a billion decimals."""
    return filtering("price > 1e-999999999")


@case("FilterError")
def filter_of_several_statements() -> Act:
    """A filter that goes on as another statement."""
    return filtering("id = 1; DROP TABLE t")


def memory_now() -> int:
    """The address space of this process, in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def peak_now() -> int:
    """The greatest resident memory of this process since it was last reset, in bytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def reset_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def run(act: Act) -> tuple[str, str]:
    try:
        act()
    except Done as done:
        return done.message, done.message
    except TidelakeError as error:
        return type(error).__name__, str(error)
    except BaseException as error:
        return f"not ours: {type(error).__name__}", str(error)
    return "nothing", ""


def main(limit_bytes: int) -> None:
    for each in CASES:
        if each.name == "small_table_that_is_right":
            run(each.make())  # Loads what is loaded at first use, and starts the threads that stay.
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    for each in CASES:
        act = each.make()
        resource.setrlimit(resource.RLIMIT_AS, (memory_now() + limit_bytes, hard))
        reset_peak()
        before, started = peak_now(), time.process_time()
        kind, text = run(act)
        seconds = time.process_time() - started
        grown = peak_now() - before
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, hard))
        line = {
            "case": each.name,
            "wanted": each.wanted,
            "kind": kind,
            "text": text,
            "seconds": seconds,
            "grown": grown,
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
