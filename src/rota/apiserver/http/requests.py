"""An HTTP request, parsed once: method, path segments, query parameters, headers, and the body on demand.

Made from an ASGI scope. Knows nothing of Kubernetes except the limit of a body.
"""

import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, Final, TypeAlias

from rota.api import errors, scopes
from rota.apiserver.interfaces import Credentials

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

#: Upstream's limit (3 MB): what a store can hold, with a margin for the difference of encodings.
MAX_BODY_BYTES: Final = 3 * 1024 * 1024

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_NO_QUERY: Final[Mapping[str, str]] = {}


class ClientGone(Exception):
    """The client closed the connection before its request was complete; there is no response."""


class Request:
    """One request. `query` has the first value of each parameter; `headers` are lower-case names to last values.

    `path` is as sent: percent-encoding is decoded per segment, by the code that splits it.
    """

    __slots__ = ("_keeps", "_receive", "headers", "kept_body", "method", "path", "query", "raw_query", "scope")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope: Final = scope
        self.method: Final[str] = scope["method"]
        raw_path: bytes | None = scope.get("raw_path")
        self.path: Final[str] = raw_path.decode("latin-1") if raw_path else scope["path"]
        self.headers: Final[dict[bytes, bytes]] = dict(scope["headers"])
        self.raw_query: Final[bytes] = scope["query_string"]
        self.query: Final = _parse_query(self.raw_query)
        self._receive: Final = receive
        self._keeps = False
        #: The body once it was read, if `keep_body` was called before; empty otherwise.
        self.kept_body = b""

    def header(self, name: bytes) -> str:
        """A header's value, or the empty string."""
        return self.headers.get(name, b"").decode("latin-1")

    @property
    def address(self) -> str:
        """The client's address; empty if in this process."""
        client: Sequence[Any] | None = self.scope.get("client")
        return client[0] if client else ""

    def credentials(self) -> Credentials:
        """The data for authentication."""
        certificate = self.scope.get(scopes.PEER_CERTIFICATE)
        return Credentials(headers=self.headers, peer_certificate=certificate, address=self.address, path=self.path)

    def flag(self, name: str) -> bool:
        """A boolean query parameter, as Go reads it; `?watch` without a value counts as set."""
        value = self.query.get(name)
        return value is not None and (value in _TRUE or value == "")

    def keep_body(self) -> None:
        """Keep the body as `kept_body` when it is read."""
        self._keeps = True

    async def body(self) -> bytes:
        """The whole body; one that is too large is refused before all of it is read."""
        declared = self.headers.get(b"content-length")
        if declared is not None and declared.isdigit() and int(declared) > MAX_BODY_BYTES:
            raise errors.request_entity_too_large(f"limit is {MAX_BODY_BYTES}")
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > MAX_BODY_BYTES:
                raise errors.request_entity_too_large(f"limit is {MAX_BODY_BYTES}")
            parts.append(part)
            if not message.get("more_body", False):
                body = parts[0] if len(parts) == 1 else b"".join(parts)
                if self._keeps:
                    self.kept_body = body
                return body

    async def pieces(self) -> AsyncIterator[bytes]:
        """Received data, until the client disconnects; for connections that were handed over."""
        while (message := await self._receive())["type"] != "http.disconnect":
            yield message["body"]

    async def disconnected(self) -> None:
        """Return when the client has disconnected; awaited beside a stream."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _parse_query(raw: bytes) -> Mapping[str, str]:
    if not raw:
        return _NO_QUERY
    pairs = urllib.parse.parse_qsl(raw.decode("latin-1"), keep_blank_values=True)
    query: dict[str, str] = {}
    for name, value in pairs:
        query.setdefault(name, value)
    return query
