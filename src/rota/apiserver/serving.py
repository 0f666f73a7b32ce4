"""The application on a socket: HTTP/1.1 by uvicorn with httptools, on whatever event loop runs.

    async with serving.serve(app) as server:
        print(server.url)

Leaving the block stops accepting, ends streams, finishes what is under way and closes every connection.
"""

import asyncio
import contextlib
import socket
import ssl as tls
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import uvicorn

from rota.apiserver import connections
from rota.apiserver.app import App

#: Longer than clients keep idle connections, so that it is they who close them and no request meets a closed one.
_KEEP_ALIVE_S: Final = 120
_GRACE_S: Final = 10
_BACKLOG: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Where a running server can be reached."""

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
    app: App, *, host: str = "127.0.0.1", port: int = 0, ssl: tls.SSLContext | None = None
) -> AsyncIterator[Served]:
    """Serve until the block is left; port 0 takes a free one. OSError if the address cannot be had."""
    listener = _listen(host, port)
    server = uvicorn.Server(_config(app, ssl))
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


def _config(app: App, ssl: tls.SSLContext | None) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=connections.Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
    )
    config.load()
    config.ssl = ssl
    return config


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # TCP by name: only then asyncio turns Nagle's algorithm off, which costs 40 ms per answer of two writes.
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
