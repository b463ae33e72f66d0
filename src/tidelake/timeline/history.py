"""Reading the archived timeline from storage: its manifest, and the parquet files that the manifest names."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from tidelake import _limits
from tidelake.config import TableConfig
from tidelake.errors import CorruptError, LimitError, NotFoundError, TidelakeError
from tidelake.format import history as codec
from tidelake.format.names import parse_history_name
from tidelake.storage import Storage


def load_history(
    storage: Storage, config: TableConfig, columns: tuple[str, ...], since: str = ""
) -> tuple[codec.ArchivedInstant, ...]:
    """The archived instants with the columns asked for, by requested time; those requested before ``since`` may lack."""
    found: list[codec.ArchivedInstant] = []
    for file in _manifest(storage, config.history_dir):
        path = f"{config.history_dir}/{file.name}"
        name = parse_history_name(file.name)
        if name is None:
            raise CorruptError("the history manifest names a file that is none of a history", file=path)
        if name.max_instant < since:
            continue
        try:
            found.extend(codec.archived_instants(_read_file(storage.get(path), columns)))
        except TidelakeError as error:
            raise error.with_context(table=storage.uri, file=path) from None
    return tuple(sorted(found, key=lambda i: (i.requested_time, i.action)))


def _manifest(storage: Storage, folder: str) -> tuple[codec.HistoryFile, ...]:
    try:
        number = codec.decode_version(storage.get(f"{folder}/{codec.VERSION_FILE}"))
    except NotFoundError:
        names = (info.path.rsplit("/", 1)[-1] for info in storage.list_dir(folder)[1])
        numbers = [n for n in map(codec.manifest_number, names) if n is not None]
        if not numbers:
            return ()
        number = max(numbers)
    return codec.decode_manifest(storage.get(f"{folder}/{codec.MANIFEST_PREFIX}{number}"))


def _read_file(data: bytes, columns: tuple[str, ...]) -> pa.Table:
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        metadata = file.metadata
        inflated = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        if inflated > _limits.HISTORY_INFLATED_BYTES or metadata.num_rows > max(1_000, len(data)):
            raise LimitError(f"a history file claims {metadata.num_rows} rows and {inflated} bytes")
        return file.read(columns=list(columns))
    except (pa.ArrowException, OSError) as error:
        raise CorruptError(f"a history file cannot be read: {error}") from error
