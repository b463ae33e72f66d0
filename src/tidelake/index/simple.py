"""The SIMPLE index: which file group of a partition has a key, found by reading the keys of its base files.

A base file is skipped if its key range, or its bloom filter, says that it has none of the wanted keys. Of a file group
without a base file (other writers make such) the keys of its logs are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelake.errors import CorruptError, UnsupportedError
from tidelake.filegroup import BaseFile, FileSlice
from tidelake.format.base_footer import decode_footer
from tidelake.schema import RECORD_KEY
from tidelake.storage import Storage, open_input

_BLOOM_FROM = 0.5
"""A bloom filter is asked only if less than this share of the wanted keys lies in the file's key range."""


def locate(storage: Storage, slices: Sequence[FileSlice], keys: pa.Array) -> npt.NDArray[np.int64]:
    """For each key the number of the slice that has it, -1 if none has."""
    found = np.full(len(keys), -1, dtype=np.int64)
    for number, present in matches(storage, slices, keys):
        found[present] = number
    return found


def matches(
    storage: Storage, slices: Sequence[FileSlice], keys: pa.Array
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """The number of each slice that has some of the keys, with the places of these; a key may be in several."""
    wanted = pl.DataFrame({"key": pl.Series("key", keys, dtype=pl.String), "row": np.arange(len(keys), dtype=np.int64)})
    for number, file_slice in enumerate(slices):
        if file_slice.base is None:
            raise UnsupportedError(
                "a file group without a base file is not written to with the SIMPLE index",
                file=file_slice.logs[0].path,
                hint="compact the table with Apache Hudi first",
            )
        present = _present(storage, file_slice.base, wanted)
        if len(present):
            yield number, present


def _present(storage: Storage, base: BaseFile, wanted: pl.DataFrame) -> npt.NDArray[np.int64]:
    """The rows of the wanted keys that a base file has."""
    none = np.empty(0, dtype=np.int64)
    try:
        with open_input(storage, base.path, base.size_bytes) as source:
            file = pq.ParquetFile(source)
            footer = decode_footer(file.metadata.metadata or {})
            candidates = wanted
            if footer.min_key is not None and footer.max_key is not None:
                candidates = wanted.filter(pl.col("key").is_between(pl.lit(footer.min_key), pl.lit(footer.max_key)))
            if candidates.height == 0:
                return none
            if candidates.height < wanted.height * _BLOOM_FROM and footer.bloom_text is not None:
                bloom = footer.bloom
                assert bloom is not None
                candidates = candidates.filter(bloom.may_contain(pc.cast(candidates["key"].to_arrow(), pa.string())))
                if candidates.height == 0:
                    return none
            stored = file.read(columns=[RECORD_KEY], use_threads=False).column(RECORD_KEY)
    except (pa.ArrowException, OSError) as error:
        raise CorruptError(f"a base file cannot be read: {error}", file=base.path, table=storage.uri) from error
    held = pl.DataFrame({"key": pl.Series("key", stored, dtype=pl.String)})
    matched: npt.NDArray[np.int64] = candidates.join(held, on="key", how="semi")["row"].to_numpy()
    return matched
