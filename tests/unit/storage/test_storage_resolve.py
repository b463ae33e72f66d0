"""From a URI to a storage, and what importing costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidelake.errors import InvalidError
from tidelake.storage import KNOWN_SCHEMES, LocalStorage, MemoryStorage, open_storage


def test_open_plain_path_is_local(tmp_path: Path) -> None:
    """A path, as text or as a Path, and a file: URI are the local disk."""
    for uri in (str(tmp_path), tmp_path, f"file:{tmp_path}", f"file://{tmp_path}", f"FILE://{tmp_path}"):
        storage = open_storage(uri)
        assert isinstance(storage, LocalStorage)
        assert storage.uri == str(tmp_path)


def test_open_path_with_colon_is_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A colon alone makes no scheme."""
    monkeypatch.chdir(tmp_path)
    assert open_storage("hour=12:30/t").uri == str(tmp_path / "hour=12:30/t")


def test_open_memory_uri_is_memory() -> None:
    """memory:// is the process's own."""
    assert isinstance(open_storage("memory://resolve"), MemoryStorage)


@pytest.mark.parametrize("uri", ["hdfs://host/t", "http://host/t", "dbfs:/t", "s4://b"])
def test_open_unknown_scheme_is_refused(uri: str) -> None:
    """The error names the scheme and all that are known."""
    with pytest.raises(InvalidError) as caught:
        open_storage(uri)
    assert repr(uri.partition(":")[0]) in str(caught.value)
    assert all(scheme in str(caught.value) for scheme in KNOWN_SCHEMES)


def test_import_of_storage_loads_no_heavy_library(tmp_path: Path) -> None:
    """Neither importing nor using a local storage loads obstore or pyarrow."""
    script = (
        "import sys; from tidelake.storage import open_storage; open_storage(sys.argv[1]).exists('a');"
        "print([name for name in ('obstore', 'pyarrow', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.strip() == "[]"
