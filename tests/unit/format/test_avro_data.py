"""The vectorised Avro codec: against fastavro on random data, and against damaged and hostile bytes."""

from __future__ import annotations

import json
import math
import struct
import time
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelake.errors import CorruptError, InvalidError, LimitError, TidelakeError, UnsupportedError
from tidelake.format import avro_data
from tidelake.format.avro_arrow import arrow_schema, avro_record
from tidelake.format.avro_data import (
    decode_avro_block,
    decode_records,
    encode_avro_block,
    encode_records,
    split_avro_block,
)
from tidelake.format.avro_schema import parse_record
from unit.format.avro_samples import Sample, decode, fastavro_bytes, fastavro_rows, python, samples, write

SLOW = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))


def _schema(*kinds: object) -> dict[str, object]:
    return {"type": "record", "name": "r", "fields": [{"name": f"f{i}", "type": kind} for i, kind in enumerate(kinds)]}


def _rows(batch: pa.RecordBatch) -> object:
    return batch.to_pylist(maps_as_pydicts="strict")


@SLOW
@given(samples())
def test_decode_records_random_rows_of_fastavro_are_equal(sample: Sample) -> None:
    """What fastavro encodes, of any schema, is decoded to the same values and the schema's Arrow types."""
    schema, rows = sample
    batch = decode(schema, fastavro_bytes(schema, rows))
    assert batch.schema == arrow_schema(parse_record(json.dumps(schema)))
    assert _rows(batch) == python(rows)


@SLOW
@given(samples())
def test_encode_records_random_rows_are_read_by_fastavro(sample: Sample) -> None:
    """What we encode, fastavro and we ourselves decode to the same values."""
    schema, rows = sample
    record = parse_record(json.dumps(schema))
    batch = pa.RecordBatch.from_pylist(python(rows), schema=arrow_schema(record))
    buffer, offsets = encode_records(batch, record)
    data = memoryview(buffer)
    assert len(offsets) == len(rows) + 1
    assert offsets[-1] == len(data)
    encoded = [bytes(data[i:j]) for i, j in pairwise(offsets)]
    assert fastavro_rows(schema, encoded) == python(rows)
    assert _rows(decode(schema, encoded)) == python(rows)


@SLOW
@given(samples(), st.sampled_from([1, 2, 3, -1, -2, -5]))
def test_decode_records_arrays_in_blocks_are_equal(sample: Sample, block: int) -> None:
    """Arrays and maps in several blocks, with and without sizes, are read as one, and skipped as one."""
    schema, rows = sample
    encoded = [write(schema, row, block) for row in rows]
    assert fastavro_rows(schema, encoded[:1]) == python(rows[:1])
    assert _rows(decode(schema, encoded)) == python(rows)
    assert decode(schema, encoded, set()).num_rows == len(rows)


@SLOW
@given(samples(), st.data())
def test_decode_records_projection_gives_the_wanted_columns(sample: Sample, data: st.DataObject) -> None:
    """Any choice of columns gives the same values as decoding all of them; names that are not there are ignored."""
    schema, rows = sample
    encoded = fastavro_bytes(schema, rows)
    whole = decode(schema, encoded)
    wanted = data.draw(st.sets(st.sampled_from([*whole.schema.names, "missing"])))
    batch = decode(schema, encoded, wanted)
    assert batch.num_rows == len(rows)
    assert batch.schema.names == [name for name in whole.schema.names if name in wanted]
    for name in batch.schema.names:
        assert batch.column(name).equals(whole.column(name)) or _rows(batch) == _rows(whole.select(batch.schema.names))


