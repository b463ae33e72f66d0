"""Options of a writer: heartbeats and locks, under Apache Hudi's names, and our own. They belong to a handle, not a table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidelake.config.options import Option, UnknownOptionWarning, choice, own_names
from tidelake.errors import OptionError


def at_least(least: int) -> Callable[[str], int]:
    """A parser of whole numbers with a lower bound."""

    def parse(text: str) -> int:
        words = text.strip()
        if not (words.isascii() and words.isdigit() and int(words) >= least):
            raise ValueError(f"it must be a whole number of at least {least}")
        return int(words)

    return parse


def _folder(text: str) -> str:
    folder = text.strip().strip("/")
    if not folder or ".." in folder.split("/") or "://" in folder:
        raise ValueError("it must be a folder below the table")
    return folder


_PROVIDERS = choice(
    none="none",
    in_process="in_process",
    inprocesslockprovider="in_process",
    file="file",
    filesystembasedlockprovider="file",
    storage="storage",
    storagebasedlockprovider="storage",
)


def _provider(text: str) -> str:
    return _PROVIDERS(text.rpartition(".")[2])


HEARTBEAT_INTERVAL: Option[int] = Option(
    "hoodie.client.heartbeat.interval_in_ms", "write", 60_000, "How often a writer shows that it lives.", at_least(50)
)
HEARTBEAT_MISSES: Option[int] = Option(
    "hoodie.client.heartbeat.tolerable.misses",
    "write",
    2,
    "How many intervals without a sign make a writer dead: others then roll its write back.",
    at_least(1),
)
LOCK_PROVIDER: Option[str] = Option(
    "hoodie.write.lock.provider",
    "write",
    "none",
    "none (the table's head arbitrates), or, to work beside Apache Hudi's writers, its FileSystemBasedLockProvider "
    "(file) or StorageBasedLockProvider (storage); in_process keeps threads apart.",
    _provider,
)
LOCK_WAIT: Option[int] = Option(
    "hoodie.write.lock.wait_time_ms", "write", 60_000, "How long to wait for the lock.", at_least(0)
)
LOCK_PAUSE: Option[int] = Option(
    "hoodie.write.lock.wait_time_ms_between_retry", "write", 1_000, "How long between two tries.", at_least(1)
)
LOCK_FOLDER: Option[str] = Option(
    "hoodie.write.lock.filesystem.path", "write", ".hoodie", "The folder of the lock file, below the table.", _folder
)
LOCK_FILE_EXPIRE: Option[int] = Option(
    "hoodie.write.lock.filesystem.expire",
    "write",
    0,
    "After how many minutes a lock file is dead; 0 is never.",
    at_least(0),
)
LEASE_VALIDITY: Option[int] = Option(
    "hoodie.write.lock.storage.validity.timeout.secs", "write", 300, "How long a lease lasts.", at_least(1)
)
LEASE_RENEWAL: Option[int] = Option(
    "hoodie.write.lock.storage.renew.interval.secs", "write", 30, "How often a lease is renewed.", at_least(1)
)
STATE_TURNS: Option[int] = Option(
    "tidelake.state.turns",
    "write",
    50,
    "Every how many turns of the table's head the writer whose turn it is brings the table state up to date; 0 is never.",
    at_least(0),
)

WRITE_OPTIONS = (
    HEARTBEAT_INTERVAL,
    HEARTBEAT_MISSES,
    LOCK_PROVIDER,
    LOCK_WAIT,
    LOCK_PAUSE,
    LOCK_FOLDER,
    LOCK_FILE_EXPIRE,
    LEASE_VALIDITY,
    LEASE_RENEWAL,
    STATE_TURNS,
)


@dataclass(frozen=True, slots=True)
class LockOptions:
    """The lock and its times."""

    provider: str = LOCK_PROVIDER.default
    wait_ms: int = LOCK_WAIT.default
    pause_ms: int = LOCK_PAUSE.default
    folder: str = LOCK_FOLDER.default
    expire_minutes: int = LOCK_FILE_EXPIRE.default
    validity_s: int = LEASE_VALIDITY.default
    renew_s: int = LEASE_RENEWAL.default


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """How a writer shows that it lives, what it locks, and how often it keeps the table state."""

    heartbeat_ms: int = HEARTBEAT_INTERVAL.default
    tolerable_misses: int = HEARTBEAT_MISSES.default
    lock: LockOptions = field(default_factory=LockOptions)
    state_turns: int = STATE_TURNS.default

    @property
    def dead_after_ms(self) -> int:
        """How old the last sign of a writer that counts as dead is."""
        return self.heartbeat_ms * self.tolerable_misses


_OWN_NAMES = own_names(WRITE_OPTIONS)


def is_writer_option(key: str) -> bool:
    """Whether an option is one of a writer."""
    return key.lower() in _OWN_NAMES


def writer_options(options: Mapping[str, str]) -> WriterOptions:
    """The options of a writer, checked."""
    for key in options:
        if not is_writer_option(key):
            if not key.lower().startswith("hoodie."):
                raise OptionError(f"option {key} is not known", value=key)
            warnings.warn(f"option {key} has no meaning here and is ignored", UnknownOptionWarning, stacklevel=4)
    lock = LockOptions(
        LOCK_PROVIDER.of(options),
        LOCK_WAIT.of(options),
        LOCK_PAUSE.of(options),
        LOCK_FOLDER.of(options),
        LOCK_FILE_EXPIRE.of(options),
        LEASE_VALIDITY.of(options),
        LEASE_RENEWAL.of(options),
    )
    if lock.renew_s >= lock.validity_s:
        raise OptionError(
            f"a lease of {lock.validity_s} s cannot be renewed every {lock.renew_s} s", value=lock.renew_s
        )
    return WriterOptions(HEARTBEAT_INTERVAL.of(options), HEARTBEAT_MISSES.of(options), lock, STATE_TURNS.of(options))
