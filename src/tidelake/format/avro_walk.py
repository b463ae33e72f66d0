"""Moving cursors past Avro values without reading them, and finding where the items of arrays and maps begin.

Two users: a projection skips the fields that nobody wants, and the decoder of arrays *locates* items first and decodes
them afterwards, all items of all records as one column. Where an item begins is known only when the one before it has
been walked, so arrays are walked in rounds: round k passes the k-th item of every record that has one. A round costs
the same for one record as for a thousand; when fewer than ``_FEW`` records remain, plain Python walks on instead, one
item after the other. So the time is proportional to the bytes, whatever their shape.

Counts are believed only as far as the bytes go: an item is at least ``least_width`` bytes, so a count is at most the
bytes left divided by it. Items without bytes (null, or a record of nulls) would make any count cheap to claim, and are
bounded by ``FREE_ITEMS``.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tidelake.errors import LimitError
from tidelake.format.avro_cursor import Cursors, Longs, corrupt
from tidelake.format.avro_schema import Array, AvroNode, Enum, Field, Fixed, Map, Primitive, Record, Union

FREE_ITEMS: Final = 65_536
"""How many items that take no bytes one array may hold, and one decoding in all."""

_FEW: Final = 64
_INT64_MIN: Final = -(2**63)
_PRIMITIVE_WIDTH: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def map_entry(node: Map) -> Record:
    """A map's items as records of a key and a value, which is how they are stored."""
    return Record("entry", (Field("key", Primitive("string")), Field("value", node.values)))


def fixed_width(node: AvroNode) -> int | None:
    """The bytes that every value of a node takes, or None where they differ."""
    match node:
        case Primitive(kind=kind):
            return _PRIMITIVE_WIDTH.get(kind)
        case Fixed(size=size):
            return size
        case Record(fields=fields):
            total = 0
            for field in fields:
                width = fixed_width(field.type)
                if width is None:
                    return None
                total += width
            return total
        case _:
            return None


def least_width(node: AvroNode) -> int:
    """The fewest bytes that a value of a node can take."""
    if isinstance(node, Record):
        return sum(least_width(field.type) for field in node.fields)
    width = fixed_width(node)
    return 1 if width is None else width


def skip(node: AvroNode, cursors: Cursors, path: str) -> None:
    """Move every cursor past one value of ``node``."""
    width = fixed_width(node)
    if width is not None:
        cursors.advance(width, path)
        return
    match node:
        case Primitive(kind="string" | "bytes"):
            lengths = cursors.lengths(path)
            cursors.at = cursors.at + lengths
        case Primitive() | Enum():
            cursors.longs(path)
        case Union(branches=branches):
            for branch, rows in split_branches(cursors, len(branches), path):
                if fixed_width(branches[branch]) == 0:
                    continue
                part = cursors.subset(rows)
                skip(branches[branch], part, path)
                cursors.at[rows] = part.at
        case Record(fields=fields):
            for field in fields:
                skip(field.type, cursors, f"{path}.{field.name}")
        case Array(items=items):
            _Walk(items, cursors, path, wanted=False).run()
        case Map():
            _Walk(map_entry(node), cursors, path, wanted=False).run()


def branch_indexes(cursors: Cursors, branches: int, path: str) -> Longs:
    """Read the branch of a union at every cursor."""
    chosen = cursors.longs(path)
    cursors.check((chosen >= 0) & (chosen < branches), f"a union of {branches} types has no such branch", path)
    return chosen


def split_branches(cursors: Cursors, branches: int, path: str) -> list[tuple[int, Longs]]:
    """Read the branch of a union at every cursor: each branch in use, with the cursors that chose it."""
    chosen = branch_indexes(cursors, branches, path)
    if chosen.size == 0:
        return []
    used = range(int(chosen.min()), int(chosen.max()) + 1)
    split = [(branch, np.flatnonzero(chosen == branch)) for branch in used]
    return [(branch, rows) for branch, rows in split if rows.size]


def locate_items(item: AvroNode, cursors: Cursors, path: str) -> tuple[Longs, Cursors]:
    """Move every cursor past an array of ``item``: the count of items of each, and cursors at all items, in order."""
    return _Walk(item, cursors, path, wanted=True).run()


