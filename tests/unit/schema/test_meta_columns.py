"""The five meta columns."""

from __future__ import annotations

import pyarrow as pa

from tidelake.schema import META_COLUMN_NAMES, META_FIELDS, has_meta, with_meta, without_meta

USER = pa.schema([("id", pa.int64()), ("name", pa.string())], metadata={"a": "b"})


def test_with_meta_user_schema_gets_five_columns_in_front() -> None:
    """The five nullable strings come first, in Hudi's order, and the metadata stays."""
    schema = with_meta(USER)
    assert schema.names == [*META_COLUMN_NAMES, "id", "name"]
    assert list(schema)[:5] == list(META_FIELDS)
    assert all(field.type == pa.string() and field.nullable for field in META_FIELDS)
    assert schema.metadata == USER.metadata


def test_with_meta_twice_is_the_same_as_once() -> None:
    """Meta columns that are there, in whatever place, are not doubled."""
    assert with_meta(with_meta(USER)) == with_meta(USER)
    assert with_meta(pa.schema([*USER, *META_FIELDS])) == with_meta(USER)


def test_without_meta_undoes_with_meta() -> None:
    """The user schema comes back, and a schema without meta columns is left as it is."""
    assert without_meta(with_meta(USER)).equals(USER, check_metadata=True)
    assert without_meta(USER).equals(USER, check_metadata=True)


def test_has_meta_needs_all_five_in_front() -> None:
    """Four of them, or all of them in another place, do not count."""
    assert has_meta(with_meta(USER))
    assert not has_meta(USER)
    assert not has_meta(pa.schema([*USER, *META_FIELDS]))
    assert not has_meta(pa.schema(META_FIELDS[:4]))
