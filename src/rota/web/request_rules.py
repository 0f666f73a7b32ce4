"""Which requests of a browser may act as its user. Pure.

A cookie goes with every request to its host, whatever page caused it. So a request acts as the user of a session only
if a page of the same origin made it, if it names this server by a name of its own, and if it does not go on to another
server: what answers behind a proxied path may be anything.
"""

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote

from rota.apiserver import routing

_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


def own_names(names: Iterable[str]) -> frozenset[str]:
    """The names of this server in Host headers, without ports."""
    return frozenset((*_LOOPBACK, *(f"[{one}]" if ":" in one else one.lower() for one in names)))


def names_server(headers: Mapping[bytes, bytes], names: frozenset[str]) -> bool:
    """Whether the Host header has a name of this server; another one may have been pointed here by DNS rebinding."""
    return _host_name(headers.get(b"host", b"").decode("latin-1")) in names


def is_same_origin(headers: Mapping[bytes, bytes], scheme: str) -> bool:
    """Whether a page of this server's own origin made the request.

    By the Origin header if there is one, as with every write and every WebSocket, and by fetch metadata.
    """
    origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
    if origin is None and site is None:
        return False
    if site is not None and site != b"same-origin":
        return False
    return origin is None or origin.decode("latin-1") == f"{scheme}://{headers.get(b'host', b'').decode('latin-1')}"


def is_from_browser(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a web page made the request; programs send none of these headers."""
    return b"origin" in headers or b"sec-fetch-site" in headers


def is_proxied(path: str) -> bool:
    """Whether a request goes on to another server."""
    segments = [unquote(one) for one in path.split("/")]
    at = {"api": 3, "apis": 4}.get(segments[1] if len(segments) > 1 else "")
    if at is None:
        return False
    if len(segments) > at and segments[at] == "watch":
        at += 1
    return any(one in routing.TAILED for one in (*segments[at + 2 : at + 3], *segments[at + 4 : at + 5]))


def _host_name(host: str) -> str:
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdigit() else host.lower()
