"""Retiring Apache Hudi's metadata table, before a write of ours becomes true.

Apache Hudi's readers believe the metadata table without asking whether it is up to date: files that it does not know are
not there for them. We do not maintain it, so a table that has one loses it before our commit completes, the way Apache
Hudi drops it when it is switched off: first the properties stop naming it, then its files go. A reader that still has the
old properties and finds no files lists the storage; the next Apache Hudi writer that wants one builds it anew.

The properties change by put-if-match, with a backup beside them while they do. The metadata table's own properties file
goes last, so a retirement that died half-way is seen by the next writer and finished. None of this is safe against an
Apache Hudi writer that is running: that takes the lock that both share.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelake._clock import Clock, utc_from_ms
from tidelake.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptError,
    NotFoundError,
    PreconditionError,
    UnavailableError,
)
from tidelake.format.names import PROPERTIES_BACKUP_FILE, PROPERTIES_FILE
from tidelake.format.properties import check_table_properties, decode_properties, encode_properties
from tidelake.storage import Storage

METADATA_DIR = ".hoodie/metadata"
INDEX_DEFINITIONS_DIR = ".hoodie/.index_defs"
AVAILABLE = "hoodie.table.metadata.partitions"
BUILDING = "hoodie.table.metadata.partitions.inflight"
INDEX_DEFINITIONS = "hoodie.table.index.defs.path"
_METADATA_PROPERTIES = f"{METADATA_DIR}/{PROPERTIES_FILE}"
_TRIES = 20


def retire_metadata_table(storage: Storage, clock: Clock) -> bool:
    """Make every reader list the storage itself; says whether there was anything to do."""
    named = _unname(storage, clock)
    if not named and not storage.exists(_METADATA_PROPERTIES):
        return False
    for folder in (INDEX_DEFINITIONS_DIR, METADATA_DIR):
        for info in list(storage.list_files(folder)):
            if info.path != _METADATA_PROPERTIES:
                storage.delete(info.path)
    storage.delete(_METADATA_PROPERTIES)
    return True


def _unname(storage: Storage, clock: Clock) -> bool:
    """Take the metadata table out of the table's properties; says whether they named it."""
    for _ in range(_TRIES):
        try:
            data, version = _read_properties(storage)
        except PreconditionError:
            continue
        properties = decode_properties(data)
        if not (properties.get(AVAILABLE) or properties.get(BUILDING)):
            return False
        storage.put(PROPERTIES_BACKUP_FILE, data)
        is_ours = _replace(storage, clock, _without_metadata(properties), version)
        storage.delete(PROPERTIES_BACKUP_FILE)
        if is_ours:
            return True
    raise ConflictError(
        f"the table's properties changed {_TRIES} times in a row", table=storage.uri, file=PROPERTIES_FILE
    )


def _read_properties(storage: Storage) -> tuple[bytes, str]:
    """The table's properties and their version; what an update that died left is repaired from the backup first."""
    version = None
    try:
        data, version = storage.get_with_version(PROPERTIES_FILE)
        check_table_properties(decode_properties(data))
        return data, version
    except (NotFoundError, CorruptError):
        backup = storage.get(PROPERTIES_BACKUP_FILE)
        check_table_properties(decode_properties(backup))
    if version is not None:
        return backup, storage.put_if_match(PROPERTIES_FILE, backup, version)
    try:
        return backup, storage.put_if_absent(PROPERTIES_FILE, backup)
    except AlreadyExistsError as error:
        raise PreconditionError("the properties came back meanwhile", file=PROPERTIES_FILE) from error


def _replace(storage: Storage, clock: Clock, properties: Mapping[str, str], version: str) -> bool:
    """Put these properties in the place of that version; says whether they are there."""
    updated_at = utc_from_ms(clock.now_ms()).isoformat()
    text = encode_properties(properties, (f"Updated at {updated_at} by Tidelake, {clock.new_id()}",))
    try:
        storage.put_if_match(PROPERTIES_FILE, text, version)
    except UnavailableError as error:
        # The nonce in the comment tells whether only the answer was lost, or a retried put met itself.
        if storage.exists(PROPERTIES_FILE) and storage.get(PROPERTIES_FILE) == text:
            return True
        if isinstance(error, PreconditionError):
            return False
        raise
    return True


def _without_metadata(properties: Mapping[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in properties.items() if key != INDEX_DEFINITIONS}
    return {**kept, AVAILABLE: "", BUILDING: ""}
