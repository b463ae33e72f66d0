"""The columns of a schema at every depth, as plain text: what one schema has and another lacks is a set difference.

A *path* is dotted, as ``conform`` names columns: ``a``, ``a.b``, ``a.element``, ``a.key``, ``a.value``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa


def column_paths(schema: pa.Schema) -> frozenset[str]:
    """The path of every column, at any depth."""
    return frozenset(path for field in schema for path, _ in _walk(field, field.name))


def column_types(schema: pa.Schema) -> frozenset[str]:
    """The path and type of every column, at any depth; whether it may be null does not count."""
    return frozenset(f"{path} {kind}" for field in schema for path, kind in _walk(field, field.name))


@lru_cache(maxsize=256)
def struct_paths(types: frozenset[str]) -> frozenset[str]:
    """Of ``column_types``, the paths through structs alone: parquet files lay out lists and maps in many ways."""
    inner = {f"{path}." for path, kind in (text.split(" ", 1) for text in types) if kind in ("list", "map")}
    paths = (text.split(" ", 1)[0] for text in types)
    return frozenset(path for path in paths if not any(path.startswith(prefix) for prefix in inner))


def _walk(field: pa.Field, path: str) -> Iterator[tuple[str, str]]:
    kind = field.type
    if pa.types.is_struct(kind):
        yield path, "struct"
        for child in kind:
            yield from _walk(child, f"{path}.{child.name}")
    elif pa.types.is_map(kind):
        yield path, "map"
        yield from _walk(kind.key_field, f"{path}.key")
        yield from _walk(kind.item_field, f"{path}.value")
    elif pa.types.is_list(kind):
        yield path, "list"
        yield from _walk(kind.value_field, f"{path}.element")
    else:
        yield path, str(kind)
