"""``tidelake read``: rows on the terminal, as JSON lines, counted, or into a file.

With a limit, slices are read one after the other and batch by batch, and reading stops as soon as there are enough
rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidelake.cli import text
from tidelake.cli.save import check_output, first_rows, save_batches
from tidelake.cli.text import Column
from tidelake.cli.values import Json, cell_text, json_rows
from tidelake.engine import LocalExecutor
from tidelake.errors import UnsupportedError
from tidelake.query import ScanRequest, TableSource, table_schema
from tidelake.schema import COMMIT_TIME, without_meta
from tidelake.storage import open_storage
from tidelake.table import Scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CELL_WIDTH: Final = 40


@dataclass(frozen=True, slots=True)
class Request:
    """What to read, as it was typed."""

    path: str
    options: dict[str, str]
    columns: tuple[str, ...] | None
    filter: str | None
    as_of: str | None
    as_of_completion: str | None
    as_of_event_time: str | None
    mode: str
    with_meta: bool
    on_spark: bool


def show(request: Request, limit: int, *, as_json: bool) -> int:
    """Write the first rows."""
    scan = _scan(_source(request), request, one_by_one=True)
    batches = _spark_batches(scan, limit + 1) if request.on_spark else scan.to_batches()
    if as_json:
        for batch in first_rows(batches, limit):
            for row in json_rows(batch):
                text.write(json.dumps(row, ensure_ascii=False))
        return 0
    rows = [row for batch in first_rows(batches, limit + 1) for row in json_rows(batch)]
    _write(scan.schema.names, _numbers(scan.schema), rows[:limit])
    if len(rows) > limit:
        text.write(f"the first {text.counted(limit, 'row')}; there are more (--limit N, --count)")
    else:
        text.write(text.counted(len(rows), "row"))
    return 0


def count(request: Request, *, as_json: bool) -> int:
    """Write the number of rows."""
    source = _source(request)
    # Any one column will do for counting; when a row was committed is, where it is stored, almost nothing on storage.
    names = table_schema(source).schema.names
    narrow = COMMIT_TIME if COMMIT_TIME in names else names[0]
    scan = _scan(source, replace(request, columns=request.columns or (narrow,)), one_by_one=False)
    rows = scan.to_spark(_session()).count() if request.on_spark else scan.count()
    text.write(json.dumps({"rows": rows}) if as_json else str(rows))
    return 0


def save(request: Request, output: str, limit: int | None, *, overwrite: bool, as_json: bool) -> int:
    """Write the rows to a file."""
    source = _source(request)
    check_output(output, source.storage, overwrite)
    scan = _scan(source, request, one_by_one=limit is not None)
    rows = save_batches(first_rows(scan.to_batches(), limit), scan.schema, output)
    text.write(json.dumps({"output": output, "rows": rows}) if as_json else f"{text.counted(rows, 'row')} to {output}")
    return 0


def _source(request: Request) -> TableSource:
    return TableSource.load(open_storage(request.path, request.options))


def _scan(source: TableSource, request: Request, *, one_by_one: bool) -> Scan:
    point = source.point(request.as_of, request.as_of_completion)
    columns = request.columns
    if columns is None and not request.with_meta:
        columns = tuple(without_meta(table_schema(source).schema).names)
    wanted = ScanRequest(columns, request.filter, point, request.mode, request.as_of_event_time)
    return Scan(source, wanted, executor=LocalExecutor(threads=1 if one_by_one else None))


def _session() -> SparkSession:
    try:
        from tidelake.spark.session import session
    except ModuleNotFoundError:
        raise UnsupportedError("pyspark is not installed", hint="pip install 'tidelake[spark]'") from None
    return session("tidelake read")


def _spark_batches(scan: Scan, limit: int) -> Iterable[pa.RecordBatch]:
    table: pa.Table = scan.to_spark(_session()).limit(limit).toArrow()
    return list(table.to_batches())


def _numbers(schema: pa.Schema) -> list[bool]:
    kinds = schema.types
    return [pa.types.is_integer(k) or pa.types.is_floating(k) or pa.types.is_decimal(k) for k in kinds]


def _write(names: Sequence[str], are_numbers: Sequence[bool], rows: Sequence[dict[str, Json]]) -> None:
    columns = [Column(name, is_number, CELL_WIDTH) for name, is_number in zip(names, are_numbers, strict=True)]
    cells = [[_shown(row[name]) for name in names] for row in rows]
    kept = _fitting(columns, cells)
    for line in text.table_lines(columns[:kept], [row[:kept] for row in cells]):
        text.write(line)
    if kept < len(columns):
        hidden = text.counted(len(columns) - kept, "more column")
        text.write(f"{hidden}: {', '.join(map(text.clean, names[kept:]))} (--columns, --format json)")


def _shown(value: Json) -> str:
    return "null" if value is None else text.clean(cell_text(value))


def _fitting(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> int:
    """How many columns fit on the terminal; at least one."""
    limit = text.width_limit()
    if limit is None:
        return len(columns)
    used = -2
    for i, column in enumerate(columns):
        widest = max((text.display_width(row[i]) for row in cells), default=0)
        used += 2 + max(text.display_width(column.title), min(CELL_WIDTH, widest))
        if used > limit and i > 0:
            return i
    return len(columns)
