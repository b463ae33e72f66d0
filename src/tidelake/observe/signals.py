"""Telling others that a table, or a partition, is complete up to an event time: by a marker file or a webhook, once.

What was told is written down under ``.hoodie/.tidelake/signals`` before and after. If a process dies between the two, the signal
may be sent a second time, after ten minutes, and with the same id: rather twice than never.
"""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from dataclasses import dataclass

from tidelake._clock import Clock
from tidelake.errors import AlreadyExistsError, InvalidError, NotFoundError, PreconditionError, UnavailableError
from tidelake.filegroup.partitions import check_partition
from tidelake.observe.freshness import has_data, time_text
from tidelake.observe.waiting import refuse_no_event_time
from tidelake.query import TableSource
from tidelake.query.freshness import freshness
from tidelake.storage import Storage

SIGNALS_DIR = ".hoodie/.tidelake/signals"
_SENDING_MS = 600_000
_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Signal:
    """What is told to whom."""

    time_ms: int
    view: str
    partition: str | None = None
    marker: str | None = None
    webhook: str | None = None

    @property
    def id(self) -> str:
        """The same for the same signal, whoever sends it."""
        words = (self.time_ms, self.view, self.partition, self.marker, self.webhook)
        return hashlib.blake2b(json.dumps(words).encode(), digest_size=16).hexdigest()


def send_signal(source: TableSource, clock: Clock, signal: Signal) -> bool:
    """Send a signal if it is due; False if it is not yet, or was sent before."""
    _refuse(source, signal)
    record = f"{SIGNALS_DIR}/{signal.id}"
    if _is_sent(source.storage, record):
        return False
    found = freshness(source, clock.now_ms())
    if not found.is_complete(signal.view, signal.time_ms, signal.partition):
        return False
    if signal.partition is not None and not has_data(source, found, signal.partition):
        return False
    version = _begin(source.storage, clock, record)
    if version is None:
        return False
    told = _content(source, signal)
    try:
        if signal.marker is not None:
            _put_marker(source.storage, signal, told)
        else:
            _post(signal.webhook or "", told)
    except UnavailableError:
        source.storage.delete(record)
        raise
    with suppress(PreconditionError):
        source.storage.put_if_match(record, _record("sent", clock.now_ms(), clock.new_id()), version)
    return True


def _refuse(source: TableSource, signal: Signal) -> None:
    refuse_no_event_time(source)
    for role in ("partition", "marker", "webhook"):
        if not isinstance(getattr(signal, role), str | None):
            raise InvalidError(f"{role} is {getattr(signal, role)!r} and not a text", value=getattr(signal, role))
    if (signal.marker is None) == (signal.webhook is None):
        raise InvalidError("a signal is a marker or a webhook, and one of them")
    if signal.partition is not None:
        check_partition(source.config, signal.partition)
    if signal.marker is not None and (not signal.marker.startswith("_") or "/" in signal.marker):
        raise InvalidError(
            f"the marker {signal.marker!r} must be a name that begins with _, so that readers pass over it",
            value=signal.marker,
        )
    if signal.webhook is not None and not _is_url(signal.webhook):
        raise InvalidError("a webhook is an http or https URL", value=signal.webhook)


def _is_url(text: str) -> bool:
    try:
        found = urllib.parse.urlsplit(text)
        return found.scheme in ("http", "https") and bool(found.hostname) and (found.port or 1) > 0
    except ValueError:
        return False


def _is_sent(storage: Storage, record: str) -> bool:
    try:
        return bool(json.loads(storage.get(record))["state"] == "sent")
    except (NotFoundError, ValueError, KeyError, TypeError):
        return False


def _begin(storage: Storage, clock: Clock, record: str) -> str | None:
    """Take the sending of a signal for this process alone; None if another is at it, or has done it."""
    begun = _record("sending", clock.now_ms(), clock.new_id())
    try:
        return storage.put_if_absent(record, begun)
    except AlreadyExistsError:
        pass
    try:
        data, version = storage.get_with_version(record)
        stored = json.loads(data)
        if stored["state"] == "sent" or clock.now_ms() - int(stored["at_ms"]) < _SENDING_MS:
            return None
        return storage.put_if_match(record, begun, version)
    except (NotFoundError, PreconditionError, ValueError, KeyError, TypeError):
        return None


def _record(state: str, at_ms: int, nonce: str) -> bytes:
    return json.dumps({"state": state, "at_ms": at_ms, "nonce": nonce}).encode()


def _content(source: TableSource, signal: Signal) -> bytes:
    told = {
        "id": signal.id,
        "table": source.config.name,
        "path": source.storage.uri,
        "partition": signal.partition,
        "view": signal.view,
        "complete_to_ms": signal.time_ms,
        "complete_to": time_text(signal.time_ms),
    }
    return json.dumps(told).encode()


def _put_marker(storage: Storage, signal: Signal, content: bytes) -> None:
    """The marker says the latest time that was told."""
    path = f"{signal.partition}/{signal.marker}" if signal.partition else str(signal.marker)
    try:
        if int(json.loads(storage.get(path))["complete_to_ms"]) >= signal.time_ms:
            return
    except (NotFoundError, ValueError, KeyError, TypeError):
        pass
    storage.put(path, content)


def _post(url: str, content: bytes) -> None:
    request = urllib.request.Request(url, content, {"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            answer.read()
    except (urllib.error.URLError, OSError) as error:
        raise UnavailableError(
            f"the webhook did not take the signal: {error}", value=url, hint="it is sent again"
        ) from error
