"""Why a value won: the versions of one record in one column, from the files that exist.

What a base file holds came at or before the commit that its row names; which of the merged commits gave a single value is no
longer known, and not guessed. What logs hold is known record by record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pyarrow as pa

from tidelake.config import PER_GROUP, Clocks
from tidelake.errors import ColumnNotFoundError, InvalidError, UnsupportedError
from tidelake.filegroup import FileSlice
from tidelake.index import KeyGenerator
from tidelake.merge import LogRecords, MergeSpec, read_logs
from tidelake.merge.base_merge import log_is_newer
from tidelake.merge.clock_rules import REASONS
from tidelake.merge.clocks import Judged, judge
from tidelake.merge.fold import fold
from tidelake.merge.key_lookup import KeyLookup
from tidelake.merge.log_records import BLOCK_DELETE, DATA
from tidelake.query.read_slice import read_base
from tidelake.query.snapshot import ScanPlan, plan_slices
from tidelake.query.source import TableSource
from tidelake.schema import COMMIT_TIME, RECORD_KEY
from tidelake.storage import Storage

WINS = "wins"


@dataclass(frozen=True, slots=True)
class ValueVersion:
    """One version of a record, seen from one column."""

    value: object
    commit: str | None
    """The commit that wrote it; None for what a base file holds."""
    at_or_before: str | None
    """Of what a base file holds: the commit by which it was there."""
    event_times: Mapping[str, object]
    is_delete: bool
    file: str
    why: str
    """``wins``, or why it does not."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The value of a column of one record, and where it comes from."""

    key: str
    column: str
    value: object
    exists: bool
    """Whether the record is there at all."""
    versions: tuple[ValueVersion, ...]
    """All versions that files hold, in the order in which they apply."""

    @property
    def winner(self) -> ValueVersion | None:
        """The version that gave the value, or that deleted it."""
        return next((version for version in self.versions if version.why == WINS), None)

    def __str__(self) -> str:
        shown = repr(self.value) if self.exists else "no such record"
        lines = [f"{self.column} of {self.key}: {shown}"]
        for version in self.versions:
            when = version.commit or f"at or before {version.at_or_before}"
            what = "delete" if version.is_delete else repr(version.value)
            times = ", ".join(f"{name}={value}" for name, value in version.event_times.items())
            lines.append(f"  {when}: {what} ({times or 'no event time'}): {version.why}")
        return "\n".join(lines)


def explain_value(source: TableSource, key: object, column: str) -> Explanation:
    """Why a record has the value that it has in a column."""
    slices = tuple(source.view().slices())
    plan = plan_slices(source, slices)
    spec = plan.merge
    if column not in plan.schema.names:
        raise ColumnNotFoundError(
            f"the table has no column {column!r}", value=column, hint=f"columns are {', '.join(plan.schema.names)}"
        )
    if spec is None or spec.key_fields or spec.partial_mode is not None or spec.merger is not None:
        raise UnsupportedError(
            "a value is explained where records win whole or by their event times, on tables with meta columns",
            table=source.config.name,
        )
    text = _key_text(source, plan.schema, key)
    clocks = source.config.clocks
    shown_by = spec.ordering_fields if clocks is None else _clocks_of(clocks, column)
    found = [_versions(source.storage, plan, spec, file_slice, text, column, shown_by) for file_slice in slices]
    versions = tuple(version for versions, _ in found for version in versions)
    shown = [value for _, values in found for value in values]
    return Explanation(text, column, shown[-1] if shown else None, bool(shown), versions)


def _key_text(source: TableSource, schema: pa.Schema, key: object) -> str:
    fields = source.config.record_key_fields
    given = dict(key) if isinstance(key, Mapping) else dict.fromkeys(fields[:1], key)
    if set(given) != set(fields):
        raise InvalidError(
            f"the key has the columns {', '.join(fields)}", value=key, hint="give a mapping of all of them"
        )
    for name, value in given.items():
        # Arrow would cut it.
        if isinstance(value, float) and pa.types.is_integer(schema.field(name).type) and not value.is_integer():
            raise InvalidError(f"{value!r} is no value of the key's column {name!r}", value=value)
    try:
        row = pa.table({name: pa.array([given[name]], schema.field(name).type) for name in fields})
    except (pa.ArrowException, TypeError) as error:
        raise InvalidError(f"{key!r} is no key of the table: {error}", value=key) from error
    return str(KeyGenerator.of(source.config).keys(row)[0].as_py())


