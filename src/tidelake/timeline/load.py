"""Reading a table's properties, active timeline and history from storage.

Names are listed once; contents are read only when asked for, and kept, since an instant file never changes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from tidelake import _limits
from tidelake.config import TableConfig, parse_table_config
from tidelake.errors import CorruptError, LimitError, NotATableError, NotFoundError, TidelakeError, UnsupportedError
from tidelake.format import history as codec
from tidelake.format.avro_record import AvroRecord, decode_record
from tidelake.format.commit_metadata import AnyCommit, CommitMetadata, ReplaceCommitMetadata
from tidelake.format.names import (
    COMPLETED_NAMES,
    PROPERTIES_BACKUP_FILE,
    PROPERTIES_FILE,
    parse_history_name,
    parse_timeline_name,
)
from tidelake.format.properties import check_table_properties, decode_properties
from tidelake.storage import Storage
from tidelake.timeline.instant import Instant, Timeline

R = TypeVar("R", bound=AvroRecord)
_READERS = 16


def load_config(storage: Storage) -> TableConfig:
    """The table's configuration, from its properties or, if they are damaged, from their backup."""
    failures: list[str] = []
    for path in (PROPERTIES_FILE, PROPERTIES_BACKUP_FILE):
        try:
            properties = decode_properties(storage.get(path))
            check_table_properties(properties)
        except NotFoundError:
            continue
        except CorruptError as error:
            failures.append(f"{path}: {error.message}")
            continue
        try:
            return parse_table_config(properties)
        except TidelakeError as error:
            raise error.with_context(table=storage.uri, file=path) from None
    if failures:
        hint = f"restore {PROPERTIES_FILE} from a copy"
        raise CorruptError("; ".join(failures), table=storage.uri, file=PROPERTIES_FILE, hint=hint)
    raise NotATableError(
        f"{storage.uri} is not a table: it has no {PROPERTIES_FILE}",
        value=storage.uri,
        hint="check the path, or make the table with create_table",
    )


def load_timeline(storage: Storage, config: TableConfig) -> Timeline:
    """The active timeline, from the names in its folder."""
    names = []
    for info in storage.list_dir(config.timeline_dir)[1]:
        name = info.path.rsplit("/", 1)[-1]
        parsed = parse_timeline_name(name)
        if parsed is not None:
            names.append(parsed)
        elif _is_legacy(name):
            raise UnsupportedError(
                f"{name} is a completed instant without a completion time", table=storage.uri, file=info.path
            )
    return Timeline(names)


def _is_legacy(name: str) -> bool:
    time, _, action = name.partition(".")
    return time.isascii() and time.isdigit() and action in COMPLETED_NAMES


class TimelineReader:
    """Contents of timeline files, and the history, each read at most once."""

    def __init__(self, storage: Storage, config: TableConfig) -> None:
        self._storage = storage
        self._config = config
        self._commits: dict[str, AnyCommit] = {}
        self._history: tuple[codec.ArchivedInstant, ...] | None = None

    def record(self, cls: type[R], file_name: str) -> R:
        """The record in one file of the active timeline."""
        path = f"{self._config.timeline_dir}/{file_name}"
        try:
            return decode_record(cls, self._storage.get(path))
        except TidelakeError as error:
            raise error.with_context(table=self._storage.uri, file=path, instant=file_name.split("_")[0]) from None

    def commit(self, instant: Instant) -> AnyCommit:
        """What a completed write instant did."""
        name = instant.file_name
        if name not in self._commits:
            kind = ReplaceCommitMetadata if instant.action == "replacecommit" else CommitMetadata
            self._commits[name] = self.record(kind, name)
        return self._commits[name]

    def commits(self, instants: tuple[Instant, ...]) -> dict[str, AnyCommit]:
        """What several write instants did, by requested time, read side by side."""
        missing = [i for i in instants if i.file_name not in self._commits]
        if len(missing) > 1:
            with ThreadPoolExecutor(min(_READERS, len(missing))) as pool:
                list(pool.map(self.commit, missing))
        return {i.requested_time: self.commit(i) for i in instants}

    @property
    def history(self) -> tuple[codec.ArchivedInstant, ...]:
        """The archived instants (times and actions), by requested time."""
        if self._history is None:
            self._history = self.load_history(("instantTime", "completionTime", "action"))
        return self._history

    def load_history(self, columns: tuple[str, ...]) -> tuple[codec.ArchivedInstant, ...]:
        """The archived instants with the columns asked for."""
        found: list[codec.ArchivedInstant] = []
        for file in self._manifest():
            path = f"{self._config.history_dir}/{file.name}"
            if parse_history_name(file.name) is None:
                raise CorruptError("the history manifest names a file that is none of a history", file=path)
            try:
                found.extend(codec.archived_instants(_read_history(self._storage.get(path), columns)))
            except TidelakeError as error:
                raise error.with_context(table=self._storage.uri, file=path) from None
        return tuple(sorted(found, key=lambda i: (i.requested_time, i.action)))

    def _manifest(self) -> tuple[codec.HistoryFile, ...]:
        folder = self._config.history_dir
        try:
            number = codec.decode_version(self._storage.get(f"{folder}/{codec.VERSION_FILE}"))
        except NotFoundError:
            names = (info.path.rsplit("/", 1)[-1] for info in self._storage.list_dir(folder)[1])
            numbers = [n for n in map(codec.manifest_number, names) if n is not None]
            if not numbers:
                return ()
            number = max(numbers)
        return codec.decode_manifest(self._storage.get(f"{folder}/{codec.MANIFEST_PREFIX}{number}"))


def _read_history(data: bytes, columns: tuple[str, ...]) -> pa.Table:
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        metadata = file.metadata
        inflated = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        if inflated > _limits.HISTORY_INFLATED_BYTES or metadata.num_rows > max(1_000, len(data)):
            raise LimitError(f"a history file claims {metadata.num_rows} rows and {inflated} bytes")
        return file.read(columns=list(columns))
    except (pa.ArrowException, OSError) as error:
        raise CorruptError(f"a history file cannot be read: {error}") from error
