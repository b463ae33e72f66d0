"""Storages to test, and a real S3 server over HTTP on loopback.

The server is moto in this process, behind a small layer of ours that (1) lets one write in at a time, because moto looks
whether an object is there and then stores it without a lock between, which Amazon S3 never does; and (2) can give a
prepared answer to a request, with or without letting the request take place.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import pytest
from moto.s3.models import s3_backends
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from tidelake._clock import ManualClock
from tidelake.storage import FaultyStorage, LocalStorage, MemoryStorage, Storage, open_storage

_bucket_numbers = itertools.count(1)
_moto_account = "123456789012"


@dataclass(frozen=True, slots=True)
class Answer:
    """A prepared answer to one request of a method, given before (or, with ``applied``, after) it took place."""

    method: str
    status: str
    code: str
    applied: bool = False


@dataclass(slots=True)
class S3Server:
    """Where the server is, what it was asked, and what it shall answer next."""

    app: WSGIApplication
    port: int = 0
    answers: list[Answer] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        return {
            "endpoint": self.endpoint,
            "access_key_id": "test",
            "secret_access_key": "test",
            "region": "us-east-1",
            "timeout": "20s",
        }

    def new_bucket(self) -> str:
        name = f"bucket-{next(_bucket_numbers)}"
        s3_backends[_moto_account]["aws"].create_bucket(name, "us-east-1")
        return name

    def put_keys(self, bucket: str, keys: Iterable[str], data: bytes = b"x") -> None:
        """Store objects without HTTP, and without any care for their names."""
        for key in keys:
            s3_backends[_moto_account]["aws"].put_object(bucket, key, data)

    def keys(self, bucket: str) -> list[str]:
        """The keys as the server holds them."""
        return sorted(s3_backends[_moto_account]["aws"].buckets[bucket].keys.keys())

    def prepare(self, method: str, status: str, code: str, *, times: int = 1, applied: bool = False) -> None:
        """Answer the next requests so, and forget what was asked before."""
        self.requests.clear()
        self.answers[:] = [Answer(method, status, code, applied)] * times

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        with self.lock:
            self.requests.append((method, environ.get("RAW_URI", environ["PATH_INFO"])))
            prepared = self.answers.pop(0) if self.answers and self.answers[0].method == method else None
            if prepared is None and method == "PUT":
                return list(self.app(environ, start_response))
        if prepared is None:
            return self.app(environ, start_response)
        if prepared.applied:
            list(self.app(environ, lambda *_: lambda _: None))
        else:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        body = f"<Error><Code>{prepared.code}</Code></Error>".encode()
        start_response(prepared.status, [("Content-Length", str(len(body))), ("Content-Type", "application/xml")])
        return [body]


@pytest.fixture(scope="session")
def _running_s3_server() -> Iterator[S3Server]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = S3Server(DomainDispatcherApplication(create_backend_app))
    http = make_server("127.0.0.1", 0, server, threaded=True)
    server.port = http.server_port
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    yield server
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture
def s3_server(_running_s3_server: S3Server) -> S3Server:
    """The server, with nothing prepared and nothing remembered."""
    _running_s3_server.answers.clear()
    _running_s3_server.requests.clear()
    return _running_s3_server


@pytest.fixture
def s3_bucket(s3_server: S3Server) -> str:
    """A new, empty bucket."""
    return s3_server.new_bucket()


@pytest.fixture
def s3_storage(s3_server: S3Server, s3_bucket: str) -> Storage:
    """A storage in a folder of a new bucket, whose name has characters that a URL would change."""
    return open_storage(f"s3://{s3_bucket}/some folder%20/t=1", s3_server.options, ManualClock())


@pytest.fixture(params=["local", "memory", "faulty", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """Each implementation, empty."""
    makers: dict[str, Callable[[], Storage]] = {
        "local": lambda: LocalStorage(tmp_path / "table"),
        "memory": lambda: MemoryStorage(clock=ManualClock()),
        "faulty": lambda: FaultyStorage(MemoryStorage(), clock=ManualClock()),
        "s3": lambda: request.getfixturevalue("s3_storage"),
    }
    return makers[request.param]()
