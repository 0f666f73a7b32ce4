"""Connections that are handed over: data in both directions, permissions, and hostile clients."""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.server import ServerState

from rota.api import scopes
from rota.api.users import User
from rota.apiserver.audit import policy
from rota.apiserver.audit.auditor import Auditor
from rota.apiserver.http import connections
from rota.apiserver.server import http_server
from rota.apiserver.subresources import streaming
from rota.apiserver.subresources.logs import NoWorkers
from rota.apiserver.subresources.worker_addresses import Address
from rota.kit import sockets, system
from rota.testing.api import ApiServer

_PATIENCE_S = 60.0
_EXEC = "/api/v1/namespaces/default/pods/a/exec"
_ASKED = f"{_EXEC}?command=echo&command=a%20b&stdout=true&stdin=true&container=c"
_KEY = base64.b64encode(bytes(16)).decode()
_HEADERS = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": _KEY,
    "Sec-WebSocket-Protocol": "v5.channel.k8s.io, v4.channel.k8s.io, other",
}


class _Worker(NoWorkers):
    """A worker's endpoint that the test controls."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.answer = b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\nServer: secret\r\n\r\n"
        self.connected: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self.port = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(self.answer)
            self.connected.put_nowait((reader, writer))

    async def connect(  # type: ignore[override]  # this one does answer
        self, node: str, _: Address | None, /
    ) -> streaming.Stream:
        assert node == "n1"
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def talk(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(_PATIENCE_S):
            return await self.connected.get()


class _Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def ask(self, path: str = _ASKED, *, method: str = "GET", behind: bytes = b"", **changes: str | None) -> None:
        named = {name.replace("_", "-"): value for name, value in changes.items()}
        headers = {name: value for name, value in {**_HEADERS, **named}.items() if value is not None}
        lines = [f"{method} {path} HTTP/1.1", "Host: x", *(f"{name}: {value}" for name, value in headers.items())]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + behind)

    async def head(self) -> tuple[int, dict[str, str]]:
        async with asyncio.timeout(_PATIENCE_S):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
        return int(lines[0].split()[1]), dict(line.lower().split(": ", 1) for line in lines[1:])

    async def refusal(self) -> tuple[int, str]:
        code, headers = await self.head()
        assert headers["connection"] == "close", "what follows may be no request"
        async with asyncio.timeout(_PATIENCE_S):
            body = (await self.reader.read()).decode()
        assert len(body) == int(headers["content-length"])
        return code, body

    async def ended(self) -> bytes:
        async with asyncio.timeout(_PATIENCE_S):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""


class _Log:
    """An audit log in memory."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def write(self, line: bytes, /) -> None:
        self.events.append(json.loads(line))


class _Scene:
    def __init__(self, api: ApiServer, worker: _Worker, log: _Log, connect: Callable[[], Any]) -> None:
        self.api = api
        self.log = log
        self.worker = worker
        self._connect = connect

    async def client(self) -> _Client:
        return _Client(*await self._connect())


@pytest.fixture
async def scene() -> AsyncIterator[_Scene]:
    worker = _Worker()
    listener = await asyncio.start_server(worker.serve, "127.0.0.1", 0)
    worker.port = listener.sockets[0].getsockname()[1]
    opened: list[asyncio.StreamWriter] = []
    log = _Log()
    auditor = Auditor(policy.default(), log, system.SystemClock())
    server = ApiServer(worker_streams=worker, conflict_check=False, auditor=auditor)
    async with listener, server as api, http_server.serve(api.app) as served:
        await api.post("/api/v1/nodes", {"metadata": {"name": "n1"}})
        containers = [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]
        pod = {"metadata": {"name": "a"}, "spec": {"nodeName": "n1", "containers": containers}}
        assert (await api.post("/api/v1/namespaces/default/pods", pod)).code == 201

        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection(served.host, served.port)
            opened.append(writer)
            return reader, writer

        yield _Scene(api, worker, log, connect)
        for writer in (*opened, *worker.writers):
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


