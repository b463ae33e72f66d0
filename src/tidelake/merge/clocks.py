"""Merging records with several event times: the one implementation for writes, reads and compaction.

The base streams by, and only the log side is in memory, as in ``base_merge``. The rows that the logs touch are resolved
batch by batch: the rules (``clock_rules``) say which version gives which value, and columns are gathered once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.config import PER_GROUP, Clocks
from tidelake.errors import InternalError, InvalidError
from tidelake.merge.arrays import Mask, Places
from tidelake.merge.base_merge import OUTPUT_ROWS, KeyLookup
from tidelake.merge.clock_rules import REASONS, Verdict, Versions, resolve_all, resolve_groups
from tidelake.merge.clock_values import clock_default, clock_values, ranks
from tidelake.merge.keys import record_keys
from tidelake.merge.log_records import DATA, LogRecords
from tidelake.merge.mergers import IS_DELETE
from tidelake.merge.outcome import BORN, COMMIT, INCOMING, KEY, REASON, SEQNO, STORED, Outcome
from tidelake.merge.spec import MergeSpec
from tidelake.schema import COMMIT_SEQNO, COMMIT_TIME, META_COLUMN_NAMES, RECORD_KEY


def merge_clocks(
    base: Iterable[pa.RecordBatch], records: LogRecords, spec: MergeSpec, outcome: Outcome | None = None
) -> Iterator[pa.RecordBatch]:
    """Merge records with several event times into a base file, batch by batch."""
    side = _LogSide(records, spec)
    lookup = KeyLookup(side.keys)
    met = np.zeros(len(side.keys), dtype=np.bool_)
    for batch in base:
        places = lookup.find(record_keys(batch, spec))
        rows = np.flatnonzero(places >= 0)
        if len(rows) == 0:
            yield batch
            continue
        met[places[rows]] = True
        stored = batch.take(pa.array(rows))
        kept = batch.take(pa.array(np.flatnonzero(places < 0)))
        del batch  # the base streams by: nothing of it is held while the consumer works
        yield kept
        yield from side.resolved(stored, places[rows], outcome)
    new = np.flatnonzero(~met)
    for start in range(0, len(new), OUTPUT_ROWS):
        yield from side.resolved(None, new[start : start + OUTPUT_ROWS], outcome)


class _LogSide:
    """The records and deletes of a log side, by key."""

    def __init__(self, records: LogRecords, spec: MergeSpec) -> None:
        if spec.clocks is None:
            raise InternalError("a table without several event times is merged by them")
        entries = records.entries
        self._records = records
        self._spec = spec
        self._clocks: Clocks = spec.clocks
        self.keys = entries["key"].unique(maintain_order=True)
        numbered = pl.DataFrame({"key": self.keys, "place": np.arange(len(self.keys), dtype=np.int64)})
        places = entries.select("key").join(numbered, on="key", how="left", maintain_order="left")["place"].to_numpy()
        self._order = np.argsort(places, kind="stable")
        self._counts = np.bincount(places, minlength=len(self.keys))
        self._starts = np.cumsum(self._counts) - self._counts

    def resolved(
        self, stored: pa.RecordBatch | None, places: Places, outcome: Outcome | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of some places, with what is stored of them."""
        work = self.work(stored, places)
        yield from work.custom() if self._spec.merger is not None else work.merged(outcome)

    def work(self, stored: pa.RecordBatch | None, places: Places) -> _Work:
        """What is stored of some places, and the records that meet it."""
        records = self._records
        counts, held = self._counts[places], 0 if stored is None else stored.num_rows
        ends = np.cumsum(counts)
        inside = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
        entries = records.entries[self._order[np.repeat(self._starts[places], counts) + inside]]
        logged = records.rows.take(pa.array(entries["row"].to_numpy())).combine_chunks()
        rows = (
            logged if stored is None else pa.concat_tables([pa.Table.from_batches([stored]), logged]).combine_chunks()
        )
        number = np.concatenate([np.arange(held), np.repeat(np.arange(len(places)), counts)])
        return _Work(self._spec, self._clocks, records.born, records.kept, rows, held, entries, number, len(places))


@dataclass(frozen=True, slots=True)
class Judged:
    """The versions of one key, in the order in which they apply, and who gives what."""

    rows: pa.Table
    is_delete: Mask
    verdict: Verdict
    units: tuple[tuple[str, ...], ...]
    """The columns of each of the verdict's ``values``."""


def judge(stored: pa.RecordBatch | None, records: LogRecords, spec: MergeSpec) -> Judged:
    """Why the versions of one key merge as they do."""
    return _LogSide(records, spec).work(stored, np.zeros(1, dtype=np.int64)).judged()


