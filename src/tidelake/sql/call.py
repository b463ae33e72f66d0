"""What a CALL statement says: a name and arguments. Spark hands CALL only to JVM catalogs, so it is parsed here.

``CALL show_commits(...)`` and ``CALL system.show_commits(...)`` are ours; any other prefix names a catalog of Spark's.
What follows the name is parsed by sqlglot as the arguments of a function, and only plain values are taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from tidelake import _limits
from tidelake.errors import InvalidError
from tidelake.query import SparkSql

Value = str | int | float | bool | None
Markers = Mapping[str, object] | Sequence[object] | None
"""Values for ``:name`` or ``?`` in the text, as ``spark.sql(text, args)`` takes them."""

_BLANK = r"\s|--[^\n]*(?:\n|$)|/\*(?:(?!\*/).)*\*/"
"""Each text is one of these in one way only, so that many of them take no time."""
_BEGIN = re.compile(rf"(?:{_BLANK})*CALL\b", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"\s*((?:`[^`]+`|\w+)(?:\s*\.\s*(?:`[^`]+`|\w+))*)\s*(?=[(;]|--|/\*|$)")
_END = re.compile(rf"(?:{_BLANK}|;)*", re.DOTALL)
_PREFIX = "system"
_AS_FUNCTION = "tidelake_arguments"


@dataclass(frozen=True, slots=True)
class Call:
    """A CALL statement of ours: ``positional`` values in their order, then ``named`` ones in theirs."""

    name: str
    positional: tuple[Value, ...] = ()
    named: tuple[tuple[str, Value], ...] = ()


def parse_call(text: str, markers: Markers = None) -> Call | None:
    """The CALL that a statement is; None if it is another statement, or a CALL of a catalog of Spark's."""
    begin = _BEGIN.match(text)
    if begin is None:
        return None
    name = _NAME.match(text, begin.end())
    if name is None:
        raise InvalidError(f"{_shown(text)} is no CALL", value=text, hint="write CALL name(argument => value, ...)")
    parts = [part.strip().strip("`").lower() for part in name[1].split(".")]
    if parts[:-1] not in ([], [_PREFIX]):
        return None
    rest = text[name.end() :]
    positional, named = ((), ()) if _END.fullmatch(rest) else _arguments(text, rest, _Markers(markers))
    return Call(parts[-1], positional, named)


def _arguments(text: str, rest: str, markers: _Markers) -> tuple[tuple[Value, ...], tuple[tuple[str, Value], ...]]:
    if len(text) > _limits.FILTER_CHARS or text.count("(") > _limits.FILTER_DEPTH:
        raise InvalidError(f"{_shown(text)} is too long for a CALL", value=text)
    try:
        parsed = sqlglot.parse(_AS_FUNCTION + rest, dialect=SparkSql)
    except (sqlglot.errors.SqlglotError, RecursionError, ValueError) as error:
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InvalidError(f"{_shown(text)} does not parse: {said}", value=text) from None
    # Nothing, or a comment, after a semicolon is no statement.
    said_all = [part for part in parsed if part is not None and not isinstance(part, exp.Semicolon)]
    made = said_all[0] if len(said_all) == 1 else None
    if not isinstance(made, exp.Anonymous) or made.name != _AS_FUNCTION:
        raise InvalidError(f"{_shown(text)} goes on after its arguments", value=text)
    positional: list[Value] = []
    named: list[tuple[str, Value]] = []
    for argument in made.expressions:
        if isinstance(argument, exp.Kwarg):
            named.append((argument.name.lower(), markers.value(argument.expression)))
        elif named:
            raise InvalidError(
                f"{_shown(text)} has a value without a name after one with a name", value=argument.sql(dialect="spark")
            )
        else:
            positional.append(markers.value(argument))
    return tuple(positional), tuple(named)


class _Markers:
    """Values of a CALL's arguments; parameter markers take theirs from what the caller gave."""

    def __init__(self, given: Markers) -> None:
        self._named = given if isinstance(given, Mapping) else {}
        self._listed = iter(() if given is None or isinstance(given, Mapping) else given)

    def value(self, node: exp.Expression) -> Value:
        """The value that an argument is."""
        if isinstance(node, exp.Placeholder):
            return self._marked(node)
        if isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Literal):
            return str(node.this) if node.is_string else _number(node)
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
            return -_number(node.this)
        if isinstance(node, exp.Concat) and all(isinstance(p, exp.Literal) and p.is_string for p in node.expressions):
            return "".join(part.name for part in node.expressions)  # literals side by side are one text
        shown = node.sql(dialect="spark")
        raise InvalidError(f"{shown} is no plain value", value=shown, hint="CALL takes texts, numbers, true and false")

    def _marked(self, node: exp.Placeholder) -> Value:
        missing = object()
        found = self._named.get(node.name, missing) if node.this else next(self._listed, missing)
        if found is missing:
            shown = node.sql(dialect="spark")
            raise InvalidError(
                f"no value was given for the marker {shown}",
                value=shown,
                hint="write :name in the text and give args={'name': value}",
            )
        if found is None or isinstance(found, (str, int, float, bool)):
            return found
        raise InvalidError(f"a CALL takes no {type(found).__name__} as an argument", value=found)


def _number(node: exp.Literal) -> int | float:
    text = str(node.this)
    if len(text) > _limits.FILTER_NUMBER_DIGITS:
        raise InvalidError(f"the number {_shown(text)} is too long", value=text)
    return int(text) if text.isdigit() else float(text)


def _shown(text: str) -> str:
    short = " ".join(text.split())
    return short if len(short) <= 80 else f"{short[:80]}..."
