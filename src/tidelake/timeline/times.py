"""Instant times: 17 digits ``yyyyMMddHHmmssSSS``, compared as text, unique and strictly increasing per table.

The generator never returns a time at or below one it knows, whatever the clock does: a clock that went back, or
another writer's clock that runs ahead, costs a millisecond step past the greatest time known. It follows another
clock only a little: more than a second ahead of our own it waits, for ten seconds at most, and then says which time
is ahead, because times far in the future would never be reached by honest clocks.
"""

from __future__ import annotations

import re
import threading
from datetime import date, datetime, timedelta, timezone, tzinfo

from tidelake._clock import Clock, utc_from_ms
from tidelake.errors import CorruptError, InvalidError, UnavailableError

LEAD_MS = 1_000
WAIT_MS = 10_000
_POLL_S = 0.05
_FIRST_MS, _END_MS = -2_208_988_800_000, 7_289_654_400_000
"""The years 1900 to 2200."""
_DIGITS = re.compile(r"\d{8}(\d{6}(\d{3})?)?", re.ASCII)
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?\s*(Z|[+-]\d\d:?\d\d)?", re.ASCII
)


def timeline_zone(is_utc: bool) -> tzinfo | None:
    """The zone of a table's times; None is the zone of this process, as Apache Hudi's LOCAL is."""
    return timezone.utc if is_utc else None


def format_instant(epoch_ms: int, zone: tzinfo | None) -> str:
    """An epoch time as an instant time in the table's zone."""
    return _digits(utc_from_ms(epoch_ms).astimezone(zone), epoch_ms % 1000)


def _digits(moment: datetime, millis: int) -> str:
    # Not %Y, which does not fill up years before 1000 on every platform.
    return f"{moment.year:04d}{moment:%m%d%H%M%S}{millis:03d}"


def parse_instant(instant: str, zone: tzinfo | None) -> int:
    """An instant time as an epoch time; times of a second's resolution stand for its last millisecond."""
    text = instant + "999" if len(instant) == 14 else instant
    try:
        moment = datetime.strptime(text[:14], "%Y%m%d%H%M%S")
        millis = int(text[14:17])
    except ValueError:
        raise CorruptError(f"{instant!r} is not an instant time (yyyyMMddHHmmssSSS)", value=instant) from None
    aware = moment.replace(tzinfo=zone) if zone is not None else moment.astimezone()
    return round(aware.timestamp()) * 1000 + millis


def parse_said(instant: str, zone: tzinfo | None) -> int:
    """The same of digits that a user gave, which are no damage if they are wrong."""
    try:
        return parse_instant(instant, zone)
    except CorruptError as error:
        raise InvalidError(str(error), value=instant) from None


