"""What only an object store has: keys as the server holds them, lost answers, pages, folder objects, options."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidelake._clock import ManualClock
from tidelake.errors import (
    AlreadyExistsError,
    InvalidError,
    NotFoundError,
    OptionError,
    PreconditionError,
    UnavailableError,
    UnsupportedError,
)
from tidelake.storage import Storage, open_storage
from tidelake.storage.object_store import CONDITIONAL_TRIES, ObjectStorage
from tidelake.storage.object_store_options import parse_location, store_config

if TYPE_CHECKING:
    from s3_server import S3Server

ROOT = "some folder%20/t=1"


@pytest.mark.parametrize(
    "path", ["x%2Fy", "a b", "100%", "ünï-日本", "p=1/h=12:30", "[x]{y}", "a+b", "q?x#y", "%00", "back\\slash", "~*'()"]
)
def test_key_on_the_server_is_literal(s3_server: S3Server, s3_bucket: str, s3_storage: Storage, path: str) -> None:
    """The key that the server holds is the root and the path, character by character."""
    s3_storage.put(path, b"")
    s3_storage.put_if_absent(path + "2", b"")
    s3_storage.put_if_match(path + "2", b"", s3_storage.head(path + "2").version)
    assert s3_server.keys(s3_bucket) == [f"{ROOT}/{path}", f"{ROOT}/{path}2"]
    assert s3_storage.native_path(path) == f"s3://{s3_bucket}/{ROOT}/{path}"


def test_key_written_by_others_is_read_literally(s3_server: S3Server, s3_bucket: str, s3_storage: Storage) -> None:
    """An object that another program stored under %2F is found under %2F and under nothing else."""
    s3_server.put_keys(s3_bucket, [f"{ROOT}/d/x%2Fy"], b"theirs")
    assert [info.path for info in s3_storage.list_files()] == ["d/x%2Fy"]
    assert s3_storage.get("d/x%2Fy") == b"theirs"
    assert not s3_storage.exists("d/x/y")


@pytest.mark.parametrize("path", ["tab\there", "new\nline", "del\x7f"])
def test_path_with_control_characters_is_refused(s3_storage: Storage, path: str) -> None:
    """The client cannot name such an object, and says so as our error."""
    with pytest.raises(InvalidError):
        s3_storage.put(path, b"")
    with pytest.raises(InvalidError):
        s3_storage.get(path)


@pytest.mark.parametrize("key", ["a//b", "tab\there", "d/../x"])
def test_listing_a_key_that_no_path_can_name_is_an_error(
    s3_server: S3Server, s3_bucket: str, s3_storage: Storage, key: str
) -> None:
    """An object that we cannot name makes the listing fail; it is never left out in silence."""
    s3_server.put_keys(s3_bucket, [f"{ROOT}/{key}"])
    with pytest.raises(UnsupportedError):
        list(s3_storage.list_files())


def test_listing_over_many_pages_is_complete_and_sorted(
    s3_server: S3Server, s3_bucket: str, s3_storage: Storage
) -> None:
    """Thousands of objects come in pages of a thousand, in order, by both listings."""
    paths = [f"p/{number:05d}" for number in range(2345)] + [f"q{number:05d}/x" for number in range(1234)]
    s3_server.put_keys(s3_bucket, [f"{ROOT}/{path}" for path in paths])
    s3_server.requests.clear()
    assert [info.path for info in s3_storage.list_files()] == paths
    assert len(s3_server.requests) == 4
    folders, files = s3_storage.list_dir()
    assert folders == ["p"] + [f"q{number:05d}" for number in range(1234)]
    assert files == []
    assert [info.path for info in s3_storage.list_dir("p")[1]] == paths[:2345]


def test_listing_leaves_out_folder_objects(s3_server: S3Server, s3_bucket: str, s3_storage: Storage) -> None:
    """``dir/``, which Hadoop leaves, is no object: not with objects below, not empty, not for the root itself."""
    keys = ["", "a/", "a/x", "b/", "b/zero", "b-zero", "c/", "c/d/", "zero"]
    s3_server.put_keys(s3_bucket, [f"{ROOT}/{key}" for key in keys], b"")
    assert [info.path for info in s3_storage.list_files()] == ["a/x", "b-zero", "b/zero", "zero"]
    assert [info.path for info in s3_storage.list_files("b")] == ["b/zero"]
    assert list(s3_storage.list_files("c")) == []
    assert s3_storage.list_dir()[0] == ["a", "b", "c"]
    assert [info.path for info in s3_storage.list_dir("b")[1]] == ["b/zero"]
    assert not s3_storage.exists("c")


def test_put_if_absent_conflict_is_sent_again(s3_server: S3Server, s3_storage: Storage) -> None:
    """409 is a concurrent request, not an existing object: the put is sent again and wins."""
    s3_server.prepare("PUT", "409 Conflict", "ConditionalRequestConflict", times=3)
    s3_storage.put_if_absent("a", b"x")
    assert len(s3_server.requests) == 4
    assert s3_storage.get("a") == b"x"


def test_put_if_match_conflict_is_sent_again(s3_server: S3Server, s3_storage: Storage) -> None:
    """409 is not another version either."""
    version = s3_storage.put("a", b"1")
    s3_server.prepare("PUT", "409 Conflict", "ConditionalRequestConflict", times=2)
    s3_storage.put_if_match("a", b"2", version)
    assert s3_storage.get("a") == b"2"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("409 Conflict", "ConditionalRequestConflict"),
        ("503 Slow Down", "SlowDown"),
        ("429 Too Many Requests", "TooManyRequests"),
    ],
)
def test_conditional_put_refused_for_ever_raises_unavailable(
    s3_server: S3Server, s3_bucket: str, status: str, code: str
) -> None:
    """What did not take place is sent a bounded number of times, with waits by the clock, then given up."""
    clock = ManualClock()
    storage = open_storage(f"s3://{s3_bucket}", s3_server.options, clock)
    s3_server.prepare("PUT", status, code, times=100)
    with pytest.raises(UnavailableError) as caught:
        storage.put_if_absent("a", b"x")
    assert caught.value.retryable
    assert type(caught.value) is UnavailableError
    assert len(s3_server.requests) == CONDITIONAL_TRIES
    assert 0 < clock.monotonic_s() < 60
    s3_server.answers.clear()
    assert not storage.exists("a")


@pytest.mark.parametrize(
    ("status", "code"), [("500 Internal Server Error", "InternalError"), ("503 Service Unavailable", "Unavailable")]
)
@pytest.mark.parametrize("applied", [True, False])
def test_conditional_put_with_lost_answer_is_sent_once(
    s3_server: S3Server, s3_storage: Storage, status: str, code: str, applied: bool
) -> None:
    """An unknown outcome is UnavailableError, never a loss against ourselves after a second sending."""
    s3_server.prepare("PUT", status, code, times=2, applied=applied)
    with pytest.raises(UnavailableError) as caught:
        s3_storage.put_if_absent("a", b"mine")
    assert type(caught.value) is UnavailableError
    assert len(s3_server.requests) == 1
    s3_server.answers.clear()
    assert s3_storage.exists("a") is applied


def test_conditional_put_lost_to_another_is_told_so(s3_server: S3Server, s3_storage: Storage) -> None:
    """412 is the verb's own loss, at once."""
    version = s3_storage.put("a", b"1")
    s3_server.prepare("PUT", "412 Precondition Failed", "PreconditionFailed", times=1)
    with pytest.raises(AlreadyExistsError):
        s3_storage.put_if_absent("b", b"")
    s3_server.prepare("PUT", "412 Precondition Failed", "PreconditionFailed", times=1)
    with pytest.raises(PreconditionError):
        s3_storage.put_if_match("a", b"", version)
    assert len(s3_server.requests) == 1