@SLOW
@given(samples(depth=2), st.randoms(use_true_random=False), st.booleans())
def test_decode_records_damaged_bytes_are_corrupt_or_right(sample: Sample, random: object, many: bool) -> None:
    """A flipped bit gives an error of ours, or valid data that fastavro reads alike; never anything else."""
    schema, rows = sample
    encoded = fastavro_bytes(schema, rows)[:3] * (30 if many else 1)
    if not encoded[0]:
        return
    for _ in range(15):
        which = random.randrange(len(encoded))  # type: ignore[attr-defined]
        if not encoded[which]:
            continue
        bit = random.randrange(8 * len(encoded[which]))  # type: ignore[attr-defined]
        damaged = bytearray(encoded[which])
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            batch = decode(schema, [*encoded[:which], bytes(damaged), *encoded[which + 1 :]])
        except CorruptError:
            continue
        try:
            ours, theirs = python(_rows(batch.slice(which, 1))), python(fastavro_rows(schema, [bytes(damaged)]))
        except (ValueError, OverflowError, KeyError, ArithmeticError):
            continue  # a date beyond Python's years, or a key twice in a map
        assert ours == theirs


def test_decode_records_least_number_of_128_bits_is_no_decimal() -> None:
    """It has 39 digits, and no positive twin: a check of the absolute value lets it pass."""
    kind = {"type": "fixed", "name": "n", "size": 16, "logicalType": "decimal", "precision": 1, "scale": 0}
    schema = {"type": "record", "name": "r", "fields": [{"name": "f0", "type": kind}]}
    assert python(_rows(decode(schema, [bytes(15) + b"\x07"]))) == [{"f0": Decimal(7)}]
    for bad in (b"\x80" + bytes(15), b"\x7f" + bytes(15), bytes(15) + b"\x0a"):
        with pytest.raises(CorruptError, match="digits"):
            decode(schema, [bad])


RICH = _schema(
    ["null", "string"],
    "long",
    ["double", "null"],
    {"type": "array", "items": ["null", "string"]},
    {"type": "map", "values": {"type": "array", "items": "int"}},
    {"type": "fixed", "name": "d", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 2},
    ["null", {"type": "record", "name": "n", "fields": [{"name": "x", "type": ["null", "float"]}]}],
    {"type": "enum", "name": "e", "symbols": ["A", "B"]},
    {"type": "array", "items": "double"},
    "boolean",
)
RICH_ROW: dict[str, object] = {
    "f0": "grüße",
    "f1": -(2**60),
    "f2": 2.5,
    "f3": ["a", None, "ccc"],
    "f4": {"k": [1, 200, 70_000], "l": []},
    "f5": Decimal("-1234567.89"),
    "f6": {"x": 1.5},
    "f7": "B",
    "f8": [1.0, -2.0],
    "f9": True,
}


@pytest.mark.parametrize("copies", [1, 100])
@pytest.mark.parametrize("columns", [None, {"f1", "f9"}])
@pytest.mark.parametrize("block", [None, -2])
def test_decode_records_truncated_anywhere_is_corrupt(copies: int, columns: set[str] | None, block: int | None) -> None:
    """A record that ends early, at any byte, is refused, alone or among many, read or skipped."""
    whole = write(RICH, RICH_ROW, block)
    for cut in range(len(whole)):
        with pytest.raises(CorruptError):
            decode(RICH, [*[whole] * (copies - 1), whole[:cut]], columns)
    assert _rows(decode(RICH, [whole])) == [RICH_ROW]


