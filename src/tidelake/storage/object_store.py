"""A table on an object store (Amazon S3 and its like, Google Cloud Storage, Azure), through obstore.

Invariants
- Keys are literal: obstore takes a path as it is, and encodes it only in the request. It refuses control characters,
  which is ``InvalidError`` here.
- **A conditional put is sent once.** obstore would send it again after a 5xx; the first may have taken place, and the
  second then loses against ourselves (412) and reports a loss that did not happen. So conditional puts go through a
  client that does not retry, and an unknown outcome is ``UnavailableError``: the caller reads back.
- Sent again, a bounded number of times, is only what certainly did not take place: 409 (S3: a concurrent conditional
  request; obstore calls it "already exists"), 429, and 503 ``SlowDown``.
- A version is the ETag (S3, Azure), which may be a hash of the content, or the generation (Google).
- ``dir/`` objects, which Hadoop leaves for folders, are not objects of ours; obstore shows them as an empty object
  ``dir``. Listings leave them out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import obstore
from obstore import exceptions as failures
from obstore.store import AzureStore, GCSStore, S3Store

from tidelake._clock import Clock, SystemClock
from tidelake.errors import (
    AlreadyExistsError,
    InvalidError,
    NotFoundError,
    OptionError,
    PreconditionError,
    TidelakeError,
    UnavailableError,
    UnsupportedError,
)
from tidelake.storage._background import Background
from tidelake.storage.ensure import ensure_object
from tidelake.storage.object_store_options import (
    MAX_RETRIES,
    RETRY_TIMEOUT_S,
    Location,
    StoreConfig,
    parse_location,
    store_config,
)
from tidelake.storage.paths import check_path, check_prefix, join, parent_of
from tidelake.storage.port import Batch, ObjectInfo

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutMode
    from obstore.store import AzureConfig, ClientConfig, GCSConfig, RetryConfig, S3Config

    Store: TypeAlias = AzureStore | GCSStore | S3Store

CONDITIONAL_TRIES: Final = 8
"""How often a conditional put is sent that certainly did not take place."""
FIRST_WAIT_S: Final = 0.05
LONGEST_WAIT_S: Final = 2.0
LIST_CHUNK: Final = 1000
BATCH_THREADS: Final = 4
"""How many puts of a batch are on their way at a time; as many may wait."""

# obstore tells the answer only in its text. A path can hold any text but "//" and line breaks: none imitates this.
_ANSWER: Final = re.compile(
    r"Error performing [A-Z]+ \w+://\S+ in [^-\n]*- Server returned non-2xx status code: (\d{3})"
)
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
# What obstore's functions raise: its own tree, and these for absent objects and unusable arguments.
_FAILURES: Final = (failures.BaseError, OSError, ValueError)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the server said: the status, and the code in the body (a HEAD has none)."""

    status: int
    code: str


