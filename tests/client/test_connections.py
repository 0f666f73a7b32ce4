"""Callers may leave while their connection is being made or used: nothing of it stays open."""

import asyncio
import contextlib
import gc
import random
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple

import pytest
import uvloop

from rota.client.endpoints import Endpoint
from rota.client.transports.http import HttpTransport
from rota.client.transports.transport import Call, TransportError
from rota.kit.system import SystemClock
from rota.pki import contexts
from rota.pki.authorities import DAY_S, Authority, Purpose
from rota.pki.certificates import Names, Subject

CALLS = 3
Run = Callable[[Coroutine[Any, Any, None]], None]


class Place(NamedTuple):
    endpoint: Endpoint
    #: Connections that are open at the server's end.
    connections: set[asyncio.StreamWriter]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """A server with TLS in a thread of its own, so that it outlives the event loops of its clients."""
    now = SystemClock().now()
    authority = Authority.create(now=now)
    names = Names.of(["127.0.0.1"])
    subject = Subject(common_name="rota")
    identity = authority.issue(subject, purpose=Purpose.SERVER, now=now, lifetime_s=DAY_S, names=names)
    connections: set[asyncio.StreamWriter] = set()
    ports: list[int] = []
    ready, stop = threading.Event(), threading.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(writer)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await asyncio.sleep(0.002)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            connections.discard(writer)
            writer.transport.abort()

    async def serve() -> None:
        context = contexts.server(identity, client_authorities=authority.certificate_pem)
        async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
            ports.append(server.sockets[0].getsockname()[1])
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    url = f"https://127.0.0.1:{ports[0]}"
    yield Place(Endpoint(server=url, certificate_authority=authority.certificate_pem), connections)
    stop.set()
    thread.join()


async def leave(endpoint: Endpoint, how: str, after_s: float) -> None:
    """Make some calls, and leave after a while in one of several ways."""
    transport = HttpTransport(endpoint)

    async def call() -> None:
        with contextlib.suppress(TransportError):
            async with transport.open(Call(method="GET", path="/x", headers={}, timeout_s=5)) as answer:
                await answer.read()

    calls = [asyncio.ensure_future(call()) for _ in range(CALLS)]
    await asyncio.sleep(after_s)
    if how != "closes":
        for one in calls:
            one.cancel()
    if how == "cancels and waits":
        await asyncio.wait(calls)
    await transport.close()
    await asyncio.wait(calls)


@pytest.mark.slow
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("how", ["cancels and waits", "cancels", "closes"])
def test_a_caller_that_leaves_leaves_nothing_open(place: Place, how: str, run: Run) -> None:
    rng = random.Random(how)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(20):
            # Each on an event loop that ends right after it, as in a program that stops.
            run(leave(place.endpoint, how, rng.random() * 0.02))
        gc.collect()
    assert [str(one.message) for one in said] == []


async def test_calls_of_one_client_share_connections(place: Place) -> None:
    transport = HttpTransport(place.endpoint)
    before = len(place.connections)
    for _ in range(5):
        async with transport.open(Call(method="GET", path="/x", headers={}, timeout_s=5)) as answer:
            assert await answer.read() == b"{}"
    assert len(place.connections) == before + 1
    await transport.close()
