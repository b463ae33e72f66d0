"""Options of object stores: names in, what obstore takes out.

Accepted are the names of obstore (``access_key_id``, ``aws_access_key_id``, ``endpoint``, ``account_key``, ...), its
HTTP client's (``timeout``, ``connect_timeout``, ``allow_http``, ``proxy_url``, ...) and Hadoop's, with or without
``spark.hadoop.`` before them. What is not given obstore takes from the environment (``AWS_ACCESS_KEY_ID``, ...).
An unknown name is an error: an option that is silently without effect (encryption!) is worse.

Time is bounded: a request takes at most ``timeout`` (120 s unless told), its retries together at most a minute more.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidelake.errors import InvalidError, OptionError
from tidelake.storage.paths import check_prefix

MAX_RETRIES: Final = 8
RETRY_TIMEOUT_S: Final = 60
DEFAULT_CLIENT_OPTIONS: Final = {"timeout": "120s", "connect_timeout": "5s"}

_CLIENT_NAMES: Final = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
_HADOOP_NAMES: Final = {
    "fs.s3a.access.key": "access_key_id",
    "fs.s3a.secret.key": "secret_access_key",
    "fs.s3a.session.token": "session_token",
    "fs.s3a.endpoint": "endpoint",
    "fs.s3a.endpoint.region": "region",
    "fs.gs.auth.service.account.json.keyfile": "service_account",
    "google.cloud.auth.service.account.json.keyfile": "service_account",
}
_PATH_STYLE: Final = "fs.s3a.path.style.access"
_SSL: Final = "fs.s3a.connection.ssl.enabled"
_AZURE_KEY: Final = "fs.azure.account.key."
_ENDPOINTS_IN_ENVIRONMENT: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_BOOLEANS: Final = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}


@dataclass(frozen=True, slots=True)
class Location:
    """A URI taken apart: the store's family (``s3``, ``gs`` or ``az``), bucket, folder in it, Azure account."""

    family: str
    scheme: str
    bucket: str
    root: str
    authority: str
    account: str | None = None

    @property
    def uri(self) -> str:
        return f"{self.scheme}://{self.authority}" + (f"/{self.root}" if self.root else "")


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """What obstore's constructors take."""

    store: dict[str, str] = field(repr=False)
    client: dict[str, str] = field(repr=False)


def parse_location(uri: str) -> Location:
    """Take an object store's URI apart. Nothing is decoded: ``%20`` in it is three characters of the key."""
    scheme, _, rest = uri.partition("://")
    scheme = scheme.lower()
    authority, _, folder = rest.partition("/")
    family = {"s3a": "s3", "abfs": "az", "abfss": "az"}.get(scheme, scheme)
    bucket, at, host = authority.partition("@")
    if not bucket or (at and family != "az"):
        raise InvalidError(
            f"{uri!r} names no {'container' if family == 'az' else 'bucket'}",
            value=uri,
            hint=f"write {scheme}://name/folder; credentials go into options or the environment",
        )
    account = host.partition(".")[0] if at else None
    return Location(family, scheme, bucket, check_prefix(folder.strip("/")), authority, account)


def store_config(location: Location, options: Mapping[str, str]) -> StoreConfig:
    """Options under obstore's names, with defaults that bound time."""
    store: dict[str, str] = {}
    client = dict(DEFAULT_CLIENT_OPTIONS)
    for given, value in options.items():
        name = given.removeprefix("spark.hadoop.")
        if name in (_PATH_STYLE, _SSL):
            _boolean(name, value)
        elif name in _HADOOP_NAMES:
            store[_HADOOP_NAMES[name]] = value
        elif name.startswith(_AZURE_KEY):
            store["account_key"] = value
        elif name in _CLIENT_NAMES:
            client[name] = value
        elif name.startswith(("fs.", "spark.")):
            raise OptionError(
                f"the option {given!r} is not known here",
                value=given,
                hint=f"known: {', '.join(sorted(known_names()))}",
            )
        else:
            store[name] = value
    if location.account is not None:
        store.setdefault("account_name", location.account)
    if location.family == "s3":
        _complete_s3(store, client, {name.removeprefix("spark.hadoop."): value for name, value in options.items()})
    return StoreConfig(store, client)


def known_names() -> frozenset[str]:
    """Hadoop's names that are understood, beside obstore's own."""
    return frozenset(_HADOOP_NAMES) | {_PATH_STYLE, _SSL, _AZURE_KEY + "<account>"}


def _complete_s3(store: dict[str, str], client: dict[str, str], given: Mapping[str, str]) -> None:
    if _PATH_STYLE in given:
        store["virtual_hosted_style_request"] = "false" if _boolean(_PATH_STYLE, given[_PATH_STYLE]) else "true"
    # DELETE of one key, which every server knows, instead of obstore's bulk POST.
    store.setdefault("disable_bulk_delete", "true")
    for name in ("endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3"):
        if name in store and "://" not in store[name]:  # Hadoop's endpoints are bare host names
            plain = _SSL in given and not _boolean(_SSL, given[_SSL])
            store[name] = f"{'http' if plain else 'https'}://{store[name]}"
    endpoints = [store[name] for name in store if "endpoint" in name]
    endpoints += [os.environ.get(name, "") for name in _ENDPOINTS_IN_ENVIRONMENT]
    if any(endpoint.startswith("http://") for endpoint in endpoints):
        client.setdefault("allow_http", "true")  # whoever writes http:// means it


def _boolean(name: str, value: str) -> bool:
    found = _BOOLEANS.get(value.strip().lower())
    if found is None:
        raise OptionError(f"{name} is true or false, not {value!r}", value=value)
    return found