class _Walk:
    """One pass over the arrays at all cursors. With ``wanted``, the start of every item is kept."""

    def __init__(self, item: AvroNode, cursors: Cursors, path: str, *, wanted: bool) -> None:
        # Blocks move cursors in place, and the positions may be in use as the starts of an outer array's items.
        cursors.at = cursors.at.copy()
        self._item = item
        self._cursors = cursors
        self._path = path
        self._wanted = wanted
        self._width = fixed_width(item)
        self._least = least_width(item)
        self._counts: Longs = np.zeros(len(cursors), np.int64)
        self._found: list[tuple[Longs, Longs, Longs]] = []
        """Rows, the number of the item in its row, and where it begins."""

    def run(self) -> tuple[Longs, Cursors]:
        """Walk all blocks; the counts, and cursors at the items if they are wanted."""
        rows: Longs = np.arange(len(self._cursors), dtype=np.int64)
        while rows.size >= _FEW:
            rows = self._block(rows)
        for row in rows.tolist():
            self._finish(row, 0, None)
        return self._counts, self._items()

    def _items(self) -> Cursors:
        cursors = self._cursors
        total = int(self._counts.sum()) if self._wanted else 0
        starts: Longs = np.zeros(total, np.int64)
        if self._wanted:
            first = np.cumsum(self._counts) - self._counts
            for rows, numbers, at in self._found:
                starts[first[rows] + numbers] = at
            return Cursors(cursors.source, starts, np.repeat(cursors.end, self._counts))
        return Cursors(cursors.source, starts, starts)

    def _block(self, rows: Longs) -> Longs:
        """Walk the next block of ``rows``; the rows which may have another one."""
        cursors, path = self._cursors, self._path
        part = cursors.subset(rows)
        counts = part.longs(path)
        stops: Longs = np.full(rows.size, -1, np.int64)
        sized = np.flatnonzero(counts < 0)
        if sized.size:
            part.check(counts != _INT64_MIN, "an array has an impossible count", path)
            heads = part.subset(sized)
            sizes = heads.lengths(path)
            part.at[sized] = heads.at
            stops[sized] = heads.at + sizes
            counts = np.abs(counts)
        self._check_counts(part, counts)
        cursors.at[rows] = part.at
        more = counts != 0
        if not self._wanted and sized.size:
            cursors.at[rows[sized]] = stops[sized]
            counts[sized] = 0
        more[self._pass_items(rows, counts, stops)] = False
        sized = np.flatnonzero(more & (stops >= 0))
        if not (cursors.at[rows[sized]] == stops[sized]).all():
            raise corrupt("a block of an array has another size than it says", path, int(cursors.at[rows[0]]))
        rest: Longs = rows[more]
        return rest

    def _check_counts(self, part: Cursors, counts: Longs) -> None:
        if self._least:
            room = (part.end - part.at) // self._least
            part.check(counts <= room, "an array counts more items than its record has bytes", self._path)
        elif counts.max() > FREE_ITEMS or int(counts.sum()) + int(self._counts.sum()) > FREE_ITEMS:
            raise LimitError(f"an array of more than {FREE_ITEMS} items without bytes, in field {self._path!r}")

    def _pass_items(self, rows: Longs, counts: Longs, stops: Longs) -> Longs:
        """Pass ``counts`` items of each row; which of ``rows`` came to the very end of their arrays on the way."""
        cursors = self._cursors
        live = np.flatnonzero(counts)
        if self._width is not None:
            self._pass_even(rows[live], counts[live], self._width)
            return live[:0]
        left = counts[live]
        while live.size >= _FEW:
            here = rows[live]
            part = cursors.subset(here)
            self._keep(here, self._counts[here], part.at)
            skip(self._item, part, self._path)
            cursors.at[here] = part.at
            self._counts[here] += 1
            left = left - 1
            if not left.all():
                more = np.flatnonzero(left)
                live, left = live[more], left[more]
        for row, count, stop in zip(rows[live].tolist(), left.tolist(), stops[live].tolist(), strict=True):
            self._finish(row, count, None if stop < 0 else stop)
        return live

    def _pass_even(self, rows: Longs, left: Longs, width: int) -> None:
        """Items of one width need no rounds."""
        cursors = self._cursors
        if self._wanted:
            numbers = np.arange(int(left.sum()), dtype=np.int64) - np.repeat(np.cumsum(left) - left, left)
            repeated = np.repeat(rows, left)
            self._keep(repeated, self._counts[repeated] + numbers, cursors.at[repeated] + numbers * width)
        cursors.at[rows] += left * width
        self._counts[rows] += left

    def _keep(self, rows: Longs, numbers: Longs, starts: Longs) -> None:
        if self._wanted:
            self._found.append((rows, numbers, starts))

    def _finish(self, row: int, left: int, stop: int | None) -> None:
        """Walk the array of one row to its end, one item at a time."""
        cursors = self._cursors
        starts: list[int] | None = [] if self._wanted else None
        walker = _Single(cursors.source.view, int(cursors.end[row]), self._path)
        cursors.at[row] = walker.array(self._item, int(cursors.at[row]), left, stop, starts)
        if starts:
            numbers = np.arange(len(starts), dtype=np.int64) + self._counts[row]
            self._keep(np.full(len(starts), row, np.int64), numbers, np.array(starts, np.int64))
            self._counts[row] += len(starts)


