"""Bad input of a reader's caller, and of a table: a typed error in one sentence, with the path, the value and what to do.

And the other half of the promise: reading never writes.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import tidelake as tl
from tidelake.config import read_options
from tidelake.errors import (
    ColumnNotFoundError,
    CorruptError,
    FilterError,
    InvalidError,
    MissingFileError,
    NotATableError,
    OptionError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.format.properties import decode_properties, encode_properties

Golden = Callable[[str], Path]
PROPERTIES = ".hoodie/hoodie.properties"
BACKUP = ".hoodie/hoodie.properties.backup"


@pytest.fixture
def table(golden: Golden, tmp_path: Path) -> Path:
    """A copy of a golden table that a test may change."""
    return copied(golden("mor_v9_event_avro"), tmp_path / "trips")


def copied(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def change(path: Path, **values: str | None) -> None:
    """Set table properties; ``__`` stands for a dot, None removes."""
    file = path / PROPERTIES
    properties = decode_properties(file.read_bytes())
    for name, value in values.items():
        key = name.replace("__", ".")
        properties.pop(key, None)
        if value is not None:
            properties[key] = value
    file.write_bytes(encode_properties(properties))


def refusal(kind: type[TidelakeError], act: Callable[[], object], *words: object) -> TidelakeError:
    """The error of an act: of exactly that kind, on one line, and with each of the words in it."""
    with pytest.raises(TidelakeError) as raised:
        act()
    error = raised.value
    text = str(error)
    assert type(error) is kind, f"{type(error).__name__}: {text}"
    assert "\n" not in text
    for word in words:
        assert str(word) in text, text
    return error


def scan(path: Path, **options: object) -> object:
    return tl.open_table(str(path)).scan(**options).to_arrow()


# What is opened


def test_open_of_a_folder_without_a_table_names_path_and_way_out(tmp_path: Path) -> None:
    """A folder that is no table is NotATableError with its path and what to check."""
    refusal(NotATableError, lambda: tl.open_table(str(tmp_path)), tmp_path, "hoodie.properties", "check the path")


def test_open_of_a_path_that_is_not_there_names_the_path(tmp_path: Path) -> None:
    """A path that does not exist is NotATableError with the path, and is not made."""
    path = tmp_path / "nothing"
    refusal(NotATableError, lambda: tl.open_table(str(path)), path, "not a table")
    assert not path.exists()


def test_open_of_a_file_names_the_path(tmp_path: Path) -> None:
    """A file in place of a table is a typed error with its path."""
    path = tmp_path / "file"
    path.write_text("x")
    with pytest.raises(TidelakeError) as raised:
        tl.open_table(str(path))
    assert str(path) in str(raised.value)


def test_open_of_an_unknown_scheme_names_the_known_ones() -> None:
    """A scheme that no storage has is InvalidError with those that there are."""
    refusal(InvalidError, lambda: tl.open_table("ftp://host/t"), "ftp", "s3://")


@pytest.mark.parametrize("path", [None, 5, b"trips", ["trips"], ""])
def test_path_that_is_no_text_is_quoted_and_nothing_is_made(
    path: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is neither text nor a path is InvalidError with it, and no folder of its name is made."""
    monkeypatch.chdir(tmp_path)
    refusal(InvalidError, lambda: tl.open_table(path), repr(path))
    refusal(InvalidError, lambda: tl.create_table(path, "id bigint", name="trips"), repr(path))
    assert not list(tmp_path.iterdir())


def test_path_of_pathlib_is_a_path(tmp_path: Path) -> None:
    """A Path is taken as its text, also for the table's name."""
    assert tl.create_table(tmp_path / "trips", "id bigint").name == "trips"
    assert tl.open_table(tmp_path / "trips").path == str(tmp_path / "trips")


# Properties


@pytest.mark.parametrize("damage", [b"", b"hoodie.table.name=\\uZZ", b"half of a fi", b"\x00" * 100])
def test_damaged_properties_without_backup_name_the_file(table: Path, damage: bytes) -> None:
    """Properties that cannot be read are CorruptError with the file, the table and what to do."""
    (table / PROPERTIES).write_bytes(damage)
    refusal(CorruptError, lambda: tl.open_table(str(table)), PROPERTIES, table, "restore")


