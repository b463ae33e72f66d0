"""Record keys and partition paths of incoming rows, whole columns at a time, as Apache Hudi's key generators make them.

Partition paths are made once per distinct combination of partition values. A value that would leave the table's folder,
or whose path another value also has, is refused: rows of different partitions must never meet in one folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.config import TableConfig
from tidelake.errors import InvalidError, UnsupportedError
from tidelake.filegroup import NULL_PARTITION, PartitionCodec
from tidelake.index.time_paths import TimePaths

NULL_KEY = "__null__"
EMPTY_KEY = "__empty__"
SAMPLES = 5
_FIRST_DAY, _LAST_DAY = -12_687_428, 11_248_737
"""The years -32767 to 32767, the dates that Arrow prints."""


@dataclass(frozen=True, slots=True)
class KeyGenerator:
    """How a table's keys and partition paths are made."""

    key_fields: tuple[str, ...]
    is_complex: bool
    codec: PartitionCodec
    time_paths: TimePaths | None = None

    @staticmethod
    def of(config: TableConfig) -> KeyGenerator:
        if config.key_generator not in ("SIMPLE", "COMPLEX", "NON_PARTITION", "TIMESTAMP"):
            raise UnsupportedError(
                f"tables with the key generator {config.key_generator} are not written",
                value=config.key_generator,
                table=config.name,
            )
        if config.key_generator == "COMPLEX" and len(config.record_key_fields) == 1 and config.version == 8:
            raise UnsupportedError(
                "a table of version 8 with one record key and the COMPLEX key generator is not written: releases of "
                "Apache Hudi differ in how its keys look",
                value=config.record_key_fields[0],
                table=config.name,
                hint="upgrade the table to version 9 with Apache Hudi",
            )
        is_complex = config.key_generator == "COMPLEX" or len(config.record_key_fields) > 1
        time_paths = TimePaths.of(config.properties) if config.key_generator == "TIMESTAMP" else None
        return KeyGenerator(config.record_key_fields, is_complex, PartitionCodec.of(config), time_paths)

    def keys(self, batch: pa.RecordBatch | pa.Table) -> pa.Array:
        """The record key of each row; null and empty keys are refused."""
        return record_keys(batch, self.key_fields, self.is_complex)

    def refuse_ambiguous(self, batch: pa.RecordBatch | pa.Table, made: pa.Array) -> None:
        """Refuse rows whose key another row could have: it is made of parts, and one reads as the next, or as null."""
        for name, following in zip(self.key_fields, [*self.key_fields[1:], None], strict=True):
            column = _whole(batch.column(name))
            if not self.is_complex or not pa.types.is_string(column.type):
                continue
            bad = pc.is_in(column, pa.array([NULL_KEY, EMPTY_KEY]))
            if following is not None:
                bad = pc.or_(bad, pc.fill_null(pc.match_substring(column, f",{following}:"), False))
            at = np.flatnonzero(np.asarray(bad))
            if len(at):
                some = ", ".join(made.take(pa.array(at[:SAMPLES])).to_pylist())
                raise InvalidError(
                    f"the key column {name!r} holds text in {len(at)} rows that another key could have, in the keys {some}",
                    value=name,
                )

    def partition_paths(self, batch: pa.RecordBatch | pa.Table) -> pa.DictionaryArray:
        """The partition path of each row, as numbers into the distinct paths."""
        fields = self.codec.fields
        if not fields:
            return pa.DictionaryArray.from_arrays(np.zeros(batch.num_rows, dtype=np.int32), pa.array([""], pa.string()))
        if self.time_paths is not None:
            return self._times(batch, self.time_paths)
        self._refuse_dates_without_text(batch)
        coded = [_coded(batch.column(field), field) for field in fields]
        numbers = coded[0].numbers
        for column in coded[1:]:
            numbers = numbers * len(column.values) + column.numbers
        distinct, places = _renumbered(numbers, coded)
        paths = []
        for number, row in enumerate(distinct):
            try:
                paths.append(self._path(row))
            except InvalidError as error:
                keys = self._sample(batch, places == number)
                raise InvalidError(
                    f"{error.message}, for the keys {keys}", value=error.value, hint=error.hint
                ) from None
        if len(set(paths)) != len(paths):
            twice = next(path for path in paths if paths.count(path) > 1)
            same = np.flatnonzero(np.array(paths) == twice)
            raise InvalidError(
                f"different partition values have the same path {twice!r}, "
                f"for the keys {self._sample(batch, np.isin(places, same))}",
                value=twice,
                hint="set hoodie.datasource.write.partitionpath.urlencode=true when the table is made",
            )
        return pa.DictionaryArray.from_arrays(places, pa.array(paths, pa.string()))

    def _times(self, batch: pa.RecordBatch | pa.Table, time_paths: TimePaths) -> pa.DictionaryArray:
        (field,) = self.codec.fields
        column = _whole(batch.column(field))
        texts, bad = time_paths.texts(column, field)
        if bad.any():
            at = np.flatnonzero(bad)
            first = column[int(at[0])]
            value = first.value if pa.types.is_temporal(column.type) else first.as_py()
            raise InvalidError(
                f"the partition column {field!r} holds no time of the kind {time_paths.type} in {len(at)} rows "
                f"({value}), for the keys {self._sample(batch, bad)}",
                value=field,
            )
        encoded = texts.dictionary_encode()
        paths = pa.array([self.codec.segment(0, text) for text in encoded.dictionary.to_pylist()], pa.string())
        return pa.DictionaryArray.from_arrays(encoded.indices, paths)

    def _refuse_dates_without_text(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Refuse dates that make no folder, with their rows' keys."""
        for field in self.codec.fields:
            column = _whole(batch.column(field))
            bad = _without_text(column)
            if bad is not None:
                keys = self._sample(batch, bad)
                raise InvalidError(f"{_dates_said(column, field, bad)}, for the keys {keys}", value=field)

    def _sample(self, batch: pa.RecordBatch | pa.Table, rows: npt.NDArray[np.bool_]) -> str:
        """Some keys of these rows, for a message."""
        some = batch.select(list(self.key_fields)).take(pa.array(np.flatnonzero(rows)[:SAMPLES]))
        return ", ".join(self.keys(some).to_pylist())

    def _path(self, values: tuple[str | None, ...]) -> str:
        segments = [self._segment(level, value) for level, value in enumerate(values)]
        return "/".join(segments)

    def _segment(self, level: int, value: str | None) -> str:
        field = self.codec.fields[level]
        if value in ("", NULL_PARTITION):
            raise InvalidError(
                f"the partition column {field!r} has the value {value!r}, whose path is that of null", value=value
            )
        if value is not None and not self.codec.url_encoded:
            slashes_are_levels = len(self.codec.fields) == 1 and not self.codec.hive_style
            parts = value.split("/") if slashes_are_levels else [value]
            if "\0" in value or any(part in ("", ".", "..") or "/" in part or part == ".hoodie" for part in parts):
                raise InvalidError(
                    f"the partition column {field!r} has the value {value!r}, which is no name of a folder",
                    value=value,
                    hint="set hoodie.datasource.write.partitionpath.urlencode=true when the table is made",
                )
        segment = self.codec.segment(level, value)
        if segment in (".", "..", ".hoodie"):
            raise InvalidError(
                f"the partition column {field!r} has the value {value!r}, no name of a folder", value=value
            )
        return segment


def record_keys(batch: pa.RecordBatch | pa.Table, key_fields: tuple[str, ...], is_complex: bool) -> pa.Array:
    """The record key of each row, from its key columns; null and empty keys are refused."""
    parts = [value_text(_whole(batch.column(name)), name) for name in key_fields]
    empty = np.ones(batch.num_rows, dtype=np.bool_)
    for part in parts:
        empty &= np.asarray(pc.fill_null(pc.equal(part, ""), True))
    if empty.any():
        rows = np.flatnonzero(empty)
        raise InvalidError(
            f"{len(rows)} rows have a null or empty record key ({', '.join(key_fields)}), the first at row {rows[0]}",
            value=", ".join(str(row) for row in rows[:SAMPLES]),
        )
    if not is_complex:
        return parts[0]
    named = []
    for name, part in zip(key_fields, parts, strict=True):
        text = pc.if_else(pc.equal(part, ""), EMPTY_KEY, part)
        named.append(pc.binary_join_element_wise(name, pc.fill_null(text, NULL_KEY), ":"))
    return named[0] if len(named) == 1 else pc.binary_join_element_wise(*named, ",")


def value_text(column: pa.Array, name: str) -> pa.Array:
    """A column's values as text, in the form in which Apache Hudi writes them into keys and paths."""
    kind = column.type
    if pa.types.is_string(kind):
        return column
    if pa.types.is_timestamp(kind):
        return pc.cast(pc.cast(column, pa.int64()), pa.string())
    bad = _without_text(column)
    if bad is not None:
        raise InvalidError(_dates_said(column, name, bad), value=name)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind) or pa.types.is_decimal(kind):
        return pc.cast(column, pa.string())
    raise UnsupportedError(f"the column {name!r} has type {kind}, of which no key can be made", value=name)


