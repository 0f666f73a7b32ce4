"""The API of a cluster with several servers, as an application: requests and streams when one of them fails."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from rota.apiserver.server import http_server
from rota.client.endpoints import Endpoint
from rota.client.masters import Master
from rota.testing.servers.processes import free_port
from rota.web import beside
from rota.web.remote_api import RemoteApi

GONE = "http://127.0.0.1:{}"


@dataclass
class Server:
    """An API server that counts requests, answers with its name, and holds watches open."""

    name: str
    status: int = 200
    asked: list[str] = field(default_factory=list)
    ends: asyncio.Event = field(default_factory=asyncio.Event)

    def close(self) -> None:
        self.ends.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        self.asked.append(f"{scope['method']} {scope['path']}")
        await send(
            {"type": "http.response.start", "status": self.status, "headers": [(b"content-type", b"text/plain")]}
        )
        await send({"type": "http.response.body", "body": self.name.encode(), "more_body": True})
        if scope["query_string"] == b"watch=true":
            await self.ends.wait()
        await send({"type": "http.response.body", "body": b""})


@contextlib.asynccontextmanager
async def remote(*servers: Server | str) -> AsyncIterator[RemoteApi]:
    async with contextlib.AsyncExitStack() as parts:
        urls = [
            one if isinstance(one, str) else (await parts.enter_async_context(http_server.serve(one))).url
            for one in servers
        ]
        made = RemoteApi(Endpoint(server=urls[0], fallbacks=tuple(urls[1:])))
        parts.push_async_callback(made.aclose)
        yield made


async def ask(
    api: RemoteApi, method: str, path: str, query: bytes = b"", begun: asyncio.Event | None = None
) -> tuple[int, str]:
    given = [{"type": "http.request", "body": b"", "more_body": False}]
    told: list[Any] = []

    async def receive() -> Any:
        if not given:
            await asyncio.Event().wait()
        return given.pop()

    async def send(message: Any) -> None:
        told.append(message)
        if begun is not None:
            begun.set()

    scope = {"method": method, "path": path, "raw_path": path.encode(), "query_string": query, "headers": []}
    await api(scope, receive, send)
    return told[0]["status"], b"".join(one.get("body", b"") for one in told).decode()


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_request_that_was_never_sent_goes_to_the_next_server(method: str) -> None:
    second = Server("second")
    async with remote(GONE.format(free_port()), second) as api:
        assert await ask(api, method, "/api/v1/pods") == (200, "second")
        assert await ask(api, method, "/api/v1/nodes") == (200, "second")
    assert second.asked == [f"{method} /api/v1/pods", f"{method} /api/v1/nodes"]


async def test_a_write_whose_connection_broke_is_not_repeated() -> None:
    taken: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(await reader.readline())
        writer.transport.abort()

    second = Server("second")
    async with await asyncio.start_server(take, "127.0.0.1", 0) as first:
        port = first.sockets[0].getsockname()[1]
        async with remote(f"http://127.0.0.1:{port}", second) as api:
            status, _ = await ask(api, "POST", "/api/v1/pods")
            assert (status, second.asked) == (503, [])
            assert await ask(api, "POST", "/api/v1/pods") == (200, "second")
    assert len(taken) == 1


async def test_a_read_goes_on_where_a_server_is_unavailable_and_a_write_is_not_repeated() -> None:
    first, second = Server("first", status=503), Server("second")
    async with remote(first, second) as api:
        assert await ask(api, "POST", "/api/v1/pods") == (503, "first")
        assert await ask(api, "GET", "/api/v1/pods") == (200, "second")


async def test_the_only_server_is_named_when_it_does_not_answer() -> None:
    gone = GONE.format(free_port())
    async with remote(gone) as api:
        status, body = await ask(api, "GET", "/api/v1/pods")
    assert status == 503
    assert gone in body


async def test_streams_end_when_their_server_no_longer_answers() -> None:
    """The stream itself says nothing: its machine may have lost its power."""
    first, second = Server("first"), Server("second")
    async with contextlib.AsyncExitStack() as parts:
        served = await parts.enter_async_context(http_server.serve(first))
        async with remote(served.url, second) as api:
            begun = asyncio.Event()
            watching = asyncio.ensure_future(ask(api, "GET", "/api/v1/pods", b"watch=true", begun))
            await asyncio.wait_for(begun.wait(), 60)
            api._leave(0)
            status, _ = await asyncio.wait_for(watching, 60)
            assert status == 200
            assert await ask(api, "GET", "/api/v1/pods") == (200, "second")
            first.ends.set()


def test_credentials_go_only_to_masters_that_are_reached_as_the_given_one_is() -> None:
    addresses = ("https://m1:6443", "https://m2:6443", "http://m3:6443", "https://127.0.0.1:6443", "ftp://m4")
    running = [Master(identity=one, address=one, version="", renewed_at=0.0) for one in addresses]
    given = Endpoint(server="https://m1:6443", fallbacks=("https://balancer",))
    assert beside.fallbacks(given, running) == ("https://balancer", "https://m2:6443")
    here = Endpoint(server="https://127.0.0.1:6444")
    assert beside.fallbacks(here, running) == ("https://127.0.0.1:6443",)
