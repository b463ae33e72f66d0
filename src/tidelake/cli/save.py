"""Rows into a file, batch by batch: parquet, CSV or JSON lines, by the file's ending.

The file appears under its name only when it is whole; a failure leaves nothing. A file in the table's own folder is
refused: nothing is ever written to a table by reading it.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from tidelake.cli.values import cell_text, json_rows, json_values
from tidelake.errors import InvalidError, UnavailableError
from tidelake.storage import LocalStorage, Storage


def check_output(output: str, storage: Storage, overwrite: bool) -> None:
    """Refuse a file that is there already, or that would lie in the table."""
    real = os.path.realpath(output)
    if isinstance(storage, LocalStorage) and real.startswith(os.path.realpath(storage.uri) + os.sep):
        raise InvalidError(f"{output} lies in the table's own folder", value=output, hint="choose a file elsewhere")
    if os.path.isdir(real) or (os.path.exists(real) and not overwrite):
        raise InvalidError(f"{output} exists", value=output, hint="choose another name, or give --overwrite")


def save_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema, output: str) -> int:
    """Write all batches; returns the number of rows."""
    partial = f"{output}.partial-{os.getpid()}"
    try:
        try:
            with open(partial, "xb") as file:
                rows = _write(batches, schema, output, file)
            os.replace(partial, output)
            return rows
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(partial)
    except OSError as error:
        raise UnavailableError(f"{output} cannot be written: {error.strerror or error}", value=output) from error


def _write(batches: Iterable[pa.RecordBatch], schema: pa.Schema, output: str, file: io.BufferedWriter) -> int:
    if output.endswith(".parquet"):
        return _write_parquet(batches, schema, file)
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=False)
    try:
        return _write_csv(batches, schema, text) if output.endswith(".csv") else _write_jsonl(batches, text)
    finally:
        text.flush()
        text.detach()


def _write_parquet(batches: Iterable[pa.RecordBatch], schema: pa.Schema, file: io.BufferedWriter) -> int:
    rows = 0
    with pq.ParquetWriter(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _write_csv(batches: Iterable[pa.RecordBatch], schema: pa.Schema, text: io.TextIOWrapper) -> int:
    writer = csv.writer(text)
    writer.writerow(schema.names)
    rows = 0
    for batch in batches:
        columns = [json_values(column) for column in batch.columns]
        writer.writerows([cell_text(value) for value in row] for row in zip(*columns, strict=True))
        rows += batch.num_rows
    return rows


def _write_jsonl(batches: Iterable[pa.RecordBatch], text: io.TextIOWrapper) -> int:
    rows = 0
    for batch in batches:
        for row in json_rows(batch):
            text.write(json.dumps(row, ensure_ascii=False) + "\n")
        rows += batch.num_rows
    return rows


def first_rows(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The batches up to a number of rows; nothing is asked for beyond them."""
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return
