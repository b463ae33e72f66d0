"""What a sequence of writes must leave in a table: a plain dict, record by record, without a line of the engine.

A key is a pair (partition values, id). An entry is kept for every key that a file group of the table has, alive or not:
of a merge-on-read table a deleted key leaves a tombstone that older data must not pass, of a copy-on-write table nothing.
With buckets a delete is not looked up: it leaves a tombstone wherever the key's bucket is there, known key or not.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

Row = dict[str, Any]
Key = tuple[Any, ...]
COLUMNS = ("id", "name", "n", "ts", "seq", "region", "day", "_hoodie_is_deleted")


class Refused(Exception):
    """The engine must refuse this write, with nothing changed."""


@dataclass(frozen=True)
class Entry:
    """One key: its row, or (dead) the ordering value that ended it, or (``is_blank``) neither.

    ``base`` is the ordering value of its row in the base file; None if it is in logs alone.
    """

    base: tuple[Any, ...] | None
    row: Row | None = None
    ended: tuple[Any, ...] | None = None

    @property
    def is_blank(self) -> bool:
        return self.row is None and self.ended is None


@dataclass
class Oracle:
    """The table's content and the rules by which it changes."""

    ordering: tuple[str, ...]
    partition_by: tuple[str, ...]
    is_merge_on_read: bool
    buckets: int | None = None
    groups: set[Key] = field(default_factory=set)
    """The buckets that are there: (partition values, number)."""
    columns: list[str] = field(default_factory=lambda: list(COLUMNS))
    entries: dict[Key, Entry] = field(default_factory=dict)
    written: list[tuple[Key, tuple[Any, ...] | None, Row | None]] = field(default_factory=list)
    """Every record that reached a file, in order, with its ordering value: the row, None for a delete. Without an ordering
    value: the file group that had the key is gone."""

    def copy(self) -> Oracle:
        """Another one to go on with; entries and rows are replaced, never changed, so the two may share them."""
        return replace(
            self,
            groups=set(self.groups),
            columns=list(self.columns),
            entries=dict(self.entries),
            written=list(self.written),
        )

    def rows(self) -> Counter[str]:
        """Every visible row, as a multiset of texts."""
        return multiset(entry.row for entry in self.entries.values() if entry.row is not None)

    def partition_of(self, row: Row) -> Key:
        return tuple(row[name] for name in self.partition_by)

    def key_of(self, row: Row) -> Key:
        return (self.partition_of(row), row["id"])

    def order_of(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.ordering)

    def upsert(self, batch: list[Row]) -> None:
        best: dict[Key, Row] = {}
        for row in batch:
            held = best.get(self.key_of(row))
            if held is None or self._rank(row) >= self._rank(held):
                best[self.key_of(row)] = row
        work = dict(self.entries)
        for key, row in best.items():
            self._apply(work, key, row)
        self.entries = work
        self._add_groups(best.values())

    def insert(self, batch: list[Row]) -> None:
        for row in batch:
            if not row["_hoodie_is_deleted"]:
                old = self.entries.get(self.key_of(row))
                assert old is None or (old.is_blank and self.buckets is None)
                self.entries[self.key_of(row)] = Entry(self._base_of(row), row)
                self.written.append((self.key_of(row), self.order_of(row), row))
        self._add_groups(batch)

    def delete(self, keys: set[Key], *, unconditional: bool = False) -> None:
        """Delete what is alive of these keys; on an event-time table from the row's own ordering value on."""
        for key in keys:
            entry = self.entries.get(key)
            if entry is not None and entry.row is not None:
                ended = None if unconditional or not self.ordering else self.order_of(entry.row)
                self.written.append((key, self.order_of(entry.row), None))
                self._end(self.entries, key, ended)

    def replace(self, batch: list[Row], partitions: set[Key] | None) -> None:
        """Empty these partitions (None: all), then insert the best row of each key."""
        fresh = Oracle(self.ordering, self.partition_by, self.is_merge_on_read, self.buckets)
        fresh.upsert(batch)
        self.groups = fresh.groups | {g for g in self.groups if partitions is not None and g[0] not in partitions}
        kept = {} if partitions is None else {k: e for k, e in self.entries.items() if k[0] not in partitions}
        self.written.extend((key, None, None) for key in self.entries if key not in kept)
        self.written.extend(fresh.written)
        self.entries = {**kept, **fresh.entries}

    def _apply(self, work: dict[Key, Entry], key: Key, row: Row) -> None:
        entry = work.get(key)
        order = self.order_of(row)
        gone = bool(row["_hoodie_is_deleted"])
        if entry is None:
            if not gone:
                work[key] = Entry(self._base_of(row), row)
                self.written.append((key, order, row))
            elif self.is_merge_on_read and self._group_of(row) in self.groups:
                work[key] = Entry(None, None, order if self.ordering else None)
            return
        self.written.append((key, order, None if gone else row))
        if self.ordering:
            if entry.is_blank:
                if gone:
                    return
                if entry.base is not None and order < entry.base:
                    raise Refused(f"{key} was deleted whatever its age, and its base row is of {entry.base}")
            elif order < (self.order_of(entry.row) if entry.row is not None else entry.ended):
                return
        if gone:
            self._end(work, key, order if self.ordering else None)
        else:
            work[key] = Entry(entry.base, row)

    def _base_of(self, row: Row) -> tuple[Any, ...] | None:
        """A new key is in a new base file, or in a log of its bucket if that is there."""
        return None if self.is_merge_on_read and self._group_of(row) in self.groups else self.order_of(row)

    def _add_groups(self, written: Any) -> None:
        if self.buckets is not None:
            self.groups = self.groups | {self._group_of(row) for row in written if not row["_hoodie_is_deleted"]}

    def _group_of(self, row: Row) -> Key | None:
        if self.buckets is None:
            return None
        hashed = 0
        for letter in str(row["id"]):
            hashed = hashed * 31 + ord(letter)
        return (self.partition_of(row), ((31 + hashed) & 0x7FFFFFFF) % self.buckets)

    def _end(self, work: dict[Key, Entry], key: Key, ended: tuple[Any, ...] | None) -> None:
        if self.is_merge_on_read:
            work[key] = Entry(work[key].base, None, ended)
        else:
            del work[key]

    def _rank(self, row: Row) -> tuple[Any, ...]:
        return (*self.order_of(row), avro_bytes(row, self.columns))


def avro_bytes(row: Row, columns: list[str]) -> bytes:
    """A row as Avro writes it, every column being a union of null and its type."""
    return b"".join(_union(row.get(name)) for name in columns)


def _union(value: Any) -> bytes:
    if value is None:
        return b"\x00"
    if isinstance(value, bool):
        return b"\x02" + bytes([value])
    if isinstance(value, int):
        return b"\x02" + _varint(value)
    text = value.encode()
    return b"\x02" + _varint(len(text)) + text


def _varint(number: int) -> bytes:
    zigzag = number * 2 if number >= 0 else -number * 2 - 1
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def multiset(rows: Any) -> Counter[str]:
    """Rows as texts, columns that are null left out: an added column is null in every older row."""
    return Counter(
        str(sorted((name, value) for name, value in row.items() if value is not None and name != "_hoodie_is_deleted"))
        for row in rows
    )
