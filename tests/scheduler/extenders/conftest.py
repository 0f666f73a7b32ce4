"""A small extender over HTTP, as somebody else would write one, and the cluster that it is asked about."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
from aiohttp import web

from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo
from rota.scheduler.config.durations import Duration
from rota.scheduler.config.wire import Extender as Settings
from rota.scheduler.extenders.extender import WireExtender
from rota.scheduler.extenders.http import HttpExchange
from rota.testing import clusters

Answer = Callable[[Any], Any]


class Farm:
    """Two nodes with a pod each; implements `Surroundings`."""

    def __init__(self) -> None:
        self.interner = PodInterner()
        self.nodes = {name: clusters.make_node(name) for name in ("n1", "n2", "n3")}
        self.pods = {
            f"uid-{name}": clusters.make_pod(name, on=on) for name, on in (("a", "n1"), ("b", "n1"), ("c", "n2"))
        }
        self.cluster: Cluster = clusters.build(list(self.nodes.values()), list(self.pods.values()), self.interner)

    def node(self, name: str) -> Mapping[str, Any] | None:
        return self.nodes.get(name)

    def pod(self, uid: str) -> Mapping[str, Any] | None:
        return self.pods.get(uid)

    def pods_on(self, node: str) -> Mapping[str, PodInfo] | None:
        found = self.cluster.by_name.get(node)
        return None if found is None else found.pods


class HttpExtender:
    """A server with one answer per verb, given as a function of the request; it remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.requests: list[tuple[str, Any]] = []
        self.url = ""

    @contextlib.asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_post("/scheduler/{verb}", self._handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
            await site.start()
            port = runner.addresses[0][1]
            self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/scheduler"
            yield
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.Response:
        verb = request.match_info["verb"]
        assert request.content_type == "application/json"
        body = json.loads(await request.read())
        self.requests.append((verb, body))
        answer = self.answers[verb](body)
        if asyncio.iscoroutine(answer):
            answer = await answer
        if isinstance(answer, web.Response):
            return answer
        return web.Response(body=json.dumps(answer).encode(), content_type="application/json")


@pytest.fixture
def farm() -> Farm:
    return Farm()


@pytest.fixture
async def server() -> AsyncIterator[HttpExtender]:
    extender = HttpExtender()
    async with extender.serving():
        yield extender


Connect = Callable[..., WireExtender]


@pytest.fixture
async def connect(server: HttpExtender, farm: Farm) -> AsyncIterator[Connect]:
    """Make an extender of the server, by settings."""
    made: list[WireExtender] = []

    def make(*, timeout_s: float = 5.0, url: str = "", **settings: Any) -> WireExtender:
        given = Settings(url_prefix=url or server.url, http_timeout=Duration(seconds=timeout_s), **settings)
        extender = WireExtender(given, given.url_prefix, exchange=HttpExchange(given), cluster_reader=farm)
        made.append(extender)
        return extender

    yield make
    for extender in made:
        await extender.close()