@pytest.mark.parametrize("copies", [1, 100])
def test_decode_records_any_bit_flipped_is_corrupt_or_valid(copies: int) -> None:
    """Every single flipped bit of a rich record gives an error of ours or valid Arrow data."""
    whole = fastavro_bytes(RICH, [RICH_ROW])[0]
    refused = 0
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            decode(RICH, [whole] * (copies // 2) + [bytes(damaged)] + [whole] * (copies // 2))
        except CorruptError:
            refused += 1
    assert refused > 200


def test_decode_records_bytes_after_the_last_field_are_corrupt() -> None:
    """A record that is longer than its fields is refused."""
    with pytest.raises(CorruptError, match="longer"):
        decode(_schema("int"), [b"\x02\x00"])


HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # 2**63 - 1
LEAST = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # -2**63


@pytest.mark.parametrize("copies", [1, 100])
@pytest.mark.parametrize("columns", [None, set()])
@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("long", b"\xff" * 9 + b"\x02"),
        ("long", b"\xff" * 10 + b"\x01"),
        ("long", b"\x80" * 30),
        ("string", b"\x01"),
        ("string", HUGE),
        ("string", LEAST),
        ("bytes", b"\x04a"),
        (["null", "int"], b"\x04\x00"),
        (["null", "int"], b"\x01"),
        (["null", "int"], HUGE),
        ({"type": "array", "items": "int"}, HUGE + b"\x00"),
        ({"type": "array", "items": "int"}, LEAST + b"\x00\x00"),
        ({"type": "array", "items": "int"}, b"\x01" + HUGE + b"\x00"),
        ({"type": "array", "items": "int"}, b"\x01\x01\x00\x00"),
        ({"type": "array", "items": "double"}, b"\x04" + b"\x00" * 15),
        ({"type": "array", "items": "int"}, b"\x02\x00"),
        ({"type": "map", "values": "int"}, HUGE),
        ({"type": "map", "values": "int"}, b"\x02\x01\x00\x00"),
        ({"type": "array", "items": {"type": "array", "items": "string"}}, b"\x02\x02" + HUGE + b"\x00\x00"),
        ("double", b"\x00" * 7),
        ({"type": "fixed", "name": "f", "size": 2**30}, b"\x00" * 7),
    ],
)
def test_decode_records_hostile_bytes_are_corrupt(
    kind: object, data: bytes, columns: set[str] | None, copies: int
) -> None:
    """Huge counts, negative lengths, endless varints and impossible branches are refused, read or skipped."""
    with pytest.raises(CorruptError):
        decode(_schema(kind), [data] * copies, columns)


@pytest.mark.parametrize("copies", [1, 100])
@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("int", b"\x80\x80\x80\x80\x10"),
        ("boolean", b"\x02"),
        ("string", b"\x04\xc3\x28"),
        ("string", b"\x06\xed\xa0\x80"),
        ({"type": "map", "values": "null"}, b"\x02\x02\xff\x00"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\x02"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\x01"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3}, b"\x00"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3}, b"\x04\x03\xe8"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3}, b"\x22" + b"\x00" * 17),
        ({"type": "fixed", "name": "f", "size": 17, "logicalType": "decimal", "precision": 38}, b"\x01" + b"\x00" * 16),
        ({"type": "fixed", "name": "f", "size": 17, "logicalType": "decimal", "precision": 38}, b"\x00" + b"\xff" * 16),
        ({"type": "int", "logicalType": "time-millis"}, b"\x01"),
        ({"type": "long", "logicalType": "time-micros"}, HUGE),
        ({"type": "array", "items": "int"}, b"\x01\x04\x00\x00"),
        ({"type": "array", "items": "string"}, b"\x03\x02\x00\x00\x00"),
    ],
)
def test_decode_records_impossible_values_are_corrupt(kind: object, data: bytes, copies: int) -> None:
    """Values that their type cannot have are refused: wide ints, broken UTF-8, decimals with too many digits."""
    with pytest.raises(CorruptError):
        decode(_schema(kind), [data] * copies)


@pytest.mark.parametrize("copies", [1, 100])
@pytest.mark.parametrize("items", ["null", {"type": "record", "name": "empty", "fields": []}])
def test_decode_records_many_items_without_bytes_are_a_limit(items: object, copies: int) -> None:
    """Some items that take no bytes are read; a claim of very many is refused before they are made."""
    schema = _schema({"type": "array", "items": items})
    assert decode(schema, [b"\x06\x00"] * copies).column(0)[0].as_py() in ([None] * 3, [{}] * 3)
    for columns in (None, set[str]()):
        for count in (HUGE, b"\x80\x80\x80\x01"):
            with pytest.raises(LimitError):
                decode(schema, [count + b"\x00"] * copies, columns)


def test_decode_records_nulls_of_wide_structs_are_a_limit() -> None:
    """A million null structs of ten thousand columns are refused before their memory is asked for."""
    wide = {"type": "record", "name": "w", "fields": [{"name": f"c{i}", "type": "long"} for i in range(10_000)]}
    record = parse_record(json.dumps(_schema(["null", wide])))
    at = np.arange(1_000_000, dtype=np.int64)
    with pytest.raises(LimitError):
        decode_records(bytes(1_000_000), at, at + 1, record)