class ObjectStorage:
    """Objects below a folder of a bucket: ``s3://bucket/folder``, ``gs://...``, ``az://container/...`` (account in the
    options) or ``abfss://container@account.dfs.core.windows.net/...``. For options see ``object_store_options``."""

    def __init__(self, uri: str, options: Mapping[str, str] | None = None, *, clock: Clock | None = None) -> None:
        self._location = parse_location(uri)
        self._options = dict(options or {})
        self._clock: Clock = clock or SystemClock()
        config = store_config(self._location, self._options)
        try:
            self._store = _open(self._location, config, MAX_RETRIES)
            self._once = _open(self._location, config, 0)
        except _FAILURES as error:
            raise OptionError(f"cannot open {uri!r}: {_first_line(error)}", value=uri) from error

    def __repr__(self) -> str:
        return f"ObjectStorage({self.uri!r})"  # without options: they hold secrets

    def __reduce__(self) -> tuple[type[ObjectStorage], tuple[str, dict[str, str]]]:
        return (ObjectStorage, (self.uri, self._options))

    @property
    def uri(self) -> str:
        return self._location.uri

    @property
    def options(self) -> dict[str, str]:
        return dict(self._options)

    @property
    def is_remote(self) -> bool:
        return True

    def get(self, path: str) -> bytes:
        return self.get_with_version(path)[0]

    def get_with_version(self, path: str) -> tuple[bytes, str]:
        try:
            found = obstore.get(self._store, self._key(path))
            return found.bytes().to_bytes(), self._version(found.meta)
        except _FAILURES as error:
            raise self._error(error, "read", path) from error

    def get_range(self, path: str, start: int, length: int) -> bytes:
        if start < 0 or length < 0:
            raise InvalidError(f"no range of {length} bytes from {start}", value=start, file=path)
        if length == 0:
            self.head(path)
            return b""
        try:
            data: bytes = obstore.get_range(self._store, self._key(path), start=start, length=length).to_bytes()
            return data
        except _FAILURES as error:
            if _answer(error).status == 416:  # from the end on there is nothing
                return b""
            raise self._error(error, "read", path) from error

    def head(self, path: str) -> ObjectInfo:
        try:
            return self._info(obstore.head(self._store, self._key(path)))
        except _FAILURES as error:
            raise self._error(error, "read", path) from error

    def exists(self, path: str) -> bool:
        try:
            self.head(path)
        except NotFoundError:
            return False
        return True

    def put(self, path: str, data: bytes | memoryview) -> str:
        try:
            return self._version(obstore.put(self._store, self._key(path), memoryview(data).cast("B")))
        except _FAILURES as error:
            raise self._error(error, "write", path) from error

    @contextmanager
    def batch(self) -> Iterator[Batch]:
        sent = _SentPuts(self, Background(BATCH_THREADS, BATCH_THREADS))
        try:
            yield sent
        finally:
            sent.background.end()
        sent.background.check()

    def put_if_absent(self, path: str, data: bytes) -> str:
        return self._put_once(path, data, "create")

    def put_if_match(self, path: str, data: bytes, version: str) -> str:
        if self._location.family == "gs":
            return self._put_once(path, data, {"version": version})
        return self._put_once(path, data, {"e_tag": version})

    def delete(self, path: str) -> None:
        try:
            obstore.delete(self._store, self._key(path))
        except _FAILURES as error:
            failure = self._error(error, "delete", path)
            if not isinstance(failure, NotFoundError):
                raise failure from error

    def list_files(self, prefix: str = "") -> Iterator[ObjectInfo]:
        found = self._listed(self._folder(prefix), prefix)
        if self._location.family == "az" or self._location.bucket.endswith("--x-s3"):
            # S3 and Google list in the order of keys; Azure's hierarchical accounts and S3's directory buckets do not.
            found = iter(sorted(found, key=lambda info: info.path))
        return self._without_folder_markers(found)

    def list_dir(self, prefix: str = "") -> tuple[list[str], list[ObjectInfo]]:
        folder = self._folder(prefix)
        try:
            listed = obstore.list_with_delimiter(self._store, folder or None)
        except _FAILURES as error:
            raise self._error(error, "list", prefix) from error
        names = {each.rpartition("/")[2] for each in listed["common_prefixes"]}
        files = [self._info(meta) for meta in listed["objects"] if meta["path"] != folder]
        return sorted(names), sorted(files, key=lambda info: info.path)

    def native_path(self, path: str) -> str:
        """The object's URI, under the scheme that the storage was opened with (Spark needs ``s3a``, pyarrow ``s3``)."""
        return f"{self.uri}/{path}" if check_prefix(path) else self.uri

    def _key(self, path: str) -> str:
        return join(self._location.root, check_path(path))

    def _folder(self, prefix: str) -> str:
        return join(self._location.root, check_prefix(prefix)) if prefix else self._location.root

    def _info(self, meta: ObjectMeta) -> ObjectInfo:
        path = meta["path"][len(self._location.root) + 1 :] if self._location.root else meta["path"]
        modified_ms = round(meta["last_modified"].timestamp() * 1000)
        return ObjectInfo(path, meta["size"], modified_ms, self._version(meta))

    def _version(self, meta: Mapping[str, object]) -> str:
        version = meta["version"] if self._location.family == "gs" else None
        return str(version or meta["e_tag"] or "")

    def _put_once(self, path: str, data: bytes, mode: PutMode) -> str:
        key = self._key(path)
        wait_s = FIRST_WAIT_S
        for attempt in range(CONDITIONAL_TRIES):
            try:
                return self._version(obstore.put(self._once, key, data, mode=mode))
            except _FAILURES as error:
                if not _certainly_not_done(error):
                    raise self._conditional_error(error, path, mode) from error
                if attempt == CONDITIONAL_TRIES - 1:
                    raise self._unavailable(error, "write", path) from error
            self._clock.sleep(wait_s)
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _conditional_error(self, error: Exception, path: str, mode: PutMode) -> TidelakeError:
        if _answer(error).code == "NoSuchBucket" or not isinstance(
            error,
            (failures.AlreadyExistsError, failures.PreconditionError, failures.NotModifiedError, FileNotFoundError),
        ):
            return self._error(error, "write", path)
        if mode == "create":
            return AlreadyExistsError(f"{path!r} exists already", value=path, table=self.uri, file=path)
        return PreconditionError(f"{path!r} is no longer that version", value=str(mode), table=self.uri, file=path)

    def _listed(self, folder: str, prefix: str) -> Iterator[ObjectInfo]:
        try:
            for chunk in obstore.list(self._store, folder or None, chunk_size=LIST_CHUNK):
                yield from (self._info(meta) for meta in chunk if meta["path"] != folder)
        except _FAILURES as error:
            raise self._error(error, "list", prefix) from error

    def _without_folder_markers(self, found: Iterator[ObjectInfo]) -> Iterator[ObjectInfo]:
        """Leave out ``dir/``, which came as an empty ``dir``. One that nothing follows is told from an empty object by
        listing its folder by level: one more request for each folder that holds empty objects."""
        real: dict[str, set[str]] = {}
        waiting: ObjectInfo | None = None
        for info in found:
            if waiting is not None and not info.path.startswith(waiting.path + "/") and self._is_object(waiting, real):
                yield waiting
            waiting = None
            if info.size_bytes == 0:
                waiting = info
            else:
                yield info
        if waiting is not None and self._is_object(waiting, real):
            yield waiting

    def _is_object(self, info: ObjectInfo, real: dict[str, set[str]]) -> bool:
        folder = parent_of(info.path)
        if folder not in real:
            real[folder] = {each.path for each in self.list_dir(folder)[1] if each.size_bytes == 0}
        if info.path not in real[folder]:
            return False
        real[folder].remove(info.path)  # an empty object ``dir`` beside ``dir/`` is listed once
        return True

    def _error(self, error: Exception, verb: str, path: str) -> TidelakeError:
        said = f"cannot {verb} {path!r}"
        if _answer(error).code == "NoSuchBucket":
            return self._refused(
                f"{said}: the bucket {self._location.bucket!r} does not exist", path, "create it first"
            )
        if isinstance(error, FileNotFoundError):
            return NotFoundError(f"no object {path!r}", value=path, table=self.uri, file=path)
        if isinstance(error, (failures.PermissionDeniedError, failures.UnauthenticatedError)):
            return self._refused(f"{said}: access denied", path, "check the credentials and the bucket's policy")
        if isinstance(error, failures.InvalidPathError):
            return UnsupportedError(
                f"{said}: an object there has a name that no path can have: {_first_line(error)}",
                value=path,
                table=self.uri,
                hint="move that object away",
            )
        if isinstance(error, ValueError):
            return InvalidError(f"{said}: {_first_line(error)}", value=path, table=self.uri)
        return self._unavailable(error, verb, path)

    def _refused(self, said: str, path: str, hint: str) -> UnavailableError:
        result = UnavailableError(said, value=path, table=self.uri, file=path, hint=hint)
        result.retryable = False
        return result

    def _unavailable(self, error: Exception, verb: str, path: str) -> UnavailableError:
        said = f"cannot {verb} {path!r}: {_first_line(error)}"
        return UnavailableError(said, value=path, table=self.uri, file=path)


