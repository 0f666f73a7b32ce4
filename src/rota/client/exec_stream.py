"""A command in a container over WebSocket, in the channel protocol of Kubernetes (`v5.channel.k8s.io`).

    async with exec_stream.execute(endpoint, "web", ["sh"], namespace="default", stdin=True) as conversation:
        await conversation.send(b"ls\\n")
        async for stream, chunk in conversation.output(): ...
    code = conversation.exit_code

The first byte of a message is the stream: 0 stdin, 1 stdout, 2 stderr, 3 the result, 4 the terminal's size, 255 the end
of a stream. A session has its own connection and cannot be resumed when that breaks.
"""

import contextlib
import enum
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

import aiohttp

from rota.api import errors
from rota.client import paths, websockets
from rota.client.endpoints import Endpoint
from rota.client.pods import PODS
from rota.client.transports.transport import Interrupted

#: The preferred one first; the older one cannot close stdin.
PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_INPUT, _OUTPUT, _ERRORS, _STATUS, _SIZE, _END = 0, 1, 2, 3, 4, 255
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
        yield Conversation(
            await websockets.connect(endpoint, f"{path}?{urlencode(query, quote_via=quote)}", PROTOCOLS, exits)
        )


@contextlib.asynccontextmanager
async def attach(
    endpoint: Endpoint, pod: str, *, namespace: str, container: str = "", output: bool = True, tty: bool = False
) -> AsyncIterator[Conversation]:
    """Attach to the process of a container: write to its stdin, and read its output from now on if that is wanted."""
    query = _query(container, {"stdin": True, "stdout": output, "stderr": output and not tty, "tty": tty})
    path = paths.item(PODS, pod, namespace=namespace, subresource="attach")
    async with contextlib.AsyncExitStack() as exits:
        yield Conversation(await websockets.connect(endpoint, f"{path}?{urlencode(query)}", PROTOCOLS, exits))


def _query(container: str, streams: Mapping[str, bool]) -> list[tuple[str, str]]:
    named = [("container", container)] if container else []
    return named + [(name, "true") for name, wanted in streams.items() if wanted]


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
