"""The stock kube-scheduler on the stock API server places pods as the simulation does, wherever one node is the best.

kube-scheduler takes one of several best nodes at random. Arrivals whose best node is not unique in the simulation are
therefore left out beforehand; what is left has one right answer for each pod.
"""

import random
from typing import Any

import pytest
from tests.stock.clusters import PODS, cluster

from rota.scheduler.core.attempts import Attempt
from rota.simulator import policies, traces
from rota.simulator.engine import Engine
from rota.testing import manifests
from rota.testing.servers.kubernetes import Scheduler, StockApiServer

pytestmark = [pytest.mark.slow, pytest.mark.stock, pytest.mark.timeout(240)]

WANTED = 40
#: Pods that fit nowhere, at the end: larger than every node, and on a node that no other pod may use.
REFUSED = ("too-large", "no-such-node")


def nodes() -> list[manifests.Document]:
    """Nodes of sizes that seldom have equal scores; some keep pods away, or would rather not have them."""
    rng, made = random.Random(5), []
    for number in range(12):
        node = manifests.node(f"n{number:02}", **{"topology.kubernetes.io/zone": "abc"[number % 3]})
        resources = {
            "cpu": f"{rng.randrange(3000, 9000, 7)}m",
            "memory": f"{rng.randrange(6000, 20000, 13)}Mi",
            "pods": "30",
        }
        node["status"] |= {"capacity": resources, "allocatable": resources}
        if number % 4 == 3:
            effect = "NoSchedule" if number % 8 == 3 else "PreferNoSchedule"
            node["spec"] = {"taints": [{"key": "team", "value": "red", "effect": effect}]}
        made.append(node)
    return made


def candidates() -> list[manifests.Document]:
    """Pods with requests, tolerations, node affinities, and affinities to each other."""
    rng, made = random.Random(11), []
    for number in range(3 * WANTED):
        spec: dict[str, Any] = {}
        if number % 5 == 0:
            spec["tolerations"] = [{"key": "team", "operator": "Exists"}]
        if number % 7 == 0:
            spec["nodeSelector"] = {"topology.kubernetes.io/zone": rng.choice("abc")}
        if number % 11 == 0:
            term = {"labelSelector": {"matchLabels": {"app": "spread"}}, "topologyKey": "kubernetes.io/hostname"}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        pod = manifests.pod(f"p{number}", labels={"app": "spread" if number % 11 == 0 else "any"}, **spec)
        requests = {"cpu": f"{rng.randrange(50, 900, 3)}m", "memory": f"{rng.randrange(64, 1500, 5)}Mi"}
        pod["spec"]["containers"][0]["resources"] = {"requests": requests}
        made.append(pod)
    return made


def refused() -> list[manifests.Document]:
    large, lost = (manifests.pod(name) for name in REFUSED)
    large["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100"}}
    lost["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n99"}
    return [large, lost]


def _first_sentence(message: str) -> str:
    """The filters' reasons; plugins that look for victims or devices append sentences of their own."""
    return message.partition(". ")[0].removesuffix(".")


def simulated(pods: list[manifests.Document]) -> tuple[dict[str, str], str]:
    """Where the pods go, or why they wait, and the first pod that has several best nodes or none."""
    found: dict[str, str] = {}
    undecided: list[str] = []

    def observe(attempt: Attempt) -> None:
        if attempt.refusal is not None:
            found[attempt.pod.name] = _first_sentence(attempt.refusal.message)
        if len(attempt.evaluation.best_rows()) != 1:
            undecided.append(attempt.pod.name)

    documents = [(str(number), each) for number, each in enumerate([*nodes(), *pods])]
    engine = Engine(traces.from_objects(documents, "made"), policies.named("default").load({}), seed=1)
    engine.observe(observe)
    engine.run()
    return found | {pod.name: pod.node_name for pod in engine.placed()}, undecided[0] if undecided else ""


def decided() -> list[manifests.Document]:
    """The arrivals that have one right answer each, after those before them."""
    pods: list[manifests.Document] = []
    for pod in candidates():
        if not simulated([*pods, pod])[1]:
            pods.append(pod)
        if len(pods) == WANTED:
            return pods
    raise AssertionError(f"only {len(pods)} arrivals have a unique best node")


async def test_the_stock_scheduler_decides_as_the_simulation_where_the_best_node_is_unique() -> None:
    pods = decided()
    expected, _ = simulated([*pods, *refused()])
    assert len(set(expected.values())) > len(nodes()) // 2, "the arrivals do not use enough nodes to say anything"
    placed: dict[str, str] = {}
    # What these two do takes controllers, which do not run here.
    with (
        StockApiServer(disable_admission_plugins="ServiceAccount,TaintNodesByCondition") as server,
        Scheduler(server.kubeconfig("system:kube-scheduler")),
    ):
        async with cluster(server.kubeconfig(), nodes(), heartbeat_s=60.0) as it:
            for pod in pods:
                name = pod["metadata"]["name"]
                await it.create(PODS, pod)
                placed |= await it.placed(name, patience_s=60.0)
                assert placed[name] == expected[name], f"{name} is the first that differs"
            for pod in refused():
                name = pod["metadata"]["name"]
                await it.create(PODS, pod)
                assert _first_sentence(await it.unschedulable(name)) == expected[name]