def _without_text(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Which values are dates that Arrow does not print; None if none is."""
    if not pa.types.is_date32(column.type):
        return None
    days = np.asarray(pc.fill_null(pc.cast(column, pa.int32()), 0))
    bad = (days < _FIRST_DAY) | (days > _LAST_DAY)
    return bad if bad.any() else None


def _dates_said(column: pa.Array, name: str, bad: npt.NDArray[np.bool_]) -> str:
    some = ", ".join(str(column[int(row)].value) for row in np.flatnonzero(bad)[:SAMPLES])
    return f"the column {name!r} holds dates outside of the years -32767 to 32767 ({some} days from 1970)"


class _Coded(NamedTuple):
    """A column as numbers into its distinct values, as text; null is a value."""

    numbers: npt.NDArray[np.int64]
    values: list[str | None]


def _coded(column: pa.Array | pa.ChunkedArray, name: str) -> _Coded:
    encoded = _whole(column).dictionary_encode(null_encoding="encode")
    values = encoded.dictionary
    texts = value_text(values, name).to_pylist() if len(values) else []
    return _Coded(np.asarray(encoded.indices).astype(np.int64), texts)


def _renumbered(
    numbers: npt.NDArray[np.int64], coded: list[_Coded]
) -> tuple[list[tuple[str | None, ...]], npt.NDArray[np.int32]]:
    """The combinations of values that there are, in the order in which they come, and for each row which it has."""
    encoded = pa.array(numbers).dictionary_encode()
    rows: list[tuple[str | None, ...]] = []
    for number in encoded.dictionary.to_pylist():
        values: list[str | None] = []
        for column in reversed(coded):
            number, value = divmod(number, len(column.values))
            values.append(column.values[value])
        rows.append(tuple(reversed(values)))
    return rows, np.asarray(encoded.indices)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
