"""HTTP/1.1: pipelined requests, bodies of all kinds, and all ways in which a connection ends."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvloop

from rota.apiserver.http import connections
from rota.apiserver.server import http_server
from rota.testing.api import ApiServer

_PATIENCE_S = 60.0
MAPS = "/api/v1/namespaces/default/configmaps"
_Scope = dict[str, Any]
_Answer = Callable[[_Scope, Any, Any], Awaitable[None]]


class _Application:
    """An application of one function, as `http_server` takes it."""

    def __init__(self, answer: _Answer) -> None:
        self._answer = answer

    async def __call__(self, scope: _Scope, receive: Any, send: Any) -> None:
        await self._answer(scope, receive, send)

    def close(self) -> None:
        pass


class _Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(_PATIENCE_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])}
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return int(head[0].split()[1]), headers, body

    async def rest(self) -> bytes:
        async with asyncio.timeout(_PATIENCE_S):
            return await self.reader.read()


@contextlib.asynccontextmanager
async def _talking_to(app: Any) -> AsyncIterator[_Client]:
    async with http_server.serve(app) as served:
        client = _Client(*await asyncio.open_connection(served.host, served.port))
        try:
            yield client
        finally:
            client.writer.close()


async def _echo(scope: _Scope, receive: Any, send: Any) -> None:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    body = scope["path"].encode() + b" " + body
    await _reply(send, body)


async def _waits(scope: _Scope, receive: Any, send: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _streams(scope: _Scope, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await _waits(scope, receive, send)


async def _reply(send: Any, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def test_requests_that_are_sent_ahead_are_answered_in_their_order() -> None:
    async with _talking_to(_Application(_echo)) as client:
        for number in range(20):
            client.send(f"POST /{number} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc".encode())
        for number in range(20):
            assert (await client.answer())[2] == f"/{number} abc".encode()


async def test_a_request_may_come_byte_by_byte() -> None:
    async with _talking_to(_Application(_echo)) as client:
        for byte in b"POST /a%20b?c=d HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc":
            client.send(bytes([byte]))
            await client.writer.drain()
            await asyncio.sleep(0)
        assert (await client.answer())[2] == b"/a b abc"


async def test_a_body_is_asked_for_when_the_client_wants_to_be() -> None:
    async with _talking_to(_Application(_echo)) as client:
        client.send(b"POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert (await client.answer())[0] == 100
        client.send(b"abc")
        assert (await client.answer())[2] == b"/a abc"


async def test_answers_say_when_they_were_given_and_keep_the_connection() -> None:
    async with _talking_to(_Application(_echo)) as client:
        for _ in range(2):
            client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            _, headers, _ = await client.answer()
            assert "GMT" in headers["date"]
            assert "connection" not in headers


@pytest.mark.parametrize("asked", [b"HTTP/1.0\r\n", b"HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"])
async def test_the_connection_ends_when_the_client_wants_that(asked: bytes) -> None:
    async with _talking_to(_Application(_echo)) as client:
        client.send(b"GET / " + asked + b"\r\n")
        code, headers, _ = await client.answer()
        assert (code, headers["connection"]) == (200, "close")
        assert await client.rest() == b""


async def test_a_head_request_gets_headers_only(api: ApiServer) -> None:
    await api.post(MAPS, {"metadata": {"name": "a"}})
    async with _talking_to(api.app) as client:
        client.send(f"HEAD {MAPS}/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = await client.rest()
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\n")


async def test_what_a_client_asks_to_upgrade_to_is_not_spoken(api: ApiServer) -> None:
    async with _talking_to(api.app) as client:
        client.send(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
        assert (await client.answer())[0] == 200


async def test_a_head_without_end_is_refused() -> None:
    async with _talking_to(_Application(_echo)) as client:
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n")
        with contextlib.suppress(ConnectionError):
            for number in range(connections.MAX_HEAD_BYTES // 60_000 + 2):
                client.send(f"X-{number}: {'y' * 60_000}\r\n".encode())
                await client.writer.drain()
        assert (await client.rest()).startswith(b"HTTP/1.1 431 ")


_IN_CHUNKS = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
_TRAILERS = b"Impersonate-User: system:admin\r\nAuthorization: Bearer stolen\r\n\r\n"


async def test_what_comes_behind_a_body_says_nothing_about_any_request() -> None:
    async def tell(scope: _Scope, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await _reply(send, b" ".join(name for name, _ in scope["headers"]))

    async with _talking_to(_Application(tell)) as client:
        # in one piece, so that all of it is read before the request is answered
        client.send(_IN_CHUNKS + _TRAILERS + b"GET /b HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.answer())[2] == b"host transfer-encoding"
        assert (await client.answer())[2] == b"host"


async def test_trailers_do_not_change_the_user(api: ApiServer) -> None:
    async with _talking_to(api.app) as client:
        review = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
        client.send(
            b"POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nHost: x\r\n"
            b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"%x\r\n%b\r\n0\r\n" % (len(review), review) + b"Impersonate-User: somebody-else\r\n\r\n"
        )
        code, _, body = await client.answer()
        assert code == 201
        assert b"somebody-else" not in body


async def _goes_on(client: _Client) -> bytes:
    """Send one header's value until there is a response; returns it."""
    answer = asyncio.ensure_future(client.rest())
    for _ in range(connections.MAX_HEAD_BYTES // 60_000 + 10):
        client.send(b"y" * 60_000)
        # what the server has not read when it closes would cost the answer
        if (await asyncio.wait({answer}, timeout=0.005))[0]:
            break
    return await answer


@pytest.mark.parametrize("before", [b"GET / HTTP/1.1\r\nHost: x\r\nX: ", _IN_CHUNKS + b"X: "])
async def test_a_header_without_end_is_refused(before: bytes) -> None:
    async with _talking_to(_Application(_waits)) as client:
        client.send(before)
        assert (await _goes_on(client)).startswith(b"HTTP/1.1 431 ")


async def test_a_header_without_end_behind_an_answer_ends_both() -> None:
    async with _talking_to(_Application(_streams)) as client:
        client.send(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), _PATIENCE_S)
        client.send(b"GET /behind HTTP/1.1\r\nX: ")
        assert await _goes_on(client) == b""


