"""Generated file slices: a random schema, base rows in row groups, and log files of data and delete blocks.

A ``SliceCase`` is what was drawn, in plain values that the oracle takes; ``store`` writes it with our codecs and
``read`` reads it back through the engine.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from model.kinds import EPOCH, KINDS, ORDERING_KINDS
from model.oracle import Block, DataBlock, DeleteBlock, Row, Rules, Wrapper
from tidelake.config import PartialUpdateMode
from tidelake.filegroup import BaseFile, FileSlice, LogFile
from tidelake.format.avro_arrow import avro_record
from tidelake.format.avro_data import encode_avro_block
from tidelake.format.avro_schema import Record, to_json
from tidelake.format.delete_block import DELETE_TYPE, encode_deletes
from tidelake.format.log_block import BlockType, HeaderKey, LogBlock, encode_block
from tidelake.format.names import BaseFileName, LogFileName
from tidelake.merge import MergeSpec
from tidelake.query.filters import parse_filter
from tidelake.query.read_slice import read_slice
from tidelake.query.snapshot import ScanPlan
from tidelake.schema import META_COLUMN_NAMES, column_paths, column_types, without_meta
from tidelake.storage import MemoryStorage

FILE_ID = "11111111-2222-3333-4444-555555555555-0"
BASE_INSTANT = "20260101000000000"
PLACEHOLDER = "__unavailable__"
MARKER_FIELD, MARKER = "op_flag", "X"
MARKERS = ("_hoodie_is_deleted", "_hoodie_operation", MARKER_FIELD)


@dataclass(frozen=True)
class LogCase:
    """One log file: its name's instant and version, and its blocks, each stored as Avro or parquet."""

    instant: str
    version: int
    blocks: tuple[Block, ...]
    as_parquet: tuple[bool, ...]


@dataclass(frozen=True)
class SliceCase:
    """A generated slice. Columns of ``types`` are the table's; ``old_types`` those of blocks before ``evolved_from``."""

    rules: Rules
    has_meta: bool
    is_complex_key: bool
    types: dict[str, pa.DataType]
    old_types: dict[str, pa.DataType]
    evolved_from: int
    base: tuple[tuple[str, Row], ...] | None
    row_group: int
    logs: tuple[LogCase, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(list(self.types.items()))

    @property
    def blocks(self) -> list[Block]:
        return [block for log in self.logs for block in log.blocks]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.types)

    def types_at(self, number: int) -> dict[str, pa.DataType]:
        """The columns of the write with this number; the base file is number 0."""
        return self.old_types if number < self.evolved_from else self.types

    @property
    def spec(self) -> MergeSpec:
        """The engine's merge rules for the same table."""
        rules = self.rules
        return MergeSpec(
            is_event_time=bool(rules.ordering),
            ordering_fields=rules.ordering,
            ordering_types=tuple(self.types[name] for name in rules.ordering),
            key_fields=() if self.has_meta else ("id",),
            is_complex_key=self.is_complex_key,
            partial_mode=None if rules.partial_mode is None else PartialUpdateMode(rules.partial_mode),
            unavailable_value=rules.placeholder,
            delete_field=rules.delete_field,
            delete_marker=rules.delete_marker,
            has_is_deleted="_hoodie_is_deleted" in self.types,
            has_operation="_hoodie_operation" in self.types,
        )


def instant(number: int) -> str:
    return f"202601010000{number:02d}000"


