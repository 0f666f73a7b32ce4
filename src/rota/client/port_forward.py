"""Connections to ports of a pod through the API server: `pods/portforward`, SPDY inside WebSocket.

    async with port_forward.to_pod(endpoint, "web-0", namespace="default") as forwarding:
        connection = await forwarding.connect(8080)

A connection is one end of a socket pair, so it can be used like one to the port itself, also with TLS and in a thread.
The other end is served by the event loop. It is closed if the pod's node refuses the port or the way breaks; `problem`
says why.
"""

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from rota.client import paths, websockets
from rota.client.endpoints import Endpoint
from rota.client.pods import PODS
from rota.kit import spdy

PROTOCOL: Final = "SPDY/3.1+portforward.k8s.io"
#: The other side answers within half of this, or the way counts as broken.
_HEARTBEAT_S: Final = 20.0
_PIECE: Final = 64 * 1024
_MOST_SAID: Final = 4096


@dataclass(slots=True, eq=False)
class _Connection:
    """A forwarded connection: its streams, and the end that is served here."""

    data: int
    error: int
    inner: socket.socket
    said: bytes = b""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    sending: "asyncio.Task[None] | None" = None


class Forwarding:
    """The forwarded connections of one WebSocket."""

    def __init__(self, web_socket: aiohttp.ClientWebSocketResponse) -> None:
        self._web_socket: Final = web_socket
        self._loop: Final = asyncio.get_running_loop()
        self._writer: Final = spdy.Writer()
        self._numbers: Final = itertools.count()
        self._streams: Final[dict[int, _Connection]] = {}
        #: Why the last connection ended, or all of them; empty if that was the normal end.
        self.problem = ""
        self.closed: Final = asyncio.Event()
        self._idle: Final = asyncio.Event()

    async def connect(self, port: int) -> socket.socket:
        """A connection to a port; whether the pod listens there shows when it is used."""
        outer, inner = socket.socketpair()
        inner.setblocking(False)
        number = next(self._numbers)
        # Streams of a client have odd numbers.
        connection = _Connection(4 * number + 3, 4 * number + 1, inner)
        self._streams[connection.data] = self._streams[connection.error] = connection
        self._idle.clear()
        headers = {"port": str(port), "requestid": str(number)}
        try:
            if self.closed.is_set():
                raise ConnectionError(self.problem)
            opening = self._writer.open(connection.error, {"streamtype": "error", **headers}, last=True)
            opening += self._writer.open(connection.data, {"streamtype": "data", **headers})
            await self._web_socket.send_bytes(opening)
        except (aiohttp.ClientError, OSError) as broken:
            outer.close()
            self._end(connection)
            raise ConnectionError(str(broken)) from broken
        connection.sending = asyncio.create_task(self._send(connection))
        return outer

    async def idle(self) -> None:
        """Wait until no connection is open."""
        await self._idle.wait()

    async def run(self) -> None:
        """Serve the connections until the other side ends the WebSocket."""
        reader = spdy.Reader()
        try:
            async for message in self._web_socket:
                if message.type is not aiohttp.WSMsgType.BINARY:
                    break
                for frame in reader.feed(message.data):
                    await self._take(frame)
            self.problem = self.problem or "the server has closed the connection"
        except (spdy.SpdyError, aiohttp.ClientError, OSError) as broken:
            self.problem = str(broken) or type(broken).__name__
        finally:
            self.closed.set()
            for connection in set(self._streams.values()):
                self._end(connection)

    async def _take(self, frame: spdy.Frame) -> None:
        if isinstance(frame, spdy.Asked):
            await self._web_socket.send_bytes(spdy.pong(frame.number))
        if not isinstance(frame, spdy.Sent | spdy.Broken):
            return
        connection = self._streams.get(frame.stream)
        if connection is None:
            return
        if isinstance(frame, spdy.Broken):
            self._end(connection)
        elif frame.stream == connection.error:
            connection.said = (connection.said + frame.data)[:_MOST_SAID]
            if frame.last:
                self.problem = connection.said.decode(errors="replace")
                self._end(connection)
        else:
            # A reader that is slow delays all connections of this WebSocket, and memory stays bounded.
            with contextlib.suppress(OSError):
                await self._loop.sock_sendall(connection.inner, frame.data)
                if frame.last:
                    connection.inner.shutdown(socket.SHUT_WR)

    async def _send(self, connection: _Connection) -> None:
        """Send what is written to the outer end, until it is closed."""
        try:
            while piece := await self._loop.sock_recv(connection.inner, _PIECE):
                await self._web_socket.send_bytes(spdy.data(connection.data, piece))
            await self._web_socket.send_bytes(spdy.data(connection.data, b"", last=True))
            await connection.ended.wait()
        except (aiohttp.ClientError, OSError):
            self._end(connection)
        finally:
            connection.inner.close()

    def _end(self, connection: _Connection) -> None:
        for stream in (connection.data, connection.error):
            self._streams.pop(stream, None)
        connection.ended.set()
        if not self._streams:
            self._idle.set()
        if connection.sending is None:
            connection.inner.close()
        else:  # it closes the socket when the loop has stopped to watch it
            connection.sending.cancel()


@contextlib.asynccontextmanager
async def to_pod(endpoint: Endpoint, pod: str, *, namespace: str) -> AsyncIterator[Forwarding]:
    """Forward connections to a pod; `ApiError` if the server refuses that, `TransportError` if it is not reached."""
    path = paths.item(PODS, pod, namespace=namespace, subresource="portforward")
    async with contextlib.AsyncExitStack() as exits:
        web_socket = await websockets.connect(endpoint, path, (PROTOCOL,), exits, heartbeat_s=_HEARTBEAT_S)
        forwarding = Forwarding(web_socket)
        running = asyncio.create_task(forwarding.run())
        try:
            yield forwarding
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