def test_damaged_properties_with_a_wrong_checksum_name_both_numbers(table: Path) -> None:
    """Properties whose checksum is not that of the table's name are CorruptError with the number that they hold."""
    change(table, hoodie__table__checksum="12345")
    refusal(CorruptError, lambda: tl.open_table(str(table)), "hoodie.table.checksum", "12345", table)


@pytest.mark.parametrize("damage", [b"", b"hoodie.table.name=\\uZZ", None])
def test_damaged_properties_with_a_backup_are_read_from_it(table: Path, damage: bytes | None) -> None:
    """Properties that are damaged or gone are read from a valid backup, and nothing is repaired by reading."""
    rows = scan(table)
    shutil.copy(table / PROPERTIES, table / BACKUP)
    if damage is None:
        (table / PROPERTIES).unlink()
    else:
        (table / PROPERTIES).write_bytes(damage)
    assert scan(table).equals(rows)
    assert (table / BACKUP).exists()


def test_damaged_properties_and_backup_are_both_named(table: Path) -> None:
    """If the backup is damaged too, the error names both files."""
    (table / PROPERTIES).write_bytes(b"x=1")
    (table / BACKUP).write_bytes(b"y=1")
    refusal(CorruptError, lambda: tl.open_table(str(table)), f"{PROPERTIES}:", f"{BACKUP}:", table)


def test_table_version_of_the_future_is_unsupported(table: Path) -> None:
    """Version 10 is UnsupportedError with the version, the table and who may read it."""
    change(table, hoodie__table__version="10")
    refusal(UnsupportedError, lambda: tl.open_table(str(table)), "version 10", table, "newer Tidelake")


def test_table_version_6_is_unsupported(table: Path) -> None:
    """Version 6 is UnsupportedError with the version, the table and how to upgrade."""
    change(table, hoodie__table__version="6", hoodie__timeline__layout__version="1")
    refusal(UnsupportedError, lambda: tl.open_table(str(table)), "version 6", table, "upgrade")


def test_table_version_that_is_no_number_is_corrupt(table: Path) -> None:
    """A version that is no number is CorruptError with what it is."""
    change(table, hoodie__table__version="nine")
    refusal(CorruptError, lambda: tl.open_table(str(table)), "'nine'", table)


def test_timeline_layout_of_another_version_is_unsupported(table: Path) -> None:
    """A timeline layout that does not go with the version is UnsupportedError with both."""
    change(table, hoodie__timeline__layout__version="1")
    refusal(UnsupportedError, lambda: tl.open_table(str(table)), "layout version 1", "table version 9", table)


def test_lance_base_files_are_unsupported(table: Path) -> None:
    """A base file format other than parquet is UnsupportedError with its name."""
    change(table, hoodie__table__base__file__format="LANCE")
    refusal(UnsupportedError, lambda: tl.open_table(str(table)), "LANCE", table)


def test_merge_mode_that_is_unknown_is_unsupported(table: Path) -> None:
    """A merge mode of the future is UnsupportedError with its name and the known ones."""
    change(table, hoodie__record__merge__mode="BY_MOON")
    refusal(UnsupportedError, lambda: tl.open_table(str(table)), "BY_MOON", "EVENT_TIME_ORDERING", table)


def test_custom_merge_mode_is_unsupported_for_snapshots_and_read_without_logs(table: Path) -> None:
    """CUSTOM merging is UnsupportedError for a snapshot, with the way that works: read_optimized, which does."""
    plain = scan(table, mode="read_optimized")
    change(table, hoodie__record__merge__mode="CUSTOM")
    refusal(UnsupportedError, lambda: scan(table), "CUSTOM", "read_optimized", table)
    assert scan(table, mode="read_optimized").equals(plain)


def test_property_that_is_neither_true_nor_false_is_corrupt(table: Path) -> None:
    """A flag that is no flag is CorruptError with key and value."""
    change(table, hoodie__populate__meta__fields="maybe")
    refusal(CorruptError, lambda: tl.open_table(str(table)), "hoodie.populate.meta.fields", "maybe", table)


