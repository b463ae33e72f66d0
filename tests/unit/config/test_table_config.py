"""A table's configuration: defaults, aliases, and what is refused by name."""

from __future__ import annotations

import pytest

from model.tables import table_properties
from tidelake.config import MergeMode, PartialUpdateMode, TableType, parse_table_config
from tidelake.errors import CorruptError, TidelakeError, UnsupportedError


def test_config_plain_table_has_hudis_defaults() -> None:
    """What the properties do not say is what Apache Hudi takes."""
    config = parse_table_config({"hoodie.table.name": "t", "hoodie.table.version": "8"})
    assert (config.table_type, config.merge_mode) == (TableType.COPY_ON_WRITE, MergeMode.COMMIT_TIME)
    assert (config.key_generator, config.hive_style, config.url_encoded) == ("NON_PARTITION", False, False)
    assert (config.has_meta_columns, config.timezone_is_utc, config.is_partitioned) == (True, False, False)
    assert (config.timeline_dir, config.history_dir) == (".hoodie/timeline", ".hoodie/timeline/history")


@pytest.mark.parametrize("key", ["hoodie.table.ordering.fields", "hoodie.table.precombine.field"])
def test_config_ordering_field_has_two_names_and_means_event_time(key: str) -> None:
    """Both names of the ordering field are read; a mode that is not stated follows from it."""
    config = parse_table_config(table_properties(**{key: "ts", "hoodie.record.merge.mode": None}))
    assert config.ordering_fields == ("ts",)
    assert config.merge_mode is MergeMode.EVENT_TIME


def test_config_new_name_of_the_ordering_field_goes_first() -> None:
    """If both stand there, the newer one counts."""
    both = {"hoodie.table.ordering.fields": "a, b", "hoodie.table.precombine.field": "c"}
    assert parse_table_config(table_properties(**both)).ordering_fields == ("a", "b")


def test_config_event_time_without_ordering_field_is_commit_time() -> None:
    """There is nothing to order by, so the last write wins."""
    config = parse_table_config(table_properties(hoodie__record__merge__mode="EVENT_TIME_ORDERING"))
    assert config.merge_mode is MergeMode.COMMIT_TIME


def test_config_words_are_read_in_any_case() -> None:
    """Enumerations and flags do not depend on case."""
    config = parse_table_config(
        table_properties(
            hoodie__table__type="merge_on_read",
            hoodie__record__merge__mode="commit_time_ordering",
            hoodie__datasource__write__hive_style_partitioning="TRUE",
            hoodie__table__timeline__timezone="utc",
        )
    )
    assert config.table_type is TableType.MERGE_ON_READ
    assert config.hive_style
    assert config.timezone_is_utc


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"hoodie.table.keygenerator.type": "simple_avro"}, "SIMPLE"),
        ({"hoodie.table.partition.fields": "p"}, "SIMPLE"),
        ({"hoodie.table.partition.fields": "p,q"}, "COMPLEX"),
        ({"hoodie.table.partition.fields": "p", "hoodie.table.recordkey.fields": "a,b"}, "COMPLEX"),
        ({}, "NON_PARTITION"),
    ],
)
def test_config_key_generator_is_stated_or_follows_from_the_fields(properties: dict[str, str], expected: str) -> None:
    """A table that does not name its key generator has the one that its fields ask for."""
    assert parse_table_config(table_properties(**properties)).key_generator == expected


def test_config_custom_partition_fields_lose_their_kind() -> None:
    """``p:simple`` names the column p."""
    config = parse_table_config(table_properties(hoodie__table__partition__fields="p:simple,t:timestamp"))
    assert config.partition_fields == ("p", "t")


@pytest.mark.parametrize("prefix", ["", "hoodie.record.merge.property."])
def test_config_delete_marker_is_read_in_both_spellings(prefix: str) -> None:
    """Version 8 states the marker plainly, version 9 with a prefix."""
    config = parse_table_config(
        table_properties(**{f"{prefix}hoodie.payload.delete.field": "op", f"{prefix}hoodie.payload.delete.marker": "d"})
    )
    assert (config.delete_field, config.delete_marker) == ("op", "d")


def test_config_partial_update_modes_are_read() -> None:
    """Both modes, and the placeholder of the second."""
    key = "hoodie.record.merge.property.hoodie.payload.partial.update.unavailable.value"
    config = parse_table_config(table_properties(**{"hoodie.table.partial.update.mode": "FILL_UNAVAILABLE", key: "?"}))
    assert (config.partial_update_mode, config.unavailable_value) == (PartialUpdateMode.FILL_UNAVAILABLE, "?")
    config = parse_table_config(table_properties(hoodie__table__partial__update__mode="ignore_defaults"))
    assert config.partial_update_mode is PartialUpdateMode.IGNORE_DEFAULTS


@pytest.mark.parametrize(
    ("properties", "error", "word"),
    [
        ({"hoodie.table.version": "6"}, UnsupportedError, "version 6"),
        ({"hoodie.table.version": "10"}, UnsupportedError, "version 10"),
        ({"hoodie.table.version": "nine"}, CorruptError, "'nine'"),
        ({"hoodie.table.version": None}, CorruptError, "hoodie.table.version"),
        ({"hoodie.timeline.layout.version": "1"}, UnsupportedError, "layout version 1"),
        ({"hoodie.table.base.file.format": "ORC"}, UnsupportedError, "ORC"),
        ({"hoodie.table.multiple.base.file.formats.enable": "true"}, UnsupportedError, "multiple.base.file.formats"),
        ({"hoodie.datasource.write.drop.partition.columns": "true"}, UnsupportedError, "drop.partition.columns"),
        ({"hoodie.bootstrap.base.path": "/x"}, UnsupportedError, "bootstrap"),
        ({"hoodie.table.type": "SIDEWAYS"}, UnsupportedError, "SIDEWAYS"),
        ({"hoodie.record.merge.mode": "RANDOM"}, UnsupportedError, "RANDOM"),
        ({"hoodie.table.partial.update.mode": "SOME"}, UnsupportedError, "SOME"),
        ({"hoodie.populate.meta.fields": "maybe"}, CorruptError, "maybe"),
    ],
)
def test_config_what_would_change_rows_is_refused_by_name(
    properties: dict[str, str | None], error: type[TidelakeError], word: str
) -> None:
    """A reader that does not understand a property that decides rows must not guess."""
    with pytest.raises(error, match=word.replace(".", r"\.")):
        parse_table_config(table_properties(**properties))
