"""Every live file of a table with its event times, as columns: what completion and freshness are worked out from.

They come from the table state, so that a table of many file groups costs one file. Only what the state does not tell is
looked for elsewhere (``filegroup/event_times.py``). A log is live until a base file of its group swallows it: one in a
pending plan is, one that was rolled back, not committed, or of a replaced group is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import UnavailableError
from tidelake.filegroup import TableState, build_state, first_state, load_state, save_state
from tidelake.filegroup.slices import BaseFile, data_file
from tidelake.filegroup.state_table import file_of
from tidelake.format.commit_metadata import CommitMetadata, ReplaceCommitMetadata
from tidelake.format.tombstone_marks import decode_tombstones
from tidelake.query.event_column import event_times_of
from tidelake.query.source import TableSource

Mask = npt.NDArray[np.bool_]

FILES = pa.schema(
    [
        ("partition", pa.string()),
        ("file_id", pa.string()),
        ("instant", pa.string()),
        ("completion", pa.string()),
        ("is_log", pa.bool_()),
        ("low", pa.int64()),
        ("high", pa.int64()),
        ("is_known", pa.bool_()),
    ]
)
_SAVED_AFTER = 32
"""So many writes may have been folded into the state before it is stored again."""
_OF_LIVE_GROUPS = frozenset({"COMPACT", "LOG_COMPACT"})
_MOST_MS = 2**62
_NEVER = "~"
"""Later than every completion time: that of a commit which is about to have one."""


@dataclass(frozen=True, slots=True)
class LiveTimes:
    """The live files; ``low`` and ``high`` are null for a file without events, or one that is not known."""

    files: pa.Table
    brought: pa.Table
    """Each partition with live files, and the last write that brought events into it."""
    reasons: Mapping[str, str]
    """Why the event times of some files are not known, by path."""

    def mask(self, name: str) -> Mask:
        """A column of truths."""
        return np.asarray(self.files[name], dtype=np.bool_)

    def after(self, instant: str, commit: CommitMetadata) -> LiveTimes:
        """The live files when a commit that is about to be published is."""
        added = _files_of(instant, commit)
        if commit.operation_type in _OF_LIVE_GROUPS and added.num_rows:
            # A group that was replaced while its plan waited does not come back.
            live = set(_groups(self.files))
            added = added.filter(pa.array([group in live for group in _groups(added)]))
        rewritten = {
            group for group, is_log in zip(_groups(added), added["is_log"].to_pylist(), strict=True) if not is_log
        }
        replaced: set[str] = set()
        if isinstance(commit, ReplaceCommitMetadata):
            retired = commit.partition_to_replace_file_ids or {}
            replaced = {_group(path, file_id) for path, ids in retired.items() for file_id in ids}
        kept = self.files
        if rewritten or replaced:
            groups = pa.array(_groups(kept), pa.string())
            # A log lies on the newest base file whose instant is not after the log's completion.
            completion = pc.fill_null(kept["completion"], kept["instant"])
            swallowed = _among(groups, rewritten) & ~(
                self.mask("is_log") & np.asarray(pc.greater(completion, instant), dtype=np.bool_)
            )
            kept = kept.filter(pa.array(~swallowed & ~_among(groups, replaced)))
        return LiveTimes(pa.concat_tables([kept, added]), self.brought, self.reasons)


def live_times(source: TableSource, most_read: int | None = None) -> LiveTimes:
    """The live files as of the source's timeline; files that nothing tells of are read, unless they are too many."""
    state = table_state(source)
    rows = state.file_statistics()
    low, high = rows["min_event_ms"], rows["max_event_ms"]
    is_known = np.asarray(pc.is_valid(low), dtype=np.bool_) & np.asarray(pc.is_valid(high), dtype=np.bool_)
    reasons: dict[str, str] = {}
    if not is_known.all():
        low, high, is_known, reasons = _looked_up(source, rows, is_known, most_read)
    files = pa.table(
        [
            rows["partition"],
            rows["file_id"],
            pc.cast(rows["instant"], pa.string()),
            pc.cast(rows["completion"], pa.string()),
            pc.is_valid(rows["version"]),
            low,
            high,
            pa.array(is_known),
        ],
        schema=FILES,
    )
    if source.config.tombstone_seconds:
        files = files.filter(pa.array(~_kept_deletes(files)))
    return LiveTimes(files, state.statistics(), reasons)


