"""Port forwarding for `kubectl port-forward`: `/portForward/<namespace>/<pod>`, SPDY inside WebSocket.

For every connection the client opens two streams with the same `requestid`: one for data, and one for an error message.
Only the pod's own listening sockets are reachable (`listeners`).
"""

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Final

from aiohttp import WSCloseCode, WSMsgType, web

from rota.api import errors, meta
from rota.kit import spdy
from rota.worker.endpoint import listeners, lookup
from rota.worker.pod_machine.pods import Pod
from rota.worker.runtimes.runtime_interface import parse_run_id
from rota.worker.worker_assembly import Worker

PROTOCOL: Final = "SPDY/3.1+portforward.k8s.io"
_MOST_MESSAGE_BYTES: Final = 2 * 1024 * 1024
_MOST_STREAMS: Final = 512
_PIECE: Final = 32 * 1024
#: Number of pieces that may wait for the pod to read.
_AHEAD: Final = 16
_CONNECT_S: Final = 10.0


def route(worker: Worker) -> web.RouteDef:
    """The route of port forwarding."""

    async def answer(request: web.Request) -> web.StreamResponse:
        pod = lookup.by_name(worker, request.match_info["namespace"], request.match_info["pod"])
        offered = [one.strip() for one in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        if PROTOCOL not in offered:
            raise errors.BadRequest(f"none of the protocols is spoken here, only {PROTOCOL}")
        socket = web.WebSocketResponse(protocols=(PROTOCOL,), max_msg_size=_MOST_MESSAGE_BYTES, compress=False)
        await socket.prepare(request)
        await _Forwarding(socket, worker, pod).run()
        return socket

    return web.get("/portForward/{namespace}/{pod}", answer)


@dataclass(slots=True)
class _Connection:
    """The streams of one forwarded connection."""

    port: str
    #: Streams by type, `data` and `error`.
    streams: dict[str, int] = field(default_factory=dict)
    #: Data of the client; None is its end.
    sent: "asyncio.Queue[bytes | None]" = field(default_factory=lambda: asyncio.Queue(_AHEAD))
    work: "asyncio.Task[None] | None" = None


class _Forwarding:
    """All forwarded connections of one client."""

    def __init__(self, socket: web.WebSocketResponse, worker: Worker, pod: Pod) -> None:
        self._socket: Final = socket
        self._worker: Final = worker
        self._pod: Final = pod
        self._writer: Final = spdy.Writer()
        self._connections: Final[dict[str, _Connection]] = {}
        self._streams: Final[dict[int, tuple[str, _Connection]]] = {}

    async def run(self) -> None:
        """Serve until the client disconnects."""
        reader = spdy.Reader()
        try:
            async for message in self._socket:
                if message.type is not WSMsgType.BINARY:
                    break
                for frame in reader.feed(message.data):
                    await self._take(frame)
        except spdy.SpdyError as problem:
            await self._socket.close(code=WSCloseCode.PROTOCOL_ERROR, message=str(problem).encode()[:100])
        finally:
            working = [one.work for one in self._connections.values() if one.work is not None]
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)

    async def _take(self, frame: spdy.Frame) -> None:
        match frame:
            case spdy.Opened():
                await self._open(frame)
            case spdy.Sent():
                kind, connection = self._streams.get(frame.stream, ("", None))
                if connection is not None and kind == "data":
                    # A slow reader delays the other connections of this client, but memory stays bounded.
                    if frame.data:
                        await connection.sent.put(frame.data)
                    if frame.last:
                        await connection.sent.put(None)
            case spdy.Broken():
                _, connection = self._streams.get(frame.stream, ("", None))
                if connection is not None and connection.work is not None:
                    connection.work.cancel()
            case spdy.Asked():
                await self._socket.send_bytes(spdy.pong(frame.number))
            case spdy.Leaving():
                pass  # open connections continue

    async def _open(self, frame: spdy.Opened) -> None:
        kind, number = frame.headers.get("streamtype", ""), frame.headers.get("requestid", "")
        connection = self._connections.get(number) or _Connection(frame.headers.get("port", ""))
        if kind not in {"data", "error"} or kind in connection.streams or len(self._streams) >= _MOST_STREAMS:
            await self._socket.send_bytes(spdy.refuse(frame.stream))
            return
        self._connections[number] = connection
        connection.streams[kind] = frame.stream
        self._streams[frame.stream] = (kind, connection)
        await self._socket.send_bytes(self._writer.accept(frame.stream))
        if len(connection.streams) == 2:
            connection.work = asyncio.create_task(self._forward(number, connection))

    async def _forward(self, number: str, connection: _Connection) -> None:
        complaint = ""
        try:
            complaint = await self._carry(connection)
        except (OSError, asyncio.CancelledError) as problem:
            complaint = f"the connection broke off: {str(problem) or type(problem).__name__}"
            if isinstance(problem, asyncio.CancelledError):
                raise
        finally:
            self._connections.pop(number, None)
            for stream in connection.streams.values():
                self._streams.pop(stream, None)
            # Release a task that waits for space in the queue.
            while not connection.sent.empty():
                connection.sent.get_nowait()
            with contextlib.suppress(ConnectionError):
                await self._say(connection, complaint)

    async def _say(self, connection: _Connection, complaint: str) -> None:
        await self._socket.send_bytes(spdy.data(connection.streams["data"], b"", last=True))
        await self._socket.send_bytes(spdy.data(connection.streams["error"], complaint.encode(), last=True))

    async def _carry(self, connection: _Connection) -> str:
        """Copy data until the pod closes the connection; returns the error, if any."""
        name = meta.name(self._pod.seen)
        if not (connection.port.isascii() and connection.port.isdigit() and 0 < int(connection.port[:6]) < 1 << 16):
            return f"{connection.port!r} is no port"
        port = int(connection.port)
        places = [one for run, one in self._worker.runtime.places().items() if parse_run_id(run)[0] == self._pod.uid]
        try:
            host = await asyncio.to_thread(listeners.address, places, port)
        except listeners.OwnNetwork:
            return f"pod {name} has a network of its own, which is not reached this way"
        if host is None:
            return f"nothing of pod {name} listens on port {port}"
        async with asyncio.timeout(_CONNECT_S):
            reader, writer = await asyncio.open_connection(host, port)
        upwards = asyncio.create_task(_send_on(connection, writer))
        try:
            while piece := await reader.read(_PIECE):
                await self._socket.send_bytes(spdy.data(connection.streams["data"], piece))
        finally:
            upwards.cancel()
            await asyncio.gather(upwards, return_exceptions=True)
            writer.close()
        return ""


async def _send_on(connection: _Connection, writer: asyncio.StreamWriter) -> None:
    while (piece := await connection.sent.get()) is not None:
        writer.write(piece)
        await writer.drain()
    writer.write_eof()
