"""A command in a container over WebSocket, in the channel protocol of Kubernetes (`v5.channel.k8s.io`).

    async with exec_stream.execute(endpoint, "web", ["sh"], namespace="default", stdin=True) as conversation:
        await conversation.send(b"ls\\n")
        async for stream, chunk in conversation.output(): ...
    code = conversation.exit_code

The first byte of a message is the stream: 0 stdin, 1 stdout, 2 stderr, 3 the result, 4 the terminal's size, 255 the end
of a stream. A session has its own connection and cannot be resumed when that breaks.
"""

import asyncio
import contextlib
import enum
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from rota.api import errors
from rota.client import paths
from rota.client.endpoints import Endpoint
from rota.client.pods import PODS
from rota.client.transports.transport import Interrupted, Unreachable

#: The preferred one first; the older one cannot close stdin.
PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_INPUT, _OUTPUT, _ERRORS, _STATUS, _SIZE, _END = 0, 1, 2, 3, 4, 255
_CONNECT_S: Final = 30.0
_SWITCHING: Final = 101
#: Messages are sent in pieces, so that a resize does not wait behind a large file.
_PIECE: Final = 32 * 1024


class Stream(enum.Enum):
    """A stream of the command."""

    OUTPUT = _OUTPUT
    ERRORS = _ERRORS


class Conversation:
    """The streams of a running command."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket: Final = socket
        #: The exit code, once all output was read.
        self.exit_code: int | None = None

    async def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        """All output of the command; ends with it. `ApiError` if it could not be run."""
        async for message in self._socket:
            data = message.data.encode() if message.type is aiohttp.WSMsgType.TEXT else message.data
            if message.type not in {aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY} or not data:
                continue
            channel, content = data[0], data[1:]
            if channel == _STATUS:
                self.exit_code = _exit_code(content)
            elif content and channel in {_OUTPUT, _ERRORS}:
                yield Stream(channel), content
        if self.exit_code is None:
            raise Interrupted("the connection broke before the command had ended")

    async def send(self, data: bytes) -> None:
        """Write to the command's stdin."""
        for start in range(0, len(data), _PIECE):
            await self._send(_INPUT, data[start : start + _PIECE])

    async def end_input(self) -> None:
        """Close stdin."""
        if self._socket.protocol != PROTOCOLS[-1]:
            await self._send(_END, bytes((_INPUT,)))

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal."""
        await self._send(_SIZE, json.dumps({"Width": columns, "Height": rows}).encode())

    async def _send(self, channel: int, content: bytes) -> None:
        # A command that has just ended reads no input.
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):
            await self._socket.send_bytes(bytes((channel,)) + content)


@contextlib.asynccontextmanager
async def execute(
    endpoint: Endpoint,
    pod: str,
    command: Sequence[str],
    *,
    namespace: str,
    container: str = "",
    stdin: bool = False,
    tty: bool = False,
) -> AsyncIterator[Conversation]:
    """Run a command in a container of a pod; with a terminal, stderr is part of stdout."""
    streams = {"stdin": stdin, "stdout": True, "stderr": not tty, "tty": tty}
    query = [("command", word) for word in command] + _query(container, streams)
    path = paths.item(PODS, pod, namespace=namespace, subresource="exec")
    async with contextlib.AsyncExitStack() as exits:
        yield Conversation(await _connected(endpoint, f"{path}?{urlencode(query, quote_via=quote)}", exits))


@contextlib.asynccontextmanager
async def attach(
    endpoint: Endpoint, pod: str, *, namespace: str, container: str = "", output: bool = True, tty: bool = False
) -> AsyncIterator[Conversation]:
    """Attach to the process of a container: write to its stdin, and read its output from now on if that is wanted."""
    query = _query(container, {"stdin": True, "stdout": output, "stderr": output and not tty, "tty": tty})
    path = paths.item(PODS, pod, namespace=namespace, subresource="attach")
    async with contextlib.AsyncExitStack() as exits:
        yield Conversation(await _connected(endpoint, f"{path}?{urlencode(query)}", exits))


def _query(container: str, streams: Mapping[str, bool]) -> list[tuple[str, str]]:
    named = [("container", container)] if container else []
    return named + [(name, "true") for name, wanted in streams.items() if wanted]


async def _connected(
    endpoint: Endpoint, target: str, exits: contextlib.AsyncExitStack
) -> aiohttp.ClientWebSocketResponse:
    """A connection to the first of the servers that answers."""
    *others, last = endpoint.each()
    for server in others:
        with contextlib.suppress(Unreachable):
            return await _connect(server, target, exits)
    return await _connect(last, target, exits)


async def _connect(
    endpoint: Endpoint, target: str, exits: contextlib.AsyncExitStack
) -> aiohttp.ClientWebSocketResponse:
    tls = endpoint.tls()
    headers = dict(endpoint.headers)
    if authorization := await endpoint.credentials.authorization():
        headers["Authorization"] = authorization
    connector = _Connector(ssl=tls if tls is not None else True)
    exits.callback(connector.cut)
    session = await exits.enter_async_context(
        aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
            middlewares=(_refusals,),
        )
    )
    connecting = session.ws_connect(
        URL(f"{endpoint.server.rstrip('/')}{target}", encoded=True),
        protocols=PROTOCOLS,
        headers=headers,
        max_msg_size=0,
        server_hostname=(endpoint.tls_server_name or None) if tls is not None else None,
    )
    try:
        return await exits.enter_async_context(connecting)
    except aiohttp.WSServerHandshakeError as error:
        raise Interrupted(f"{endpoint.server} does not speak WebSocket: {error.message}") from error
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise Unreachable(f"GET {target.partition('?')[0]}: {error}") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Interrupted(f"GET {target.partition('?')[0]}: {error}") from error


class _Connector(aiohttp.TCPConnector):
    """Tracks its connections, so that they can be aborted without waiting for the TLS shutdown."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._made: Final[list[asyncio.Transport]] = []

    async def connect(
        self, req: aiohttp.ClientRequest, traces: Any, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        """See `BaseConnector.connect`."""
        connection = await super().connect(req, traces, timeout)
        if connection.transport is not None:
            self._made.append(connection.transport)
        return connection

    def cut(self) -> None:
        """Abort all connections."""
        for transport in self._made:
            transport.abort()


async def _refusals(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Raise the error in a refused handshake; aiohttp itself would drop its body."""
    response = await handler(request)
    if response.status != _SWITCHING:
        raise errors.from_wire(await response.read(), code=response.status)
    return response


def _exit_code(content: bytes) -> int:
    """The exit code in the final Status; `ApiError` if the failure was not the command's."""
    try:
        status: dict[str, Any] = json.loads(content)
    except ValueError:
        raise errors.from_wire(content) from None
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise errors.from_wire(content)