@st.composite
def slices(draw: st.DrawFn, *, with_partials: bool = False) -> SliceCase:
    """A slice; with ``with_partials`` one whose rows may be combined column by column."""
    is_event_time = draw(st.sampled_from([True, True, False]))
    order_kinds = (
        tuple(draw(st.lists(st.sampled_from(ORDERING_KINDS), min_size=1, max_size=3))) if is_event_time else ()
    )
    if len(order_kinds) > 1 and draw(st.booleans()):
        order_kinds = order_kinds[:1]
    order_names = tuple(f"o{i}" for i in range(len(order_kinds)))
    extra_kinds = {f"c{i}": kind for i, kind in enumerate(draw(st.lists(st.sampled_from(sorted(KINDS)), max_size=4)))}
    has_meta = draw(st.sampled_from([True, True, True, False]))
    markers = tuple(draw(st.lists(st.sampled_from(MARKERS), max_size=2, unique=True)))
    mode = draw(st.sampled_from([None, "IGNORE_DEFAULTS", "FILL_UNAVAILABLE"])) if with_partials else None

    kinds = {"v": "long", "n": "int", **dict(zip(order_names, order_kinds, strict=True)), **extra_kinds}
    types: dict[str, pa.DataType] = dict.fromkeys(META_COLUMN_NAMES, pa.string()) if has_meta else {}
    types["id"] = pa.string()
    types.update({name: KINDS[kind].type for name, kind in kinds.items()})
    types.update({name: pa.bool_() if name == "_hoodie_is_deleted" else pa.string() for name in markers})
    missing = {name for name in extra_kinds if draw(st.booleans()) and draw(st.booleans())}
    old_types = {name: _old(kinds.get(name), kind) for name, kind in types.items() if name not in missing}
    log_count = draw(st.integers(0, 5))
    evolved_from = draw(st.integers(0, log_count + 1)) if draw(st.booleans()) else 0

    text = frozenset(name for name, kind in types.items() if kind == pa.string())
    marked = MARKER_FIELD in markers
    rules = Rules(
        order_names,
        order_kinds,
        mode,
        PLACEHOLDER if mode == "FILL_UNAVAILABLE" else None,
        text,
        MARKER_FIELD if marked else None,
        MARKER if marked else None,
    )
    case = SliceCase(
        rules,
        has_meta,
        not has_meta and draw(st.booleans()),
        types,
        old_types,
        evolved_from,
        None,
        draw(st.integers(1, 6)),
        (),
    )
    rows = _Rows(draw, case, kinds)
    has_base = draw(st.sampled_from([True, True, True, False]))
    if has_base:
        keys = draw(st.lists(st.integers(0, 4), max_size=5, unique=True))
        if keys and draw(st.sampled_from([False, False, False, True])):
            keys.append(keys[0])
        case = replace(case, base=tuple(rows.row(key, BASE_INSTANT, 0) for key in keys))
    logs = [_log(draw, rows, case, number, with_partials) for number in range(1, log_count + 1)]
    return replace(case, logs=tuple(_with_log_compaction(draw, rows, case, logs)))


def _old(kind: str | None, now: pa.DataType) -> pa.DataType:
    narrow = KINDS[kind].narrow if kind else None
    return narrow[0] if narrow else now


class _Rows:
    """Draws rows: keys from a small pool, so that versions meet."""

    def __init__(self, draw: st.DrawFn, case: SliceCase, kinds: dict[str, str]) -> None:
        self._draw = draw
        self._case = case
        self._kinds = kinds
        self._drawn = 0
        order = dict(zip(case.rules.ordering, case.rules.kinds, strict=True))
        self._values = {
            name: self._strategy(name, order) for name in case.types if name not in (*META_COLUMN_NAMES, "id", "v")
        }

    def _strategy(self, name: str, order: dict[str, str]) -> st.SearchStrategy[Any]:
        if name in order:
            few = KINDS[order[name]].ordering
            return st.sampled_from([*few, *few, None])
        if name == "n":
            return st.none() | st.integers(0, 9)
        if name == "_hoodie_is_deleted":
            return st.sampled_from([None, False, False, True])
        if name == "_hoodie_operation":
            return st.sampled_from([None, "I", "U", "-U", "D"])
        if name == MARKER_FIELD:
            return st.sampled_from([None, "", "x", MARKER])
        values = KINDS[self._kinds[name]].values
        if self._kinds[name] == "string" and self._case.rules.placeholder:
            values = values | st.just(PLACEHOLDER)
        return st.none() | values

    def row(self, number: int, at: str, write: int) -> tuple[str, Row]:
        """A key and a row, as the write with that number would have stored and a reader of now would read it."""
        case = self._case
        self._drawn += 1
        name = f"k{number}"
        key = f"id:{name}" if case.is_complex_key else name
        row: Row = {}
        if case.has_meta:
            row = dict(zip(META_COLUMN_NAMES, (at, f"{at}_0_{self._drawn}", key, "", FILE_ID), strict=True))
        row.update(id=name, v=self._drawn)
        row.update(self._draw(st.fixed_dictionaries(self._values)))
        return key, self._as_of(row, write)

    def _as_of(self, row: Row, write: int) -> Row:
        stored = self._case.types_at(write)
        if stored is not self._case.old_types:
            return row
        for name in list(row):
            if name not in stored:
                row[name] = None
            elif stored[name] != self._case.types[name]:
                row[name] = KINDS[self._kinds[name]].narrow[1](row[name])
        return row

    def block(self, at: str, write: int, with_partials: bool, replaces: frozenset[str] = frozenset()) -> Block:
        """A data or delete block."""
        draw, case = self._draw, self._case
        if draw(st.sampled_from([True, False, False])):
            keys = draw(st.lists(st.integers(0, 5), max_size=4))
            deletes = tuple(
                (f"id:k{k}" if case.is_complex_key else f"k{k}", draw(wrappers(case.rules.kinds))) for k in keys
            )
            return DeleteBlock(at, deletes, replaces)
        rows = [self.row(key, at, write) for key in draw(st.lists(st.integers(0, 5), max_size=5))]
        columns = tuple(case.types_at(write))
        if not (with_partials and draw(st.booleans())):
            return DataBlock(at, tuple(rows), columns, False, replaces)
        always = {*META_COLUMN_NAMES, "id"}
        if draw(st.sampled_from([True, True, False])):
            always |= set(case.rules.ordering)
        columns = tuple(name for name in columns if name in always or draw(st.booleans()))
        return DataBlock(at, tuple(rows), columns, True, replaces)