def _kept_deletes(files: pa.Table) -> Mask:
    """Which logs hold deletes that a compaction kept: those of its own instant, beside its base file. They hold nothing back."""
    is_log = np.asarray(files["is_log"], dtype=np.bool_)
    made = pc.binary_join_element_wise(pa.array(_groups(files), pa.string()), files["instant"], "\0")
    return is_log & _among(made, set(made.filter(pa.array(~is_log)).to_pylist()))


def table_state(source: TableSource) -> TableState:
    """The table state, stored again now and then, so that the next one is quick to have."""
    parts = (source.storage, source.config, source.timeline, source.reader)
    state = load_state(*parts)
    is_built = state is None
    if state is None:
        state = first_state(*parts) or build_state(*parts)
    if is_built or state.unsaved_writes >= _SAVED_AFTER:
        with suppress(UnavailableError):  # who may only read does without
            save_state(source.storage, state)
    return state


def _looked_up(
    source: TableSource, rows: pa.Table, is_known: Mask, most_read: int | None
) -> tuple[pa.Array, pa.Array, Mask, dict[str, str]]:
    """The columns with what commits, the history and the files themselves tell of those that the state does not."""
    places = np.flatnonzero(~is_known)
    low, high = rows["min_event_ms"].to_pylist(), rows["max_event_ms"].to_pylist()
    columns = ("partition", "file_id", "token", "instant", "version", "size_bytes", "committed_bytes")
    asked = rows.select(columns).take(pa.array(places))
    files = [file_of(*row) for row in zip(*(asked[name].to_pylist() for name in columns), strict=True)]
    if most_read is not None and len(files) > most_read:
        return low, high, is_known, {file.path: "too many files without statistics" for file in files}
    found = event_times_of(source).of_files(files)
    reasons = {}
    is_known = is_known.copy()
    for place, file in zip(places.tolist(), files, strict=True):
        told = found[file.path]
        low[place], high[place], is_known[place] = _bounded(told.minimum), _bounded(told.maximum), told.is_known
        if not told.is_known:
            reasons[file.path] = told.reason
    return pa.array(low, pa.int64()), pa.array(high, pa.int64()), is_known, reasons


def _bounded(time_ms: int | None) -> int | None:
    """A time that fits: others may have stored numbers that are none."""
    return None if time_ms is None else max(-_MOST_MS, min(_MOST_MS, time_ms))


def _files_of(instant: str, commit: CommitMetadata) -> pa.Table:
    """The files of a commit of ours that is about to be published."""
    rows = []
    kept_deletes = decode_tombstones(commit.extra_metadata)
    for stat in commit.stats:
        file = data_file(stat.path or "", stat.file_size_in_bytes or 0)
        if file is not None and file.path not in kept_deletes:
            is_log = not isinstance(file, BaseFile)
            times = (_bounded(stat.min_event_time), _bounded(stat.max_event_time))
            rows.append((stat.partition_path or "", file.name.file_id, instant, _NEVER, is_log, *times, True))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(FILES)
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, FILES, strict=True)], schema=FILES)


def _group(partition: str, file_id: str) -> str:
    return f"{partition}\0{file_id}"


def _groups(files: pa.Table) -> list[str]:
    pairs: Iterable[tuple[str, str]] = zip(files["partition"].to_pylist(), files["file_id"].to_pylist(), strict=True)
    return [_group(*pair) for pair in pairs]


def _among(groups: pa.Array, some: Collection[str]) -> Mask:
    return np.asarray(pc.is_in(groups, pa.array(sorted(some), pa.string())), dtype=np.bool_)
