"""The public names: what is promised, that each is there, and that nothing else leaks."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

import tidelake as tl

PUBLIC = [
    "ConflictError",
    "CorruptError",
    "InternalError",
    "InvalidError",
    "Scan",
    "Table",
    "TidelakeError",
    "UnavailableError",
    "UnsupportedError",
    "enable",
    "errors",
    "open_table",
    "session",
    "testing",
    "view",
]


def test_public_names_are_those_promised() -> None:
    """Adding a public name is a decision: at least the names of today stay, sorted, without doubles."""
    assert set(PUBLIC) <= set(tl.__all__)
    assert tl.__all__ == sorted(set(tl.__all__))
    assert not [name for name in tl.__all__ if name.startswith("_")]


@pytest.mark.parametrize("name", [name for name in tl.__all__ if name != "session"])
def test_public_name_is_there_and_documented(name: str) -> None:
    """Every name of ``__all__`` can be had and says what it is."""
    found = getattr(tl, name)
    assert found.__doc__
    assert isinstance(found, types.ModuleType) or found.__module__.startswith("tidelake")


def test_public_name_that_is_none_is_an_attribute_error() -> None:
    """The lazy module does not hide a typing mistake."""
    with pytest.raises(AttributeError, match="nothing_like_it"):
        tl.nothing_like_it  # noqa: B018
    assert set(dir(tl)) >= set(tl.__all__)


def test_import_of_the_package_loads_neither_arrow_nor_spark() -> None:
    """``import tidelake`` is cheap: heavy libraries are loaded when a name is first used."""
    code = "import sys, tidelake; print([m for m in ('pyarrow', 'polars', 'pyspark', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
