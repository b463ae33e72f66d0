"""The one Apache Hudi session of this suite."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from interop.jvm.hudi_client import ENVIRONMENT, JAR, Hudi


@pytest.fixture(scope="session")
def hudi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hudi]:
    """Apache Hudi 1.2.0 on Spark 3.5, in its own process."""
    missing = [str(path) for path in (ENVIRONMENT / "bin" / "python", JAR) if not path.exists()]
    if missing:
        said = f"Apache Hudi is not set up ({missing[0]} is missing): bash tests/golden/hudi_env.sh"
        if os.environ.get("TIDELAKE_REQUIRE_HUDI") == "1":
            pytest.fail(said)
        pytest.skip(said)
    session = Hudi(tmp_path_factory.mktemp("hudi"))
    yield session
    session.close()
