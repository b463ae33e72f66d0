"""Tidelake: lakehouse tables where everything turns on time.

Tables in the Apache Hudi 1.x format, read by a Python engine in process or, distributed, by Spark::

    import tidelake as tl

    trips = tl.open_table("/data/trips")
    trips.scan(columns=["id", "fare"], filter="fare > 3").to_arrow()

The public names are those of ``__all__``; each is loaded when it is first used, so that small things start quickly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelake import errors, testing
    from tidelake.errors import (
        ConflictError,
        CorruptError,
        InternalError,
        InvalidError,
        TidelakeError,
        UnavailableError,
        UnsupportedError,
    )
    from tidelake.merge.mergers import Merger, register_merger
    from tidelake.services.compaction.thresholds import EventTimeBasedCompactionStrategy
    from tidelake.services.strategy import IncrementalPartitionAwareStrategy, ServiceStrategy, register_strategy
    from tidelake.spark.session import session
    from tidelake.sql import enable, view
    from tidelake.table import Scan, Table, create_table, open_table

__version__ = "0.1.0"

_HOMES = {
    "ConflictError": "tidelake.errors",
    "CorruptError": "tidelake.errors",
    "EventTimeBasedCompactionStrategy": "tidelake.services.compaction.thresholds",
    "IncrementalPartitionAwareStrategy": "tidelake.services.strategy",
    "InternalError": "tidelake.errors",
    "InvalidError": "tidelake.errors",
    "Merger": "tidelake.merge.mergers",
    "Scan": "tidelake.table",
    "ServiceStrategy": "tidelake.services.strategy",
    "Table": "tidelake.table",
    "TidelakeError": "tidelake.errors",
    "UnavailableError": "tidelake.errors",
    "UnsupportedError": "tidelake.errors",
    "create_table": "tidelake.table",
    "enable": "tidelake.sql",
    "open_table": "tidelake.table",
    "register_merger": "tidelake.merge.mergers",
    "register_strategy": "tidelake.services.strategy",
    "session": "tidelake.spark.session",
    "view": "tidelake.sql",
}
_MODULES = ("errors", "testing")

__all__ = [
    "ConflictError",
    "CorruptError",
    "EventTimeBasedCompactionStrategy",
    "IncrementalPartitionAwareStrategy",
    "InternalError",
    "InvalidError",
    "Merger",
    "Scan",
    "ServiceStrategy",
    "Table",
    "TidelakeError",
    "UnavailableError",
    "UnsupportedError",
    "create_table",
    "enable",
    "errors",
    "open_table",
    "register_merger",
    "register_strategy",
    "session",
    "testing",
    "view",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"tidelake.{name}")
    raise AttributeError(f"module 'tidelake' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
