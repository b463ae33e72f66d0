"""Options as a registry: key, type, default, doc, aliases, scope.

Names are Apache Hudi's (``hoodie.*``), so that a Hudi user's configuration is understood. An unknown ``hoodie.*`` key
is a warning, since Hudi has hundreds that do not concern us; a wrong value of a known key is an error.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from numbers import Real
from os import PathLike
from typing import Generic, Protocol, TypeVar

from tidelake.errors import OptionError

T = TypeVar("T")
OptionValue = str | bool | int | float
"""What an option may be given as; it is kept as text."""
_DURATION = re.compile(r"(\d{1,15})\s*(ms|s|m|min|h|d)?", re.ASCII)
_LONGEST_DAYS = 100 * 365
_UNIT_MS = {"ms": 1, "s": 1_000, None: 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class _Named(Protocol):
    """What has a name and others that stand for it."""

    @property
    def key(self) -> str: ...

    @property
    def aliases(self) -> tuple[str, ...]: ...


class UnknownOptionWarning(UserWarning):
    """A ``hoodie.*`` option that has no meaning here was given."""


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One option."""

    key: str
    scope: str
    default: T
    doc: str
    parse: Callable[[str], T]
    aliases: tuple[str, ...] = ()

    def of(self, options: Mapping[str, str]) -> T:
        """The option's value among those given."""
        names = [name.lower() for name in (self.key, *self.aliases)]
        found = [(names.index(low), given) for given in options if (low := given.lower()) in names]
        if not found:
            return self.default
        _, given = min(found, key=lambda one: one[0])
        return self._parsed(given, options[given])

    def _parsed(self, key: str, text: str) -> T:
        try:
            return self.parse(text)
        except ValueError as error:
            raise OptionError(f"option {key} is {text!r}: {error}", value=text) from None


def own_names(options: Iterable[_Named]) -> dict[str, str]:
    """The options' keys by every name that they may be given by, in small letters."""
    return {name.lower(): option.key for option in options for name in (*option.aliases, option.key)}


def given_options(options: object) -> dict[str, str]:
    """Options as a caller gives them, as texts: True is ``true``. One name in two cases and with two values is refused."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise OptionError(f"options is {options!r}, not names with values", value=options)
    texts: dict[str, str] = {}
    spelt: dict[str, str] = {}
    for key, value in options.items():
        if not isinstance(key, str):
            raise OptionError(f"option {key!r} is no name", value=key)
        is_flag = isinstance(value, bool)
        if not isinstance(value, (str, Real, date, PathLike)):
            raise OptionError(f"option {key} is {value!r}, no text, number or boolean", value=value)
        text = str(value).lower() if is_flag else str(value)
        first = spelt.setdefault(key.lower(), key)
        if texts.setdefault(first, text) != text:
            raise OptionError(f"option {first} is {texts[first]!r}, and as {key} it is {text!r}", value=key)
    return texts


def choice(**values: str) -> Callable[[str], str]:
    """A parser of one of several words, each with the value it stands for."""

    def parse(text: str) -> str:
        word = text.strip().lower().replace("-", "_")
        if word not in values:
            raise ValueError(f"it must be one of {', '.join(values)}")
        return values[word]

    return parse


def true_or_false(text: str) -> bool:
    """A parser of the two words."""
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("it must be true or false")
    return text.strip().lower() == "true"


def duration_ms(text: str) -> int:
    """A parser of durations: a number of seconds, or one with its unit, such as ``90s``, ``10m``, ``1h`` or ``2d``."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError("it must be a duration such as 90s, 10m, 1h or 2d")
    length_ms = int(found[1]) * _UNIT_MS[found[2]]
    if length_ms > _LONGEST_DAYS * _UNIT_MS["d"]:
        raise ValueError(f"it must be at most {_LONGEST_DAYS}d")
    return length_ms


def words(text: str) -> tuple[str, ...]:
    """A parser of names with commas between."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _names(text: str) -> tuple[str, ...] | None:
    return words(text) or None


def optional_text(text: str) -> str | None:
    """A parser of text that may be empty, which is none."""
    return text.strip() or None


QUERY_TYPE: Option[str] = Option(
    "hoodie.datasource.query.type",
    "read",
    "snapshot",
    "Which view of the table is read: snapshot (base files merged with logs) or read_optimized (base files alone).",
    choice(snapshot="snapshot", read_optimized="read_optimized"),
)
AS_OF: Option[str | None] = Option(
    "as.of.instant",
    "read",
    None,
    "Read the table as of a requested time: yyyyMMddHHmmssSSS, yyyy-MM-dd or yyyy-MM-dd HH:mm:ss.SSS.",
    optional_text,
    ("hoodie.datasource.read.as.of.instant",),
)
AS_OF_COMPLETION: Option[str | None] = Option(
    "tidelake.as.of.completion",
    "read",
    None,
    "Read the table as a reader saw it at that time (by completion time).",
    optional_text,
)
AS_OF_EVENT_TIME: Option[str | None] = Option(
    "tidelake.as.of.event.time",
    "read",
    None,
    "Read exactly the data before an event time, from base files; refused unless these hold all of it and nothing else.",
    optional_text,
)
COLUMNS: Option[tuple[str, ...] | None] = Option(
    "columns", "read", None, "Names of the columns to read, with commas between; all by default.", _names
)
FILTER: Option[str | None] = Option("filter", "read", None, "A SQL condition on the rows to read.", optional_text)

READ_OPTIONS: tuple[Option[str] | Option[str | None] | Option[tuple[str, ...] | None], ...] = (
    QUERY_TYPE,
    AS_OF,
    AS_OF_COMPLETION,
    AS_OF_EVENT_TIME,
    COLUMNS,
    FILTER,
)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a read; what is left belongs to the storage (credentials, endpoints)."""

    mode: str
    as_of: str | None
    as_of_completion: str | None
    columns: tuple[str, ...] | None
    filter: str | None
    storage_options: dict[str, str] = field(default_factory=dict)
    as_of_event_time: str | None = None


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of a read, checked."""
    known = {key.lower() for option in READ_OPTIONS for key in (option.key, *option.aliases)}
    rest = {key: value for key, value in options.items() if key.lower() not in known}
    for key in rest:
        if key.lower().startswith("hoodie."):
            warnings.warn(f"option {key} has no meaning here and is ignored", UnknownOptionWarning, stacklevel=3)
    storage = {key: value for key, value in rest.items() if not key.lower().startswith("hoodie.")}
    return ReadOptions(
        QUERY_TYPE.of(options),
        AS_OF.of(options),
        AS_OF_COMPLETION.of(options),
        COLUMNS.of(options),
        FILTER.of(options),
        storage,
        AS_OF_EVENT_TIME.of(options),
    )
