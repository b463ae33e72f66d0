"""Storage: the port on which tables stand, and what implements it. ``ObjectStorage`` is opened by its URI."""

from tidelake.storage.arrow_file import open_input
from tidelake.storage.ensure import ensure_object
from tidelake.storage.faulty import Fault, FaultKind, FaultyStorage, Operation, SimulatedCrash
from tidelake.storage.local import LocalStorage
from tidelake.storage.memory import MemoryStorage, discard_memory_storage
from tidelake.storage.paths import check_path, check_prefix
from tidelake.storage.port import Batch, ObjectInfo, Puts, Storage
from tidelake.storage.resolve import KNOWN_SCHEMES, open_storage, path_text

__all__ = [
    "KNOWN_SCHEMES",
    "Batch",
    "Fault",
    "FaultKind",
    "FaultyStorage",
    "LocalStorage",
    "MemoryStorage",
    "ObjectInfo",
    "Operation",
    "Puts",
    "SimulatedCrash",
    "Storage",
    "check_path",
    "check_prefix",
    "discard_memory_storage",
    "ensure_object",
    "open_input",
    "open_storage",
    "path_text",
]