def test_conditional_put_path_that_imitates_an_answer_is_not_believed(s3_storage: Storage) -> None:
    """A path may hold any text, also that of a 409; the loss is still a loss."""
    path = "non-2xx status code: 409"
    s3_storage.put_if_absent(path, b"")
    with pytest.raises(AlreadyExistsError):
        s3_storage.put_if_absent(path, b"")


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_plain_requests_are_retried(s3_server: S3Server, s3_storage: Storage, method: str) -> None:
    """Reading and overwriting may be sent again after a 503, and are."""
    s3_storage.put("a", b"1")
    s3_server.prepare(method, "503 Slow Down", "SlowDown")
    s3_storage.put("a", b"2")
    assert s3_storage.get("a") == b"2"
    assert s3_server.answers == []


@pytest.mark.parametrize("status", ["403 Forbidden", "401 Unauthorized"])
def test_access_denied_is_not_retryable(s3_server: S3Server, s3_storage: Storage, status: str) -> None:
    """Missing rights do not pass by trying again, and are not an absent object."""
    for method, act in (("GET", lambda: s3_storage.get("a")), ("PUT", lambda: s3_storage.put_if_absent("a", b""))):
        s3_server.prepare(method, status, "AccessDenied")
        with pytest.raises(UnavailableError) as caught:
            act()
        assert type(caught.value) is UnavailableError
        assert not caught.value.retryable
        assert not pickle.loads(pickle.dumps(caught.value)).retryable


def test_missing_bucket_is_told_from_missing_object(s3_server: S3Server) -> None:
    """A bucket that is not there is an error that names it, for reading, writing and listing."""
    storage = open_storage("s3://no-such-bucket/t", s3_server.options)
    for act in (
        lambda: storage.get("a"),
        lambda: storage.put("a", b""),
        lambda: storage.put_if_absent("a", b""),
        lambda: storage.put_if_match("a", b"", '"x"'),
        lambda: list(storage.list_files()),
        lambda: storage.list_dir(),
    ):
        with pytest.raises(UnavailableError, match="no-such-bucket") as caught:
            act()
        assert type(caught.value) is UnavailableError
        assert not caught.value.retryable