def test_decode_records_one_long_array_is_read_in_linear_time() -> None:
    """One record with very many items among short ones does not cost a numpy round for each of them."""
    schema = _schema({"type": "array", "items": ["null", "string"]})
    lists: list[list[str | None]] = [["a", None]] * 200 + [["bc", None, ""] * 30_000]
    rows: list[dict[str, object]] = [{"f0": items} for items in lists]
    encoded = fastavro_bytes(schema, rows)
    started = time.process_time()
    assert _rows(decode(schema, encoded)) == rows
    assert time.process_time() - started < 30


def test_decode_records_many_tiny_blocks_are_read_in_linear_time() -> None:
    """An array of a hundred thousand blocks of one item each is read, whatever its items."""
    for kind, item in (("boolean", b"\x01"), ("int", b"\x02")):
        started = time.process_time()
        batch = decode(_schema({"type": "array", "items": kind}), [(b"\x02" + item) * 100_000 + b"\x00"])
        assert len(batch.column(0)[0]) == 100_000
        assert time.process_time() - started < 30


def test_decode_records_extreme_longs_are_exact() -> None:
    """Numbers of every width from one to ten bytes are exact, also at the very end of the buffer."""
    values = [sign * 2**bits + off for bits in range(63) for sign in (1, -1) for off in (-1, 0, 1)]
    values += [2**63 - 1, -(2**63), 0]
    rows: list[dict[str, object]] = [{"f0": value} for value in values]
    encoded = fastavro_bytes(_schema("long"), rows)
    assert _rows(decode(_schema("long"), encoded)) == rows
    for row, data in zip(rows, encoded, strict=True):
        assert _rows(decode(_schema("long"), [data])) == [row]


def test_decode_records_special_floats_are_kept() -> None:
    """Not-a-number, infinities and minus zero survive."""
    schema = _schema("double", "float")
    rows: list[dict[str, object]] = [{"f0": v, "f1": v} for v in (math.nan, math.inf, -math.inf, -0.0)]
    record = parse_record(json.dumps(schema))
    encoded = fastavro_bytes(schema, rows)
    batch = decode(schema, encoded)
    assert repr(_rows(batch)) == repr(rows)
    assert bytes(encode_records(batch, record)[0]) == b"".join(encoded)


@pytest.mark.parametrize("scale", [0, 10, 38])
@pytest.mark.parametrize(
    "kind", [{"type": "bytes"}, *({"type": "fixed", "name": "d", "size": n} for n in (16, 17, 30))]
)
def test_decimals_of_38_digits_round_trip(kind: dict[str, object], scale: int) -> None:
    """Decimals at the edges of 38 digits, in bytes and in fixed of any size, are written and read back."""
    schema = _schema({**kind, "logicalType": "decimal", "precision": 38, "scale": scale})
    record = parse_record(json.dumps(schema))
    digits = [10**38 - 1, 1 - 10**38, 0, 1, -1, 127, 128, -128, -129, 255, 256, 2**64, -(2**64), 2**126, -(2**126)]
    raw = b"".join(value.to_bytes(16, "little", signed=True) for value in digits)
    array = pa.Array.from_buffers(pa.decimal128(38, scale), len(digits), [None, pa.py_buffer(raw)])
    batch = pa.RecordBatch.from_arrays([array], schema=arrow_schema(record))
    buffer, offsets = encode_records(batch, record)
    assert decode_records(buffer, offsets[:-1], offsets[1:], record).equals(batch)
    if kind["type"] == "bytes":
        shortest = [value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)
                    for value in digits]  # fmt: skip
        assert bytes(buffer) == b"".join(bytes([2 * len(value)]) + value for value in shortest)


