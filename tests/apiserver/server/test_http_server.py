"""The server on a real socket."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from rota.apiserver.server import http_server
from rota.testing.api import ApiServer

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest_asyncio.fixture
async def served(api: ApiServer) -> AsyncIterator[http_server.Served]:
    async with http_server.serve(api.app) as running:
        yield running


@pytest_asyncio.fixture
async def http(served: http_server.Served) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(served.url) as session:
        yield session


def config(name: str, size: int = 1) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "x" * size}}


async def streams(api: ApiServer) -> float:
    text = (await api.get("/metrics")).body.decode()
    return float(next(line for line in text.splitlines() if line.startswith("rota_apiserver_streams ")).split()[1])


async def until_no_stream_is_open(api: ApiServer) -> None:
    async with asyncio.timeout(60):
        while await streams(api):  # noqa: ASYNC110 - a figure of another part, not an event
            await asyncio.sleep(0.01)


async def test_objects_go_in_and_out(http: aiohttp.ClientSession) -> None:
    async with http.post(MAPS, json=config("a")) as answer:
        assert answer.status == 201
    async with http.get(f"{MAPS}/a") as answer:
        assert (await answer.json())["data"] == {"k": "x"}
        assert answer.content_type == "application/json"


async def test_a_watch_is_a_stream_of_lines(http: aiohttp.ClientSession) -> None:
    async with http.get(MAPS, params={"watch": "true"}) as stream:
        assert stream.headers["transfer-encoding"] == "chunked"
        async with http.post(MAPS, json=config("a")):
            line = await asyncio.wait_for(stream.content.readline(), 10)
    assert json.loads(line)["object"]["metadata"]["name"] == "a"


async def test_a_client_that_goes_away_takes_its_watch_along(api: ApiServer, http: aiohttp.ClientSession) -> None:
    stream = await http.get(MAPS, params={"watch": "true"})
    assert await streams(api) == 1
    stream.close()
    await until_no_stream_is_open(api)


async def test_a_client_that_closes_its_side_takes_its_watch_along(api: ApiServer, served: http_server.Served) -> None:
    reader, writer = await asyncio.open_connection(served.host, served.port)
    writer.write(f"GET {MAPS}?watch=true HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert b"200" in await asyncio.wait_for(reader.readline(), 10)
    writer.write_eof()
    await until_no_stream_is_open(api)
    writer.close()


@pytest.mark.slow
async def test_a_client_that_stops_reading_does_not_block_others(api: ApiServer, served: http_server.Served) -> None:
    _, writer = await asyncio.open_connection(served.host, served.port, limit=1024)
    writer.write(f"GET {MAPS}?watch=true HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    async with api.watch(MAPS) as events:
        for number in range(40):
            assert (await api.post(MAPS, config(f"m{number}", 500_000))).code == 201
            assert (await events.next())["type"] == "ADDED"
    writer.transport.abort()
    await until_no_stream_is_open(api)


@pytest.mark.slow
async def test_the_end_of_the_server_is_not_held_up_by_watches(api: ApiServer) -> None:
    async with contextlib.AsyncExitStack() as stack:
        running = await stack.enter_async_context(http_server.serve(api.app))
        async with aiohttp.ClientSession(running.url) as http:
            stream = await http.get(MAPS, params={"watch": "true"})
            async with asyncio.timeout(60):
                await stack.aclose()
                assert await stream.content.read() == b""


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"GET /%zz%00?limit=%ff HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
async def test_garbage_on_the_line_leaves_the_server_well(
    api: ApiServer, served: http_server.Served, garbage: bytes
) -> None:
    reader, writer = await asyncio.open_connection(served.host, served.port)
    writer.write(garbage)
    writer.write_eof()
    first = await asyncio.wait_for(reader.readline(), 10)
    assert b" 5" not in first[:13]
    writer.close()
    assert (await api.get("/readyz")).code == 200


async def test_a_body_that_never_ends_is_cut_off(served: http_server.Served) -> None:
    reader, writer = await asyncio.open_connection(served.host, served.port)
    writer.write(f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    with contextlib.suppress(ConnectionError):
        for _ in range(60):
            writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            await writer.drain()
    assert b"413" in await asyncio.wait_for(reader.readline(), 10)
    writer.close()