def _versions(
    storage: Storage,
    plan: ScanPlan,
    spec: MergeSpec,
    file_slice: FileSlice,
    key: str,
    column: str,
    shown_by: tuple[str, ...],
) -> tuple[list[ValueVersion], list[object]]:
    """The versions of one slice, and the value that they give, if they give one; ``shown_by`` are the column's event times."""
    stored = _stored(storage, plan, file_slice, key)
    logged = read_logs(storage, file_slice.logs, spec, plan.log_context)
    entries = logged.entries.filter(pl.col("key") == key)
    records = LogRecords(logged.rows, entries, logged.partials, logged.born, logged.kept)
    if entries.height == 0 and stored is None:
        return [], []
    base_file = "" if file_slice.base is None else file_slice.base.path
    names = {log.name.instant: log.path for log in file_slice.logs}
    if spec.clocks is not None and entries.height:
        return _clocked(judge(stored, records, spec), stored, records, spec, column, base_file, names)
    return _whole(stored, records, spec, column, base_file, names, shown_by)


def _stored(storage: Storage, plan: ScanPlan, file_slice: FileSlice, key: str) -> pa.RecordBatch | None:
    if file_slice.base is None:
        return None
    for batch in read_base(storage, file_slice.base, plan.work_schema):
        places = KeyLookup(pl.Series("key", [key])).find(batch.column(RECORD_KEY))
        if (places >= 0).any():
            return batch.take(pa.array(np.flatnonzero(places >= 0)))
    return None


def _clocked(
    judged: Judged,
    stored: pa.RecordBatch | None,
    records: LogRecords,
    spec: MergeSpec,
    column: str,
    base_file: str,
    names: Mapping[str, str],
) -> tuple[list[ValueVersion], list[object]]:
    verdict, rows = judged.verdict, judged.rows.to_pylist()
    clocks = spec.clocks
    assert clocks is not None
    reset = int(np.flatnonzero(judged.is_reset).max(initial=-1))
    winner = max(_giver(judged, spec, column), reset)
    alive = bool(verdict.is_alive[0])
    held = 0 if stored is None else 1
    born = [""] * held + [records.born[block] for block in records.entries["block"]]
    made = []
    for place, row in enumerate(rows):
        is_base = place < held
        why = WINS if place == winner else _why(judged, clocks, column, place, winner, rows)
        if place < reset:
            why = "a later delete ended it, whatever its event times"
        elif place == reset != winner:
            why = "applied, and a later record brought the key back"
        times = {name: row[name] for name in _clocks_of(clocks, column) if row[name] is not None}
        made.append(
            ValueVersion(
                row[column],
                None if is_base else born[place],
                row[COMMIT_TIME] if is_base else None,
                times,
                bool(judged.is_delete[place]),
                base_file if is_base else names.get(row[COMMIT_TIME], names.get(born[place], "")),
                why,
            )
        )
    value = rows[winner][column] if winner >= 0 and not judged.is_delete[winner] else None
    if winner >= 0 and column in spec.ordering_fields:
        value = rows[winner][column]
    return made, [value] if alive else []


def _giver(judged: Judged, spec: MergeSpec, column: str) -> int:
    """The version that gives the column's value, or that emptied it."""
    verdict = judged.verdict
    if column in spec.ordering_fields:
        return int(verdict.clocks[spec.ordering_fields.index(column)][0])
    for number, unit in enumerate(judged.units):
        if column in unit:
            giver = int(verdict.values[number][0])
            if giver < 0 and spec.clocks is not None and spec.clocks.mode == PER_GROUP and number < len(verdict.ended):
                return int(verdict.ended[number][0])
            if giver < 0 and not verdict.is_alive[0]:
                return max(int(ended[0]) for ended in verdict.ended)
            return giver
    return int(verdict.last[0])