def test_server_that_is_not_there_raises_unavailable(s3_server: S3Server) -> None:
    """A refused connection is retryable, and the error tells no secret."""
    options = {**s3_server.options, "endpoint": "http://127.0.0.1:1", "secret_access_key": "very-secret"}
    storage = open_storage("s3://bucket/t", options)
    with pytest.raises(UnavailableError) as caught:
        storage.put_if_absent("a", b"")
    assert caught.value.retryable
    assert "very-secret" not in str(caught.value) + repr(storage) + repr(caught.value.__dict__)


def test_hadoop_names_are_understood(s3_server: S3Server, s3_bucket: str) -> None:
    """A Spark user's options open the same bucket, by s3a://, and the URI keeps its scheme."""
    options = {
        "fs.s3a.access.key": "test",
        "spark.hadoop.fs.s3a.secret.key": "test",
        "fs.s3a.endpoint": s3_server.endpoint.removeprefix("http://"),
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
    }
    storage = open_storage(f"s3a://{s3_bucket}/t/", options)
    storage.put("a", b"x")
    assert s3_server.keys(s3_bucket) == ["t/a"]
    assert storage.native_path("a") == f"s3a://{s3_bucket}/t/a"
    again = open_storage(storage.uri, storage.options)
    assert again.get("a") == b"x"


def test_environment_gives_what_options_do_not(
    s3_server: S3Server, s3_bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Credentials, region and endpoint are found in the usual variables."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    storage = open_storage(f"s3://{s3_bucket}")
    storage.put("a", b"x")
    assert s3_server.keys(s3_bucket) == ["a"]
    assert storage.uri == f"s3://{s3_bucket}"


def test_storage_pickled_opens_the_same_bucket(s3_storage: Storage) -> None:
    """A worker gets the storage, with its options, by pickling."""
    s3_storage.put("a", b"x")
    assert pickle.loads(pickle.dumps(s3_storage)).get("a") == b"x"


@pytest.mark.parametrize(
    "options",
    [
        {"no_such_option": "1"},
        {"fs.s3a.no.such": "1"},
        {"fs.s3a.path.style.access": "perhaps"},
        {"timeout": "soon"},
        {"skip_signature": "perhaps"},
    ],
)
def test_wrong_option_is_an_option_error(options: dict[str, str]) -> None:
    """An option that would have no effect, or cannot have that value, is refused at opening."""
    with pytest.raises(OptionError):
        ObjectStorage("s3://bucket/t", options)


@pytest.mark.parametrize(
    "uri", ["s3://", "s3:///path", "s3://key:secret@bucket/t", "s3://bucket/a/../b", "gs://", "s3:/b"]
)
def test_uri_that_names_no_bucket_is_refused(uri: str) -> None:
    """A URI needs a bucket, no credentials, and a root that is a path."""
    with pytest.raises(InvalidError):
        ObjectStorage(uri)


@pytest.mark.parametrize(
    ("uri", "family", "bucket", "root", "account"),
    [
        ("s3://b", "s3", "b", "", None),
        ("S3A://b/x y/%20/", "s3", "b", "x y/%20", None),
        ("gs://b/t", "gs", "b", "t", None),
        ("az://cont/t", "az", "cont", "t", None),
        ("abfss://cont@acc.dfs.core.windows.net/t/u", "az", "cont", "t/u", "acc"),
    ],
)
def test_uri_is_taken_apart_literally(uri: str, family: str, bucket: str, root: str, account: str | None) -> None:
    """Bucket, root and account come out as written, and the URI of them opens the same."""
    location = parse_location(uri)
    assert (location.family, location.bucket, location.root, location.account) == (family, bucket, root, account)
    assert parse_location(location.uri) == location


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("gs://bucket/t", {"skip_signature": "true"}),
        ("az://container/t", {"account_name": "a", "account_key": "a2V5"}),
        ("abfss://c@a.dfs.core.windows.net/t", {"fs.azure.account.key.a.dfs.core.windows.net": "a2V5"}),
    ],
)
def test_other_clouds_are_opened(uri: str, options: dict[str, str]) -> None:
    """Google's and Azure's stores take their options; nothing is sent at opening."""
    assert open_storage(uri, options).uri == uri


def test_default_options_bound_time() -> None:
    """Without a word from the user every request has a time limit, and the user's word counts."""
    location = parse_location("s3://b/t")
    assert {"timeout", "connect_timeout"} <= set(store_config(location, {}).client)
    assert store_config(location, {"timeout": "3s"}).client["timeout"] == "3s"
    assert "allow_http" not in store_config(location, {"endpoint": "https://x"}).client


def test_missing_object_is_not_retryable(s3_storage: Storage) -> None:
    """Absence is an answer, not a failure."""
    with pytest.raises(NotFoundError) as caught:
        s3_storage.get("absent")
    assert not caught.value.retryable
