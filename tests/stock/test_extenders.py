"""One extender, asked by the stock kube-scheduler and by ours: the same questions, the same effect of its answers."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.scheduler.extenders.conftest import HttpExtender
from tests.stock.clusters import PODS, Cluster, cluster

from rota.client import client_factory, kubeconfig
from rota.kit import system
from rota.scheduler.explanation import explain_client
from rota.scheduler.explanation.explain_client import ExplainClient
from rota.scheduler.service import Scheduler
from rota.testing import manifests, schedulers
from rota.testing.servers import kubernetes
from rota.testing.servers.kubernetes import StockApiServer

pytestmark = [pytest.mark.slow, pytest.mark.stock]

PRIORITIES = ("scheduling.k8s.io", "v1", "priorityclasses")
NODES = ["node-0", "node-1", "node-2"]


class StockScheduler(kubernetes.Scheduler):
    """A stock scheduler that asks extenders."""

    def __init__(self, config: Path, *, name: str, extenders: list[dict[str, Any]]) -> None:
        super().__init__(config, name=name, lease_s=15)
        self._settings["extenders"] = extenders


@pytest.fixture(scope="module")
def server() -> Iterator[StockApiServer]:
    with StockApiServer(disable_admission_plugins="ServiceAccount,TaintNodesByCondition") as stock:
        yield stock


def settings(extender: HttpExtender, **more: Any) -> dict[str, Any]:
    return {
        "urlPrefix": extender.url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": 3,
        **more,
    }


@contextlib.asynccontextmanager
async def stock(server: StockApiServer, *extenders: dict[str, Any]) -> AsyncIterator[str]:
    """The stock scheduler at work; the name that pods ask for."""
    running = StockScheduler(server.kubeconfig("system:kube-scheduler"), name="stock", extenders=list(extenders))
    await asyncio.to_thread(running.__enter__)
    try:
        yield "stock"
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)


@contextlib.asynccontextmanager
async def ours(server: StockApiServer, extender: dict[str, Any]) -> AsyncIterator[str]:
    """Our scheduler at work; the name that pods ask for."""
    clock, rng = system.SystemClock(), random.Random(0)
    endpoint = kubeconfig.load(server.kubeconfig("system:kube-scheduler"), clock=clock)
    config = yaml.safe_dump({"profiles": [{"schedulerName": "ours"}], "extenders": [extender]})
    async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
        loaded = schedulers.configured(config)
        scheduler = Scheduler(client, loaded, clock=clock, rng=rng, identity="ours", elect=False)
        running = asyncio.ensure_future(scheduler.run())
        async with asyncio.timeout(30):
            await scheduler.wait_synced()
        try:
            yield "ours"
        finally:
            running.cancel()
            await asyncio.wait([running])


def answer_all(extender: HttpExtender) -> None:
    """Rule node-0 out, and like node-2 best."""

    def names(asked: Any) -> list[str]:
        return asked["NodeNames"] or [node["metadata"]["name"] for node in asked["Nodes"]["items"]]

    def allowed(asked: Any) -> Any:
        kept = [name for name in names(asked) if name != "node-0"]
        nodes = asked["Nodes"] and {
            **asked["Nodes"],
            "items": [node for node in asked["Nodes"]["items"] if node["metadata"]["name"] in kept],
        }
        failed = {name: "not that one" for name in names(asked) if name not in kept}
        return {"NodeNames": kept if asked["NodeNames"] else None, "Nodes": nodes, "FailedNodes": failed}

    def victims(asked: Any) -> Any:
        meta = asked["NodeNameToMetaVictims"] or {
            node: {
                "Pods": [{"UID": pod["metadata"]["uid"]} for pod in found["Pods"]],
                "NumPDBViolations": found["NumPDBViolations"],
            }
            for node, found in asked["NodeNameToVictims"].items()
        }
        return {"NodeNameToMetaVictims": {"node-2": meta["node-2"]}}

    extender.answers["filter"] = allowed
    extender.answers["prioritize"] = lambda asked: [
        {"Host": name, "Score": 10 if name == "node-2" else 0} for name in names(asked)
    ]
    extender.answers["preempt"] = victims


def sized(name: str, scheduler: str, cpu: str, **spec: Any) -> manifests.Document:
    made = manifests.pod(name, schedulerName=scheduler, **spec)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


async def run(it: Cluster, extender: HttpExtender, scheduler: str) -> dict[str, Any]:
    """Place one pod, fill what is left, and have room made; by verb, the first question that was asked."""
    extender.requests.clear()
    await it.create(PODS, sized(f"{scheduler}-first", scheduler, "3"))
    assert await it.placed(f"{scheduler}-first") == {f"{scheduler}-first": "node-2"}
    await it.create(PODS, sized(f"{scheduler}-second", scheduler, "3"))
    assert await it.placed(f"{scheduler}-second") == {f"{scheduler}-second": "node-1"}
    await it.create(PODS, sized(f"{scheduler}-urgent", scheduler, "3", priorityClassName="urgent"))
    assert await it.placed(f"{scheduler}-urgent") == {f"{scheduler}-urgent": "node-2"}
    asked: dict[str, Any] = {}
    for verb, body in extender.requests:
        asked.setdefault(verb, body)
    await it.client.delete_collection(PODS, namespace=it.namespace, grace_period_s=0)
    return asked


def shape(value: Any) -> Any:
    """What two questions must have in common: keys and kinds of values, lists by their first entry."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


