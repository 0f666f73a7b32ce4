"""Clients that are slow on purpose are disconnected, and block nothing meanwhile."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from rota.apiserver.http import connections
from rota.apiserver.server import http_server
from rota.testing.api import ApiServer

MAPS = "/api/v1/namespaces/default/configmaps"
HEAD = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest_asyncio.fixture
async def served(api: ApiServer) -> AsyncIterator[http_server.Served]:
    async with http_server.serve(api.app) as running:
        yield running


async def test_a_body_that_drips_in_is_cut_off(served: http_server.Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_BODY_S", 0.2)
    reader, writer = await asyncio.open_connection(served.host, served.port)
    writer.write(f"{HEAD}Content-Length: 1000000\r\n\r\n".encode())
    ended = asyncio.create_task(reader.read())
    async with asyncio.timeout(10):
        while not ended.done():
            with contextlib.suppress(ConnectionError):
                writer.write(b" ")
            await asyncio.sleep(0.02)
    # closed, or reset because of what was still on its way
    assert isinstance(ended.exception(), ConnectionError) or ended.result() == b""
    writer.close()


async def test_a_body_that_came_in_pieces_leaves_no_deadline_behind(
    served: http_server.Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_BODY_S", 0.2)
    reader, writer = await asyncio.open_connection(served.host, served.port)
    body = b'{"metadata":{"name":"pieces"}}'
    writer.write(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body[:5])
    await asyncio.sleep(0.05)
    writer.write(body[5:])
    assert b"201" in await asyncio.wait_for(reader.readline(), 10)
    await asyncio.sleep(0.3)
    writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(10):
        rest = b""
        while b"200 OK" not in rest:
            chunk = await reader.read(4096)
            assert chunk, "the connection was cut"
            rest += chunk
    writer.close()


@pytest.mark.slow
async def test_a_client_that_does_not_read_a_long_response_is_disconnected(
    api: ApiServer, served: http_server.Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_LOOK_EVERY_S", 0.3)
    cut = asyncio.Event()
    lost = connections.Connection.connection_lost

    def noticed(self: connections.Connection, exc: Exception | None) -> None:
        cut.set()
        lost(self, exc)

    monkeypatch.setattr(connections.Connection, "connection_lost", noticed)
    for number in range(12):
        await api.post(MAPS, {"metadata": {"name": f"m{number}"}, "data": {"k": "x" * 900_000}})
    loop = asyncio.get_running_loop()
    # what the kernel still holds for the client it may go on reading: the server has let go of it
    with contextlib.closing(socket.socket()) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.setblocking(False)
        await loop.sock_connect(slow, (served.host, served.port))
        await loop.sock_sendall(slow, f"GET {MAPS} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        async with asyncio.timeout(10):
            while not cut.is_set():
                assert await loop.sock_recv(slow, 1)
                await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_a_long_answer_that_is_taken_steadily_arrives_whole(
    api: ApiServer, served: http_server.Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_LOOK_EVERY_S", 0.1)
    for number in range(4):
        await api.post(MAPS, {"metadata": {"name": f"m{number}"}, "data": {"k": "x" * 900_000}})
    reader, writer = await asyncio.open_connection(served.host, served.port, limit=65536)
    writer.write(f"GET {MAPS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    size = 0
    while chunk := await reader.read(65536):
        size += len(chunk)
        await asyncio.sleep(0.01)
    writer.close()
    assert size > 4 * 900_000


async def test_very_many_small_headers_are_too_large(served: http_server.Served) -> None:
    reader, writer = await asyncio.open_connection(served.host, served.port)
    with contextlib.suppress(ConnectionError):
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n" + b"a: \r\n" * 50_000 + b"\r\n")
        await writer.drain()
    assert b"431" in await asyncio.wait_for(reader.readline(), 10)
    writer.close()
