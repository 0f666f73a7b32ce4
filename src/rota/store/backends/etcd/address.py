"""The URL of a store on etcd: `etcd://[user:password@]host:port[,host:port][/prefix]`, `etcds://` for TLS.

`?ca=FILE` names the authority of the servers' certificates (the system's by default), `?cert=FILE&key=FILE` this
client's certificate. The path is the prefix of all keys, `/rota/` by default.
"""

import ssl
import urllib.parse
from pathlib import Path

from msgspec import Struct

from rota.kit import logs
from rota.store import errors

DEFAULT_PORT = 2379
DEFAULT_PREFIX = "/rota/"

_FORM = "etcd://[user:password@]host:port[,host:port][/prefix], or etcds:// with ?ca=FILE&cert=FILE&key=FILE"


class Tls(Struct, frozen=True, kw_only=True):
    """Content of the TLS files; None for a file that is not given (the system's authorities, no client certificate)."""

    ca: bytes | None = None
    cert: bytes | None = None
    key: bytes | None = None


class Address(Struct, frozen=True, kw_only=True):
    """Endpoints, credentials, TLS files and key prefix of a store."""

    endpoints: tuple[str, ...]
    prefix: str = DEFAULT_PREFIX
    user: str = ""
    password: str = ""
    tls: Tls | None = None

    def __str__(self) -> str:
        """For messages: without the password."""
        return f"etcd at {','.join(self.endpoints)}"


def parse(url: str) -> Address:
    """Parse a URL; `BadAddress` if it is invalid."""
    scheme, _, rest = url.partition("://")
    rest, hash_mark, _ = rest.partition("#")
    rest, _, query = rest.partition("?")
    hosts, _, path = rest.partition("/")
    # A password may contain "@": the last "@" ends it.
    login, _, hosts = hosts.rpartition("@")
    user, _, password = login.partition(":")
    if hash_mark:
        raise _bad(url, "it has a fragment")
    if query and scheme != "etcds":
        raise _bad(url, "options are for TLS, which etcds:// asks for")
    return Address(
        endpoints=tuple(_endpoint(url, host) for host in hosts.split(",")),
        prefix=_prefix(url, urllib.parse.unquote(path)),
        user=urllib.parse.unquote(user),
        password=urllib.parse.unquote(password),
        tls=_tls(url, query) if scheme == "etcds" else None,
    )


def _bad(url: str, why: str) -> errors.BadAddress:
    return errors.BadAddress(f"{logs.redact_url(url)!r} is not the URL of an etcd store: {why}", f"use {_FORM}")


def _endpoint(url: str, text: str) -> str:
    """`host:port` with the default port filled in; an IPv6 address is in brackets."""
    try:
        parts = urllib.parse.urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError as problem:
        raise _bad(url, str(problem)) from None
    if not host or parts.netloc != text or any(letter.isspace() for letter in text):
        raise _bad(url, f"{text!r} is not a host")
    return f"[{host}]:{port or DEFAULT_PORT}" if ":" in host else f"{host}:{port or DEFAULT_PORT}"


def _prefix(url: str, path: str) -> str:
    if "\0" in path:
        raise _bad(url, "its prefix holds a NUL")
    path = path.strip("/")
    return f"/{path}/" if path else DEFAULT_PREFIX


def _tls(url: str, query: str) -> Tls:
    try:
        options = urllib.parse.parse_qs(query, strict_parsing=bool(query), keep_blank_values=True)
    except ValueError:
        raise _bad(url, "its options cannot be read") from None
    if unknown := options.keys() - {"ca", "cert", "key"}:
        raise _bad(url, f"it has no option {', '.join(sorted(unknown))}")
    if ("cert" in options) != ("key" in options):
        raise _bad(url, "cert and key go together")
    files = {name: values[-1] for name, values in options.items()}
    tls = Tls(**{name: _content(name, path) for name, path in files.items()})
    _check(files)
    return tls


def _content(option: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise errors.BadAddress(
            f"cannot read {path!r}: {problem.strerror}", f"give {option}= a file that this user may read"
        ) from None


def _check(files: dict[str, str]) -> None:
    """Reject files that gRPC would reject without an explanation."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if "ca" in files:
            context.load_verify_locations(files["ca"])
        if "cert" in files:
            context.load_cert_chain(files["cert"], files["key"])
    except ssl.SSLError as problem:
        raise errors.BadAddress(
            f"the files for TLS cannot be used ({problem.reason or problem})",
            "ca and cert name certificates in PEM format, and key the private key of cert",
        ) from None
