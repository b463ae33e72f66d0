"""One wrong answer of an S3 server to any request of a write: the write succeeds all the same, once.

The storage sends again what certainly did not take place, or may take place twice; the engine reads back the rest.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import tidelake as tl
from crash.crash_points import Shape
from model.deep import IS_DEEP
from s3_server import Answer, S3Server
from tidelake.storage import Storage, open_storage

CONDITIONAL = {
    "409": Answer("PUT", "409 Conflict", "ConditionalRequestConflict"),
    "412 of its own retry": Answer("PUT", "412 Precondition Failed", "PreconditionFailed", applied=True),
}
ANY = {
    "busy": Answer("", "503 Service Unavailable", "SlowDown"),
    "failed": Answer("", "500 Internal Server Error", "InternalError"),
    "failed, but done": Answer("", "500 Internal Server Error", "InternalError", applied=True),
    "no answer": Answer("", "", ""),
    "no answer, but done": Answer("", "", "", applied=True),
}
KINDS = {**CONDITIONAL, **ANY}
STEP = 1 if IS_DEEP else 9


def rows(*entries: tuple[int, str]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([number for number, _ in entries], pa.int64()),
            "name": [name for _, name in entries],
            "ts": pa.array([5 for _ in entries], pa.int64()),
            "day": [f"d{number % 2}" for number, _ in entries],
        }
    )


def write(storage: Storage) -> None:
    """An update of one partition and the first row of another."""
    tl.open_table(storage.uri, storage=storage).upsert(rows((1, "new"), (2, "first")))


def state(storage: Storage) -> Counter[tuple[int, str]]:
    found = tl.open_table(storage.uri, storage=storage).scan(columns=["id", "name"]).to_arrow().to_pylist()
    return Counter((row["id"], row["name"]) for row in found)


@pytest.fixture(scope="module")
def started(_running_s3_server: S3Server) -> tuple[S3Server, str, list[bool]]:
    """A bucket with a table, and of each request of the write whether it is conditional."""
    server = _running_s3_server
    bucket = server.new_bucket()
    storage = open_storage(f"s3://{bucket}/table", server.options)
    Shape("MERGE_ON_READ", "SIMPLE").create(storage, None).upsert(rows((1, "old")))
    conditional: list[bool] = []

    def note(_: int, environ: dict[str, object]) -> None:
        conditional.append(is_conditional(environ))

    server.on_request = note
    write(open_storage(f"s3://{server.copy_bucket(bucket)}/table", server.options))
    server.on_request = None
    return server, bucket, conditional


def is_conditional(environ: dict[str, object]) -> bool:
    return "HTTP_IF_NONE_MATCH" in environ or "HTTP_IF_MATCH" in environ


@pytest.mark.parametrize("kind", KINDS)
def test_s3_wrong_answer_at_any_request_of_a_write_is_survived(
    started: tuple[S3Server, str, list[bool]], kind: str
) -> None:
    """Whichever request is answered wrongly or not at all, the write returns, and its rows are there once."""
    server, bucket, conditional = started
    numbers = [n for n, is_one in enumerate(conditional, 1) if is_one]
    if kind in ANY:
        numbers = sorted({*numbers, *range(1, len(conditional) + 1, STEP)})
    given = 0
    for number in numbers:
        storage = open_storage(f"s3://{server.copy_bucket(bucket)}/table", server.options)
        server.requests.clear()
        said: list[str] = []

        def answer(at: int, environ: dict[str, object], number: int = number, said: list[str] = said) -> Answer | None:
            if at < number or said or (kind in CONDITIONAL and not is_conditional(environ)):
                return None
            said.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
            return KINDS[kind]

        server.on_request = answer
        try:
            write(storage)
        except tl.TidelakeError as error:
            raise AssertionError(f"{kind} at request {number}, {said}: {error!r}") from error
        finally:
            server.on_request = None
        assert state(storage) == Counter([(1, "new"), (2, "first")]), f"{kind} at request {number}, {said}"
        given += len(said)
    assert given > 0
    print(f"\n{kind}: {given} requests")