def test_decode_records_in_parts_equals_decoding_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cutting the records into parts, by rows or by bytes, changes nothing."""
    rows = [{**RICH_ROW, "f1": i, "f0": None if i % 3 else "x" * i} for i in range(100)]
    encoded = fastavro_bytes(RICH, rows)
    whole = decode(RICH, encoded)
    for limit, value in (("_PART_ROWS", 7), ("_PART_BYTES", 100)):
        monkeypatch.setattr(avro_data, limit, value)
        assert decode(RICH, encoded).equals(whole)
    assert _rows(whole) == rows


def test_decode_records_unsupported_type_is_skipped_if_not_wanted() -> None:
    """A field whose type is not read stops only those who want it."""
    schema = _schema("int", ["null", "int", "string"], "string")
    values: list[object] = [None, 3, "text"] * 40
    rows: list[dict[str, object]] = [{"f0": 1, "f1": value, "f2": "x"} for value in values]
    encoded = fastavro_bytes(schema, rows)
    assert decode(schema, encoded, {"f0", "f2"}).to_pylist() == [{"f0": 1, "f2": "x"}] * 120
    with pytest.raises(UnsupportedError, match="f1"):
        decode(schema, encoded)


def test_decode_records_no_records_gives_an_empty_batch() -> None:
    """No records give a batch of no rows with the right schema."""
    none = np.zeros(0, np.int64)
    record = parse_record(json.dumps(RICH))
    batch = decode_records(b"", none, none, record)
    assert batch.num_rows == 0
    assert batch.schema == arrow_schema(record)
    assert len(encode_records(batch, record)[0]) == 0


def test_decode_records_wrong_ranges_are_refused() -> None:
    """Ranges that overlap, run backwards or leave the buffer never reach the bytes."""
    record = parse_record(json.dumps(_schema("string")))
    for starts, ends in (([0, 1], [2, 3]), ([2, 0], [3, 1]), ([0], [9]), ([-1], [1]), ([2], [1])):
        with pytest.raises(CorruptError):
            decode_records(b"\0\0\0", np.array(starts), np.array(ends), record)
    with pytest.raises(InvalidError):
        decode_records(b"\0\0\0", np.array([0]), np.array([1, 2]), record)


def _sliced() -> pa.RecordBatch:
    rows = [{**RICH_ROW, "f1": i, "f3": ["x"] * (i % 4), "f6": None if i % 2 else {"x": None}} for i in range(20)]
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(parse_record(json.dumps(RICH))))


def test_encode_records_sliced_batch_writes_only_the_slice() -> None:
    """A slice of a batch, whose arrays have offsets, is written as if it were a batch of its own."""
    record = parse_record(json.dumps(RICH))
    part = _sliced().slice(5, 9)
    content = encode_avro_block(part, record)
    assert decode_avro_block(content, record).equals(part)
    assert decode_avro_block(content, record).to_pylist() == part.to_pylist()


def test_encode_records_other_arrow_types_are_cast() -> None:
    """Small integers, large and view strings, dictionaries and time zones are cast to the table's types."""
    batch = pa.RecordBatch.from_pydict(
        {
            "a": pa.array([1, None], pa.int8()),
            "b": pa.array(["x", None], pa.large_string()),
            "c": pa.array(["x", "y"]).dictionary_encode(),
            "d": pa.array([1, 2], pa.timestamp("us", "Asia/Tokyo")),
            "e": pa.array([[1], None], pa.large_list(pa.int16())),
            "f": pa.array(["x", None], pa.string_view()),
        }
    )
    record = avro_record(batch.schema, "t")
    back = decode_avro_block(encode_avro_block(batch, record), record)
    assert back.schema == arrow_schema(record)
    assert back.column("d").cast(pa.int64()).to_pylist() == [1, 2]
    assert back.drop_columns("d").to_pylist() == batch.drop_columns("d").to_pylist()


