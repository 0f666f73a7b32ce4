"""The extender as a service, on a real socket beside a real API server."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from rota.client import client_factory
from rota.extender import service
from rota.extender.service import Extender
from rota.extender.view import View
from rota.kit import system
from rota.spot.policies import BASE, WISH
from rota.testing import manifests
from rota.testing.api import PATIENCE_S, ApiServer

NODES = "/api/v1/nodes"
TERMINATING = [{"key": "rota.dev/terminating", "effect": "NoSchedule"}]


class Asked:
    """A scheduler's side of the protocol."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def post(self, verb: str, body: Any) -> tuple[int, Any]:
        async with self._session.post(f"{self._url}/{verb}", json=body) as answer:
            text = await answer.text()
            return answer.status, await answer.json() if answer.status == 200 else text

    async def names(self, pod: Any, *names: str) -> Any:
        code, answer = await self.post("filter", {"Pod": pod, "Nodes": None, "NodeNames": list(names)})
        assert code == 200, answer
        return answer

    async def page(self, path: str) -> tuple[int, str]:
        async with self._session.get(f"{self._url}{path}") as answer:
            return answer.status, await answer.text()


@contextlib.asynccontextmanager
async def extending(api: ApiServer, *, started: bool = True) -> AsyncIterator[Asked]:
    clock, rng = system.SystemClock(), random.Random(0)
    async with (
        client_factory.to_application(api.app, clock=clock, rng=rng) as client,
        aiohttp.ClientSession() as session,
    ):
        extender = Extender(client, clock=clock, rng=rng, view=View(), binds=True)
        async with service.serving(extender, host="127.0.0.1", port=0) as url:
            asked = Asked(session, url)
            if not started:
                yield asked
                return
            running = asyncio.ensure_future(extender.run())
            try:
                async with asyncio.timeout(PATIENCE_S):
                    while (await asked.page("/readyz"))[0] != 200:  # noqa: ASYNC110 - only a page tells
                        await asyncio.sleep(0.01)
                yield asked
            finally:
                running.cancel()
                await asyncio.wait([running])


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    async with ApiServer() as running:
        for name, capacity in (("s1", "spot"), ("s2", "spot"), ("d1", "on-demand")):
            await running.post(NODES, manifests.node(name, **{"node.kubernetes.io/capacity": capacity}))
        yield running


async def test_before_the_cluster_is_known_nothing_is_answered(api: ApiServer) -> None:
    async with extending(api, started=False) as asked:
        assert (await asked.page("/healthz"))[0] == 200
        assert (await asked.page("/readyz"))[0] == 503
        assert (await asked.post("filter", {}))[0] == 503


async def test_a_notice_changes_the_answers_at_once(api: ApiServer) -> None:
    async with extending(api) as asked:
        pod = manifests.pod("p")
        assert (await asked.names(pod, "s1", "s2", "d1"))["NodeNames"] == ["s1", "s2", "d1"]
        await api.patch(f"{NODES}/s1", {"spec": {"taints": TERMINATING}})
        async with asyncio.timeout(PATIENCE_S):
            while (answer := await asked.names(pod, "s1", "s2", "d1"))["NodeNames"] != ["s2", "d1"]:
                pass
        assert "ends in" in answer["FailedAndUnresolvableNodes"]["s1"]


async def test_nodes_that_come_whole_go_back_whole(api: ApiServer) -> None:
    async with extending(api) as asked:
        nodes = (await api.get(NODES)).json["items"]
        pod = manifests.pod("p")
        pod["metadata"]["annotations"] = {WISH: "only"}
        code, answer = await asked.post("filter", {"Pod": pod, "Nodes": {"items": nodes}, "NodeNames": None})
        assert (code, answer["NodeNames"]) == (200, None)
        assert [one["metadata"]["name"] for one in answer["Nodes"]["items"]] == ["s1", "s2"]
        assert answer["FailedAndUnresolvableNodes"].keys() == {"d1"}


async def test_spot_machines_score_higher(api: ApiServer) -> None:
    async with extending(api) as asked:
        names = ["s1", "d1", "not yet known"]
        code, answer = await asked.post("prioritize", {"Pod": manifests.pod("p"), "NodeNames": names})
        scores = {one["Host"]: one["Score"] for one in answer}
        assert code == 200
        assert scores["s1"] > scores["d1"] >= scores["not yet known"] >= 0


async def test_a_policy_that_contradicts_itself_fails_the_attempt_in_its_words(api: ApiServer) -> None:
    async with extending(api) as asked:
        pod = manifests.pod("p")
        pod["metadata"]["annotations"] = {WISH: "only", BASE: "1"}
        answer = await asked.names(pod, "s1")
        assert "remove one of them" in answer["Error"]


async def test_no_pod_is_evicted_for_a_place_on_a_machine_that_ends(api: ApiServer) -> None:
    await api.patch(f"{NODES}/s1", {"spec": {"taints": TERMINATING}})
    async with extending(api) as asked:
        victims = {name: {"Pods": [{"UID": "1"}], "NumPDBViolations": 0} for name in ("s1", "s2")}
        body = {"Pod": manifests.pod("p"), "NodeNameToMetaVictims": victims}
        assert (await asked.post("preempt", body))[1]["NodeNameToMetaVictims"].keys() == {"s2"}


async def test_it_binds_where_asked_to_and_tells_why_not(api: ApiServer) -> None:
    await api.post("/api/v1/namespaces/default/pods", manifests.pod("p"))
    async with extending(api) as asked:
        args = {"PodName": "p", "PodNamespace": "default", "PodUID": "", "Node": "s1"}
        assert await asked.post("bind", args) == (200, {"Error": ""})
        bound = (await api.get("/api/v1/namespaces/default/pods/p")).json["spec"]["nodeName"]
        assert bound == "s1"
        code, answer = await asked.post("bind", args)
        assert code == 200
        assert "already assigned" in answer["Error"]


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
async def test_what_is_no_request_is_refused_with_what_is_wrong(api: ApiServer, verb: str) -> None:
    async with extending(api) as asked:
        code, text = await asked.post(verb, {"Pod": []})
        assert code == 400
        assert text
        metrics = (await asked.page("/metrics"))[1]
        assert f'rota_extender_requests_total{{code="400",verb="{verb}"}} 1.0' in metrics