class _Single:
    """A walker over one record, in plain Python: for the last few arrays, where numpy's cost per call is too high."""

    __slots__ = ("_end", "_path", "_view")

    def __init__(self, view: memoryview, end: int, path: str) -> None:
        self._view = view
        self._end = end
        self._path = path

    def array(self, item: AvroNode, at: int, left: int, stop: int | None, starts: list[int] | None) -> int:
        """Pass the ``left`` items of a block that ends at ``stop``, and all blocks after it; the position behind."""
        least, width = least_width(item), fixed_width(item)
        while True:
            if width is None:
                for _ in range(left):
                    if starts is not None:
                        starts.append(at)
                    at = self.skip(item, at)
            else:
                if starts is not None:
                    starts.extend(range(at, at + left * width, width) if width else [at] * left)
                at += left * width
            if stop is not None and stop != at:
                raise corrupt("a block of an array has another size than it says", self._path, at)
            left, at = self.long(at)
            stop = None
            if left == 0:
                return at
            if left < 0:
                left = -left
                size, at = self.long(at)
                if not 0 <= size <= self._end - at:
                    raise corrupt("a block of an array passes its record", self._path, at)
                stop = at + size
            if least and left > (self._end - at) // least:
                raise corrupt("an array counts more items than its record has bytes", self._path, at)
            if not least and left + len(starts or ()) > FREE_ITEMS:
                raise LimitError(f"an array of more than {FREE_ITEMS} items without bytes, in field {self._path!r}")
            if starts is None and stop is not None:
                left, at = 0, stop

    def skip(self, node: AvroNode, at: int) -> int:
        """Pass one value."""
        match node:
            case Union(branches=branches):
                branch, at = self.long(at)
                if not 0 <= branch < len(branches):
                    raise corrupt(f"a union of {len(branches)} types has no such branch", self._path, at)
                return self.skip(branches[branch], at)
            case Primitive(kind="string" | "bytes"):
                size, at = self.long(at)
                if size < 0:
                    raise corrupt("a length is negative or passes the record", self._path, at)
                return self._within(at + size)
            case Primitive(kind="int" | "long") | Enum():
                return self.long(at)[1]
            case Primitive(kind=kind):
                return self._within(at + _PRIMITIVE_WIDTH[kind])
            case Fixed(size=size):
                return self._within(at + size)
            case Record(fields=fields):
                for field in fields:
                    at = self.skip(field.type, at)
                return at
            case Array(items=items):
                return self.array(items, at, 0, None, None)
            case Map():
                return self.array(map_entry(node), at, 0, None, None)

    def long(self, at: int) -> tuple[int, int]:
        """A zigzag varint, and the position behind it."""
        value = shift = 0
        while shift < 70:
            if at >= self._end:
                raise corrupt("the record ends inside a value", self._path, at)
            byte = self._view[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= 2**64:
                    break
                return (value >> 1) ^ -(value & 1), at
            shift += 7
        raise corrupt("a number is wider than 64 bits", self._path, at)

    def _within(self, at: int) -> int:
        if at > self._end:
            raise corrupt("a length is negative or passes the record", self._path, at)
        return at
