"""What a write looked for and that leaves no trace in files.

Deletes that found nothing are true only as long as nobody inserts their keys.

A write that drops one says which key it was, so that its commit can see whether another write has brought the key
meanwhile. Without that, two upserts of which each inserts what the other deletes would both stand, and in no order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake import index
from tidelake.errors import InternalError
from tidelake.filegroup import FileSlice
from tidelake.format.commit_metadata import WriteStat
from tidelake.index import bucket_file_id
from tidelake.query import read_base
from tidelake.schema import RECORD_KEY
from tidelake.storage import Storage
from tidelake.write.conflicts import is_base
from tidelake.write.context import WriteContext
from tidelake.write.lookup import keys_in_logs, slice_of

MOST_KEYS = 10_000
"""So many keys a task hands over at most; of more than that, whatever appears in the partition counts."""


@dataclass(frozen=True, slots=True)
class Missed:
    """The keys of one partition whose deletes were dropped; None: too many to name. Of a bucketed table, the buckets.

    ``lost_in`` are file groups that have keys of the write, and stay as they are because all of its rows for them lost.
    """

    partition_path: str
    keys: pa.Array | None
    buckets: tuple[int, ...] = ()
    lost_in: tuple[str, ...] = ()

    @staticmethod
    def of(partition_path: str, keys: pa.Array, buckets: npt.NDArray[np.int64] | None) -> Missed:
        """Those of a task."""
        if buckets is not None:
            return Missed(partition_path, None, tuple(np.unique(buckets).tolist()))
        return Missed(partition_path, keys if len(keys) <= MOST_KEYS else None)

    @staticmethod
    def lost(partition_path: str, file_ids: Iterable[str]) -> list[Missed]:
        """File groups of a partition in which all rows lost, if there are any."""
        found = tuple(sorted(set(file_ids)))
        return [Missed(partition_path, pa.array([], pa.string()), lost_in=found)] if found else []

    @property
    def has_keys(self) -> bool:
        """Whether new base files of the partition are to be asked for keys."""
        return not self.buckets and (self.keys is None or len(self.keys) > 0)

    @property
    def looked(self) -> list[tuple[str, str]]:
        """The file groups that must be as they were, by partition and id."""
        return [(self.partition_path, file_id) for file_id in self.lost_in]

    @property
    def groups(self) -> list[tuple[str, str]]:
        """The file groups that are not there and must not be, by partition and the beginning of the id."""
        return [(self.partition_path, bucket_file_id(number, "")) for number in self.buckets]


def key_check(
    storage: Storage, context: WriteContext, fresh: Sequence[WriteStat], missed: Sequence[Missed]
) -> Callable[[WriteStat], str | None]:
    """Whether a file that appeared meanwhile has a key that this write looked for and did not find, in words.

    These are the keys that it inserts, which are read from its own new files (``fresh``), and those in ``missed``. New keys
    of others stand in their base files; where deletes are kept, also in logs.
    """

    def found(stat: WriteStat) -> str | None:
        if not is_base(stat) and not context.config.tombstone_seconds:
            return None
        logged = None if is_base(stat) else keys_in_logs(storage, context, [stat])
        for path, keys in _keys(storage, fresh, missed):
            if not context.config.is_global and path != stat.partition_path:
                continue
            if keys is None:
                return f"rows into the partition {path!r}"
            has = (
                index.locate(storage, [slice_of(stat)], keys) >= 0
                if logged is None
                else pc.is_in(keys, value_set=logged)
            )
            places = np.flatnonzero(np.asarray(has))
            if len(places):
                return f"the key {keys[int(places[0])].as_py()!r}"
        return None

    return found


def _keys(
    storage: Storage, fresh: Sequence[WriteStat], missed: Sequence[Missed]
) -> Iterator[tuple[str, pa.Array | None]]:
    for each in missed:
        if each.has_keys:
            yield each.partition_path, each.keys
    for own in fresh:
        yield own.partition_path or "", _stored_keys(storage, slice_of(own))


def _stored_keys(storage: Storage, file_slice: FileSlice) -> pa.Array:
    """The keys of a slice's base file."""
    if file_slice.base is None:
        raise InternalError("a slice without a base file has no stored keys")
    schema = pa.schema([pa.field(RECORD_KEY, pa.string())])
    batches = read_base(storage, file_slice.base, schema)
    return pa.Table.from_batches(batches, schema).column(RECORD_KEY).combine_chunks()
