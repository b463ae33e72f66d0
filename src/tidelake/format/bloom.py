"""The bloom filter in a base file's footer: which keys the file surely does not have.

A filter is a stack of equal *rows*; a key is in the filter if one row has all its bits. Bits come from Hudi's chain of
32-bit murmur hashes, each seeded with the one before (its tail bytes are mixed in the reverse of the usual order, as
signed bytes, so no library's murmur gives the same values). Keys are hashed many at a time, one length after another.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake import _limits
from tidelake.errors import CorruptError, LimitError, UnsupportedError
from tidelake.format.bytes_reader import BytesReader

DYNAMIC = "DYNAMIC_V0"
SIMPLE = "SIMPLE"
_VERSION = -1
_MURMUR = 1
_M = np.uint32(0x5BD1E995)
_MAX_HASHES = 255
_PIECE = 8_192
_ROW_HEAD = struct.Struct(">iibi")

Bits = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """Rows of bits. ``row_keys`` is how many keys a row takes, ``last_row_keys`` how many the last one has."""

    hash_count: int
    bit_count: int
    row_keys: int
    last_row_keys: int
    rows: tuple[bytes, ...]

    def may_contain(self, keys: pa.Array) -> npt.NDArray[np.bool_]:
        """Key by key, whether the file may have it; False is certain."""
        found = np.zeros(len(keys), dtype=np.bool_)
        bits = [np.unpackbits(np.frombuffer(row, dtype=np.uint8), bitorder="little") for row in self.rows]
        for places, hashes in _positions(keys, self.hash_count, self.bit_count):
            here = np.zeros(len(places), dtype=np.bool_)
            for row in bits:
                here |= row[hashes].all(axis=0)
            found[places] = here
        return found


def build_bloom(keys: pa.Array, *, error_rate: float = 1e-9, hashes: Hashes | None = None) -> BloomFilter:
    """A filter with one row, sized for these keys; their hashes (``bloom_hashes``) may be known."""
    bit_count, hash_count = _shape(len(keys), error_rate)
    bits = np.zeros(-(-bit_count // 8) * 8, dtype=np.uint8)
    if hashes is not None:
        bits[_remainders(hashes[:, :hash_count], bit_count)] = 1
    else:
        for _, places in _positions(keys, hash_count, bit_count):
            bits[places.reshape(-1)] = 1
    row = np.packbits(bits, bitorder="little").tobytes()
    return BloomFilter(hash_count, bit_count, max(1, len(keys)), len(keys), (row,))


def bloom_hashes(keys: pa.Array, *, error_rate: float) -> Hashes:
    """The hashes (keys x hashes) that filters of some of these keys are made of, as many as any of them asks for."""
    _, most = _shape(1, error_rate)
    found = np.empty((len(keys), most), dtype=np.int32)
    for places, chains in _chains(keys, most):
        found[places] = chains.T
    return found


def _shape(keys: int, error_rate: float) -> tuple[int, int]:
    """How many bits and hashes a filter of so many keys has; the fewer the keys, the more hashes."""
    expected = max(1, keys)
    bit_count = math.ceil(expected * (-math.log(error_rate) / math.log(2) ** 2))
    return bit_count, math.ceil(math.log(2) * bit_count / expected)


def decode_bloom(text: str, type_code: str = DYNAMIC) -> BloomFilter:
    """The filter in a footer's base64 text."""
    if type_code not in (DYNAMIC, SIMPLE):
        raise UnsupportedError(f"bloom filters of type {type_code} are not read", value=type_code)
    if len(text) > 2 * _limits.BLOOM_BYTES:
        raise LimitError(f"a bloom filter of {len(text)} characters is larger than {2 * _limits.BLOOM_BYTES}")
    try:
        reader = BytesReader(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as error:
        raise CorruptError(f"a bloom filter is not base64: {error}") from error
    if type_code == SIMPLE:
        hash_count, bit_count = _head(reader)
        row = bytes(reader.take(-(-bit_count // 8), "the bits of a bloom filter"))
        return BloomFilter(hash_count, bit_count, 0, 0, (row,))
    hash_count, bit_count = _head(reader)
    row_keys, last_row_keys = reader.int32("the keys of a row"), reader.int32("the keys of the last row")
    count = reader.int32("the number of bloom rows")
    if count < 0 or count * (13 + bit_count // 8) > reader.remaining:
        raise CorruptError(f"a bloom filter claims {count} rows", value=count)
    rows = []
    for _ in range(count):
        if _head(reader) != (hash_count, bit_count):
            raise CorruptError("the rows of a bloom filter differ in shape")
        rows.append(bytes(reader.take(-(-bit_count // 8), "the bits of a bloom filter")))
    if reader.remaining:
        raise CorruptError(f"{reader.remaining} bytes follow a bloom filter")
    return BloomFilter(hash_count, bit_count, row_keys, last_row_keys, tuple(rows))


def encode_bloom(bloom: BloomFilter, type_code: str = DYNAMIC) -> str:
    """The filter as a footer's base64 text."""
    head = _ROW_HEAD.pack(_VERSION, bloom.hash_count, _MURMUR, bloom.bit_count)
    parts = []
    if type_code == DYNAMIC:
        parts.append(head + struct.pack(">iii", bloom.row_keys, bloom.last_row_keys, len(bloom.rows)))
    parts.extend(head + row for row in bloom.rows)
    return base64.b64encode(b"".join(parts)).decode("ascii")


def _head(reader: BytesReader) -> tuple[int, int]:
    version = reader.int32("the bloom filter version")
    hash_count = reader.int32("the number of hashes")
    kind = reader.int8("the hash type")
    bit_count = reader.int32("the number of bits")
    if version != _VERSION or kind != _MURMUR:
        raise UnsupportedError(f"bloom filters of version {version} with hash type {kind} are not read")
    if not 0 < hash_count <= _MAX_HASHES or bit_count <= 0:
        raise CorruptError(f"a bloom filter has {hash_count} hashes and {bit_count} bits")
    return hash_count, bit_count


def _positions(
    keys: pa.Array, hash_count: int, bit_count: int
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """For keys of each length, a cacheful at a time: which rows of the input they are, and their bits (hashes x keys)."""
    for places, hashes in _chains(keys, hash_count):
        yield places, _remainders(hashes, bit_count)


def _remainders(hashes: Hashes, bit_count: int) -> npt.NDArray[np.int64]:
    """The bits of hashes. Java's remainder takes the sign of the dividend; the sign is dropped afterwards."""
    found: npt.NDArray[np.int64] = np.abs(hashes.astype(np.int64)) % bit_count
    return found


def _chains(keys: pa.Array, hash_count: int) -> Iterator[tuple[npt.NDArray[np.int64], Hashes]]:
    """For keys of each length, a cacheful at a time: which rows of the input they are, and their hashes (hashes x keys)."""
    for places, letters in _by_length(keys):
        mixed = _mix(letters)
        seeds = np.zeros(len(places), dtype=np.int32)
        hashes = np.empty((hash_count, len(places)), dtype=np.int32)
        for number in range(hash_count):
            seeds = _murmur(mixed, letters.shape[1], seeds)
            hashes[number] = seeds
        yield places, hashes


def _by_length(keys: pa.Array) -> Iterator[tuple[npt.NDArray[np.int64], Bits]]:
    """Keys of one length as a matrix (keys x bytes), with the rows that they are, in pieces that fit a core's cache."""
    binary = keys.cast(pa.large_binary())
    offsets = np.frombuffer(binary.buffers()[1], dtype=np.int64)[binary.offset : binary.offset + len(binary) + 1]
    data = np.frombuffer(binary.buffers()[2] or b"", dtype=np.uint8)
    lengths = np.diff(offsets)
    sizes = np.unique(lengths)
    for size in (int(s) for s in sizes):
        of_size = np.flatnonzero(lengths == size) if len(sizes) > 1 else np.arange(len(lengths))
        for start in range(0, len(of_size), _PIECE):
            places = of_size[start : start + _PIECE]
            if len(sizes) == 1:
                letters = data[offsets[places[0]] : offsets[places[-1] + 1]].reshape(len(places), size)
            else:
                letters = data[offsets[places][:, None] + np.arange(size)]
            yield places, letters


def _mix(letters: Bits) -> list[npt.NDArray[np.uint32]]:
    """What each word of the keys (keys x bytes, one length) adds to a hash, whatever its seed; the tail comes last."""
    size = letters.shape[1]
    words = size // 4
    mixed: list[npt.NDArray[np.uint32]] = []
    if words:
        packed = np.ascontiguousarray(np.ascontiguousarray(letters[:, : words * 4]).view("<u4").T)
        for word in range(words):
            k = packed[word] * _M
            k ^= k >> np.uint32(24)
            mixed.append(k * _M)
    left = size - words * 4
    if left:
        tail = letters[:, words * 4 :].view(np.int8).astype(np.int32).view(np.uint32)
        last = tail[:, left - 1].copy()
        if left >= 2:
            last ^= tail[:, left - 2] << np.uint32(8)
        if left >= 3:
            last ^= tail[:, left - 3] << np.uint32(16)
        mixed.append(last)
    return mixed


def _murmur(mixed: list[npt.NDArray[np.uint32]], size: int, seeds: Hashes) -> Hashes:
    """Hudi's 32-bit murmur of keys of one length, each with its own seed."""
    h = seeds.view(np.uint32) ^ np.uint32(size)
    words = size // 4
    for k in mixed[:words]:
        h *= _M
        h ^= k
    if size % 4:
        h ^= mixed[words]
        h *= _M
    h ^= h >> np.uint32(13)
    h *= _M
    h ^= h >> np.uint32(15)
    return h.view(np.int32)