# Files


def first(path: Path, pattern: str) -> Path:
    return sorted(file for file in path.rglob(pattern) if "metadata" not in file.parts)[0]


def test_corrupt_committed_block_names_file_and_instant(table: Path) -> None:
    """A damaged block of a completed write is CorruptError with its file, byte and instant."""
    log = first(table, ".*.log.*")
    data = bytearray(log.read_bytes())
    data[2] ^= 1
    log.write_bytes(data)
    error = refusal(CorruptError, lambda: scan(table), log.name, "byte 0", table)
    assert error.instant
    assert error.instant in log.name


def test_corrupt_commit_names_file_and_instant(table: Path) -> None:
    """A damaged timeline file is CorruptError with its name."""
    commit = first(table, "*_*.deltacommit")
    commit.write_bytes(commit.read_bytes()[:100])
    error = refusal(CorruptError, lambda: scan(table), commit.name, table)
    assert error.instant == commit.name.split("_")[0]


def test_missing_file_of_a_completed_write_names_it(table: Path) -> None:
    """A data file that is gone is MissingFileError with its name, the table and what to do."""
    log = first(table, ".*.log.*")
    log.unlink()
    refusal(MissingFileError, lambda: scan(table), log.name, table, "restore the file")


# What is asked for


def test_scan_of_a_column_that_is_not_there_names_it_and_those_that_are(table: Path) -> None:
    """A column that the table does not have is ColumnNotFoundError with its name, the table and the columns."""
    refusal(ColumnNotFoundError, lambda: scan(table, columns=["id", "fair"]), "'fair'", table, "name")


def test_filter_on_a_column_that_is_not_there_names_it_and_those_that_are(table: Path) -> None:
    """A filter on a column that is not there is ColumnNotFoundError with the filter and the columns."""
    refusal(ColumnNotFoundError, lambda: scan(table, filter="fair > 3"), "'fair > 3'", "'fair'", "columns are", table)


def test_filter_on_a_field_that_is_not_there_names_it(golden: Golden) -> None:
    """A filter on a missing field of a struct is ColumnNotFoundError with its path."""
    refusal(ColumnNotFoundError, lambda: scan(golden("cow_v9_types_twolevel"), filter="pair.zzz = 1"), "zzz")


@pytest.mark.parametrize("text", ["id >", "id = = 1", "(id = 1", "id = 'x", "", "SELECT", "id === 3"])
def test_filter_that_does_not_parse_is_quoted(table: Path, text: str) -> None:
    """A filter that is no condition is FilterError with its text."""
    refusal(FilterError, lambda: scan(table, filter=text), repr(text), table)


@pytest.mark.parametrize(
    "text",
    [
        "id IN (SELECT id FROM other)",
        "EXISTS (SELECT 1)",
        "rand() > 0.5",
        "id = 1; DROP TABLE t",
        "CASE WHEN id = 1 THEN true END",
        "count(id) > 1",
        "id",
        "name RLIKE 'a.*'",
        "id + 1",
    ],
)
def test_filter_with_an_unsupported_construct_names_it(table: Path, text: str) -> None:
    """A condition that we do not evaluate is FilterError with the filter, never a guess."""
    refusal(FilterError, lambda: scan(table, filter=text), text[:4], table)


@pytest.mark.parametrize("text", ["id = 'many'", "name > 3", "ts = true"])
def test_filter_that_compares_what_cannot_be_compared_names_value_and_type(table: Path, text: str) -> None:
    """A literal that is not of its column's type is FilterError with the filter."""
    refusal(FilterError, lambda: scan(table, filter=text), repr(text))


@pytest.mark.parametrize("join", [" OR ", " AND "])
def test_filter_of_a_long_chain_is_evaluated(table: Path, join: str) -> None:
    """A chain of 2,000 conditions is a long filter, not a deep one: it gives the rows that one of them gives."""
    whole = join.join(["id >= 3"] * 2_000)
    assert scan(table, filter=whole).equals(scan(table, filter="id >= 3"))


