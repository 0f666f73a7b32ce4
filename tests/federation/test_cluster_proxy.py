"""Paths and connections of proxied requests; what passes through a running proxy is in live/test_proxy.py."""

import asyncio
import base64
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import ClientConnectionError, web

from rota.api import errors
from rota.api.users import ADMINISTRATOR
from rota.apiserver.interfaces import Registry, Stream, SubresourceRequest
from rota.cluster_proxy import ClusterProxy
from rota.kit import system


@pytest.mark.parametrize("tail", ["/../other/api", "/api/%2e%2e/%2E./other", "/api/./v1", "/.."])
async def test_a_proxied_path_does_not_leave_the_path_of_its_server(tail: str) -> None:
    proxy = ClusterProxy(clock=system.SystemClock())
    request = cast(SubresourceRequest, SimpleNamespace(at=SimpleNamespace(name="m1"), tail=tail))
    with pytest.raises(errors.BadRequest, match="no segments"):
        await proxy.handle(request, cast(Registry, None))


class Objects:
    """A registry with one Cluster and its Secret."""

    def __init__(self, server: str) -> None:
        reference = {"namespace": "karmada-cluster", "name": "m1"}
        self.cluster: dict[str, Any] | None = {
            "metadata": {"name": "m1", "uid": "1"},
            "spec": {"apiEndpoint": server, "secretRef": reference},
        }
        self.token = "first"

    def resource(self, kind: Any) -> Any:
        return kind

    async def read(self, resource: Any, namespace: str, name: str) -> Any:
        if self.cluster is None:
            raise errors.NotFound(name)
        return SimpleNamespace(object=self.cluster)

    async def find(self, resource: Any, namespace: str, name: str) -> Any:
        data = {"token": base64.b64encode(self.token.encode()).decode()}
        return SimpleNamespace(object={"metadata": {"name": name, "uid": "2"}, "data": data})


@pytest.fixture
async def server() -> AsyncIterator[str]:
    """Answers with the token that came, and leaves the answer open."""
    ended = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(request.headers["Authorization"].encode())
        await ended.wait()
        return response

    app = web.Application()
    app.router.add_get("/watch", answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    ended.set()
    await runner.cleanup()


async def test_a_change_of_credentials_ends_what_runs_with_the_former_ones_and_a_taint_does_not(server: str) -> None:
    proxy, objects = ClusterProxy(clock=system.SystemClock()), Objects(server)
    request = SimpleNamespace(
        at=SimpleNamespace(name="m1", user=ADMINISTRATOR),
        tail="/watch",
        raw_query=b"",
        headers={},
        method="GET",
        content=b"",
        prefix="/proxy",
    )

    async def ask() -> AsyncIterator[bytes]:
        stream = await proxy.handle(cast(SubresourceRequest, request), cast(Registry, objects))
        return cast(Stream, stream).chunks

    try:
        first = await ask()
        assert await anext(first) == b"Bearer first"
        waiting = asyncio.ensure_future(anext(first))
        assert objects.cluster is not None
        objects.cluster["spec"] = {**objects.cluster["spec"], "taints": [{"key": "a", "effect": "NoSchedule"}]}
        assert await anext(await ask()) == b"Bearer first"
        await asyncio.sleep(0)
        assert not waiting.done(), "a taint ends nothing"
        objects.token = "second"
        second = await ask()
        assert await anext(second) == b"Bearer second"
        with pytest.raises(ClientConnectionError, match="have changed"):
            await waiting
        # and a cluster that has left is left by its requests
        rest = asyncio.ensure_future(anext(second))
        objects.cluster = None
        with pytest.raises(errors.NotFound):
            await ask()
        with pytest.raises(ClientConnectionError):
            await rest
    finally:
        await proxy.close()
