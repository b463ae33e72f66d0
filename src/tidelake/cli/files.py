"""``tidelake files``: the file slices of each partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelake.cli import text
from tidelake.cli.text import Column
from tidelake.errors import InvalidError
from tidelake.filegroup import FileSlice, PartitionCodec
from tidelake.observe import human_bytes
from tidelake.query import TableSource
from tidelake.storage import open_storage


class OnePartition:
    """A constraint that leaves one partition, so that only its folder is listed."""

    def __init__(self, values: dict[str, str | None]) -> None:
        self._values = values

    def candidates(self, field: str) -> Sequence[str | None]:
        return [self._values[field]]

    def may_span_folders(self, field: str) -> bool:
        return True

    def keep(self, values: Sequence[dict[str, str | None]]) -> Sequence[bool]:
        return [found == self._values for found in values]


def run(path: str, options: dict[str, str], *, partition: str | None, every: bool, as_json: bool) -> int:
    """Show the slices of a table."""
    source = TableSource.load(open_storage(path, options))
    slices = _slices(source, None if partition is None else partition.strip("/"), every)
    if as_json:
        text.write_json([_plain(file_slice) for file_slice in slices])
    else:
        _write(slices)
    return 0


def _slices(source: TableSource, partition: str | None, every: bool) -> list[FileSlice]:
    view = source.view()
    found: Iterable[FileSlice]
    if every:
        found = view.all_slices()
    else:
        values = None if partition is None else PartitionCodec.of(source.config).values(partition)
        found = view.slices(OnePartition(values)) if values else view.slices()
    wanted = [s for s in found if partition is None or s.partition_path == partition]
    if partition is not None and not wanted:
        raise InvalidError(
            f"the table has no files in a partition {partition!r}",
            value=partition,
            table=source.storage.uri,
            hint="'tidelake files' without --partition lists all",
        )
    return sorted(wanted, key=lambda s: (s.partition_path, s.file_id, s.base_instant))


def _plain(file_slice: FileSlice) -> dict[str, object]:
    return {
        "partition": file_slice.partition_path,
        "file_id": file_slice.file_id,
        "base_instant": file_slice.base_instant,
        "base_file": None if file_slice.base is None else file_slice.base.path,
        "base_bytes": None if file_slice.base is None else file_slice.base.size_bytes,
        "log_files": [log.path for log in file_slice.logs],
        "log_bytes": _log_bytes(file_slice),
        "missing_files": [file.path for file in file_slice.files if file.is_missing],
    }


def _log_bytes(file_slice: FileSlice) -> int:
    return sum(log.size_bytes for log in file_slice.logs)


def _write(slices: Sequence[FileSlice]) -> None:
    columns = [
        Column("partition"),
        Column("file id"),
        Column("base instant"),
        Column("base size", is_number=True),
        Column("logs", is_number=True),
        Column("log size", is_number=True),
    ]
    rows = [
        [
            file_slice.partition_path or "-",
            file_slice.file_id,
            file_slice.base_instant,
            _base_size(file_slice),
            f"{len(file_slice.logs):,}",
            human_bytes(_log_bytes(file_slice)) if file_slice.logs else "-",
        ]
        for file_slice in slices
    ]
    for line in text.table_lines(columns, rows):
        text.write(line)
    logs = sum(len(s.logs) for s in slices)
    base_bytes = sum(s.base.size_bytes for s in slices if s.base is not None)
    groups = len({(s.partition_path, s.file_id) for s in slices})
    text.write(
        f"{text.counted(len({s.partition_path for s in slices}), 'partition')}, {text.counted(groups, 'file group')}, "
        f"{text.counted(len(slices), 'slice')}: {human_bytes(base_bytes)} in base files, "
        f"{human_bytes(sum(map(_log_bytes, slices)))} in {text.counted(logs, 'log')}"
    )


def _base_size(file_slice: FileSlice) -> str:
    if file_slice.base is None:
        return "-"
    return "missing" if file_slice.base.is_missing else human_bytes(file_slice.base.size_bytes)
