"""Storages to test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from s3_server import S3Server
from tidelake._clock import ManualClock
from tidelake.storage import FaultyStorage, LocalStorage, MemoryStorage, Storage, open_storage


@pytest.fixture
def s3_storage(s3_server: S3Server, s3_bucket: str) -> Storage:
    """A storage in a folder of a new bucket, whose name has characters that a URL would change."""
    return open_storage(f"s3://{s3_bucket}/some folder%20/t=1", s3_server.options, ManualClock())


@pytest.fixture(params=["local", "memory", "faulty", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """Each implementation, empty."""
    makers: dict[str, Callable[[], Storage]] = {
        "local": lambda: LocalStorage(tmp_path / "table"),
        "memory": lambda: MemoryStorage(clock=ManualClock()),
        "faulty": lambda: FaultyStorage(MemoryStorage(), clock=ManualClock()),
        "s3": lambda: request.getfixturevalue("s3_storage"),
    }
    return makers[request.param]()
