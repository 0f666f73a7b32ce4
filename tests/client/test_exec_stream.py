"""Commands in containers over WebSocket, against a server that speaks the protocol of Kubernetes."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import pytest
from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer

from rota.api import errors
from rota.client import exec_stream, websockets
from rota.client.endpoints import Endpoint
from rota.client.exec_stream import PROTOCOLS, Stream
from rota.client.transports.transport import Interrupted, Unreachable

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
SUCCESS = b"\x03" + json.dumps({"status": "Success"}).encode()


def exit_status(code: int) -> bytes:
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return b"\x03" + json.dumps({"status": "Failure", "details": {"causes": causes}}).encode()


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[Endpoint]:
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/default/pods/web/exec", handler)
    async with TestServer(app) as server:
        yield Endpoint(server=str(server.make_url("")).rstrip("/"))


async def agreed(request: web.Request, protocols: tuple[str, ...] = PROTOCOLS) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(protocols=protocols)
    await socket.prepare(request)
    return socket


async def test_output_and_errors_come_as_they_are_written_and_then_the_exit_code() -> None:
    async def handler(request: web.Request) -> web.WebSocketResponse:
        assert request.query.getall("command") == ["sh", "-c", "echo a & b"]
        assert dict(request.query) | {"command": ""} == {"command": "", "stdout": "true", "stderr": "true"}
        socket = await agreed(request)
        for message in (b"\x01", b"\x01one", b"\x02two", exit_status(7)):
            await socket.send_bytes(message)
        await socket.close()
        return socket

    async with (
        serving(handler) as endpoint,
        exec_stream.execute(endpoint, "web", ["sh", "-c", "echo a & b"], namespace="default") as conversation,
    ):
        said = [one async for one in conversation.output()]
    assert said == [(Stream.OUTPUT, b"one"), (Stream.ERRORS, b"two")]
    assert conversation.exit_code == 7


@pytest.mark.parametrize(("protocols", "ends"), [(PROTOCOLS, True), (PROTOCOLS[1:], False)])
async def test_input_is_forwarded_in_chunks_and_its_end_signalled_if_the_protocol_allows(
    protocols: tuple[str, ...], ends: bool
) -> None:
    received: list[bytes] = []
    done = asyncio.Event()

    async def handler(request: web.Request) -> web.WebSocketResponse:
        socket = await agreed(request, protocols)
        async for message in socket:
            assert message.type is WSMsgType.BINARY
            received.append(message.data)
            if message.data[:1] == b"\x04":
                break
        done.set()
        await socket.send_bytes(SUCCESS)
        await socket.close()
        return socket

    data = bytes(range(256)) * 300
    async with (
        serving(handler) as endpoint,
        exec_stream.execute(endpoint, "web", ["cat"], namespace="default", stdin=True, tty=True) as conversation,
    ):
        await conversation.send(data)
        await conversation.end_input()
        await conversation.resize(80, 24)
        await done.wait()
        assert [one async for one in conversation.output()] == []
    *pieces, last = received
    assert json.loads(last[1:]) == {"Width": 80, "Height": 24}
    assert b"".join(one[1:] for one in pieces if one[0] == 0) == data
    assert (pieces[-1] == b"\xff\x00") == ends
    assert conversation.exit_code == 0


async def test_what_the_server_refuses_is_raised_in_its_words() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        del request
        return web.json_response(errors.NotFound('pods "web" not found').to_wire(), status=404)

    async with serving(handler) as endpoint:
        with pytest.raises(errors.NotFound, match="not found"):
            async with exec_stream.execute(endpoint, "web", ["ls"], namespace="default"):
                pass


async def test_a_command_that_could_not_be_run_is_no_exit_code() -> None:
    async def handler(request: web.Request) -> web.WebSocketResponse:
        socket = await agreed(request)
        await socket.send_bytes(b"\x03" + json.dumps(errors.InternalError("no such container").to_wire()).encode())
        await socket.close()
        return socket

    async with (
        serving(handler) as endpoint,
        exec_stream.execute(endpoint, "web", ["ls"], namespace="default") as conversation,
    ):
        with pytest.raises(errors.InternalError, match="no such container"):
            _ = [one async for one in conversation.output()]


async def test_a_connection_that_breaks_is_not_taken_for_an_end() -> None:
    async def handler(request: web.Request) -> web.WebSocketResponse:
        socket = await agreed(request)
        await socket.send_bytes(b"\x01half")
        await socket.close()
        return socket

    async with (
        serving(handler) as endpoint,
        exec_stream.execute(endpoint, "web", ["ls"], namespace="default") as conversation,
    ):
        with pytest.raises(Interrupted):
            _ = [one async for one in conversation.output()]


async def test_a_server_that_does_not_answer_the_handshake_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websockets, "_HANDSHAKE_S", 0.05)
    ended = asyncio.Event()

    async def handler(_: web.Request) -> web.StreamResponse:
        await ended.wait()
        return web.Response()

    async with serving(handler) as endpoint:
        with pytest.raises(Interrupted, match="no answer for"):
            async with exec_stream.execute(endpoint, "web", ["true"], namespace="default"):
                pass
        ended.set()


async def test_the_next_server_is_asked_when_one_does_not_answer() -> None:
    async def handler(request: web.Request) -> web.WebSocketResponse:
        socket = await agreed(request)
        await socket.send_bytes(SUCCESS)
        await socket.close()
        return socket

    async with serving(handler) as endpoint:
        both = Endpoint(server="http://127.0.0.1:1", fallbacks=(endpoint.server,))
        async with exec_stream.execute(both, "web", ["ls"], namespace="default") as conversation:
            assert [one async for one in conversation.output()] == []
        with pytest.raises(Unreachable):
            async with exec_stream.execute(Endpoint(server="http://127.0.0.1:1"), "web", ["ls"], namespace="default"):
                pass