def _log(draw: st.DrawFn, rows: _Rows, case: SliceCase, number: int, with_partials: bool) -> LogCase:
    # Two files of one write happen, when a log file grows beyond its size.
    same = (
        number > 1
        and draw(st.sampled_from([False, False, False, True]))
        and case.evolved_from not in (number, number - 1)
    )
    at, version = (instant(number - 1), 2) if same else (instant(number), 1)
    blocks = tuple(rows.block(at, number, with_partials) for _ in range(draw(st.integers(1, 3))))
    return LogCase(at, version, blocks, tuple(draw(st.booleans()) for _ in blocks))


def _with_log_compaction(draw: st.DrawFn, rows: _Rows, case: SliceCase, logs: list[LogCase]) -> list[LogCase]:
    times = list(dict.fromkeys(log.instant for log in logs))
    for number in (20, 21):
        if len(times) < 2 or not draw(st.sampled_from([True, False, False])):
            break
        replaces = frozenset(draw(st.lists(st.sampled_from(times), min_size=1, unique=True)))
        at = instant(number)
        blocks = tuple(rows.block(at, number, False, replaces) for _ in range(draw(st.integers(1, 2))))
        logs = [*logs, LogCase(at, 1, blocks, tuple(draw(st.booleans()) for _ in blocks))]
        times = [*times, at]
    return sorted(logs, key=lambda log: (log.instant, log.version))


@st.composite
def wrappers(draw: st.DrawFn, kinds: tuple[str, ...]) -> Wrapper:
    """The ordering value of a delete: mostly one that fits the columns, sometimes none, the default, or a foreign one."""
    form = draw(st.sampled_from(["fits", "fits", "fits", "none", "default", "foreign"]))
    if form == "none":
        return None
    if form == "default":
        return ("int", 0)
    if form == "foreign" or not kinds:
        return draw(st.sampled_from(FOREIGN))
    parts = [draw(_fitting(kind)) for kind in kinds]
    if len(parts) == 1:
        return parts[0]
    if draw(st.sampled_from([False, False, False, True])):
        parts[draw(st.integers(0, len(parts) - 1))] = draw(st.sampled_from([None, ("int", 0), *FOREIGN[:6]]))
    return ("array", parts)


FOREIGN: tuple[tuple[str, Any], ...] = (
    ("boolean", True),
    ("int", 1),
    ("long", 1),
    ("float", 1.5),
    ("double", 1.5),
    ("bytes", b"b"),
    ("string", "b"),
    ("date", 1),
    ("decimal", KINDS["decimal"].ordering[2]),
    ("time_micros", 1),
    ("timestamp_micros", 1000),
    ("array", [("long", 1)]),
    ("array", [("long", 1), ("int", 0)]),
    ("array", [("long", 0), ("long", 2), ("string", "a"), None]),
)


