"""Partition paths made of times, as Apache Hudi's timestamp key generator makes them.

One column (a number of a stated unit, a timestamp, a date or a text of stated formats) becomes a time, and the time a text
by a date format and a zone. Null counts as the number 1, or as the epoch written in the first format, as in Apache Hudi.
Which unit a number has is stated in the table, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import InvalidError, OptionError, UnsupportedError
from tidelake.index.time_pattern import DAY_MS, EPOCH, TimePattern, Times

PREFIX = "hoodie.keygen.timebased."
OLD_PREFIX = "hoodie.deltastreamer.keygen.timebased."
KEYS = (
    "timestamp.type",
    "timestamp.scalar.time.unit",
    "input.dateformat",
    "input.dateformat.list.delimiter.regex",
    "input.timezone",
    "output.dateformat",
    "output.timezone",
    "timezone",
)
_TEXT_TYPES = ("DATE_STRING", "MIXED")
_UNIT_US = {
    "MICROSECONDS": 1,
    "MILLISECONDS": 1_000,
    "SECONDS": 1_000_000,
    "MINUTES": 60_000_000,
    "HOURS": 3_600_000_000,
    "DAYS": DAY_MS * 1_000,
}
_TYPE_UNITS = {
    "UNIX_TIMESTAMP": "SECONDS",
    "EPOCHMILLISECONDS": "MILLISECONDS",
    "EPOCHMICROSECONDS": "MICROSECONDS",
}
TYPES = (*_TYPE_UNITS, "SCALAR", *_TEXT_TYPES)
_QUARTER_MS = 900_000
_OFFSET = re.compile(r"(?:GMT|UTC)([+-])(\d{1,2})(?::?(\d{2}))?")
_FIRST_MS, _LAST_MS = -62_135_510_400_000, 253_402_214_400_000
"""Years 1 to 9999, a day less at each end for the zones."""


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone: a name of the zone database, or a fixed offset. Offsets change on quarters of an hour."""

    name: str
    offset_ms: int | None

    @staticmethod
    def of(text: str) -> Zone:
        if text in ("UTC", "GMT", "Z"):
            return Zone(text, 0)
        match = _OFFSET.fullmatch(text)
        if match:
            minutes = int(match[2]) * 60 + int(match[3] or 0)
            return Zone(text, (-1 if match[1] == "-" else 1) * minutes * 60_000)
        try:
            ZoneInfo(text)
        except (ValueError, OSError, ZoneInfoNotFoundError) as error:
            raise OptionError(f"the time zone {text!r} is not known", value=text) from error
        return Zone(text, None)

    def to_wall(self, ms: Times) -> Times:
        """Wall times of instants."""
        return ms + (self.offset_ms if self.offset_ms is not None else self._offsets(ms, is_wall=False))

    def from_wall(self, wall_ms: Times) -> Times:
        """Instants of wall times, of two the earlier; a wall time that never was is refused."""
        instants: Times = wall_ms - (
            self.offset_ms if self.offset_ms is not None else self._offsets(wall_ms, is_wall=True)
        )
        never = self.to_wall(instants) != wall_ms
        if never.any():
            wall = EPOCH + timedelta(milliseconds=int(wall_ms[never][0]))
            raise InvalidError(f"the time {wall} does not exist in the zone {self.name}", value=self.name)
        return instants

    def _offsets(self, ms: Times, *, is_wall: bool) -> Times:
        zone = ZoneInfo(self.name)
        quarters, inverse = np.unique(ms // _QUARTER_MS, return_inverse=True)
        offsets = []
        for quarter in quarters.tolist():
            time = EPOCH + timedelta(milliseconds=quarter * _QUARTER_MS)
            shown = time.replace(tzinfo=zone) if is_wall else time.replace(tzinfo=timezone.utc).astimezone(zone)
            offsets.append((shown.utcoffset() or timedelta()) // timedelta(milliseconds=1))
        return np.array(offsets, dtype=np.int64)[inverse.reshape(-1)]


@dataclass(frozen=True, slots=True)
class TimePaths:
    """How the values of one column become texts of partition paths."""

    type: str
    unit_us: int
    inputs: tuple[TimePattern, ...]
    input_zone: Zone
    output: TimePattern
    output_zone: Zone

    @staticmethod
    def of(properties: Mapping[str, str]) -> TimePaths:
        """From the properties of a table."""
        given = {key: properties.get(PREFIX + key, properties.get(OLD_PREFIX + key, "")).strip() for key in KEYS}
        kind = given["timestamp.type"].upper()
        if kind not in TYPES:
            raise OptionError(f"{PREFIX}timestamp.type is {kind!r}, known are {', '.join(TYPES)}", value=kind)
        if not given["output.dateformat"]:
            raise OptionError(f"{PREFIX}output.dateformat is missing", hint="yyyy/MM/dd")
        unit = _TYPE_UNITS.get(kind, "SECONDS")
        if kind == "SCALAR":
            unit = given["timestamp.scalar.time.unit"].upper()
            if unit not in _UNIT_US:
                raise OptionError(
                    f"{PREFIX}timestamp.scalar.time.unit is {unit!r}, known are {', '.join(_UNIT_US)}", value=unit
                )
        inputs: tuple[TimePattern, ...] = ()
        if kind in _TEXT_TYPES:
            delimiter = given["input.dateformat.list.delimiter.regex"] or ","
            if re.escape(delimiter) != delimiter:
                raise UnsupportedError(
                    f"the delimiter {delimiter!r} of input formats is no plain text", value=delimiter
                )
            formats = [part.strip() for part in given["input.dateformat"].split(delimiter) if part.strip()]
            inputs = tuple(TimePattern.of(part, is_input=True) for part in formats)
            if not inputs:
                raise OptionError(f"{PREFIX}input.dateformat is missing", hint="yyyy-MM-dd")
        both = given["timezone"]
        output = TimePattern.of(given["output.dateformat"])
        _refuse_no_folder(output)
        return TimePaths(
            kind,
            _UNIT_US[unit],
            inputs,
            Zone.of(both or given["input.timezone"] or "UTC"),
            output,
            Zone.of(both or given["output.timezone"] or "UTC"),
        )

    def check(self, field: str, kind: pa.DataType) -> None:
        """Refuse a column whose type does not go with the type of time that is stated."""
        fits = _types_for(kind)
        if self.type not in fits or (fits == ("SCALAR",) and self.unit_us != _UNIT_US["DAYS"]):
            stated = "SCALAR with the unit DAYS" if fits == ("SCALAR",) else " or ".join(fits) or "nothing known"
            raise InvalidError(
                f"the partition column {field!r} has type {kind}, which goes with {PREFIX}timestamp.type={stated}",
                value=self.type,
            )
        if pa.types.is_date(kind) and self.output_zone.offset_ms != 0:
            raise InvalidError(f"the partition column {field!r} is a date, which has no zone but UTC", value=field)

    def texts(self, column: pa.Array, field: str) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
        """The text of each value, and which values are no times."""
        self.check(field, column.type)
        ms = self._parsed(column) if self.inputs else self._scaled(column)
        bad = np.asarray(pc.and_(pc.is_valid(column), pc.is_null(ms)))
        whole = np.asarray(pc.fill_null(ms, self._null_ms))
        outside = (whole < _FIRST_MS) | (whole > _LAST_MS)
        wall = self.output_zone.to_wall(np.where(outside, 0, whole))
        return self.output.texts(wall), bad | outside

    @property
    def _null_ms(self) -> int:
        if not self.inputs:
            return self.unit_us // 1_000
        wall = int(self.input_zone.to_wall(np.zeros(1, dtype=np.int64))[0])
        shown = np.array([self.inputs[0].floored(wall)], dtype=np.int64)
        return int(self.input_zone.from_wall(shown)[0])

    def _scaled(self, column: pa.Array) -> pa.Array:
        whole = pc.cast(pc.cast(column, pa.int32()) if pa.types.is_date(column.type) else column, pa.int64())
        if self.unit_us < 1_000:
            # As Java divides: towards zero.
            return pc.divide(whole, 1_000 // self.unit_us)
        factor = self.unit_us // 1_000
        bound = 2**62 // factor
        fits = pc.and_(pc.greater_equal(whole, -bound), pc.less_equal(whole, bound))
        return pc.multiply(pc.if_else(fits, whole, pa.scalar(None, pa.int64())), factor)

    def _parsed(self, column: pa.Array) -> pa.Array:
        result = pa.nulls(len(column), pa.int64())
        for pattern in self.inputs:
            wall, offset = pattern.parse(column)
            is_read = np.asarray(pc.is_valid(wall))
            has_offset = np.asarray(pc.is_valid(offset))
            instants = np.asarray(pc.subtract(pc.fill_null(wall, 0), pc.fill_null(offset, 0))).copy()
            bare = is_read & ~has_offset
            instants[bare] = self.input_zone.from_wall(instants[bare])
            result = pc.coalesce(result, pa.array(instants, pa.int64(), mask=~is_read))
        return result


def default_type(kind: pa.DataType) -> dict[str, str]:
    """What a column's type says of itself: properties that need not be given."""
    fits = _types_for(kind)
    if fits == ("SCALAR",):
        return {f"{PREFIX}timestamp.type": "SCALAR", f"{PREFIX}timestamp.scalar.time.unit": "DAYS"}
    return {f"{PREFIX}timestamp.type": fits[0]} if len(fits) == 1 or pa.types.is_string(kind) else {}


def _types_for(kind: pa.DataType) -> tuple[str, ...]:
    if pa.types.is_timestamp(kind):
        return {"us": ("EPOCHMICROSECONDS",), "ms": ("EPOCHMILLISECONDS",)}.get(kind.unit, ())
    if pa.types.is_date32(kind):
        return ("SCALAR",)
    if pa.types.is_integer(kind):
        return (*_TYPE_UNITS, "SCALAR")
    return _TEXT_TYPES if pa.types.is_string(kind) else ()


def _refuse_no_folder(output: TimePattern) -> None:
    text = output.texts(np.zeros(1, dtype=np.int64))[0].as_py()
    if any(part in ("", ".", "..", ".hoodie") for part in text.split("/")) or "\0" in text:
        raise UnsupportedError(f"the date format {output.pattern!r} makes no folders", value=output.pattern)
