"""What of a request goes on to the server behind a proxy, and what of its answer comes back. Pure.

Both are lists of what passes: a server behind a proxy shares this server's origin in browsers, so nothing that it sends
may set state there, and no credential that a client sends to this server may reach it (ADR 54).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, urlsplit

from rota.api import users
from rota.apiserver.interfaces import User

#: Of requests. Neither cookies nor credentials, nor what concerns only the connection.
_SENT: Final = (
    b"accept",
    b"accept-encoding",
    b"accept-language",
    b"content-type",
    b"content-encoding",
    b"if-match",
    b"if-none-match",
    b"if-modified-since",
    b"range",
    b"user-agent",
    b"audit-id",
)
#: Of answers. Neither cookies nor anything that a browser would remember about this server.
_RETURNED: Final = frozenset(
    {
        "allow",
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-range",
        "etag",
        "last-modified",
        "retry-after",
        "vary",
        "warning",
        "x-kubernetes-pf-flowschema-uid",
        "x-kubernetes-pf-prioritylevel-uid",
    }
)
#: A page from behind a proxy has an origin of its own, so that its scripts act as no user of this server.
_APART: Final = (
    (b"content-security-policy", b"sandbox"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_IMPLIED: Final = frozenset({users.AUTHENTICATED, users.UNAUTHENTICATED})


def sent(headers: Mapping[bytes, bytes]) -> list[tuple[str, str]]:
    """The headers of a client's request that go on."""
    return [(name.decode(), headers[name].decode("latin-1")) for name in _SENT if name in headers]


def identity(user: User) -> Iterator[tuple[str, str]]:
    """The user as impersonation headers; groups that every server adds itself are left out."""
    yield "Impersonate-User", user.name
    if user.uid:
        yield "Impersonate-Uid", user.uid
    for group in user.groups:
        if group not in _IMPLIED:
            yield "Impersonate-Group", group
    for key, values in sorted(user.extra.items()):
        for value in values:
            yield f"Impersonate-Extra-{quote(key, safe='')}", value


def returned(
    headers: Iterable[tuple[str, str]], *, server: str, prefix: str
) -> tuple[str, tuple[tuple[bytes, bytes], ...]]:
    """The content type of an answer, and its headers for the client.

    A redirection within `server` leads to the same place below `prefix`; one to anywhere else is left out.
    """
    kind, found = "application/octet-stream", list(_APART)
    for name, value in headers:
        lower = name.lower()
        if lower == "content-type":
            kind = value
        elif lower in _RETURNED:
            found.append((lower.encode(), value.encode("latin-1", "replace")))
        elif lower == "location":
            place = _below(value, server, prefix)
            if place is not None:
                found.append((b"location", place.encode("latin-1", "replace")))
    return kind, tuple(found)


def _below(location: str, server: str, prefix: str) -> str | None:
    asked, own = urlsplit(location), urlsplit(server)
    if (asked.scheme or asked.netloc) and (asked.scheme, asked.netloc) != (own.scheme, own.netloc):
        return None
    if not asked.path.startswith("/"):
        return location if not asked.netloc and ".." not in asked.path else None
    path = asked.path.removeprefix(own.path.rstrip("/"))
    return f"{prefix}{path}?{asked.query}" if asked.query else f"{prefix}{path}"
