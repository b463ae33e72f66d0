"""Merging records with several event times: the one implementation for writes, reads and compaction.

The base streams by, and only the log side is in memory, as in ``base_merge``. The rows that the logs touch are resolved
batch by batch: the rules (``clock_rules``) say which version gives which value, and columns are gathered once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidelake._arrays import ranges
from tidelake.config import PER_GROUP, Clocks
from tidelake.errors import InternalError, InvalidError, TidelakeError
from tidelake.merge.arrays import Mask, Places
from tidelake.merge.base_merge import OUTPUT_ROWS, take_rows
from tidelake.merge.clock_rules import NONE, REASONS, Verdict, Versions, resolve_all, resolve_groups
from tidelake.merge.clock_values import WIDEST, clock_default, clock_values, ranks
from tidelake.merge.gather import Gathering
from tidelake.merge.key_lookup import KeyLookup
from tidelake.merge.keys import record_keys
from tidelake.merge.log_records import BLOCK_DELETE, DATA, LogRecords
from tidelake.merge.mergers import IS_DELETE
from tidelake.merge.outcome import BORN, COMMIT, INCOMING, KEY, REASON, SEQNO, STORED, Outcome
from tidelake.merge.spec import MergeSpec
from tidelake.schema import COMMIT_SEQNO, COMMIT_TIME, META_COLUMN_NAMES, RECORD_KEY


def merge_clocks(
    base: Iterable[pa.RecordBatch], records: LogRecords, spec: MergeSpec, outcome: Outcome | None = None
) -> Iterator[pa.RecordBatch]:
    """Merge records with several event times into a base file, batch by batch.

    Stored rows that stay as they are pass with the rows that nothing meets; records that win whole come at the end.
    """
    side = _LogSide(records, spec)
    met = np.zeros(len(side.lookup), dtype=np.bool_)
    for batch in base:
        places = side.lookup.find(record_keys(batch, spec))
        rows = np.flatnonzero(places >= 0)
        if len(rows) == 0:
            yield batch
            continue
        met[places[rows]] = True
        done = side.resolved(batch, rows, places[rows], outcome)
        keep = np.ones(batch.num_rows, dtype=np.bool_)
        keep[rows] = done.stays
        kept = batch if keep.all() else batch.take(pa.array(np.flatnonzero(keep)))
        del batch  # the base streams by: nothing of it is held while the consumer works
        yield kept
        yield from done.made.to_batches()
    new = np.flatnonzero(~met)
    for start in range(0, len(new), OUTPUT_ROWS):
        yield from side.resolved(None, new[:0], new[start : start + OUTPUT_ROWS], outcome).made.to_batches()
    yield from take_rows(side.log, np.flatnonzero(side.wins))


@dataclass(frozen=True, slots=True)
class _Resolved:
    """What became of some places: which stored rows stay as they are, and the rows that were made of several versions."""

    stays: Mask
    made: pa.Table


class _LogSide:
    """The records and deletes of a log side, by key."""

    def __init__(self, records: LogRecords, spec: MergeSpec) -> None:
        if spec.clocks is None:
            raise InternalError("a table without several event times is merged by them")
        entries = records.entries
        self.records = records
        self.spec = spec
        self.clocks: Clocks = spec.clocks
        self.log = records.rows.combine_chunks()
        self.wins = np.zeros(self.log.num_rows, dtype=np.bool_)
        """Which rows of the log side win whole."""
        self.lookup = KeyLookup(entries["key"])
        places = np.arange(entries.height, dtype=np.int64)
        self._is_single = self.lookup.is_distinct
        """Whether no key has several records: then an entry is its key's place."""
        if not self._is_single:
            keys = entries["key"].unique(maintain_order=True)
            numbered = pl.DataFrame({"key": keys, "place": places[: len(keys)]})
            found = entries.select("key").join(numbered, on="key", how="left", maintain_order="left")
            places, self.lookup = found["place"].to_numpy(), KeyLookup(keys)
        self.logged = entries["row"].to_numpy()
        self.is_delete = entries["kind"].to_numpy() != DATA
        self.is_block_delete = entries["kind"].to_numpy() == BLOCK_DELETE
        self.is_reset = entries["unconditional"].to_numpy()
        self.block = entries["block"].to_numpy()
        self.is_kept = np.isin(self.block, sorted(records.kept))
        self._order = np.argsort(places, kind="stable")
        self._counts = np.bincount(places, minlength=len(self.lookup))
        self._starts = np.cumsum(self._counts) - self._counts
        self._fit: dict[str, Mask] = {}
        self._masks: dict[bytes, Mask] = {}

    def resolved(
        self, batch: pa.RecordBatch | None, rows: Places, places: Places, outcome: Outcome | None
    ) -> _Resolved:
        """The rows of some places; ``rows`` of the batch are what is stored of them."""
        work = self.work(batch, rows, places)
        return work.custom() if self.spec.merger is not None else work.merged(outcome)

    def work(self, batch: pa.RecordBatch | None, rows: Places, places: Places) -> _Work:
        """What is stored of some places, and the records that meet it."""
        has_stored = int(len(rows) > 0)
        if self._is_single:  # a rectangle: nothing is to be counted
            each, size = has_stored + 1, (has_stored + 1) * len(places)
            is_stored, row = np.zeros(size, dtype=np.bool_), np.empty(size, dtype=np.int64)
            is_stored[: size * has_stored : each] = True
            row[: size * has_stored : each] = rows
            row[has_stored::each] = self.logged[places]
            return _Work(self, Gathering(batch, self.log, is_stored, row), places, np.arange(size) // each)
        counts = self._counts[places]
        entries = self._order[ranges(self._starts[places], counts)]
        many = counts + has_stored
        is_stored = np.zeros(int(many.sum()), dtype=np.bool_)
        if has_stored:
            is_stored[np.cumsum(many) - many] = True
        row = np.empty(len(is_stored), dtype=np.int64)
        row[is_stored] = rows
        row[~is_stored] = self.logged[entries]
        place = np.repeat(np.arange(len(places)), many)
        return _Work(self, Gathering(batch, self.log, is_stored, row), entries, place)

    def counts(self, name: str) -> Mask:
        """Which rows of the log side have a value of a column that may overwrite: not null, and not its default.

        Columns of which the same rows do have one mask.
        """
        if name not in self._fit:
            column = self.log.column(name).combine_chunks()
            fit: Mask = np.asarray(column.is_valid())
            default = dict(self.clocks.defaults).get(name)
            if default is not None:
                is_default = pc.equal(column, clock_default(name, default, column.type))
                fit = fit & ~np.asarray(pc.fill_null(is_default, False))
            self._fit[name] = self._masks.setdefault(fit.tobytes(), fit)
        return self._fit[name]


@dataclass(frozen=True, slots=True)
class Judged:
    """The versions of one key, in the order in which they apply, and who gives what."""

    rows: pa.Table
    is_delete: Mask
    is_reset: Mask
    """Deletes without event times, which end whatever is before them."""
    verdict: Verdict
    units: tuple[tuple[str, ...], ...]
    """The columns of each of the verdict's ``values``."""


def judge(stored: pa.RecordBatch | None, records: LogRecords, spec: MergeSpec) -> Judged:
    """Why the versions of one key merge as they do."""
    rows = np.arange(0 if stored is None else 1)
    return _LogSide(records, spec).work(stored, rows, np.zeros(1, dtype=np.int64)).judged()


class _Work:
    """The versions of some places: what is stored of each, if anything, and the records that meet it, in order."""

    def __init__(self, side: _LogSide, rows: Gathering, entries: Places, place: Places) -> None:
        self._side = side
        self._spec = side.spec
        self._clocks = side.clocks
        self._rows = rows
        self._entries = entries
        """Of the records, one after the other, what they are on the log side."""
        self._place = place
        self._count = int(place[-1]) + 1 if len(place) else 0

    def merged(self, outcome: Outcome | None) -> _Resolved:
        """The rows by the rules of the mode."""
        units = self._units()
        verdict = self._verdict(self._versions(), units, tells=outcome is not None)
        if outcome is not None:
            self._tell(verdict, outcome)
        alone = self._alone(verdict, units)
        is_base = (alone >= 0) & self._rows.is_stored[alone]
        is_log = (alone >= 0) & ~is_base
        self._side.wins[self._rows.row[alone[is_log]]] = True
        return _Resolved(
            is_base[self._place[self._rows.is_stored]],
            self._made(verdict, units, np.flatnonzero(verdict.is_alive & (alone < 0))),
        )

    def _alone(self, verdict: Verdict, units: list[list[str]]) -> Places:
        """Of each place the version that gives the whole row; -1 where there is none."""
        giver = verdict.row
        is_alone = verdict.is_alive & (verdict.last == giver)
        for unit, held in zip(units, verdict.values, strict=True):
            if unit:
                is_alone &= held == giver
        for held in verdict.clocks:
            # Who gives no event time has none.
            is_alone &= (held == giver) | ((held < 0) & (not self._spec.is_exact))
        return np.where(is_alone, giver, NONE)

    def _made(self, verdict: Verdict, units: list[list[str]], at: Places) -> pa.Table:
        """The rows of some places, of which several versions give something."""
        schema = self._side.log.schema
        columns: dict[str, pa.ChunkedArray] = {}
        meta = [name for name in schema.names if name in META_COLUMN_NAMES]
        stamps = [name for name in meta if name in (COMMIT_TIME, COMMIT_SEQNO)]
        others = [name for name in meta if name not in stamps]
        givers = [(stamps, verdict.last), (others, verdict.row), *zip(units, verdict.values, strict=True)]
        givers += [([name], giver) for name, giver in zip(self._spec.ordering_fields, verdict.clocks, strict=True)]
        # Who gives the same is taken once; most of these arrays are one.
        each: dict[int, tuple[Places, list[str]]] = {}
        for names, giver in givers:
            each.setdefault(id(giver), (giver, []))[1].extend(names)
        together: dict[bytes, tuple[Places, list[str]]] = {}
        for giver, names in each.values():
            here = giver[at]
            together.setdefault(here.tobytes(), (here, []))[1].extend(names)
        is_made = np.zeros(self._count, dtype=np.bool_)
        is_made[at] = True
        near = self._rows.near(schema.names, is_made[self._place])
        for here, names in together.values():
            taken = near.taken(names, here)
            columns.update({name: taken.column(name) for name in names})
        return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema).combine_chunks()

    def _verdict(self, versions: Versions, units: list[list[str]], *, tells: bool = True) -> Verdict:
        if self._clocks.mode == PER_GROUP:
            spec = self._spec
            deletes_count = spec.ends_with_values and bool(versions.is_delete.any())
            filled = tuple(map(self._filled, units[:-1])) if deletes_count else None
            return resolve_groups(
                versions, self._count, has_loose=spec.has_loose, is_exact=spec.is_exact, filled=filled, tells=tells
            )
        masks = [self._side.counts(unit[0]) for unit in units]
        different = {id(mask): mask for mask in masks}
        verdict = resolve_all(versions, self._count, tuple(map(self._counts, different.values())))
        values = dict(zip(different, verdict.values, strict=True))
        return replace(verdict, values=tuple(values[id(mask)] for mask in masks))

    def judged(self) -> Judged:
        """The versions and what became of them."""
        versions, units = self._versions(), self._units()
        every = np.arange(len(self._place))
        rows = self._rows.taken(self._side.log.column_names, every)
        verdict = self._verdict(versions, units)
        return Judged(rows, versions.is_delete, versions.is_reset, verdict, tuple(map(tuple, units)))

    def _versions(self) -> Versions:
        side = self._side
        deleted = self._marked(side.is_delete)
        # By groups, numbers are multiplied by those of the places.
        most = WIDEST // (len(self._place) + 1) if self._clocks.mode == PER_GROUP else WIDEST
        times, versions = self._rows.any_order(list(self._spec.ordering_fields))
        numbers = [np.empty(len(self._place), dtype=np.int64) for _ in times.columns]
        for number, column, kind in zip(numbers, times.columns, self._spec.ordering_types, strict=True):
            number[versions] = ranks(clock_values(column, kind), most)
        kept, commits = self._marked(side.is_kept), None
        if self._spec.is_exact:
            # Delete blocks that were left over have another commit time than their deletes had.
            kept = kept | self._marked(side.is_block_delete)
            if COMMIT_TIME in side.log.column_names:
                commits = ranks(self._column(COMMIT_TIME, np.arange(len(self._place))), WIDEST)
        reset = self._marked(side.is_reset) & deleted
        return Versions(self._place, self._rows.is_stored, deleted, reset, kept, tuple(numbers), commits)

    def _marked(self, entries: Mask) -> Mask:
        """Which versions are records that have a mark on the log side."""
        marked = np.zeros(len(self._place), dtype=np.bool_)
        if entries.any():
            marked[~self._rows.is_stored] = entries[self._entries]
        return marked

    def _units(self) -> list[list[str]]:
        """The columns that are given together: groups and the rest, or one by one; event times are given by themselves."""
        own = set(self._spec.ordering_fields)
        names = self._side.log.column_names
        plain = [name for name in names if name not in META_COLUMN_NAMES and name not in own]
        if self._clocks.mode != PER_GROUP:
            return [[name] for name in plain]
        groups = [[name for name in plain if name in group] for group in self._clocks.groups]
        grouped = {name for group in groups for name in group}
        return [*groups, [name for name in plain if name not in grouped]]

    def _counts(self, logged: Mask) -> Mask:
        """Which versions have a value that may overwrite; a stored row comes first and need not."""
        counts = self._rows.is_stored.copy()
        counts[~counts] = logged[self._rows.row[~counts]]
        return counts

    def _filled(self, group: list[str]) -> Mask:
        """Which versions have a value in a group; in one of an event time alone all have."""
        columns = self._rows.taken(group, np.arange(len(self._place))).columns if group else []
        has: list[Mask] = [np.asarray(column.combine_chunks().is_valid()) for column in columns]
        return np.logical_or.reduce(has) if has else np.ones(len(self._place), dtype=np.bool_)

    def _tell(self, verdict: Verdict, outcome: Outcome) -> None:
        lost = np.flatnonzero(verdict.reasons)
        if len(lost):
            outcome.rejects.append(self._rejected(verdict, lost))
        ended = np.flatnonzero(np.logical_or.reduce([giver >= 0 for giver in verdict.ended]))
        if len(ended):
            outcome.tombstones.append(self._tombstones(verdict, ended))

    def _rejected(self, verdict: Verdict, lost: Places) -> pa.Table:
        names = list(self._spec.ordering_fields)
        made = {
            KEY: self._keys(lost),
            COMMIT: self._meta(COMMIT_TIME, lost),
            SEQNO: self._meta(COMMIT_SEQNO, lost),
            REASON: pa.array(REASONS).take(pa.array(verdict.reasons[lost])),
            INCOMING: _struct(names, [self._column(name, lost) for name in names]),
            STORED: _struct(names, [self._column(n, b[lost]) for n, b in zip(names, verdict.before, strict=True)]),
        }
        return pa.table(made)

    def _tombstones(self, verdict: Verdict, ended: Places) -> pa.Table:
        names = self._spec.ordering_fields
        givers = [giver[ended] for giver in verdict.ended]
        latest = np.maximum.reduce(givers)
        blocks = np.zeros(len(self._place), dtype=np.int64)
        blocks[~self._rows.is_stored] = self._side.block[self._entries]
        made = {
            KEY: self._keys(latest),
            BORN: pa.array(self._side.records.born).take(pa.array(blocks[latest])),
        }
        made.update({n: self._column(n, g) for n, g in zip(names, givers, strict=True)})
        return pa.table(made)

    def _column(self, name: str, giver: Places) -> pa.Array:
        return self._rows.taken([name], giver).column(0).combine_chunks()

    def _keys(self, giver: Places) -> pa.Array:
        names = list(self._spec.key_fields or (RECORD_KEY,))
        return record_keys(self._rows.taken(names, giver).combine_chunks().to_batches()[0], self._spec)

    def _meta(self, name: str, giver: Places) -> pa.Array:
        if name not in self._side.log.column_names:
            return pa.nulls(len(giver), pa.string())
        return self._column(name, giver)

    def custom(self) -> _Resolved:
        """The rows as the user's merger gives them."""
        if self._spec.merger is None:
            raise InternalError("a table without a merger is merged by one")
        stored = np.flatnonzero(self._rows.is_stored)
        in_turn = np.concatenate([stored, np.flatnonzero(~self._rows.is_stored)])
        rows = self._rows.taken(self._side.log.column_names, in_turn).combine_chunks()
        outside = [name for name in rows.column_names if name in META_COLUMN_NAMES and name != RECORD_KEY]
        plain = rows.drop_columns(outside)
        if RECORD_KEY not in plain.column_names:
            plain = plain.append_column(RECORD_KEY, record_keys(rows.to_batches()[0], self._spec))
        deleted = pa.array(self._side.is_delete[self._entries])
        given = plain.slice(len(stored)).append_column(IS_DELETE, deleted)
        try:
            merged = self._spec.merger().merge(plain.slice(0, len(stored)), given)
        except TidelakeError:
            raise
        except Exception as error:  # it is a user's: whatever it raises is told with its name
            name = self._clocks.merger
            raise InvalidError(f"the merger {name!r} failed: {type(error).__name__}: {error}", value=name) from error
        result = self._checked(merged, plain)
        keys = pl.DataFrame({"key": pl.Series(plain.column(RECORD_KEY), dtype=pl.String)}).with_row_index("row")
        newest = keys.unique("key", keep="last")
        wanted = pl.DataFrame({"key": pl.Series(result.column(RECORD_KEY), dtype=pl.String)})
        last = wanted.join(newest, on="key", how="left", maintain_order="left")["row"].to_numpy().astype(np.int64)
        meta = rows.select(outside).take(pa.array(last)) if outside else None
        columns = [
            meta.column(name) if meta is not None and name in outside else result.column(name)
            for name in rows.column_names
        ]
        made = pa.Table.from_arrays(columns, schema=rows.schema).combine_chunks()
        return _Resolved(np.zeros(len(stored), dtype=np.bool_), made)

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


def _struct(names: list[str], columns: list[pa.Array]) -> pa.StructArray:
    return pa.StructArray.from_arrays(columns, names=names)
