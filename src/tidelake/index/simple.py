"""The SIMPLE index: which file group of a partition has a key, found by reading the keys of its base files.

Keys that were read stay in memory, within bounds. Else a base file is skipped if its key range, or its bloom filter, says
that it has none of the wanted keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelake.errors import CorruptError, UnsupportedError
from tidelake.filegroup import BaseFile, FileSlice
from tidelake.format.base_footer import BaseFooter, decode_footer
from tidelake.index.key_cache import KEPT, FileKeys, Hashes, WantedKeys
from tidelake.schema import RECORD_KEY
from tidelake.storage import Storage, open_input

_BLOOM_FROM = 0.5
"""A bloom filter is asked only if less than this share of the wanted keys lies in the file's key range."""


def locate(
    storage: Storage, slices: Sequence[FileSlice], keys: pa.Array, hashes: Hashes | None = None
) -> npt.NDArray[np.int64]:
    """For each key the number of the slice that has it, -1 if none has; the keys' hashes may be known."""
    found = np.full(len(keys), -1, dtype=np.int64)
    for number, present in matches(storage, slices, keys, hashes):
        found[present] = number
    return found


def matches(
    storage: Storage, slices: Sequence[FileSlice], keys: pa.Array, hashes: Hashes | None = None
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """The number of each slice that has some of the keys, with the places of these; a key may be in several."""
    wanted = WantedKeys.of(keys, hashes)
    for number, file_slice in enumerate(slices):
        if file_slice.base is None:
            raise UnsupportedError(
                "a file group without a base file is not written to with the SIMPLE index",
                file=file_slice.logs[0].path,
                hint="compact the table with Apache Hudi first",
            )
        held = _held(storage, file_slice.base, keys)
        present = None if held is None else held.present(wanted)
        if present is not None and len(present):
            yield number, present


def doubled(storage: Storage, base: BaseFile, keys: pa.Array) -> pa.Array:
    """Those of the keys that stand more than once in a base file."""
    held = _held(storage, base, keys)
    if held is None or held.is_distinct:
        return keys.slice(0, 0)
    counts = pc.value_counts(held.keys)
    twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    return keys.filter(pc.is_in(keys, value_set=twice))


def keep_keys(storage: Storage, path: str, size_bytes: int, keys: pa.Array, hashes: Hashes | None = None) -> None:
    """Keep the keys of a base file that was just written; their hashes may be known."""
    own = keys.take(pa.array(np.arange(len(keys))))  # the rest of the write's keys is not to stay with them
    KEPT.put((storage.uri, path, size_bytes), FileKeys.of(own, hashes))


def _held(storage: Storage, base: BaseFile, wanted: pa.Array) -> FileKeys | None:
    """The keys of a base file; None if its footer says that it has none of those wanted."""
    name = (storage.uri, base.path, base.size_bytes)
    kept = KEPT.get(name)
    if kept is not None:
        return kept
    try:
        with open_input(storage, base.path, base.size_bytes) as source:
            file = pq.ParquetFile(source)
            if not _may_have(decode_footer(file.metadata.metadata or {}), wanted):
                return None
            stored = file.read(columns=[RECORD_KEY], use_threads=False).column(RECORD_KEY)
    except (pa.ArrowException, OSError) as error:
        raise CorruptError(f"a base file cannot be read: {error}", file=base.path, table=storage.uri) from error
    held = FileKeys.of(pc.cast(stored.combine_chunks(), pa.string()))
    KEPT.put(name, held)
    return held


def _may_have(footer: BaseFooter, wanted: pa.Array) -> bool:
    """Whether a file may have any of the wanted keys, by its key range, then by its bloom filter."""
    candidates = wanted
    if footer.min_key is not None and footer.max_key is not None:
        inside = pc.and_(pc.greater_equal(wanted, footer.min_key), pc.less_equal(wanted, footer.max_key))
        candidates = wanted.take(pa.array(np.flatnonzero(np.asarray(inside))))
    if len(candidates) and len(candidates) < len(wanted) * _BLOOM_FROM and footer.bloom_text is not None:
        bloom = footer.bloom
        return bloom is None or bool(bloom.may_contain(candidates).any())
    return len(candidates) > 0
