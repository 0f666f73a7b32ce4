"""Serves the application on a socket: HTTP/1.1 by uvicorn with httptools, on the running event loop.

    async with http_server.serve(app) as server:
        print(server.url)

Leaving the block stops accepting, ends streams, finishes running requests and closes every connection.
"""

import asyncio
import contextlib
import socket
import ssl as tls
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import uvicorn

from rota.api import scopes
from rota.apiserver.http import connections
from rota.apiserver.interfaces import User

#: Longer than clients keep idle connections, so that clients close them and no request meets a closed one.
_KEEP_ALIVE_S: Final = 120
_GRACE_S: Final = 10
_BACKLOG: Final = 2048

#: An ASGI application.
Application: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]


class Closable(Protocol):
    """An ASGI application whose streams can be ended."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        ...

    def close(self) -> None:
        """End every running stream."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The address of a running server."""

    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        """The address for clients."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


@contextlib.asynccontextmanager
async def serve(
    app: Closable,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    ssl: tls.SSLContext | None = None,
    acting_as: User | None = None,
) -> AsyncIterator[Served]:
    """Serve until the block is left; port 0 takes a free one. OSError if the address is not available.

    With `acting_as`, every request has this user: for listeners that only such a user can reach.
    """
    listener = _listen(host, port)
    server = uvicorn.Server(_config(app if acting_as is None else _on_behalf_of(acting_as, app), ssl))
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup(sockets=[listener])
    ticking = asyncio.create_task(server.main_loop(), name="apiserver/http")
    try:
        yield Served(scheme="https" if ssl else "http", host=host, port=listener.getsockname()[1])
    finally:
        server.should_exit = True
        app.close()
        await ticking
        await server.shutdown(sockets=[listener])


def _on_behalf_of(user: User, app: Closable) -> Application:
    async def call(scope: Any, receive: Any, send: Any) -> None:
        # A web page in a browser on this machine can call a loopback address under another host name; it is not the
        # user.
        if not _names_loopback(dict(scope.get("headers", ())).get(b"host", b"")):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return
        scope[scopes.ACTING_AS] = user
        await app(scope, receive, send)

    return call


def _names_loopback(host: bytes) -> bool:
    name = host.decode("latin-1").rpartition(":")[0] or host.decode("latin-1")
    return name in {"127.0.0.1", "localhost", "[::1]"}


def _config(app: Application, ssl: tls.SSLContext | None) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=connections.Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # no proxy is trusted: headers about the client's address are ignored
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
    )
    config.load()
    config.ssl = ssl
    return config


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # TCP explicitly: only then asyncio disables Nagle's algorithm, which costs 40 ms per response of two writes.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