@pytest.mark.parametrize("caching", [True, False])
async def test_both_schedulers_send_the_same_requests_and_obey_the_responses(
    server: StockApiServer, *, caching: bool
) -> None:
    extender = HttpExtender()
    answer_all(extender)
    nodes = [manifests.node(name) for name in NODES]
    async with extender.serving(), cluster(server.kubeconfig(), nodes) as it:
        with contextlib.suppress(Exception):
            await it.client.create(PRIORITIES, {"metadata": {"name": "urgent"}, "value": 1000})
        given = settings(extender, nodeCacheCapable=caching)
        async with stock(server, given) as name:
            theirs = await run(it, extender, name)
        async with ours(server, given) as name:
            asked = await run(it, extender, name)
    assert asked.keys() == theirs.keys() == {"filter", "prioritize", "preempt"}
    for verb in ("filter", "prioritize", "preempt"):
        assert asked[verb].keys() == theirs[verb].keys()
        for key in ("NodeNames", "NodeNameToMetaVictims"):
            assert shape(asked[verb].get(key)) == shape(theirs[verb].get(key))
        assert asked[verb]["Pod"]["spec"].keys() == theirs[verb]["Pod"]["spec"].keys()
    if caching:
        assert sorted(asked["filter"]["NodeNames"]) == sorted(theirs["filter"]["NodeNames"]) == NODES
        assert asked["preempt"]["NodeNameToVictims"] is theirs["preempt"]["NodeNameToVictims"] is None
    else:
        assert asked["filter"]["Nodes"].keys() == theirs["filter"]["Nodes"].keys()
        mine, other = (
            {node["metadata"]["name"]: node for node in questions["filter"]["Nodes"]["items"]}
            for questions in (asked, theirs)
        )
        for name in NODES:
            assert mine[name]["status"]["allocatable"] == other[name]["status"]["allocatable"]
            assert mine[name]["metadata"]["labels"] == other[name]["metadata"]["labels"]
        assert asked["preempt"]["NodeNameToVictims"].keys() == theirs["preempt"]["NodeNameToVictims"].keys()


async def test_a_stock_cluster_is_explained_in_the_words_of_its_scheduler(server: StockApiServer) -> None:
    nodes = [manifests.node(name) for name in NODES]
    nodes[0]["spec"] = {"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]}
    clock, rng = system.SystemClock(), random.Random(0)
    async with cluster(server.kubeconfig(), nodes) as it:
        async with stock(server) as name:
            await it.create(PODS, sized("big", name, "9"))
            said = await it.unschedulable("big")
        assert await explain_client.of_server(it.client, "big", namespace=it.namespace, most=100) is None
        profiles = schedulers.configured(f"profiles: [{{schedulerName: {name}}}]")
        told = await ExplainClient(profiles, clock=clock, rng=rng).pod(
            it.client, "big", namespace=it.namespace, most=100
        )
    counted = told.summary.partition("0/3 nodes are available: ")[2]
    assert counted
    assert said.startswith(f"0/3 nodes are available: {counted}.")
    assert said.endswith(told.no_room)
    assert [change.text for change in told.changes] == [
        "1 node excluded by taint dedicated=gpu:NoSchedule",
        "requests 9 cpu; 3 nodes have 4 at most, even when empty: request less, or add a larger node",
    ]
