"""Diagnostics pages: which clients may read which."""

from unittest import mock

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from rota.kit import diagnostics
from rota.kit.errors import UserError
from rota.kit.metrics import Metrics


async def secret(_: web.Request) -> web.Response:
    return web.Response(text="who waits")


def request_from(address: str) -> web.Request:
    transport = mock.Mock()
    transport.get_extra_info = {"peername": (address, 4711)}.get
    return make_mocked_request("GET", "/debug/queue", transport=transport)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
async def test_diagnostics_are_served_on_loopback(address: str) -> None:
    answer = await diagnostics.for_this_machine(secret)(request_from(address))
    assert (answer.status, answer.text) == (200, "who waits")


@pytest.mark.parametrize("address", ["10.0.0.7", "fd00::7", "::ffff:10.0.0.7", ""])
async def test_others_hear_how_to_get_there(address: str) -> None:
    answer = await diagnostics.for_this_machine(secret)(request_from(address))
    assert answer.status == 403
    assert "port-forward" in (answer.text or "")


async def test_health_metrics_and_the_rest_are_served_together() -> None:
    ready = False
    metrics = Metrics("example")
    metrics.gauge("waiting", "How many wait.").set(3)
    table = {**diagnostics.health(metrics, ready=lambda: ready), "/debug/queue": secret}
    async with diagnostics.serving(table, ("0.0.0.0", 0)) as url:
        port = int(url.rpartition(":")[2])
        async with aiohttp.ClientSession(base_url=f"http://127.0.0.1:{port}") as session:
            for path in ("/healthz", "/livez"):
                assert (await session.get(path)).status == 200
            answer = await session.get("/readyz")
            assert (answer.status, await answer.text()) == (503, "the cluster is not known yet")
            ready = True
            assert (await session.get("/readyz")).status == 200
            assert "rota_example_waiting 3.0" in await (await session.get("/metrics")).text()
            assert await (await session.get("/debug/queue")).text() == "who waits"
        with pytest.raises(UserError, match=rf"cannot listen on 0\.0\.0\.0 port {port}: .*choose another"):
            async with diagnostics.serving(table, ("0.0.0.0", port)):
                pass
