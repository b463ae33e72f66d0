"""``tidelake read``: rows, counts, files, and what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tidelake as tl
from exact_world import create_exact, events, plan_exact
from tidelake.cli import read as read_command
from tidelake.engine import LocalExecutor
from tidelake.schema import META_COLUMN_NAMES
from tidelake.storage import LocalStorage


def test_read_json_gives_a_line_for_each_row(tidelake, golden):
    """JSON lines hold the rows that a scan gives, without meta columns."""
    path = golden("mor_v9_event_avro")
    rows = tidelake("read", path, "--format", "json").rows()
    names = [name for name in tl.open_table(path).schema.names if name not in META_COLUMN_NAMES]
    expected = tl.open_table(path).scan(columns=names).to_arrow().to_pylist()
    assert {row["id"] for row in rows} == {row["id"] for row in expected}
    assert all(list(row) == names for row in rows)


def test_read_table_cuts_and_counts(tidelake, golden):
    """The table form says that there are more rows than shown, or how many there were."""
    path = golden("mor_v9_hive")
    assert "the first 2 rows; there are more" in tidelake("read", path, "--limit", "2").out
    assert tidelake("read", path).out.splitlines()[-1] == "11 rows"


def test_read_columns_and_filter_narrow(tidelake, golden):
    """--columns keeps columns in their order, --filter rows."""
    rows = tidelake(
        "read", golden("mor_v9_hive"), "--columns", "city, id", "--filter", "city = 'oslo'", "--format", "json"
    ).rows()
    assert rows
    assert all(list(row) == ["city", "id"] and row["city"] == "oslo" for row in rows)


def test_read_count_is_that_of_the_rows(tidelake, golden):
    """--count counts all rows that match, whatever the default limit."""
    path = golden("mor_v9_hive")
    assert tidelake("read", path, "--count").out.strip() == "11"
    counted = tidelake("read", path, "--count", "--filter", "city = 'oslo'", "--format", "json").json()
    assert counted == {"rows": tl.open_table(path).scan(filter="city = 'oslo'").count()}


def test_read_as_of_travels(tidelake, golden):
    """--as-of and --as-of-completion read what was there at the first commit."""
    path = golden("mor_v9_hive")
    first = tidelake("timeline", path, "--format", "json").json()[0]
    assert tidelake("read", path, "--count", "--as-of", first["requested_time"]).out.strip() == "12"
    assert tidelake("read", path, "--count", "--as-of-completion", first["completion_time"]).out.strip() == "12"


def test_read_optimized_leaves_logs_out(tidelake, golden):
    """--mode read_optimized reads base files alone."""
    path = golden("mor_v9_hive")
    expected = tl.open_table(path).scan(mode="read_optimized").count()
    assert tidelake("read", path, "--count", "--mode", "read_optimized").out.strip() == str(expected)


def test_read_limit_reads_no_more_than_needed(tidelake, golden, monkeypatch):
    """With a limit that the first slice fills, no other slice is read."""
    path = golden("cow_v9_twoparts")
    opened: list[str] = []

    class Watched(LocalExecutor):
        def read(self, storage, plan):
            for file_slice in sorted(plan.slices, key=lambda s: -s.size_bytes):
                opened.append(file_slice.file_id)
                yield from super().read(storage, plan.only([file_slice]))

    monkeypatch.setattr(read_command, "LocalExecutor", Watched)
    assert len(tidelake("read", path, "--limit", "1", "--format", "json").rows()) == 1
    assert len(opened) == 1
    assert len(tl.open_table(path).files()) > 1


def test_read_every_type_is_json(tidelake, golden):
    """Decimals, dates, times, bytes, lists, maps and structs come as JSON that says them exactly."""
    rows = tidelake("read", golden("mor_v9_types_threelevel"), "--format", "json").rows()
    row = next(r for r in rows if r["id"] == 5)
    assert row["small"] == "-4.95"
    assert row["raw"] == "BQD/"
    assert row["day"] == "1956-04-24"
    assert row["at"] == "1956-04-24T00:00:00.555555Z"
    assert row["attrs"] == {"one": 5, "none": None}
    assert row["place"] == {"lat": 2.5, "lon": None, "label": "p5"}
    assert tidelake("read", golden("mor_v9_types_threelevel")).code == 0


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_read_output_has_all_rows(tidelake, golden, tmp_path, ending):
    """--output writes all rows, more than the default limit of the terminal, to a whole file."""
    path = golden("cow_v9_many_groups")
    output = tmp_path / f"rows.{ending}"
    expected = tl.open_table(path).scan().count()
    ran = tidelake("read", path, "--output", str(output), "--format", "json")
    assert ran.json() == {"output": str(output), "rows": expected}
    if ending == "parquet":
        written = pq.read_table(output).num_rows
    elif ending == "csv":
        written = len(list(csv.DictReader(output.open(encoding="utf-8"))))
    else:
        written = len([json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()])
    assert written == expected
    assert not list(tmp_path.glob("*.partial*"))


def test_read_output_with_a_limit_stops(tidelake, golden, tmp_path):
    """--output with --limit writes so many rows."""
    output = tmp_path / "rows.parquet"
    assert tidelake("read", golden("mor_v9_hive"), "--output", str(output), "--limit", "3").code == 0
    assert pq.read_table(output).num_rows == 3


def test_read_output_that_exists_is_kept(tidelake, golden, tmp_path):
    """A file that is there is not replaced unless told so."""
    output = tmp_path / "rows.csv"
    output.write_text("precious")
    path = golden("mor_v9_hive")
    assert tidelake("read", path, "--output", str(output)).code == 1
    assert output.read_text() == "precious"
    assert tidelake("read", path, "--output", str(output), "--overwrite").code == 0
    assert output.read_text().startswith("id,")


def test_read_output_in_the_table_is_refused(tidelake, golden, untouched):
    """Reading never writes into the table, not even by --output, not even through a link."""
    path = golden("mor_v9_hive")
    before = untouched(path)
    link = Path(path).parent / "link"
    link.symlink_to(path)
    for output in (f"{path}/rows.csv", f"{link}/city=oslo/rows.parquet"):
        ran = tidelake("read", path, "--output", output, "--overwrite")
        assert ran.code == 1
        assert "own folder" in ran.err
    assert untouched(path) == before


def test_read_output_that_fails_leaves_nothing(tidelake, golden, tmp_path):
    """A damaged base file gives an error, and neither a part of the file nor a whole one."""
    path = golden("cow_v9_twoparts")
    for slice_file in tidelake("files", path, "--format", "json").json():
        (Path(path) / slice_file["base_file"]).write_bytes(b"PAR1 not parquet PAR1")
    out = tmp_path / "out"
    out.mkdir()
    ran = tidelake("read", path, "--output", str(out / "rows.csv"))
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert list(out.iterdir()) == []


def test_read_output_folder_missing_is_one_sentence(tidelake, golden, tmp_path):
    """An output that cannot be created gives a sentence."""
    ran = tidelake("read", golden("mor_v9_hive"), "--output", str(tmp_path / "no" / "rows.csv"))
    assert ran.code == 1
    assert "cannot be written" in ran.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--filter", "price >"), "price >"),
        (("--filter", "nope = 1"), "nope"),
        (("--filter", "price = 'x'; DROP TABLE t"), "filter"),
        (("--columns", "nope"), "nope"),
        (("--count", "--columns", "nope"), "nope"),
        (("--as-of", "yesterday"), "yesterday"),
        (("--as-of-completion", "2026-13-45"), "2026-13-45"),
    ],
)
def test_read_hostile_request_is_one_sentence(tidelake, golden, options, said):
    """Bad filters, unknown columns and bad times are refused in one sentence that names them."""
    ran = tidelake("read", golden("mor_v9_hive"), *options)
    assert (ran.code, ran.out) == (1, "")
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_read_narrow_terminal_names_hidden_columns(tidelake, golden, monkeypatch):
    """Columns that do not fit are named below the table, and no row is wider than the terminal."""
    monkeypatch.setenv("COLUMNS", "60")
    lines = tidelake("read", golden("mor_v9_hive"), "--meta").out.splitlines()
    assert all(len(line) <= 60 for line in lines[:-2])
    assert "more columns" in lines[-2]


def test_read_as_of_event_time_counts_exactly_or_refuses(tidelake, tmp_path):
    """--as-of-event-time reads base files if they hold just the data before it, and else says why not."""
    path = str(tmp_path / "exact")
    storage = LocalStorage(path)
    table = create_exact(storage, None, path)
    table.upsert(events((2, "one", 1), (2, "nine", 9), (3, "x", 2)))
    table.run_compaction(plan_exact(storage, None, 5))
    asked = ("read", path, "--count", "--as-of-event-time")
    assert tidelake(*asked, "1970-01-01T00:00:05Z").out.strip() == "2"
    refused = tidelake(*asked, "1970-01-01T00:00:10Z")
    assert refused.code != 0
    assert "1 log holds events before it" in refused.err
