"""A session over a WebSocket, in the channel protocol of Kubernetes: the first byte of a message is the stream.

    client -> worker    0 stdin, 4 the terminal's size as JSON, 255 the end of a stream (version 5)
    worker -> client    1 stdout, 2 stderr, 3 the result, a Status, once

aiohttp reads the frames: oversized messages, unmasked frames and other protocol errors end the connection with the
matching code. When the client disconnects, the session is closed.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Container
from typing import Any, Final, TypeAlias

import msgspec
from aiohttp import WSCloseCode, WSMsgType, web

from rota.api import errors
from rota.worker.runtimes.sessions import Session

#: Newest first.
PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _STATUS, _SIZE, _END = 0, 1, 2, 3, 4, 255
#: Maximum message size; kubectl sends input in pieces of 32 KiB, but other clients may not.
_MOST_BYTES: Final = 8 * 1024 * 1024
#: How long a client may take to answer a close frame.
_FAREWELL_S: Final = 5.0

#: Starts the session; raises an ApiError if that is impossible.
Begin: TypeAlias = Callable[[], Awaitable[Session]]


class _Size(msgspec.Struct):
    columns: int = msgspec.field(name="Width", default=0)
    rows: int = msgspec.field(name="Height", default=0)


_sizes: Final = msgspec.json.Decoder(_Size)


async def converse(request: web.Request, begin: Begin, *, stdin: bool, outputs: Container[bool]) -> web.StreamResponse:
    """Connect a client with a session until either has ended; `outputs` are False for stdout and True for stderr.

    An error at the start is sent as the result of the session: clients treat a refused handshake as a server without
    WebSocket support and try older protocols.
    """
    offered = [one.strip() for one in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    if not any(one in PROTOCOLS for one in offered):
        raise errors.BadRequest(f"none of the protocols is spoken here, only {', '.join(PROTOCOLS)}")
    socket = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=_MOST_BYTES, compress=False, timeout=_FAREWELL_S)
    await socket.prepare(request)
    try:
        session = await begin()
    except errors.ApiError as refusal:
        await _end(socket, refusal.to_wire())
        return socket
    try:
        await _connect(socket, session, stdin=stdin, outputs=outputs)
    finally:
        await session.close()
    return socket


async def _connect(socket: web.WebSocketResponse, session: Session, *, stdin: bool, outputs: Container[bool]) -> None:
    # An empty message tells the client that the session has begun.
    await socket.send_bytes(bytes((_STDOUT,)))
    incoming = asyncio.create_task(_take_in(socket, session if stdin else None, session))
    outgoing = asyncio.create_task(_give_all(socket, session, outputs))
    try:
        await asyncio.wait((incoming, outgoing), return_when=asyncio.FIRST_COMPLETED)
        if outgoing.done():
            await _end(socket, _outcome(outgoing.result()), but_first=incoming)
        else:
            incoming.result()
    except ConnectionError:
        pass  # the client has disconnected
    finally:
        await _cancelled(incoming, outgoing)


async def _take_in(socket: web.WebSocketResponse, reader: Session | None, session: Session) -> None:
    async for message in socket:
        if message.type is WSMsgType.TEXT:
            data = message.data.encode()
        elif message.type is WSMsgType.BINARY:
            data = message.data
        else:
            return
        if not data:
            continue
        channel, content = data[0], data[1:]
        if channel == _STDIN and reader is not None:
            await reader.write(content)
        elif channel == _SIZE:
            with contextlib.suppress(msgspec.MsgspecError):
                size = _sizes.decode(content)
                session.resize(columns=size.columns, rows=size.rows)
        elif channel == _END and content == bytes((_STDIN,)) and reader is not None:
            reader.end_input()


async def _give_all(socket: web.WebSocketResponse, session: Session, outputs: Container[bool]) -> int:
    """Send all output of the session; returns its result."""
    await asyncio.gather(
        *(_give_out(socket if which in outputs else None, session, errors=which) for which in (False, True))
    )
    return await session.wait()


async def _give_out(socket: web.WebSocketResponse | None, session: Session, *, errors: bool) -> None:
    """Send one stream; an unwanted stream is read as well, since the command would block otherwise."""
    channel = bytes((_STDERR if errors else _STDOUT,))
    while piece := await session.read(errors=errors):
        if socket is not None:
            await socket.send_bytes(channel + piece)


async def _end(
    socket: web.WebSocketResponse, status: dict[str, Any], *, but_first: "asyncio.Task[None] | None" = None
) -> None:
    with contextlib.suppress(ConnectionError):
        await socket.send_bytes(bytes((_STATUS,)) + msgspec.json.encode(status))
        if but_first is not None:
            # Only one task may read, and the close frame has to be read.
            await _cancelled(but_first)
        await socket.close(code=WSCloseCode.OK)


def _outcome(code: int) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def _cancelled(*tasks: "asyncio.Future[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