async def test_bytes_go_to_and_fro_from_the_first_one_on(scene: _Scene) -> None:
    client = await scene.client()
    client.ask(behind=b"before the answer")
    code, headers = await client.head()
    assert (code, headers["upgrade"], headers["sec-websocket-accept"]) == (101, "websocket", "x")
    assert "server" not in headers
    reader, writer = await scene.worker.talk()
    assert await reader.readexactly(17) == b"before the answer"
    assert scene.worker.heads[0].startswith(
        "GET /exec/default/a/c?input=1&output=1&command=echo&command=a+b HTTP/1.1\r\n"
    )
    assert "\r\nSec-WebSocket-Protocol: v5.channel.k8s.io, v4.channel.k8s.io\r\n" in scene.worker.heads[0]
    data = os.urandom(1 << 20)

    async def both_ways() -> None:
        client.writer.write(data)
        writer.write(data)
        there, here = await asyncio.gather(reader.readexactly(len(data)), client.reader.readexactly(len(data)))
        assert there == data
        assert here == data

    async with asyncio.timeout(_PATIENCE_S):
        await both_ways()


async def test_ports_are_asked_for_in_a_protocol_of_their_own(scene: _Scene) -> None:
    client = await scene.client()
    client.ask(_EXEC.replace("exec", "portforward"), Sec_WebSocket_Protocol="x, SPDY/3.1+portforward.k8s.io")
    assert (await client.head())[0] == 101
    (head,) = scene.worker.heads
    assert head.startswith("GET /portForward/default/a HTTP/1.1\r\n")
    assert "\r\nSec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io\r\n" in head


@pytest.mark.parametrize("who", ["client", "worker", "server"])
async def test_when_one_side_ends_so_does_the_other(scene: _Scene, who: str) -> None:
    client = await scene.client()
    client.ask()
    assert (await client.head())[0] == 101
    reader, writer = await scene.worker.talk()
    if who == "client":
        client.writer.close()
        async with asyncio.timeout(_PATIENCE_S):
            assert await reader.read() == b""
    elif who == "worker":
        writer.write(b"last words")
        writer.close()
        assert await client.ended() == b"last words"
    else:
        scene.api.app.close()
        assert await client.ended() == b""
        async with asyncio.timeout(_PATIENCE_S):
            assert await reader.read() == b""


async def test_a_client_that_vanishes_is_noticed(scene: _Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[socket.socket] = []
    noticing = sockets.notice_loss

    def remembered(transport: asyncio.BaseTransport) -> None:
        noticing(transport)
        watched.append(transport.get_extra_info("socket"))

    monkeypatch.setattr(sockets, "notice_loss", remembered)
    client = await scene.client()
    client.ask()
    assert (await client.head())[0] == 101
    (connected,) = watched
    assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 60


async def test_upgraded_connections_are_audited(scene: _Scene) -> None:
    client = await scene.client()
    client.ask()
    _, headers = await client.head()
    _, writer = await scene.worker.talk()
    (began,) = (event for event in scene.log.events if event["auditID"] == headers["audit-id"])
    writer.close()
    await client.ended()
    ended = scene.log.events[-1]
    assert [began["stage"], ended["stage"]] == ["ResponseStarted", "ResponseComplete"]
    for event in (began, ended):
        assert event["objectRef"]["subresource"] == "exec"
        assert event["requestURI"] == _ASKED
        assert event["responseStatus"]["code"] == 101


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"Sec_WebSocket_Key": "short"}, "Sec-WebSocket-Key"),
        ({"Sec_WebSocket_Key": None}, "Sec-WebSocket-Key"),
        ({"Sec_WebSocket_Version": "8"}, "version 13"),
        ({"Sec_WebSocket_Protocol": "chat"}, "v4.channel.k8s.io or v5.channel.k8s.io"),
        ({"path": _EXEC.replace("exec", "portforward")}, "SPDY/3.1+portforward.k8s.io"),
        ({"Upgrade": "h2c"}, "Upgrade request required"),
        ({"Upgrade": None, "Connection": None}, "Upgrade request required"),
        ({"path": f"{_EXEC}?command=x&container=c"}, "at least 1 of stdin, stdout, stderr"),
        ({"path": f"{_EXEC}?stdout=true&container=c"}, "at least one command"),
        ({"path": f"{_EXEC}?command=x&stdout=true"}, "a container name must be specified for pod a"),
        ({"path": f"{_EXEC}?command=x&stdout=true&container=../x"}, "container ../x is not valid for pod a"),
        ({"method": "POST"}, "Upgrade request required"),
        ({"method": "POST", "Upgrade": "SPDY/3.1"}, "SPDY is not spoken here"),
    ],
)
async def test_what_is_not_asked_for_rightly_is_refused(scene: _Scene, changes: dict[str, Any], why: str) -> None:
    client = await scene.client()
    client.ask(**changes)
    client.writer.write_eof()
    code, _ = await client.head()
    async with asyncio.timeout(_PATIENCE_S):
        body = (await client.reader.read()).decode()
    assert code == 400
    assert why in body
    assert not scene.worker.heads


