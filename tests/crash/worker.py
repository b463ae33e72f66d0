"""A writer in a process of its own, run by ``test_processes.py``; it says what it is told, line by line, in a log.

``python -m crash.worker '{"uri": ..., ...}'``. Each write has an id and two rows, one in each of two partitions, so that
a part of a write would be seen. A write that is refused is done again under the same id: were the refusal not true, the
rows would stand twice.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

import tidelake as tl
from tidelake.storage import FaultyStorage, LocalStorage, Storage, open_storage
from tidelake.storage.object_store import ObjectStorage

TRIES = 500


@dataclass(frozen=True)
class Job:
    """What a process shall do."""

    uri: str
    log: str
    ids: list[int]
    verb: str = "insert"
    storage_options: dict[str, str] = field(default_factory=dict)
    heartbeat_ms: int = 60_000
    pauses: dict[str, int] = field(default_factory=dict)
    """Before which storage operation (counted from the opening of the table) the write of an id stops itself."""
    waits_for: str = ""
    """The log of another process: it and this one begin the writes of an id together."""
    without: str = ""
    """A safety net that is taken away, for negative controls."""
    is_retried: bool = True

    def writer_options(self) -> dict[str, str]:
        return {"hoodie.client.heartbeat.interval_in_ms": str(self.heartbeat_ms)}


def rows_of(number: int, writer: str) -> pa.Table:
    """The two rows of a write."""
    return pa.table(
        {
            "id": pa.array([number, number], pa.int64()),
            "name": [writer, writer],
            "ts": pa.array([1, 1], pa.int64()),
            "day": ["d0", "d1"],
        }
    )


def work(job: Job) -> None:
    take_away(job.without)
    storage = open_storage(job.uri, job.storage_options)
    say(job, "up", -1)
    for number in job.ids:
        meet(job, number)
        for _ in range(TRIES):
            say(job, "try", number)
            try:
                commit = write(job, storage, number)
            except tl.TidelakeError as error:
                say(job, "no", number, type(error).__name__, str(error))
                if not error.retryable:
                    raise
                if not job.is_retried:
                    break
            else:
                say(job, "ok", number, commit.requested_time, commit.completion_time)
                break


def write(job: Job, storage: Storage, number: int) -> tl.Commit:
    stop_at = job.pauses.get(str(number))

    def stop(operation: int, verb: str, path: str) -> None:
        if operation == stop_at:
            say(job, "stop", number, verb, path)
            os.kill(os.getpid(), signal.SIGSTOP)

    seen = FaultyStorage(storage, on_operation=stop)
    table = tl.open_table(job.uri, storage=seen, options=job.writer_options())
    seen.reset()
    verb = getattr(table, job.verb)
    return verb(rows_of(number, job.log))


def meet(job: Job, number: int) -> None:
    """Wait until the other process is about to write the same id."""
    if job.waits_for:
        say(job, "meet", number)
        while not any(line[:2] == ["meet", number] for line in read_log(job.waits_for)):
            time.sleep(0.001)


def say(job: Job, *words: object) -> None:
    with open(job.log, "a", encoding="utf-8") as log:
        log.write(json.dumps(words) + "\n")


def read_log(path: str) -> list[list[object]]:
    """The lines of a log, without one that is being written."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def take_away(net: str) -> None:
    """Remove one safety net from this process."""
    if net == "compare-and-swap":
        for kind in (LocalStorage, ObjectStorage):
            kind.put_if_match = lambda self, path, data, version: self.put(path, data)  # type: ignore[method-assign]
    elif net == "conflict check":
        import tidelake.write.transaction as module

        module.check_conflicts = lambda *_: None
    elif net:
        raise ValueError(net)


if __name__ == "__main__":
    work(Job(**json.loads(sys.argv[1])))
