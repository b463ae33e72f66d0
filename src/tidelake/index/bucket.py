"""The BUCKET index: a key's file group is known from its hash, as Apache Hudi computes it. Nothing is looked up.

A bucket is a file group whose id begins with the bucket's number in eight digits. The hash is that of a Java list of the
key's values: 31 + the Java hash of the text for a single key, over UTF-16 code units, with 32-bit overflow. Hashes are
computed for many keys at a time: unit by unit, one length after another.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

DIGITS = 8


def bucket_numbers(values: list[pa.Array], buckets: int) -> npt.NDArray[np.int64]:
    """The bucket of each row, from the text of its key columns."""
    total = np.ones(len(values[0]), dtype=np.int32)
    with np.errstate(over="ignore"):
        for value in values:
            total = total * np.int32(31) + java_hashes(value)
    return (total & np.int32(0x7FFFFFFF)).astype(np.int64) % buckets


def bucket_of(file_id: str) -> int | None:
    """The bucket number that a file id begins with, or None if it begins with none."""
    head = file_id[:DIGITS]
    return int(head) if len(head) == DIGITS and head.isascii() and head.isdigit() else None


def bucket_file_id(bucket: int, unique: str) -> str:
    """A file id for a bucket, from a UUID."""
    return f"{bucket:0{DIGITS}d}{unique[DIGITS:]}-0"


def java_hashes(texts: pa.Array) -> npt.NDArray[np.int32]:
    """Java's ``String.hashCode`` of each text; a null counts as 0, as it does in Java's lists."""
    texts = pc.fill_null(texts, "")
    units, lengths = _utf16(texts)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    hashes = np.zeros(len(texts), dtype=np.int32)
    with np.errstate(over="ignore"):
        for length in np.unique(lengths):
            rows = np.flatnonzero(lengths == length)
            letters = units[starts[rows][:, None] + np.arange(int(length))]
            hashed = np.zeros(len(rows), dtype=np.int32)
            for position in range(int(length)):
                hashed = hashed * np.int32(31) + letters[:, position]
            hashes[rows] = hashed
    return hashes


def _utf16(texts: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """All code units one after another, and how many each text has."""
    lengths = np.asarray(pc.utf8_length(texts)).astype(np.int64)
    binary = texts.cast(pa.large_binary())
    offsets = np.frombuffer(binary.buffers()[1], dtype=np.int64)[binary.offset : binary.offset + len(binary) + 1]
    data = np.frombuffer(binary.buffers()[2] or b"", dtype=np.uint8)[int(offsets[0]) : int(offsets[-1])]
    if len(data) == int(lengths.sum()):
        return data.astype(np.int32), lengths
    points = np.frombuffer(data.tobytes().decode("utf-8").encode("utf-32-le"), dtype=np.uint32)
    is_pair = points > 0xFFFF
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    pairs_before = np.concatenate([[0], np.cumsum(is_pair)])
    lengths = lengths + (pairs_before[starts[1:]] - pairs_before[starts[:-1]])
    units = np.frombuffer(data.tobytes().decode("utf-8").encode("utf-16-le"), dtype=np.uint16)
    return units.astype(np.int32), lengths