async def test_a_worker_that_refuses_is_quoted(scene: _Scene) -> None:
    scene.worker.answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 7\r\n\r\ngo away"
    client = await scene.client()
    client.ask()
    code, said = await client.refusal()
    assert code == 500
    assert "the worker answered 403: go away" in said


@pytest.mark.parametrize("answer", [b"nonsense\r\n\r\n", b"HTTP/1.1 101", b"HTTP/1.1 x y\r\n\r\n", b"x" * (1 << 17)])
async def test_a_worker_that_talks_nonsense_is_an_error(scene: _Scene, answer: bytes) -> None:
    scene.worker.answer = answer
    client = await scene.client()
    client.ask()
    _, writer = await scene.worker.talk()
    writer.close()
    code, said = await client.refusal()
    assert code == 500
    assert 'the worker of node \\"n1\\" does not answer' in said


@pytest.mark.parametrize("verbs", [[], ["get"], ["create"], ["create", "get"]])
async def test_looking_is_not_enough_to_talk(scene: _Scene, verbs: list[str]) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs or ["list"]}]
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    await scene.api.post(f"{roles}/roles", {"metadata": {"name": "r"}, "rules": rules})
    subject = {"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}
    await scene.api.post(
        f"{roles}/rolebindings", {"metadata": {"name": "b"}, "roleRef": reference, "subjects": [subject]}
    )
    client = await scene.client()
    client.ask(Impersonate_User="ann")
    code, _ = await client.head()
    assert code == (101 if verbs == ["create", "get"] else 403)


async def test_clients_that_say_too_much_too_early_are_held_back(scene: _Scene) -> None:
    scene.worker.answer = b""
    client = await scene.client()
    client.ask()
    _, writer = await scene.worker.talk()
    sending = asyncio.create_task(_flood(client))
    await asyncio.sleep(0.3)
    assert not sending.done(), "nobody reads it, so it must not be taken in"
    sending.cancel()
    writer.close()


async def _flood(client: _Client) -> None:
    for _ in range(64):
        client.writer.write(bytes(1 << 20))
        await client.writer.drain()


async def test_other_upgrades_are_requests_like_any_other(scene: _Scene) -> None:
    client = await scene.client()
    for _ in range(2):
        client.ask("/version", Upgrade="h2c")
        code, headers = await client.head()
        assert code == 200
        await client.reader.readexactly(int(headers["content-length"]))


async def test_a_page_that_is_asked_for_by_websocket_is_a_page(scene: _Scene) -> None:
    client = await scene.client()
    client.ask("/version", behind=b"\x81\x85abcdfghij")
    code, said = await client.refusal()
    assert code == 200
    assert "gitVersion" in said


async def test_callers_in_the_process_cannot_hand_over_what_they_do_not_have(scene: _Scene) -> None:
    scene.api.user = User(name="x", groups=("system:masters",))
    answer = await scene.api.request("GET", _ASKED, headers={name.lower(): value for name, value in _HEADERS.items()})
    assert answer.code == 400
    assert answer.json["message"] == "Upgrade request required"


class _Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def _echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Hand the connection over, and echo data until a full stop."""
    scope[scopes.UPGRADE](())
    heard = b""
    while not heard.endswith(b"."):
        heard += (await receive())["body"]
    await send({"type": "http.response.body", "body": heard})


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(behind=st.binary(max_size=300), cuts=st.lists(st.integers(0, 700), max_size=8))
def test_however_the_bytes_come_all_behind_the_head_are_carried(behind: bytes, cuts: list[int]) -> None:
    head = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\r\n"
    said = behind.replace(b".", b"") + b"."
    whole = head + said
    borders = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})

    async def scenario() -> bytes:
        config = uvicorn.Config(_echo, lifespan="off", log_config=None)
        config.load()
        state = ServerState()
        connection = connections.Connection(config, state, {}, asyncio.get_running_loop())
        wire = _Wire()
        connection.connection_made(wire)
        for start, end in itertools.pairwise(borders):
            connection.data_received(whole[start:end])
            await asyncio.sleep(0)
        await asyncio.gather(*state.tasks)
        connection.connection_lost(None)
        assert wire.closed
        return bytes(wire.written)

    answer = asyncio.run(scenario())
    assert answer.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
    assert answer.partition(b"\r\n\r\n")[2] == said