def _clocks_of(clocks: Clocks, column: str) -> tuple[str, ...]:
    """The event times that decide about a column."""
    if clocks.mode != PER_GROUP:
        return clocks.fields
    return tuple(f for f, group in zip(clocks.fields, clocks.groups, strict=True) if column in group or column == f)


def _why(judged: Judged, clocks: Clocks, column: str, place: int, winner: int, rows: list[dict[str, object]]) -> str:
    reason = REASONS[judged.verdict.reasons[place]]
    own = _clocks_of(clocks, column)
    if clocks.mode == PER_GROUP:
        if not own:
            return "a later record came: the column is in no group and follows the order of commits"
        mine, theirs = rows[place][own[0]], rows[winner][own[0]] if winner >= 0 else None
        if mine is None:
            return f"it has no {own[0]}"
        if mine == theirs:
            return f"a later record has the same {own[0]}"
        return f"older: {own[0]}={mine} is before {theirs}"
    if reason:
        before = {
            n: rows[int(b[place])][n]
            for n, b in zip(clocks.fields, judged.verdict.before, strict=True)
            if b[place] >= 0
        }
        met = ", ".join(f"{name}={value}" for name, value in before.items())
        return f"rejected as {reason}: stored were {met}"
    if judged.is_delete[place]:
        return "applied, and a later record brought the key back"
    if rows[place][column] is None:
        return "applied, and it has no value for the column"
    if winner < place:
        return "applied, and its value is the column's default"
    return "applied, and a later record or delete took its place"


def _whole(
    stored: pa.RecordBatch | None,
    records: LogRecords,
    spec: MergeSpec,
    column: str,
    base_file: str,
    names: Mapping[str, str],
    shown_by: tuple[str, ...],
) -> tuple[list[ValueVersion], list[object]]:
    """Tables whose records win whole, also those that were merged when they were written."""
    entries = records.entries.with_row_index("seq")
    order = spec.ordering_fields
    made: list[tuple[ValueVersion, int | None]] = []
    if stored is not None:
        row = stored.to_pylist()[0]
        times = {name: row[name] for name in shown_by if row[name] is not None}
        made.append((ValueVersion(row[column], None, row[COMMIT_TIME], times, False, base_file, ""), None))
    for entry in entries.iter_rows(named=True):
        number = int(entry["row"])
        row = records.rows.slice(number, 1).to_pylist()[0] if number >= 0 else {}
        times = {name: row.get(name, entry[f"o{i}"]) for i, name in enumerate(order)}
        times = times or {name: row[name] for name in shown_by if row.get(name) is not None}
        born = records.born[entry["block"]]
        is_delete = entry["kind"] != DATA
        shown = None if entry["unconditional"] and entry["kind"] == BLOCK_DELETE else times
        version = ValueVersion(row.get(column), born, None, shown or {}, is_delete, names.get(born, ""), "")
        made.append((version, int(entry["seq"])))
    best = int(fold(records.entries, spec)["seq"][0]) if entries.height else None
    if best is not None and stored is not None and spec.is_event_time and not entries["unconditional"][best]:
        ordering = [entries[f"o{i}"].to_arrow() for i in range(len(order))]
        one = np.zeros(1, dtype=np.int64)
        if not log_is_newer(stored, one, ordering, one + best, spec)[0]:
            best = None
    versions = []
    for version, seq in made:
        is_before = seq is None or (best is not None and seq < best)
        if best is not None and spec.is_event_time and is_before and entries["unconditional"][best]:
            loses = "a later delete ended it, whatever its ordering value"
        elif spec.is_event_time and is_before:
            loses = "a later record with the same or a greater ordering value won"
        else:
            loses = "a greater ordering value won" if spec.is_event_time else "a later record came"
        versions.append(_with_why(version, WINS if seq == best else loses))
    winner = next(v for v in versions if v.why == WINS)
    return versions, [] if winner.is_delete else [winner.value]


def _with_why(version: ValueVersion, why: str) -> ValueVersion:
    return replace(version, why=why)
