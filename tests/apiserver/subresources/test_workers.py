"""Logs, from a worker with the kubelet's API."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.apiserver.subresources.harness import make_pod

from rota.apiserver.server import http_server
from rota.apiserver.subresources import worker_addresses
from rota.apiserver.subresources.workers import Workers
from rota.testing.api import PATIENCE_S, ApiServer

_LOG = "/api/v1/namespaces/default/pods/a/log"


class _Kubelet:
    """A worker's endpoint that records its requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.more = asyncio.Event()
        self.gone = asyncio.Event()

    async def logs(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, dict(request.query)))
        if request.query.get("previous"):
            return web.Response(status=400, text='previous terminated container "c" in pod "a" not found\n')
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"one\n")
        try:
            if request.query.get("follow"):
                await self.more.wait()
                await answer.write(b"two\n")
                await asyncio.sleep(30)
        except asyncio.CancelledError:
            self.gone.set()
            raise
        return answer


@contextlib.asynccontextmanager
async def _serving(kubelet: _Kubelet) -> AsyncIterator[int]:
    application = web.Application()
    application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", kubelet.logs)
    runner = web.AppRunner(application, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port: int = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    try:
        yield port
    finally:
        await runner.cleanup()


def _node(port: int, host: str = "127.0.0.1") -> dict[str, Any]:
    status = {
        "allocatable": {"cpu": "1", "pods": "10"},
        "addresses": [{"type": "ExternalIP", "address": "192.0.2.1"}, {"type": "InternalIP", "address": host}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    return {"metadata": {"name": "n1"}, "status": status}


@pytest.fixture
async def kubelet() -> _Kubelet:
    return _Kubelet()


@pytest.fixture
async def api(kubelet: _Kubelet) -> AsyncIterator[ApiServer]:
    workers = Workers(tls=None)
    async with _serving(kubelet) as port, ApiServer(logs=workers) as server:
        await server.post("/api/v1/nodes", _node(port))
        await server.post("/api/v1/namespaces/default/pods", make_pod("a", node="n1"))
        yield server
        await workers.close()


async def test_logs_come_from_the_worker_with_every_option(api: ApiServer, kubelet: _Kubelet) -> None:
    answer = await api.get(_LOG, tailLines=5, sinceSeconds=60, timestamps="true", limitBytes=100)
    assert (answer.code, answer.body) == (200, b"one\n")
    path, query = kubelet.asked[0]
    assert path == "/containerLogs/default/a/main"
    assert query == {"tailLines": "5", "sinceSeconds": "60", "timestamps": "true", "limitBytes": "100"}


async def test_what_the_worker_refuses_is_refused_with_its_words(api: ApiServer) -> None:
    answer = await api.get(_LOG, previous="true")
    assert answer.code == 400
    assert answer.json["message"] == 'previous terminated container "c" in pod "a" not found'


async def test_a_followed_log_comes_as_it_is_written_and_ends_with_its_client(
    api: ApiServer, kubelet: _Kubelet
) -> None:
    async with http_server.serve(api.app) as served, aiohttp.ClientSession() as session:
        async with session.get(f"{served.url}{_LOG}", params={"follow": "true"}) as answer:
            assert await answer.content.readline() == b"one\n"
            kubelet.more.set()
            assert await answer.content.readline() == b"two\n"
        async with asyncio.timeout(PATIENCE_S):
            await kubelet.gone.wait()


async def test_a_worker_that_does_not_answer_is_an_error_that_names_it(api: ApiServer) -> None:
    await api.put("/api/v1/nodes/n1/status", _node(1))
    answer = await api.get(_LOG)
    assert answer.code == 500
    assert "http://127.0.0.1:1/containerLogs/default/a/main" in answer.json["message"]


def test_the_preferred_address_of_a_node_is_taken() -> None:
    found = worker_addresses.of_node(_node(10251, "2001:db8::1"))
    assert found is not None
    assert found.url("https", "/x") == "https://[2001:db8::1]:10251/x"
    assert worker_addresses.of_node({"status": {}}) is None
    plain = worker_addresses.of_node({"status": {"addresses": [{"type": "Hostname", "address": "w1"}]}})
    assert plain == worker_addresses.Address("w1", worker_addresses.DEFAULT_PORT)