class _Work:
    """Some stored rows and the records that meet them, as one table."""

    def __init__(
        self,
        spec: MergeSpec,
        clocks: Clocks,
        born: tuple[str, ...],
        kept: frozenset[int],
        rows: pa.Table,
        held: int,
        entries: pl.DataFrame,
        number: Places,
        count: int,
    ) -> None:
        self._spec = spec
        self._clocks = clocks
        self._born = born
        self._kept = kept
        self._rows = rows
        self._held = held
        self._entries = entries
        self._count = count
        self._source = np.argsort(number, kind="stable")
        """The versions, sorted by place and order, as rows of the table."""
        self._place = number[self._source]

    def merged(self, outcome: Outcome | None) -> Iterator[pa.RecordBatch]:
        """The rows by the rules of the mode."""
        units = self._units()
        verdict = self._verdict(self._versions(), units)
        if outcome is not None:
            self._tell(verdict, outcome)
        alive = np.flatnonzero(verdict.is_alive)
        columns: dict[str, pa.ChunkedArray] = {}
        meta = [name for name in self._rows.column_names if name in META_COLUMN_NAMES]
        stamps = [name for name in meta if name in (COMMIT_TIME, COMMIT_SEQNO)]
        others = [name for name in meta if name not in stamps]
        givers = [(stamps, verdict.last), (others, verdict.row), *zip(units, verdict.values, strict=True)]
        givers += [([name], giver) for name, giver in zip(self._spec.ordering_fields, verdict.clocks, strict=True)]
        for names, giver in givers:
            taken = self._taken(names, giver[alive])
            columns.update({name: taken.column(name) for name in names})
        made = [columns[name] for name in self._rows.column_names]
        yield from pa.Table.from_arrays(made, schema=self._rows.schema).combine_chunks().to_batches()

    def _verdict(self, versions: Versions, units: list[list[str]]) -> Verdict:
        if self._clocks.mode == PER_GROUP:
            return resolve_groups(versions, self._count, has_loose=self._spec.has_loose)
        return resolve_all(versions, self._count, tuple(self._counts(unit[0]) for unit in units))

    def judged(self) -> Judged:
        """The versions and what became of them."""
        versions, units = self._versions(), self._units()
        rows = self._rows.take(pa.array(self._source))
        return Judged(rows, versions.is_delete, self._verdict(versions, units), tuple(map(tuple, units)))

    def _versions(self) -> Versions:
        nothing = np.zeros(self._held, dtype=np.bool_)
        deleted = np.concatenate([nothing, self._entries["kind"].to_numpy() != DATA])[self._source]
        reset = np.concatenate([nothing, self._entries["unconditional"].to_numpy()])[self._source]
        numbers = []
        for name, kind in zip(self._spec.ordering_fields, self._spec.ordering_types, strict=True):
            ranked = ranks(pl.Series(clock_values(self._rows.column(name), kind)))
            numbers.append(ranked.fill_null(0).to_numpy().astype(np.int64)[self._source])
        kept = np.concatenate([nothing, self._entries["block"].is_in(sorted(self._kept)).to_numpy()])[self._source]
        return Versions(self._place, self._source < self._held, deleted, reset & deleted, kept, tuple(numbers))

    def _units(self) -> list[list[str]]:
        """The columns that are given together: groups and the rest, or one by one; event times are given by themselves."""
        own = set(self._spec.ordering_fields)
        plain = [name for name in self._rows.column_names if name not in META_COLUMN_NAMES and name not in own]
        if self._clocks.mode != PER_GROUP:
            return [[name] for name in plain]
        groups = [[name for name in plain if name in group] for group in self._clocks.groups]
        grouped = {name for group in groups for name in group}
        return [*groups, [name for name in plain if name not in grouped]]

    def _counts(self, name: str) -> Mask:
        """Which versions have a value of a column that may overwrite: not null, and not its default."""
        column = self._rows.column(name).combine_chunks()
        counts: Mask = np.asarray(column.is_valid())
        default = dict(self._clocks.defaults).get(name)
        if default is not None:
            is_default = pc.equal(column, clock_default(name, default, column.type))
            counts = counts & ~np.asarray(pc.fill_null(is_default, False))
        return counts[self._source]

    def _taken(self, names: list[str], giver: Places) -> pa.Table:
        return self._rows.select(names).take(self._at(giver))

    def _at(self, giver: Places) -> pa.Array:
        """Versions as rows of the table; null where there is none."""
        return pa.array(self._source[giver], mask=giver < 0)

    def _tell(self, verdict: Verdict, outcome: Outcome) -> None:
        lost = np.flatnonzero(verdict.reasons)
        if len(lost):
            outcome.rejects.append(self._rejected(verdict, lost))
        ended = np.flatnonzero(np.logical_or.reduce([giver >= 0 for giver in verdict.ended]))
        if len(ended):
            outcome.tombstones.append(self._tombstones(verdict, ended))

    def _rejected(self, verdict: Verdict, lost: Places) -> pa.Table:
        names = list(self._spec.ordering_fields)
        at = self._at(lost)
        made = {
            KEY: self._keys(at),
            COMMIT: self._meta(COMMIT_TIME, at),
            SEQNO: self._meta(COMMIT_SEQNO, at),
            REASON: pa.array(REASONS).take(pa.array(verdict.reasons[lost])),
            INCOMING: _struct(names, [self._rows.column(name).take(at) for name in names]),
            STORED: _struct(
                names,
                [self._rows.column(n).take(self._at(b[lost])) for n, b in zip(names, verdict.before, strict=True)],
            ),
        }
        return pa.table(made)

    def _tombstones(self, verdict: Verdict, ended: Places) -> pa.Table:
        names = self._spec.ordering_fields
        givers = [giver[ended] for giver in verdict.ended]
        latest = np.maximum.reduce(givers)
        blocks = np.concatenate([np.zeros(self._held, dtype=np.int64), self._entries["block"].to_numpy()])
        made = {
            KEY: self._keys(self._at(latest)),
            BORN: pa.array(self._born).take(pa.array(blocks[self._source[latest]])),
        }
        made.update({n: self._rows.column(n).take(self._at(g)) for n, g in zip(names, givers, strict=True)})
        return pa.table(made)

    def _keys(self, at: pa.Array) -> pa.Array:
        return record_keys(self._rows.take(at).combine_chunks().to_batches()[0], self._spec)

    def _meta(self, name: str, at: pa.Array) -> pa.Array:
        if name not in self._rows.column_names:
            return pa.nulls(len(at), pa.string())
        return self._rows.column(name).take(at).combine_chunks()

    def custom(self) -> Iterator[pa.RecordBatch]:
        """The rows as the user's merger gives them."""
        if self._spec.merger is None:
            raise InternalError("a table without a merger is merged by one")
        rows = self._rows
        outside = [name for name in rows.column_names if name in META_COLUMN_NAMES and name != RECORD_KEY]
        plain = rows.drop_columns(outside)
        if RECORD_KEY not in plain.column_names:
            plain = plain.append_column(RECORD_KEY, record_keys(rows.to_batches()[0], self._spec))
        incoming = self._source[self._source >= self._held]
        deleted = pa.array(self._entries["kind"].to_numpy()[incoming - self._held] != DATA)
        given = plain.take(pa.array(incoming)).append_column(IS_DELETE, deleted)
        made = self._spec.merger().merge(plain.slice(0, self._held), given)
        result = self._checked(made, plain)
        keys = pl.DataFrame({"key": pl.Series(plain.column(RECORD_KEY), dtype=pl.String)}).with_row_index("row")
        newest = keys.unique("key", keep="last")
        wanted = pl.DataFrame({"key": pl.Series(result.column(RECORD_KEY), dtype=pl.String)})
        last = wanted.join(newest, on="key", how="left", maintain_order="left")["row"].to_numpy().astype(np.int64)
        meta = rows.select(outside).take(pa.array(last)) if outside else None
        columns = [
            meta.column(name) if meta is not None and name in outside else result.column(name)
            for name in rows.column_names
        ]
        yield from pa.Table.from_arrays(columns, schema=rows.schema).combine_chunks().to_batches()

    def _checked(self, made: object, given: pa.Table) -> pa.Table:
        name = self._clocks.merger
        if not isinstance(made, pa.Table):
            raise InvalidError(f"the merger {name!r} gave a {type(made).__name__} and no pyarrow table", value=name)
        missing = next((column for column in given.column_names if column not in made.column_names), None)
        if missing is not None:
            raise InvalidError(f"the merger {name!r} gave no column {missing!r}", value=missing)
        try:
            result = made.select(given.column_names).cast(given.schema)
        except (pa.ArrowException, ValueError) as error:
            raise InvalidError(f"the merger {name!r} gave columns of other types: {error}", value=name) from error
        keys = result.column(RECORD_KEY)
        if len(keys.unique()) != len(keys) or not pc.all(pc.is_in(keys, given.column(RECORD_KEY)), min_count=0).as_py():
            raise InvalidError(f"the merger {name!r} gave a key twice, or one that it was not given", value=name)
        return result


def _struct(names: list[str], columns: list[pa.ChunkedArray]) -> pa.StructArray:
    return pa.StructArray.from_arrays([column.combine_chunks() for column in columns], names=names)
