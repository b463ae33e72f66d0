"""How many examples the model suites try, and how a failing one is kept and replayed.

Every failure prints a blob for ``@reproduce_failure`` and stays in ``.hypothesis``; hypothesis tries it first next time.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

IS_DEEP = os.environ.get("TIDELAKE_DEEP") == "1"


def examples(sample: int = 200, deep: int = 5_000) -> settings:
    """The settings of a model test."""
    return settings(
        max_examples=deep if IS_DEEP else sample,
        derandomize=False,
        print_blob=True,
        deadline=None,
        database=DirectoryBasedExampleDatabase(".hypothesis/examples"),
        # A slice is a schema with all its rows and files: drawing one is slow and large by nature, not by mistake.
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
