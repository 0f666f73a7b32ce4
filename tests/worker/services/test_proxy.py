"""Connections to the address of a service, over real sockets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from rota.testing.servers.processes import free_port
from rota.worker.services.catalog import Backend, Route
from rota.worker.services.proxy import Proxy

ADDRESS = "127.64.3.3"


@pytest.fixture
async def complaints() -> list[str]:
    return []


@pytest.fixture
async def proxy(complaints: list[str]) -> AsyncIterator[Proxy]:
    made = Proxy(lambda _, why: complaints.append(why))
    yield made
    await made.close()


@contextlib.asynccontextmanager
async def _pod(name: str, address: str) -> AsyncIterator[Backend]:
    """Answers with its name and all that it was told, when the client has said all."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(name.encode() + b":" + await reader.read())
        writer.close()

    server = await asyncio.start_server(answer, address, 0)
    yield Backend(*server.sockets[0].getsockname()[:2])
    server.close()


def _route(*backends: Backend, port: int) -> Route:
    return Route(ADDRESS, port, "default", "web", backends)


async def _ask(port: int, text: bytes = b"hi") -> bytes:
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(ADDRESS, port)
        writer.write(text)
        writer.write_eof()
        try:
            return await reader.read()
        finally:
            writer.close()


async def test_connections_go_to_all_pods_in_turn_with_all_their_bytes(proxy: Proxy) -> None:
    port, much = free_port(), b"x" * 3_000_000
    async with _pod("a", "127.128.0.1") as a, _pod("b", "127.128.0.2") as b:
        assert await proxy.serve([_route(a, b, port=port)])
        assert {await _ask(port), await _ask(port)} == {b"a:hi", b"b:hi"}
        assert len(await _ask(port, much)) == len(much) + 2


async def test_a_pod_that_does_not_answer_is_passed_over(proxy: Proxy) -> None:
    port = free_port()
    async with _pod("a", "127.128.0.1") as a:
        await proxy.serve([_route(Backend("127.128.0.2", a.port), a, port=port)])
        assert [await _ask(port) for _ in range(4)] == [b"a:hi"] * 4


async def test_new_connections_follow_the_endpoints_and_without_any_they_are_refused(proxy: Proxy) -> None:
    port = free_port()
    async with _pod("a", "127.128.0.1") as a, _pod("b", "127.128.0.2") as b:
        await proxy.serve([_route(a, port=port)])
        assert await _ask(port) == b"a:hi"
        await proxy.serve([_route(b, port=port)])
        assert await _ask(port) == b"b:hi"
        await proxy.serve([_route(port=port)])
        with pytest.raises(ConnectionRefusedError):
            await _ask(port)
        await proxy.serve([_route(a, port=port)])
        assert await _ask(port) == b"a:hi"


async def test_several_workers_of_a_machine_serve_the_same_address(proxy: Proxy, complaints: list[str]) -> None:
    port, other = free_port(), Proxy(lambda _, why: complaints.append(why))
    async with _pod("a", "127.128.0.1") as a:
        assert await proxy.serve([_route(a, port=port)])
        assert await other.serve([_route(a, port=port)])
        await other.close()
        assert await _ask(port) == b"a:hi"
    assert complaints == []


async def test_an_address_that_others_have_is_complained_of_and_tried_again(
    proxy: Proxy, complaints: list[str]
) -> None:
    async with _pod("a", "127.128.0.1") as a:
        taken = await asyncio.start_server(lambda *_: None, ADDRESS, 0)
        port = taken.sockets[0].getsockname()[1]
        assert not await proxy.serve([_route(a, port=port)])
        assert complaints == ["Address already in use"] or "in use" in complaints[0]
        taken.close()
        await taken.wait_closed()
        assert await proxy.serve([_route(a, port=port)])
        assert await _ask(port) == b"a:hi"