async def test_a_large_body_in_small_chunks_is_no_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_HEAD_BYTES", 10_000)
    chunks = 10_000
    async with _talking_to(_Application(_echo)) as client:
        client.send(b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        client.send(b"1\r\nz\r\n" * chunks + b"0\r\n\r\n")
        assert (await client.answer())[2] == b"/a " + b"z" * chunks


async def test_a_head_behind_a_running_answer_is_not_waited_for_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_HEAD_S", 0.05)
    async with _talking_to(_Application(_streams)) as client:
        client.send(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), _PATIENCE_S)
        client.send(b"GET /behind HTTP/1.1\r\nHost:")
        assert await client.rest() == b""


async def test_a_head_that_the_server_does_not_read_is_not_held_against_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_HEAD_S", 0.05)
    go_on = asyncio.Event()

    async def wait(scope: _Scope, receive: Any, send: Any) -> None:
        await go_on.wait()
        await _echo(scope, receive, send)

    async with _talking_to(_Application(wait)) as client:
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 12 + b"GET / HTTP/1.1\r\nHost:")
        await asyncio.sleep(0.15)
        client.send(b" x\r\n\r\n")
        go_on.set()
        for _ in range(13):
            assert (await client.answer())[0] == 200


async def test_a_head_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_HEAD_S", 0.05)
    async with _talking_to(_Application(_echo)) as client:
        client.send(b"GET / HTTP/1.1\r\nHost:")
        assert await client.rest() == b""


async def test_an_answer_that_takes_its_time_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_HEAD_S", 0.02)

    async def slowly(scope: _Scope, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.1)
        await _echo(scope, receive, send)

    async with _talking_to(_Application(slowly)) as client:
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.answer())[0] == 200


async def test_every_request_of_a_connection_learns_that_it_is_lost() -> None:
    gone: list[str] = []
    waiting, all_gone = asyncio.Event(), asyncio.Event()

    async def stream(scope: _Scope, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        waiting.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.append(scope["path"])
        all_gone.set()

    async with _talking_to(_Application(stream)) as client:
        client.send(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.wait_for(waiting.wait(), _PATIENCE_S)
        client.send(b"GET /behind HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0.01)
        client.writer.transport.abort()
        await asyncio.wait_for(all_gone.wait(), _PATIENCE_S)
    assert gone == ["/watch"]


async def _raises(scope: _Scope, receive: Any, send: Any) -> None:
    raise RuntimeError("a bug")


async def _says_nothing(scope: _Scope, receive: Any, send: Any) -> None:
    await receive()


async def _says_too_much(scope: _Scope, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
    await send({"type": "http.response.body", "body": b"two"})


async def _breaks_a_line(scope: _Scope, receive: Any, send: Any) -> None:
    await _reply(send, b"", (b"warning", b"a\r\nset-cookie: b"))


@pytest.mark.parametrize("bug", [_raises, _says_nothing, _says_too_much, _breaks_a_line])
async def test_a_bug_closes_its_own_connection_only(bug: _Answer) -> None:
    async def answer(scope: _Scope, receive: Any, send: Any) -> None:
        await (_echo if scope["path"] == "/fine" else bug)(scope, receive, send)

    async with http_server.serve(_Application(answer)) as served:
        one, two = [_Client(*await asyncio.open_connection(served.host, served.port)) for _ in range(2)]
        one.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        code, headers, _ = await one.answer()
        assert (code, headers["connection"], "set-cookie" in headers) == (500, "close", False)
        assert await one.rest() == b""
        two.send(b"GET /fine HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await two.answer())[0] == 200
        one.writer.close()
        two.writer.close()


def test_it_works_on_the_loop_that_the_product_runs_on() -> None:
    async def talk() -> tuple[int, dict[str, str], bytes]:
        async with _talking_to(_Application(_echo)) as client:
            client.send(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + b"y" * 200_000)
            code, headers, body = await client.answer()
            client.writer.write_eof()
            assert await client.rest() == b""
            return code, headers, body

    code, _, body = uvloop.run(talk())
    assert (code, body) == (200, b"/a " + b"y" * 200_000)
