"""Checks of a table: storage, properties, timeline, history, files. Reads and lists only; nothing is written.

Each check stands for itself where it can: damaged properties end the list, because all else is read through them, but
an unreadable history does not hide missing files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelake._clock import SystemClock
from tidelake.cli import text
from tidelake.cli.checks import Check, ok, problem, warning
from tidelake.errors import CorruptError, NotFoundError, TidelakeError
from tidelake.format.names import PROPERTIES_BACKUP_FILE, PROPERTIES_FILE
from tidelake.format.properties import CHECKSUM_KEY, check_table_properties, decode_properties
from tidelake.locking.lease import LEASE_FILE, decode_lease
from tidelake.observe import human_bytes
from tidelake.query import TableSource, table_schema
from tidelake.storage import LocalStorage, MemoryStorage, Storage, open_storage
from tidelake.timeline import Instant, parse_instant

_HEARTBEATS: Final = ".hoodie/.heartbeat"
_LOCK_FILE: Final = ".hoodie/lock"
_FRESH_MS: Final = 2 * 60 * 1000
_NAMED: Final = 3
"""How many instants or files a sentence names."""


def table_checks(path: str, options: dict[str, str]) -> list[Check]:
    """All checks of a table."""
    try:
        storage = open_storage(path, options)
        folders, files = storage.list_dir(".hoodie")
    except TidelakeError as error:
        return [problem("storage", str(error))]
    if not folders and not files:
        return [problem("storage", f"{storage.uri} has no folder .hoodie: check the path, there is no table here")]
    checks = [ok("storage", f"{storage.uri} can be listed"), _conditional_put(storage, options)]
    checks += _properties(storage)
    try:
        source = TableSource.load(storage)
    except TidelakeError as error:
        return [*checks, problem("table", str(error))]
    config = source.config
    checks.append(ok("table", f"{config.name}, {config.table_type.value}, version {config.version}, can be read"))
    checks.append(ok("timeline", text.counted(len(source.timeline), "active instant")))
    checks.append(_pending(source))
    for about, look in (("history", _history), ("commits", _commits), ("schema", _schema), ("files", _files)):
        checks.append(_tried(about, look, source))
    return [*checks, _metadata_table(source), _writers(storage), _tried("lock", lambda s: _lock(s.storage), source)]


def _tried(about: str, look: Callable[[TableSource], Check], source: TableSource) -> Check:
    try:
        return look(source)
    except TidelakeError as error:
        return problem(about, str(error))


def _conditional_put(storage: Storage, options: dict[str, str]) -> Check:
    about = "conditional put"
    if isinstance(storage, LocalStorage):
        return ok(about, "a local disk: link() and a file lock; on network disks, write from one machine only")
    if isinstance(storage, MemoryStorage):
        return ok(about, "memory of this process")
    if any("endpoint" in key.lower() for key in options):
        return warning(
            about,
            "the store has its own endpoint: before writing, make sure that it supports If-None-Match and If-Match",
        )
    return ok(about, "the store creates and replaces objects conditionally (not tried: nothing is written)")


def _properties(storage: Storage) -> list[Check]:
    main = _properties_state(storage, PROPERTIES_FILE)
    backup = _properties_state(storage, PROPERTIES_BACKUP_FILE)
    checks: list[Check] = []
    if main == "good":
        checks.append(ok("properties", f"{PROPERTIES_FILE}, checksum right"))
    elif main == "unchecked":
        checks.append(warning("properties", f"{PROPERTIES_FILE} has no {CHECKSUM_KEY}: damage would not be noticed"))
    elif backup in ("good", "unchecked"):
        checks.append(
            warning(
                "properties", f"{PROPERTIES_FILE} is {main}, its backup is read: copy {PROPERTIES_BACKUP_FILE} over it"
            )
        )
    else:
        checks.append(problem("properties", f"{PROPERTIES_FILE} is {main}, and so is its backup: restore a copy of it"))
    if main in ("good", "unchecked") and backup != "missing":
        says = "is there, so an update of the properties did not end: the next writer removes it"
        checks.append(warning("properties backup", f"{PROPERTIES_BACKUP_FILE} {says}"))
    return checks


def _properties_state(storage: Storage, path: str) -> str:
    try:
        properties = decode_properties(storage.get(path))
        check_table_properties(properties)
    except NotFoundError:
        return "missing"
    except CorruptError as error:
        return f"damaged ({error.message})"
    except TidelakeError as error:
        return f"not readable ({error.message})"
    return "good" if CHECKSUM_KEY in properties else "unchecked"


def _pending(source: TableSource) -> Check:
    pending = source.timeline.pending
    if not pending:
        return ok("pending instants", "none")
    now_ms = SystemClock().now_ms()
    named = ", ".join(f"{i}{_age(i, source, now_ms)}" for i in pending[:_NAMED])
    more = f" and {len(pending) - _NAMED} more" if len(pending) > _NAMED else ""
    return warning(
        "pending instants",
        f"{named}{more}: readers leave them out; if its writer is gone, the next writer rolls a write back, "
        "and a planned compaction or clustering waits to be run",
    )


def _age(instant: Instant, source: TableSource, now_ms: int) -> str:
    try:
        age_ms = now_ms - parse_instant(instant.requested_time, source.zone)
    except CorruptError:
        return ""
    return f" (for {text.human_duration(age_ms)})" if age_ms >= 0 else " (in the future: check the clocks)"


def _history(source: TableSource) -> Check:
    return ok("history", text.counted(len(source.reader.history), "archived instant"))


def _commits(source: TableSource) -> Check:
    return ok("commits", f"{text.counted(len(source.view().commits), 'commit')}, all readable")


def _schema(source: TableSource) -> Check:
    return ok("schema", text.counted(len(table_schema(source).schema), "column"))


def _files(source: TableSource) -> Check:
    slices = list(source.view().listed_slices())
    short = [
        log.path
        for file_slice in slices
        for log in file_slice.logs
        if log.committed_bytes is not None and log.size_bytes < log.committed_bytes
    ]
    if short:
        named = ", ".join(short[:_NAMED])
        return problem("files", f"{text.counted(len(short), 'log')} shorter than committed ({named}): restore them")
    files = sum(len(file_slice.files) for file_slice in slices)
    size = human_bytes(sum(file_slice.size_bytes for file_slice in slices))
    return ok(
        "files", f"{text.counted(files, 'file')} of {text.counted(len(slices), 'file group')}, {size}, none missing"
    )


def _metadata_table(source: TableSource) -> Check:
    about = "metadata table"
    named = source.config.properties.get("hoodie.table.metadata.partitions", "").strip()
    if not named:
        return ok(about, "none")
    return ok(about, f"Apache Hudi keeps one ({named}); it is not needed and not read here")


def _writers(storage: Storage) -> Check:
    now_ms = SystemClock().now_ms()
    try:
        beats = storage.list_dir(_HEARTBEATS)[1]
    except TidelakeError as error:
        return problem("writers", str(error))
    fresh = [info.path.rpartition("/")[2] for info in beats if now_ms - info.modified_ms < _FRESH_MS]
    said = (
        "nobody seems to write"
        if not fresh
        else f"{text.counted(len(fresh), 'write')} under way ({', '.join(fresh[:_NAMED])})"
    )
    beside = (
        "writers of Tidelake need no lock; beside Apache Hudi's, both sides must take the same (docs/concurrency.md)"
    )
    return ok("writers", f"{said}; {beside}")


def _lock(storage: Storage) -> Check:
    """Whether a lock is held that was left behind: who takes part in it waits for it."""
    now_ms = SystemClock().now_ms()
    try:
        held = storage.head(_LOCK_FILE)
        age_s = (now_ms - held.modified_ms) // 1000
        if age_s * 1000 > _FRESH_MS:
            return warning("lock", f"{_LOCK_FILE} is {age_s} s old: if no writer of Apache Hudi runs, remove it")
        return ok("lock", f"{_LOCK_FILE} is held")
    except NotFoundError:
        pass
    try:
        lease = decode_lease(storage.get(LEASE_FILE))
    except NotFoundError:
        return ok("lock", "no lock is held")
    is_held = not lease.expired and lease.valid_until_ms > now_ms
    return ok("lock", f"{LEASE_FILE} is held by {lease.owner}" if is_held else "no lock is held")
