"""Filters: a SQL condition over columns, parsed once and used three ways.

As an Arrow expression it selects rows and prunes row groups by their statistics; its parts that name only partition
columns prune folders; as SQL text it goes to Spark. Literals take the type of the column they are compared with, so
that ``day = '2026-01-31'`` works for a date. Null is unknown, as in SQL: a row is kept only where it is true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal, InvalidOperation
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark

from tidelake import _limits
from tidelake.errors import ColumnNotFoundError, FilterError

_COMPARE: dict[type[exp.Expression], Callable[[pc.Expression, pc.Expression], pc.Expression]] = {
    exp.EQ: lambda a, b: a == b,
    exp.NEQ: lambda a, b: a != b,
    exp.GT: lambda a, b: a > b,
    exp.GTE: lambda a, b: a >= b,
    exp.LT: lambda a, b: a < b,
    exp.LTE: lambda a, b: a <= b,
}
_SWAPPED: dict[type[exp.Expression], type[exp.Expression]] = {exp.LT: exp.GT, exp.LTE: exp.GTE}
_READ_ARGS = frozenset({"this", "expression", "expressions", "low", "high", "negate"})
"""What the translator looks at in a node. Another argument that is set would change the meaning unseen."""
_ARITHMETIC = {exp.Add: pc.add, exp.Sub: pc.subtract, exp.Mul: pc.multiply}


class SparkSql(Spark):  # type: ignore[misc]
    """Spark's SQL as filters and CALL are written in it: a quote within a text is also escaped by another, as in Spark 4."""

    class Tokenizer(Spark.Tokenizer):  # type: ignore[misc]
        STRING_ESCAPES = (*Spark.Tokenizer.STRING_ESCAPES, "'", '"')


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed condition on a schema."""

    text: str
    columns: frozenset[str]
    schema: pa.Schema

    def to_arrow(self) -> pc.Expression:
        """The condition for Arrow."""
        return _Translator(self.text, self.schema).condition(_parse(self.text))

    def for_statistics(self) -> pc.Expression | None:
        """The part of the condition by which row groups may be pruned: statistics leave NaN out of account."""
        translator = _Translator(self.text, self.schema)
        parts = [part for part in _conjuncts(_parse(self.text)) if not translator.may_keep_nan(part)]
        result: pc.Expression | None = None
        for part in parts:
            one = translator.condition(part)
            result = one if result is None else result & one
        return result

    def to_spark(self) -> str:
        """The condition for Spark SQL."""
        return str(_parse(self.text).sql(dialect="spark"))

    def restricted_to(self, columns: frozenset[str]) -> Filter | None:
        """The part of the condition that speaks of these columns alone; what it refuses, the whole refuses."""
        parts = [
            part
            for part in _conjuncts(_parse(self.text))
            if (names := _names(part, self.schema, self.text)) and names <= columns
        ]
        if not parts:
            return None
        text = exp.and_(*parts, copy=True).sql(dialect="spark")
        return parse_filter(text, self.schema)

    def values_of(self, column: str) -> Sequence[object] | None:
        """The only values that the condition lets a column have, if it says so by ``=``, ``IN`` or ``IS NULL``."""
        for part in _conjuncts(_parse(self.text)):
            found = _Translator(self.text, self.schema).listed_values(part, column)
            if found is not None:
                return found
        return None


def parse_filter(text: str, schema: pa.Schema) -> Filter:
    """Parse and check a condition against a schema; whatever is wrong is said now, not while reading."""
    tree = _parse(text)
    parsed = Filter(text, frozenset(_names(tree, schema, text)), schema)
    try:
        expression = parsed.to_arrow()
        pa.Table.from_batches([], schema=pa.schema([schema.field(c) for c in schema.names])).filter(expression)
    except (pa.ArrowException, NotImplementedError, RecursionError) as error:
        raise FilterError(f"the filter {text!r} cannot be evaluated: {_first_line(error)}", value=text) from None
    return parsed


@lru_cache(maxsize=64)
def _parse(text: str) -> exp.Expression:
    """The tree of a condition; nobody changes it."""
    if len(text) > _limits.FILTER_CHARS or text.count("(") > _limits.FILTER_DEPTH:
        raise FilterError(
            f"the filter {text[:100]!r}... has {len(text)} characters and {text.count('(')} parentheses",
            value=text[:100],
            hint=f"{_limits.FILTER_CHARS} characters and {_limits.FILTER_DEPTH} parentheses are allowed: filter the result",
        )
    try:
        tree = sqlglot.parse_one(text, dialect=SparkSql)
    except (sqlglot.errors.SqlglotError, RecursionError, ValueError) as error:
        raise FilterError(
            f"the filter {text!r} does not parse: {_first_line(error)}",
            value=text,
            hint="write a SQL condition, like fare > 3",
        ) from None
    return tree


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _conjuncts(tree: exp.Expression) -> list[exp.Expression]:
    return _chain(tree, exp.And)


def _chain(tree: exp.Expression, kind: type[exp.Expression]) -> list[exp.Expression]:
    """The terms of a chain of ANDs or of ORs; not by recursion, since a chain may be long."""
    terms: list[exp.Expression] = []
    pending = [tree]
    while pending:
        node = pending.pop()
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, kind):
            pending += [node.expression, node.this]
        else:
            terms.append(node)
    return terms


def _combined(
    terms: list[pc.Expression], combine: Callable[[pc.Expression, pc.Expression], pc.Expression]
) -> pc.Expression:
    """The terms joined as a balanced tree: Arrow walks it by recursion."""
    while len(terms) > 1:
        pairs = [combine(one, two) for one, two in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(pairs) * 2 :]
    return terms[0]


def _names(tree: exp.Expression, schema: pa.Schema, text: str) -> frozenset[str]:
    return frozenset(_column_path(column, schema, text)[0] for column in tree.find_all(exp.Column))


def _column_path(column: exp.Column, schema: pa.Schema, text: str) -> tuple[str, ...]:
    parts = tuple(part.name for part in column.parts)
    head = parts[0]
    if head not in schema.names:
        alike = [name for name in schema.names if name.lower() == head.lower()]
        if len(alike) != 1:
            raise ColumnNotFoundError(
                f"the filter {text!r} names the column {head!r}, which the table does not have",
                value=head,
                hint=f"columns are {', '.join(schema.names)}",
            )
        head = alike[0]
    return (head, *parts[1:])


@dataclass(frozen=True, slots=True)
class _Typed:
    """An expression and its type; a literal keeps its Python value until it meets a column."""

    expression: pc.Expression | None
    kind: pa.DataType | None
    literal: object = None
    is_computed: bool = False

    @property
    def is_null(self) -> bool:
        return self.expression is None and self.literal is None

    @property
    def may_be_nan(self) -> bool:
        return self.is_computed or (self.kind is not None and bool(pa.types.is_floating(self.kind)))


class _Translator:
    """From a parsed condition to an Arrow expression."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text = text
        self._schema = schema

    def condition(self, node: exp.Expression) -> pc.Expression:
        if not isinstance(node, exp.Column) and any(
            value and name not in _READ_ARGS for name, value in node.args.items()
        ):
            raise self._unknown(node)
        if isinstance(node, exp.Paren):
            return self.condition(node.this)
        if isinstance(node, exp.And):
            return _combined([self.condition(term) for term in _chain(node, exp.And)], lambda a, b: a & b)
        if isinstance(node, exp.Or):
            return _combined([self.condition(term) for term in _chain(node, exp.Or)], lambda a, b: a | b)
        if isinstance(node, exp.Not):
            return ~self.condition(node.this)
        if type(node) in _COMPARE:
            return self._compared(type(node), self._value(node.this), self._value(node.expression))
        if isinstance(node, exp.NullSafeEQ):
            return self._null_safe(node)
        if isinstance(node, exp.Is):
            return self._is(node)
        if isinstance(node, exp.In):
            return self._in(node)
        if isinstance(node, exp.Between):
            value = self._value(node.this)
            least, most = self._value(node.args["low"]), self._value(node.args["high"])
            return self._compared(exp.GTE, value, least) & self._compared(exp.LTE, value, most)
        if isinstance(node, (exp.Like, exp.ILike)):
            return self._like(node)
        if isinstance(node, exp.StartsWith):
            return pc.starts_with(self._text_of(node.this), self._literal_text(node.expression))
        if isinstance(node, exp.Boolean):
            return pc.scalar(bool(node.this))
        if isinstance(node, exp.Column):
            typed = self._value(node)
            if typed.kind is not None and pa.types.is_boolean(typed.kind) and typed.expression is not None:
                return typed.expression
        raise self._unknown(node)

    def may_keep_nan(self, node: exp.Expression) -> bool:
        """Whether a row may satisfy the condition because a column of it is NaN, as in ``x > 3`` or ``NOT x = 3``."""
        columns = list(node.find_all(exp.Column))
        if not any(pa.types.is_floating(self._type_at(self._path(column))) for column in columns):
            return False
        drops_nan = isinstance(node, (exp.EQ, exp.LT, exp.LTE, exp.In, exp.Between)) and len(columns) == 1
        return not (drops_nan and isinstance(node.this, exp.Column))

    def listed_values(self, node: exp.Expression, column: str) -> Sequence[object] | None:
        """The values in ``column = v``, ``column IN (v, ...)`` or ``column IS NULL``, as Python values."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.EQ):
            sides = [node.this, node.expression]
            values = [side for side in sides if not isinstance(side, exp.Column)]
        elif isinstance(node, exp.In) and not node.args.get("query"):
            sides, values = [node.this], list(node.expressions)
        elif isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            sides, values = [node.this], [node.expression]
        else:
            return None
        if not any(isinstance(s, exp.Column) and self._path(s) == (column,) for s in sides) or not values:
            return None
        kind = self._schema.field(column).type
        typed = [self._value(value) for value in values]
        if any(value.expression is not None for value in typed):
            return None
        return [self._coerce(value.literal, kind).as_py() for value in typed]

    def _compared(self, operator: type[exp.Expression], left: _Typed, right: _Typed) -> pc.Expression:
        if operator in _SWAPPED:
            return self._compared(_SWAPPED[operator], right, left)
        if operator is exp.NEQ:
            return ~self._compared(exp.EQ, left, right)
        one, two = self._meet(left, right.kind), self._meet(right, left.kind)
        plain = _COMPARE[operator](one, two)
        if left.is_null or right.is_null or not (left.may_be_nan or right.may_be_nan):
            return plain
        nan_one = pc.scalar(False) if left.expression is None else pc.is_nan(one)
        nan_two = pc.scalar(False) if right.expression is None else pc.is_nan(two)
        numbers = plain & ~nan_one & ~nan_two
        if operator is exp.EQ:
            return numbers | (nan_one & nan_two)
        return numbers | (nan_one & ~nan_two) if operator is exp.GT else numbers | (nan_one & (nan_two | ~nan_two))

    def _pair(self, left: exp.Expression, right: exp.Expression) -> tuple[pc.Expression, pc.Expression]:
        one, two = self._value(left), self._value(right)
        return self._meet(one, two.kind), self._meet(two, one.kind)

    def _meet(self, typed: _Typed, other: pa.DataType | None) -> pc.Expression:
        if typed.expression is not None:
            return typed.expression
        return pc.scalar(self._coerce(typed.literal, other))

    def _coerce(self, literal: object, kind: pa.DataType | None) -> pa.Scalar:
        if literal is None or kind is None:
            return pa.scalar(literal, kind)
        try:
            return _scalar(literal, kind)
        except (pa.ArrowException, ValueError, TypeError, InvalidOperation, OverflowError):
            raise FilterError(
                f"the filter {self._text!r} compares {literal!r} with a column of type {kind}", value=str(literal)
            ) from None

    def _value(self, node: exp.Expression) -> _Typed:
        if isinstance(node, exp.Paren):
            return self._value(node.this)
        if isinstance(node, exp.Column):
            path = self._path(node)
            return _Typed(pc.field(*path) if len(path) == 1 else pc.field(path), self._type_at(path))
        if isinstance(node, exp.Literal):
            return _Typed(None, None, node.this if node.is_string else _number(node.this))
        if isinstance(node, (exp.Boolean, exp.Null)):
            return _Typed(None, None, None if isinstance(node, exp.Null) else bool(node.this))
        if isinstance(node, exp.Neg):
            return self._negated(node)
        if isinstance(node, (exp.Cast, exp.TsOrDsToDate)) and isinstance(node.this, exp.Literal):
            return _Typed(None, None, node.this.this)
        if type(node) in _ARITHMETIC or isinstance(node, exp.Div):
            left, right = self._pair(node.this, node.expression)
            if isinstance(node, exp.Div):
                return _Typed(pc.divide(left.cast(pa.float64()), right.cast(pa.float64())), pa.float64())
            return _Typed(_ARITHMETIC[type(node)](left, right), None, is_computed=True)
        if isinstance(node, (exp.Lower, exp.Upper)):
            change = pc.utf8_lower if isinstance(node, exp.Lower) else pc.utf8_upper
            return _Typed(change(self._text_of(node.this)), pa.string())
        raise self._unknown(node)

    def _negated(self, node: exp.Neg) -> _Typed:
        inner = self._value(node.this)
        if inner.expression is not None:
            return _Typed(pc.negate(inner.expression), inner.kind, is_computed=inner.is_computed)
        if isinstance(inner.literal, (int, Decimal)):
            return _Typed(None, None, -inner.literal)
        raise self._unknown(node)

    def _null_safe(self, node: exp.NullSafeEQ) -> pc.Expression:
        left, right = self._pair(node.this, node.expression)
        both_null = left.is_null() & right.is_null()
        equal = self._compared(exp.EQ, self._value(node.this), self._value(node.expression))
        return both_null | (equal & left.is_valid() & right.is_valid())

    def _is(self, node: exp.Is) -> pc.Expression:
        value = self._value(node.this)
        if value.expression is None:
            raise self._unknown(node)
        if isinstance(node.expression, exp.Null):
            return value.expression.is_null()
        if isinstance(node.expression, exp.Boolean):
            return pc.coalesce(value.expression == pc.scalar(bool(node.expression.this)), pc.scalar(False))
        raise self._unknown(node)

    def _in(self, node: exp.In) -> pc.Expression:
        value = self._value(node.this)
        if value.expression is None or node.args.get("query") or not node.expressions:
            raise self._unknown(node)
        terms = [self._compared(exp.EQ, value, self._value(item)) for item in node.expressions]
        return _combined(terms, lambda a, b: a | b)

    def _like(self, node: exp.Like | exp.ILike) -> pc.Expression:
        ignore_case = isinstance(node, exp.ILike)
        found = pc.match_like(self._text_of(node.this), self._literal_text(node.expression), ignore_case=ignore_case)
        # Since version 30 sqlglot says NOT LIKE so, and no longer as a Not around it.
        return ~found if node.args.get("negate") else found

    def _text_of(self, node: exp.Expression) -> pc.Expression:
        typed = self._value(node)
        if typed.expression is None or typed.kind is None or not pa.types.is_string(typed.kind):
            raise FilterError(f"in the filter {self._text!r}, {node.sql()} is not text", value=node.sql())
        return typed.expression

    def _literal_text(self, node: exp.Expression) -> str:
        if not isinstance(node, exp.Literal) or not node.is_string:
            raise self._unknown(node)
        return str(node.this)

    def _path(self, node: exp.Column) -> tuple[str, ...]:
        return _column_path(node, self._schema, self._text)

    def _type_at(self, path: tuple[str, ...]) -> pa.DataType:
        kind = self._schema.field(path[0]).type
        for part in path[1:]:
            if not pa.types.is_struct(kind) or kind.get_field_index(part) < 0:
                raise ColumnNotFoundError(f"the column {'.'.join(path)!r} does not exist", value=".".join(path))
            kind = kind.field(part).type
        return kind

    def _unknown(self, node: exp.Expression) -> FilterError:
        return FilterError(f"the filter {self._text!r} uses {node.sql()!r}, which is not supported", value=node.sql())


def _number(text: str) -> int | Decimal:
    number = Decimal(text)
    digits = max(len(text), abs(number.adjusted()))
    if digits > _limits.FILTER_NUMBER_DIGITS:
        raise FilterError(f"a filter has a number of {digits} digits, no column holds it", value=text)
    try:
        return int(text)
    except ValueError:
        return number


def _scalar(literal: object, kind: pa.DataType) -> pa.Scalar:
    if isinstance(literal, bool) != pa.types.is_boolean(kind):
        raise TypeError
    if isinstance(literal, str):
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return pa.scalar(literal, kind)
        if pa.types.is_timestamp(kind):
            return _timestamp(literal, kind)
        if pa.types.is_binary(kind):
            return pa.scalar(literal.encode(), kind)
        if pa.types.is_date(kind) or pa.types.is_time(kind):
            return pa.scalar(literal).cast(kind)
        return pa.scalar(Decimal(literal)).cast(kind) if not pa.types.is_nested(kind) else pa.scalar(literal, kind)
    if isinstance(literal, Decimal):
        if pa.types.is_decimal(kind):
            # As few digits as the literal has: Arrow's common type with the column must hold both in 38.
            return pa.scalar(Decimal(format(literal, "f")))
        return pa.scalar(float(literal))
    if isinstance(literal, int) and (pa.types.is_decimal(kind) or pa.types.is_floating(kind)):
        return pa.scalar(Decimal(literal)) if pa.types.is_decimal(kind) else pa.scalar(float(literal))
    if isinstance(literal, int) and pa.types.is_integer(kind):
        return pa.scalar(literal, pa.int64())
    return pa.scalar(literal, kind)


def _timestamp(text: str, kind: pa.TimestampType) -> pa.Scalar:
    moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    if kind.tz is not None:
        moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        return pa.scalar(moment, pa.timestamp("us", "UTC")).cast(kind)
    return pa.scalar(moment.astimezone(timezone.utc).replace(tzinfo=None) if moment.tzinfo else moment, kind)
