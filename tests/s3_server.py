"""A real S3 server over HTTP on loopback, for this process and others.

It is moto in this process, behind a small layer of ours that (1) lets one request in at a time, because moto looks
whether an object is there and then stores it without a lock between, which Amazon S3 never does; and (2) can give a
prepared answer to a request, or none, with or without letting the request take place.
"""

from __future__ import annotations

import itertools
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from moto.s3.models import s3_backends
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

_bucket_numbers = itertools.count(1)
_moto_account = "123456789012"


@dataclass(frozen=True, slots=True)
class Answer:
    """A prepared answer to one request of a method, given before (or, with ``applied``, after) it took place.

    Without a status there is no answer: the connection is closed.
    """

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
    on_request: Callable[[int, WSGIEnvironment], Answer | None] | None = None
    """Asked at each request, with its number from 1, for an answer to give."""

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

    def copy_bucket(self, bucket: str) -> str:
        """A new bucket with the same objects, made without HTTP."""
        backend = s3_backends[_moto_account]["aws"]
        made = self.new_bucket()
        for key in self.keys(bucket):
            backend.put_object(made, key, backend.get_object(bucket, key).value)
        return made

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
            if prepared is None and self.on_request is not None:
                prepared = self.on_request(len(self.requests), environ)
            if prepared is None:
                return list(self.app(environ, start_response))
            if prepared.applied:
                list(self.app(environ, lambda *_: lambda _: None))
            else:
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if not prepared.status:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError("no answer")
        body = f"<Error><Code>{prepared.code}</Code></Error>".encode()
        start_response(prepared.status, [("Content-Length", str(len(body))), ("Content-Type", "application/xml")])
        return [body]


@contextmanager
def serving() -> Iterator[S3Server]:
    """A server that runs until the context ends."""
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = S3Server(DomainDispatcherApplication(create_backend_app))
    http = make_server("127.0.0.1", 0, server, threaded=True)
    server.port = http.server_port
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    yield server
    http.shutdown()
    thread.join()
    http.server_close()
