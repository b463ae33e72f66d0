"""Fixtures that all suites share."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from golden.support import GOLDEN

if TYPE_CHECKING:
    from s3_server import S3Server


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Unpacks a golden table once, and says where it is. Tests that change it copy it first."""
    root = tmp_path_factory.mktemp("golden")

    def unpack(name: str) -> Path:
        target = root / name
        if not target.exists():
            with zipfile.ZipFile(GOLDEN / f"{name}.zip") as archive:
                archive.extractall(target)
        inner = list(target.iterdir())
        return inner[0] if len(inner) == 1 and not (target / ".hoodie").exists() else target

    return unpack


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """The one Spark session of all Spark tests."""
    import tidelake as tl

    session = tl.session("tidelake-tests", master="local[2]", config={"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def _running_s3_server() -> Iterator[S3Server]:
    from s3_server import serving

    with serving() as server:
        yield server


@pytest.fixture
def s3_server(_running_s3_server: S3Server) -> S3Server:
    """The server, with nothing prepared and nothing remembered."""
    _running_s3_server.answers.clear()
    _running_s3_server.on_request = None
    _running_s3_server.requests.clear()
    return _running_s3_server


@pytest.fixture
def s3_bucket(s3_server: S3Server) -> str:
    """A new, empty bucket."""
    return s3_server.new_bucket()