@dataclass(frozen=True, slots=True)
class _SentPuts:
    """Puts of a batch, several on their way at a time."""

    storage: ObjectStorage
    background: Background

    def put(self, path: str, data: bytes | memoryview) -> None:
        self.background.run(lambda: self.storage.put(path, data))

    def ensure(self, path: str, data: bytes) -> None:
        self.background.run(lambda: ensure_object(self.storage, path, data))


def _open(location: Location, config: StoreConfig, max_retries: int) -> Store:
    retry: RetryConfig = {"max_retries": max_retries, "retry_timeout": timedelta(seconds=RETRY_TIMEOUT_S)}
    client = cast("ClientConfig", config.client)
    store: Store
    if location.family == "s3":
        s3 = cast("S3Config", config.store)
        store = S3Store(location.bucket, config=s3, client_options=client, retry_config=retry)
    elif location.family == "gs":
        gcs = cast("GCSConfig", config.store)
        store = GCSStore(location.bucket, config=gcs, client_options=client, retry_config=retry)
    else:
        azure = cast("AzureConfig", config.store)
        store = AzureStore(location.bucket, config=azure, client_options=client, retry_config=retry)
    return store


def _answer(error: Exception) -> _Answer:
    text = str(error)
    found = _ANSWER.search(text)
    if found is None:
        return _Answer(0, "")
    code = _CODE.search(text, found.end())
    return _Answer(int(found.group(1)), code.group(1) if code else "")


def _certainly_not_done(error: Exception) -> bool:
    answer = _answer(error)
    if answer.status == 409:
        return answer.code != "BlobAlreadyExists"  # Azure's word for 412
    return answer.status == 429 or (answer.status == 503 and answer.code == "SlowDown")


def _first_line(error: Exception) -> str:
    """What obstore says, without its debug print."""
    text = str(error).partition("\n\nDebug source")[0].strip()
    return " ".join(text.split())[:500]
