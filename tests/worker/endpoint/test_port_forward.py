"""Ports of a pod, forwarded as kubectl asks for it."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator

import aiohttp
import pytest
from tests.worker.endpoint.harness import PATIENCE_S, Endpoint, start_pod, until

from rota.client.verbs import Client
from rota.kit import spdy
from rota.testing.servers.processes import free_port
from rota.worker.endpoint import listeners, port_forward

_ECHO = """
import socketserver, sys
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        while piece := self.request.recv(65536): self.request.sendall(piece)
socketserver.ThreadingTCPServer(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
"""


class Forwarded:
    """A client's end: what came on each stream, and which have ended."""

    def __init__(self, web_socket: aiohttp.ClientWebSocketResponse) -> None:
        self.web_socket = web_socket
        self.frames = spdy.Writer()
        self.reader = spdy.Reader()
        self.came: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.others: list[spdy.Frame] = []

    async def open(self, stream: int, kind: str, port: int, number: str = "0") -> None:
        await self.send(self.frames.open(stream, {"streamtype": kind, "port": str(port), "requestid": number}))

    async def send(self, data: bytes) -> None:
        await self.web_socket.send_bytes(data)

    async def until_ended(self, *streams: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not self.ended >= set(streams):
                await self.take()

    async def take(self) -> None:
        message = await self.web_socket.receive()
        assert message.type is aiohttp.WSMsgType.BINARY, message
        for frame in self.reader.feed(message.data):
            if isinstance(frame, spdy.Sent):
                self.came[frame.stream] = self.came.get(frame.stream, b"") + frame.data
                self.ended |= {frame.stream} if frame.last else set()
            else:
                self.others.append(frame)


@contextlib.asynccontextmanager
async def forwarded(endpoint: Endpoint) -> AsyncIterator[Forwarded]:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(
            endpoint.url("/portForward/default/p"), ssl=endpoint.tls(), protocols=(port_forward.PROTOCOL,)
        ) as web_socket,
    ):
        yield Forwarded(web_socket)


@pytest.mark.slow
async def test_connections_to_what_the_pod_listens_on_are_carried(client: Client, endpoint: Endpoint) -> None:
    port = free_port()
    await start_pod(client, sys.executable, "-c", _ECHO, str(port))

    async def listens() -> bool:
        places = list(endpoint.worker.runtime.places().values())
        return listeners.address(places, port) == "127.0.0.1"

    await until(listens)
    sent = {3: os.urandom(300_000), 7: b"short"}
    async with forwarded(endpoint) as talk:
        for stream in sent:
            await talk.open(stream - 2, "error", port, str(stream))
            await talk.open(stream, "data", port, str(stream))

        async def feed() -> None:
            for stream, content in sent.items():
                for start in range(0, len(content), 10_000):
                    await talk.send(spdy.data(stream, content[start : start + 10_000]))
                await talk.send(spdy.data(stream, b"", last=True))
            await talk.send(spdy.pong(5))

        feeding = asyncio.create_task(feed())
        await talk.until_ended(1, 3, 5, 7)
        await feeding
        while spdy.Asked(5) not in talk.others:
            await talk.take()
    assert {stream: talk.came[stream] for stream in sent} == sent
    assert (talk.came[1], talk.came[5]) == (b"", b"")


@pytest.mark.slow
async def test_what_others_listen_on_is_not_reached(client: Client, endpoint: Endpoint) -> None:
    await start_pod(client, "sleep", "300")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        async with forwarded(endpoint) as talk:
            await talk.open(1, "error", port)
            await talk.open(3, "data", port)
            await talk.until_ended(1, 3)
            assert talk.came[1] == f"nothing of pod p listens on port {port}".encode()
            await talk.open(5, "error", -1, "x")
            await talk.open(7, "data", -1, "x")
            await talk.until_ended(5, 7)
            assert talk.came[5] == b"'-1' is no port"


@pytest.mark.slow
async def test_hostile_clients_get_nowhere(client: Client, endpoint: Endpoint) -> None:
    await start_pod(client, "sleep", "300")
    async with forwarded(endpoint) as talk:
        await talk.open(1, "other", 80)
        while spdy.Broken(1) not in talk.others:
            await talk.take()
        await talk.send(spdy.data(99, b"to nobody", last=True))
        await talk.send(b"\x80\x02\x00\x01\x00\x00\x00\x00")
        async with asyncio.timeout(PATIENCE_S):
            message = await talk.web_socket.receive()
        assert message.type is aiohttp.WSMsgType.CLOSE
        assert message.data == 1002
    code, said = await endpoint.get("/portForward/default/p")
    assert (code, said) == (400, f"none of the protocols is spoken here, only {port_forward.PROTOCOL}\n")


def test_the_kernels_table_of_sockets_is_read() -> None:
    table = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 123 1 0 100 0 0 10 0
   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 124 1 0 100 0 0 10 0
   2: 0100007F:1F91 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 125 1 0 100 0 0 10 0
   3: 00000000000000000000000000000000:01BB 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 126 1
"""
    assert list(listeners.parse_listeners(table)) == [
        ("127.0.0.1", 8080, "123"),
        ("127.0.0.1", 80, "124"),
        ("::1", 443, "126"),
    ]