@pytest.mark.parametrize(
    ("kind", "column", "said"),
    [
        ("int", pa.array([1, None]), "null"),
        ("int", pa.array([2**40]), "f0"),
        ("int", pa.array(["x"]), "f0"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.array(["B"]), "enum"),
        (
            {"type": "fixed", "name": "d", "size": 1, "logicalType": "decimal", "precision": 5},
            pa.array([Decimal(300)], pa.decimal128(5, 0)),
            "fit",
        ),
        ({"type": "array", "items": "int"}, pa.array([[None]], pa.list_(pa.int32())), "f0"),
        ({"type": "record", "name": "n", "fields": [{"name": "x", "type": "int"}]}, pa.array([{"x": None}]), "f0"),
    ],
)
def test_encode_records_value_that_does_not_fit_is_invalid(kind: object, column: pa.Array, said: str) -> None:
    """Nulls without a null branch, numbers too large and symbols unknown are refused with the column's name."""
    with pytest.raises(InvalidError, match=said):
        encode_records(pa.RecordBatch.from_arrays([column], ["f0"]), parse_record(json.dumps(_schema(kind))))


def test_encode_records_other_columns_are_invalid_and_named() -> None:
    """A batch with a column too many or too few is refused."""
    record = parse_record(json.dumps(_schema("int", "int")))
    for names in (["f0"], ["f0", "f1", "extra"], ["f0", "f0"]):
        batch = pa.RecordBatch.from_arrays([pa.array([1], pa.int32())] * len(names), names=names)
        with pytest.raises(InvalidError, match=r"f1|extra"):
            encode_records(batch, record)


def test_avro_block_layout_is_that_of_the_format() -> None:
    """The content is version 3, the count, and each record behind its length, big-endian; columns may be in any order."""
    record = parse_record(json.dumps(_schema(["null", "string"], "int")))
    batch = pa.RecordBatch.from_pydict({"f1": pa.array([1, 64], pa.int32()), "f0": ["ab", None]})
    content = encode_avro_block(batch, record)
    assert content == struct.pack(">iii", 3, 2, 5) + b"\x02\x04ab\x02" + struct.pack(">i", 3) + b"\x00\x80\x01"
    assert decode_avro_block(content, record).to_pylist() == [{"f0": "ab", "f1": 1}, {"f0": None, "f1": 64}]
    assert decode_avro_block(memoryview(content), record, {"f1"}).to_pylist() == [{"f1": 1}, {"f1": 64}]
    assert [edges.tolist() for edges in split_avro_block(content)] == [[12, 21], [17, 24]]


def test_avro_block_without_records_round_trips() -> None:
    """A block of no records is a header only."""
    record = parse_record(json.dumps(_schema("int")))
    empty = pa.RecordBatch.from_pydict({"f0": pa.array([], pa.int32())})
    assert encode_avro_block(empty, record) == struct.pack(">ii", 3, 0)
    assert decode_avro_block(struct.pack(">ii", 3, 0), record).num_rows == 0


@pytest.mark.parametrize("version", [0, 1, 2, 4, -1])
def test_avro_block_other_version_is_unsupported_and_named(version: int) -> None:
    """Only version 3 is read; the message names the other one."""
    with pytest.raises(UnsupportedError, match=f"version {version} "):
        split_avro_block(struct.pack(">ii", version, 0))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0\0",
        struct.pack(">ii", 3, -1),
        struct.pack(">ii", 3, 2**31 - 1),
        struct.pack(">ii", 3, 1),
        struct.pack(">iii", 3, 1, 1),
        struct.pack(">iii", 3, 1, -1),
        struct.pack(">iii", 3, 1, 2**31 - 1),
        struct.pack(">iiii", 3, 2, 4, 0),
        struct.pack(">iii", 3, 0, 0),
    ],
)
def test_avro_block_hostile_frame_is_corrupt(content: bytes) -> None:
    """Counts and lengths that the content cannot hold are refused, and so are bytes after the last record."""
    with pytest.raises(CorruptError):
        split_avro_block(content)


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=60), st.integers(0, 70))
def test_decode_avro_block_random_bytes_never_crash(data: bytes, count: int) -> None:
    """Random bytes in place of a block or of its records give errors of ours or valid data."""
    record = parse_record(json.dumps(RICH))
    framed = struct.pack(">ii", 3, count) + (struct.pack(">i", len(data)) + data) * count
    for content in (data, struct.pack(">ii", 3, count) + data, framed):
        try:
            decode_avro_block(content, record).validate(full=True)
        except TidelakeError:
            continue