def next_instant(instant: str) -> str:
    """One millisecond later; what is no time of the calendar (Apache Hudi's small times of zeros) counts as a number."""
    try:
        second = datetime.strptime(instant[:14], "%Y%m%d%H%M%S")
        later = second + timedelta(milliseconds=int(instant[14:17] or "999") + 1)
    except (ValueError, OverflowError):
        return str(int(instant) + 1).zfill(len(instant))
    return _digits(later, later.microsecond // 1000)


def previous_instant(instant: str) -> str:
    """One millisecond earlier; what is no time of the calendar counts as a number, not below zero."""
    try:
        second = datetime.strptime(instant[:14], "%Y%m%d%H%M%S")
        earlier = second + timedelta(milliseconds=int(instant[14:17] or "999") - 1)
    except (ValueError, OverflowError):
        return str(max(0, int(instant) - 1)).zfill(len(instant))
    return _digits(earlier, earlier.microsecond // 1000)


def as_instant(value: str | datetime | date, zone: tzinfo | None) -> str:
    """What a user may say for a point in time, as an instant time.

    Digits (``yyyyMMdd[HHmmss[SSS]]``) stand in the table's zone, as ISO text without an offset and naive datetimes do.
    """
    if isinstance(value, datetime):
        aware = value if value.tzinfo else _aware(value, zone)
        return format_instant(_epoch_ms(aware), zone)
    if isinstance(value, date):
        return f"{value.year:04d}{value:%m%d}000000000"
    text = str(value).strip()
    if _DIGITS.fullmatch(text):
        return text if len(text) == 17 else text + ("999" if len(text) == 14 else "000000000")
    match = _ISO.fullmatch(text)
    if match is None:
        raise InvalidError(
            f"{value!r} is not a point in time", value=text, hint="write yyyyMMddHHmmssSSS or 2026-01-31 12:00:00.000"
        )
    return _from_iso(match, text, zone)


def as_epoch_ms(value: object, zone: tzinfo | None = None) -> int:
    """What a user may say for an event time, in milliseconds since the epoch; numbers are that already.

    What names no zone stands in the one given, a table's; without one it is refused: no zone is ever guessed.
    """
    refuse_finer(value)
    if isinstance(value, int) and not isinstance(value, bool):
        time_ms = value
    elif isinstance(value, datetime) and value.tzinfo is not None:
        time_ms = _epoch_ms(value)
    else:
        text = str(value).strip()
        match = _ISO.fullmatch(text)
        says_zone = not isinstance(value, (datetime, date)) and match is not None and match[8] is not None
        if not says_zone and (zone is None or not isinstance(value, (str, datetime, date))):
            raise InvalidError(
                f"{value!r} is no event time of a known zone",
                value=text,
                hint='give a datetime with a zone, text such as "2026-01-31T12:00:00Z", or milliseconds since 1970',
            )
        stands_in = timezone.utc if says_zone else zone
        # A second stands for its beginning, as a threshold does, and not for its end, as an instant does.
        said = text + "000" if len(text) == 14 and _DIGITS.fullmatch(text) else value
        time_ms = parse_said(as_instant(said, stands_in), stands_in)  # type: ignore[arg-type]
    if not _FIRST_MS <= time_ms < _END_MS:
        raise InvalidError(
            f"the event time {value!r} is outside the years 1900 to 2200",
            value=str(value),
            hint="numbers are milliseconds",
        )
    return time_ms


def refuse_finer(value: object) -> None:
    """Refuse an event time finer than a millisecond: cut, it would be another one."""
    match = _ISO.fullmatch(str(value).strip())
    is_finer = match is not None and (match[7] or "")[3:].strip("0") != ""
    if is_finer or (isinstance(value, datetime) and value.microsecond % 1000):
        raise InvalidError(
            f"the event time {value!s} is finer than a millisecond",
            value=str(value),
            hint="give whole milliseconds, as event times are compared",
        )


def _from_iso(match: re.Match[str], text: str, zone: tzinfo | None) -> str:
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    millis = int((fraction or "0").ljust(3, "0")[:3])
    try:
        moment = datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), millis * 1000
        )
    except ValueError as error:
        raise InvalidError(f"{text!r} is not a point in time: {error}", value=text) from None
    if offset is None:
        return _digits(moment, millis)
    if offset == "Z":
        shift = timedelta(0)
    else:
        sign = -1 if offset[0] == "-" else 1
        shift = sign * timedelta(hours=int(offset[1:3]), minutes=int(offset[-2:]))
    try:
        return format_instant(_epoch_ms(moment.replace(tzinfo=timezone(shift))), zone)
    except (ValueError, OverflowError) as error:
        raise InvalidError(f"{text!r} is not a point in time: {error}", value=text) from None


def _aware(moment: datetime, zone: tzinfo | None) -> datetime:
    return moment.replace(tzinfo=zone) if zone is not None else moment.astimezone()


def _epoch_ms(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)


class InstantGenerator:
    """Draws instant times: later than the clock's past, than every time drawn here, and than every time known."""

    def __init__(self, clock: Clock, zone: tzinfo | None) -> None:
        self._clock = clock
        self._zone = zone
        self._last = ""
        self._mutex = threading.Lock()

    def draw(self, greatest_known: str = "") -> str:
        """A fresh time above ``greatest_known`` and above every time this generator gave."""
        with self._mutex:
            floor = max(self._last, greatest_known)
            started_s = self._clock.monotonic_s()
            while True:
                now = format_instant(self._clock.now_ms(), self._zone)
                drawn = now if now > floor else next_instant(floor)
                if drawn <= format_instant(self._clock.now_ms() + LEAD_MS, self._zone):
                    self._last = drawn
                    return drawn
                if (self._clock.monotonic_s() - started_s) * 1000 >= WAIT_MS:
                    raise UnavailableError(
                        f"the table's greatest time {floor} is ahead of this machine's clock ({now})",
                        instant=floor,
                        hint="check the clocks of the writers, or wait until the time is reached",
                    )
                self._clock.sleep(_POLL_S)