def test_filter_with_a_list_of_thousands_is_evaluated(table: Path) -> None:
    """A list of 4,000 values, which once ended the process, gives the rows that it names; null stays unknown."""
    values = ",".join(f"{number}" for number in range(2, 4_002))
    assert scan(table, filter=f"id IN ({values})").equals(scan(table, filter="id >= 2"))
    assert scan(table, filter=f"id NOT IN ({values})").equals(scan(table, filter="id < 2"))
    assert scan(table, filter=f"id NOT IN ({values}, NULL)").num_rows == 0


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "20260", "2026-01-01 25:00:00", "", "٢٠٢٦٠١٠١"])
@pytest.mark.parametrize("option", ["as_of", "as_of_completion"])
def test_as_of_that_is_no_time_is_quoted(table: Path, option: str, text: str) -> None:
    """A point in time that is none is InvalidError with the text."""
    refusal(InvalidError, lambda: scan(table, **{option: text}), repr(text), "point in time")


def test_as_of_and_as_of_completion_exclude_each_other(table: Path) -> None:
    """Two points in time are InvalidError with what to do."""
    both = {"as_of": "20260101", "as_of_completion": "20260101"}
    refusal(InvalidError, lambda: scan(table, **both), "as_of", "as_of_completion", "give one")


def test_scan_mode_that_is_unknown_names_the_known_ones(table: Path) -> None:
    """A mode that is none is InvalidError with it and the known ones."""
    refusal(InvalidError, lambda: scan(table, mode="fast"), "'fast'", "snapshot", "read_optimized")


def test_columns_given_as_text_say_what_to_write(table: Path) -> None:
    """One text in place of a list of columns is InvalidError with the list to write."""
    refusal(InvalidError, lambda: scan(table, columns="id"), "['id']")


def test_option_with_a_wrong_value_names_key_value_and_choices() -> None:
    """A read option with a value that it cannot have is OptionError with key, value and choices."""
    key = "hoodie.datasource.query.type"
    refusal(OptionError, lambda: read_options({key: "fastest"}), key, "'fastest'", "read_optimized")


def test_option_that_is_unknown_is_a_warning() -> None:
    """An option of Apache Hudi that does not concern us is a warning with its key, not an error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_options({"hoodie.memory.merge.fraction": "0.5"})
    assert [str(warning.message) for warning in caught] == [
        "option hoodie.memory.merge.fraction has no meaning here and is ignored"
    ]


# Nothing is written by reading


def tree(path: Path) -> dict[str, tuple[int, int, int]]:
    """Every name below a folder, with size, time of the last change and kind."""
    found = {}
    for file in sorted(path.rglob("*")):
        about = file.lstat()
        found[str(file.relative_to(path))] = (about.st_size, about.st_mtime_ns, about.st_mode)
    return found


@pytest.mark.parametrize("name", ["mor_v9_event_avro", "cow_v9_archived", "mor_v9_metadata_table", "mor_v9_inflight"])
def test_reading_a_table_in_every_way_writes_nothing(golden: Golden, tmp_path: Path, name: str) -> None:
    """No way to look at a table makes, changes or removes a file in it, or beside it."""
    path = copied(golden(name), tmp_path / "trips")
    before = tree(tmp_path)
    table = tl.open_table(str(path))
    assert table.scan().to_arrow().num_rows == table.scan().count()
    assert table.scan(mode="read_optimized", filter="id is not null").to_polars() is not None
    assert list(table.scan(as_of="20990101").to_batches()) is not None
    assert len(table.timeline) > 0
    assert table.files()
    assert table.files(latest=False)
    assert table.history() is not None
    assert table.summary().name == table.name
    assert table.schema
    assert repr(table)
    assert table._repr_html_()
    assert tree(tmp_path) == before


def test_reading_a_damaged_table_writes_nothing(table: Path, tmp_path: Path) -> None:
    """A read that ends in an error repairs and leaves nothing either."""
    first(table, ".*.log.*").write_bytes(b"#HUDI#")
    (table / PROPERTIES).rename(table / BACKUP)
    before = tree(tmp_path)
    with pytest.raises(CorruptError):
        scan(table)
    assert tree(tmp_path) == before