@st.composite
def _fitting(draw: st.DrawFn, kind: str) -> tuple[str, Any]:
    value = draw(st.sampled_from(KINDS[kind].ordering))
    if kind == "date":
        return (draw(st.sampled_from(["date", "int"])), (value - EPOCH.date()).days)
    if kind.startswith("timestamp"):
        micros = round((value - EPOCH).total_seconds() * 1_000_000)
        as_long = ("long", micros if kind == "timestamp_us" else micros // 1000)
        return draw(st.sampled_from([as_long, ("timestamp_micros", micros)]))
    return ({"bool": "boolean", "binary": "bytes"}.get(kind, kind), value)


def store(case: SliceCase, storage: MemoryStorage) -> FileSlice:
    """Write the slice's files, and describe them as the engine's listing would."""
    base = None
    if case.base is not None:
        name = BaseFileName(FILE_ID, "1-0-1", BASE_INSTANT)
        data = parquet(case.types_at(0), [row for _, row in case.base], case.row_group)
        storage.put(str(name), data)
        base = BaseFile(str(name), name, len(data))
    logs = []
    for log in case.logs:
        name = LogFileName(FILE_ID, log.instant, log.version, "1-0-1")
        data = log_bytes(log, case)
        storage.put(str(name), data)
        logs.append(LogFile(str(name), name, len(data), len(data)))
    return FileSlice("", FILE_ID, BASE_INSTANT, base, tuple(logs))


def parquet(types: dict[str, pa.DataType], rows: list[Row], row_group: int = 1000) -> bytes:
    """A parquet file of these rows."""
    table = pa.Table.from_batches([_batch(types, rows)])
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=row_group, store_schema=row_group % 2 == 0)
    return sink.getvalue()


def log_bytes(log: LogCase, case: SliceCase) -> bytes:
    """A log file."""
    return b"".join(
        _block_bytes(block, case, as_parquet) for block, as_parquet in zip(log.blocks, log.as_parquet, strict=True)
    )


def _block_bytes(block: Block, case: SliceCase, as_parquet: bool) -> bytes:
    headers = {HeaderKey.INSTANT_TIME: block.instant}
    if block.replaces:
        headers[HeaderKey.COMPACTED_BLOCK_TIMES] = ",".join(sorted(block.replaces, reverse=as_parquet))
    if isinstance(block, DeleteBlock):
        rows = [{"key": key, "partition": "", "ordering": _struct(wrapper)} for key, wrapper in block.deletes]
        return encode_block(LogBlock(BlockType.DELETE, headers, encode_deletes(pa.array(rows, DELETE_TYPE))))
    types = {name: case.types_at(_number(block.instant))[name] for name in block.columns}
    record = _record(types)
    headers[HeaderKey.SCHEMA] = to_json(record)
    if block.is_partial:
        headers[HeaderKey.IS_PARTIAL] = "true"
    rows = [row for _, row in block.rows]
    if as_parquet:
        return encode_block(LogBlock(BlockType.PARQUET_DATA, headers, parquet(types, rows)))
    return encode_block(LogBlock(BlockType.AVRO_DATA, headers, encode_avro_block(_batch(types, rows), record)))


def _struct(wrapper: Wrapper) -> dict[str, Any] | None:
    if wrapper is None:
        return None
    name, value = wrapper
    return {name: [_struct(part) for part in value] if name == "array" else value}


def _record(types: dict[str, pa.DataType]) -> Record:
    return avro_record(pa.schema(list(types.items())), "t")


def _batch(types: dict[str, pa.DataType], rows: list[Row]) -> pa.RecordBatch:
    arrays = [pa.array([row[name] for row in rows], kind) for name, kind in types.items()]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(types.items())))


def plan_of(
    case: SliceCase, file_slice: FileSlice, columns: list[str] | None = None, condition: str | None = None
) -> ScanPlan:
    """The plan that a scan of this slice would have."""
    schema = case.schema
    parsed = None if condition is None else parse_filter(condition, schema)
    names = list(case.columns) if columns is None else columns
    needed = {*names, *case.spec.columns, *(parsed.columns if parsed else ())}
    old, new = (column_types(without_meta(pa.schema(list(t.items())))) for t in (case.old_types, case.types))
    return ScanPlan(
        slices=(file_slice,),
        schema=pa.schema([schema.field(name) for name in names]),
        work_schema=pa.schema([field for field in schema if field.name in needed]),
        condition=parsed,
        merge=case.spec,
        known_columns=column_paths(without_meta(schema)),
        commit_columns={log.instant: old if _number(log.instant) < case.evolved_from else new for log in case.logs},
        log_compactions=frozenset(block.instant for block in case.blocks if block.replaces),
    )


def _number(at: str) -> int:
    return int(at[-5:-3])


def read(case: SliceCase, columns: list[str] | None = None, condition: str | None = None) -> list[Row]:
    """The slice's rows, written and read by the engine."""
    storage = MemoryStorage()
    plan = plan_of(case, store(case, storage), columns, condition)
    batches = list(read_slice(storage, plan, plan.slices[0]))
    assert all(batch.schema.equals(plan.schema) for batch in batches), "a batch has another schema than the plan"
    return pa.Table.from_batches(batches, plan.schema).to_pylist()
