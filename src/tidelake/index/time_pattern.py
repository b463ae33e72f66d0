"""Java date patterns, as far as partition paths use them: year, month, day, hour, minute, second, milliseconds, literals.

A pattern is checked once, and a letter that is not known is refused by name. Times are printed once for each distinct
step of the smallest unit that the pattern shows; texts are parsed whole columns at a time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import UnsupportedError

DAY_MS = 86_400_000
_UNITS = {"y": DAY_MS, "M": DAY_MS, "d": DAY_MS, "H": 3_600_000, "m": 60_000, "s": 1_000, "S": 1}
_WIDTHS = {"y": (4,), "M": (1, 2), "d": (1, 2), "H": (1, 2), "m": (1, 2), "s": (1, 2), "S": (3,)}
_TOKEN = re.compile(r"''|'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+|'")
EPOCH = datetime(1970, 1, 1)
Times = npt.NDArray[np.int64]
"""Milliseconds since the epoch; as wall time: what a clock showed, as if it were UTC."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a pattern: a literal, or ``letter`` so many times."""

    text: str
    letter: str = ""


@dataclass(frozen=True, slots=True)
class TimePattern:
    """A pattern such as ``yyyy/MM/dd``."""

    pattern: str
    pieces: tuple[Piece, ...]

    @staticmethod
    def of(pattern: str, *, is_input: bool = False) -> TimePattern:
        """The pattern; ``Z`` (an offset) may stand in those that are read."""
        pieces = []
        for match in _TOKEN.finditer(pattern):
            text, letter = match[0], match[1] or ""
            if not letter:
                pieces.append(Piece(_literal(text, pattern)))
            elif len(text) in _WIDTHS.get(letter, ()) or (is_input and text in ("Z", "ZZ", "X", "XX", "XXX")):
                pieces.append(Piece(text, letter))
            else:
                known = "yyyy, MM, dd, HH, mm, ss, SSS" + (", Z" if is_input else "")
                raise UnsupportedError(
                    f"the date format {pattern!r} has {text!r}, known are {known}", value=pattern, hint="quote literals"
                )
        if not any(piece.letter == "y" for piece in pieces):
            raise UnsupportedError(f"the date format {pattern!r} has no year (yyyy)", value=pattern)
        return TimePattern(pattern, tuple(pieces))

    @property
    def step_ms(self) -> int:
        """The smallest unit that the pattern shows, in milliseconds."""
        return min(_UNITS[piece.letter] for piece in self.pieces if piece.letter)

    def texts(self, wall_ms: Times) -> pa.Array:
        """Wall times, in milliseconds, as text."""
        steps, inverse = np.unique(wall_ms // self.step_ms, return_inverse=True)
        distinct = pa.array([self._text(int(step) * self.step_ms) for step in steps], pa.string())
        return distinct.take(pa.array(inverse.reshape(-1)))

    def _text(self, wall_ms: int) -> str:
        time = EPOCH + timedelta(milliseconds=wall_ms)
        parts = {"y": time.year, "M": time.month, "d": time.day, "H": time.hour, "m": time.minute, "s": time.second}
        parts["S"] = time.microsecond // 1_000
        return "".join(f"{parts[p.letter]:0{len(p.text)}d}" if p.letter else p.text for p in self.pieces)

    def floored(self, wall_ms: int) -> int:
        """A wall time without what the pattern does not show."""
        time = EPOCH + timedelta(milliseconds=wall_ms)
        names = {"y": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second", "S": "microsecond"}
        shown = {names[p.letter]: getattr(time, names[p.letter]) for p in self.pieces if p.letter in names}
        return (datetime(**{"year": 1970, "month": 1, "day": 1, **shown}) - EPOCH) // timedelta(milliseconds=1)

    def parse(self, texts: pa.Array) -> tuple[pa.Array, pa.Array]:
        """The wall time of each text in milliseconds (null: it is not of this pattern), and its offset, if it has one."""
        found = pc.extract_regex(texts, self._regex)
        names = {found.type.field(i).name for i in range(found.type.num_fields)}

        def part(letter: str, default: int) -> pa.Array:
            if letter not in names:
                return pa.repeat(pa.scalar(default, pa.int64()), len(texts))
            return pc.cast(pc.struct_field(found, letter), pa.int64())

        days = _days(part("y", 1970), part("M", 1), part("d", 1))
        wall = pc.multiply(days, DAY_MS)
        for letter, bound in (("H", 24), ("m", 60), ("s", 60), ("S", 1_000)):
            value = part(letter, 0)
            fits = pc.less(value, bound)
            wall = pc.if_else(fits, pc.add(wall, pc.multiply(value, _UNITS[letter])), pa.scalar(None, pa.int64()))
        offset = pc.struct_field(found, "Z") if "Z" in names else pa.nulls(len(texts), pa.string())
        return wall, _offsets_ms(offset)

    @property
    def _regex(self) -> str:
        out = []
        for piece in self.pieces:
            if not piece.letter:
                out.append(re.escape(piece.text))
            elif piece.letter in "ZX":
                out.append(r"(?P<Z>Z|[+-]\d{2}:?\d{2})")
            else:
                digits = str(len(piece.text)) if len(piece.text) > 1 else "1,2"
                out.append(rf"(?P<{piece.letter}>\d{{{digits}}})")
        return "^" + "".join(out) + "$"


def _literal(text: str, pattern: str) -> str:
    if text == "'":
        raise UnsupportedError(f"the date format {pattern!r} has a quote without its end", value=pattern)
    if not text.startswith("'"):
        return text
    return "'" if text == "''" else text[1:-1].replace("''", "'")


def _days(years: pa.Array, months: pa.Array, days: pa.Array) -> pa.Array:
    """Days since 1970 of calendar dates; null where there is no such date."""
    valid = np.asarray(pc.is_valid(years))
    y, m, d = (np.asarray(pc.fill_null(part, 1)).astype(np.int64) for part in (years, months, days))
    valid &= (y >= 1) & (m >= 1) & (m <= 12) & (d >= 1)
    month_start = (np.where(valid, (y - 1970) * 12 + m - 1, 0)).astype("datetime64[M]")
    first = month_start.astype("datetime64[D]").astype(np.int64)
    after = (month_start + 1).astype("datetime64[D]").astype(np.int64)
    valid &= d <= after - first
    return pa.array(first + d - 1, pa.int64(), mask=~valid)


def _offsets_ms(texts: pa.Array) -> pa.Array:
    """``Z``, ``+0130`` and ``+01:30`` as milliseconds."""
    plain = pc.replace_substring(pc.if_else(pc.equal(texts, "Z"), "+0000", texts), ":", "")
    hours = pc.cast(pc.utf8_slice_codeunits(plain, 1, 3), pa.int64())
    minutes = pc.cast(pc.utf8_slice_codeunits(plain, 3, 5), pa.int64())
    ms = pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60_000)
    return pc.if_else(pc.equal(pc.utf8_slice_codeunits(plain, 0, 1), "-"), pc.negate(ms), ms)
