"""HyperNodes know how many nodes they have; labels of nodes describe them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.api import meta
from rota.api.batch import kinds
from rota.controllers.batch import domains
from rota.controllers.batch.hyper_nodes import HyperNodeController
from rota.testing.virtual_api import VirtualCluster

NODES = ("", "v1", "nodes")
CONFIG = """
networkTopologyDiscovery:
- source: label
  enabled: true
  interval: 10m
  config:
    networkTopologyTypes:
      fabric:
      - nodeLabel: spine
      - nodeLabel: leaf
      - nodeLabel: kubernetes.io/hostname
"""


@pytest.fixture(autouse=True)
async def _controller(cluster: VirtualCluster) -> AsyncIterator[None]:
    client = cluster.acting_as("rota:controller:batch-domains")
    async with cluster.running(HyperNodeController(client, clock=cluster.clock, rng=cluster.rng).run):
        yield


async def node(cluster: VirtualCluster, name: str, **labels: str) -> None:
    await cluster.client.create(NODES, {"metadata": {"name": name, "labels": labels}})


async def hyper_node(cluster: VirtualCluster, name: str, tier: int, *members: dict[str, Any]) -> None:
    made = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}}
    await cluster.client.create(kinds.HYPER_NODES, {**made, "spec": {"tier": tier, "members": list(members)}})


async def counts(cluster: VirtualCluster) -> dict[str, int]:
    await cluster.clock.advance(2)
    found = (await cluster.client.list(kinds.HYPER_NODES)).items
    return {meta.name(one): one["status"]["nodeCount"] for one in found}


def member(kind: str, **selector: Any) -> dict[str, Any]:
    return {"type": kind, "selector": selector}


async def test_nodes_are_counted_through_domains(cluster: VirtualCluster) -> None:
    for name in ("n1", "n2", "n3"):
        await node(cluster, name, rack="r" if name != "n3" else "s")
    await hyper_node(cluster, "a", 1, member("Node", labelMatch={"matchLabels": {"rack": "r"}}))
    await hyper_node(cluster, "b", 1, member("Node", regexMatch={"pattern": "^n[23]$"}))
    await hyper_node(cluster, "top", 2, *(member("HyperNode", exactMatch={"name": one}) for one in "ab"))
    assert await counts(cluster) == {"a": 2, "b": 2, "top": 3}
    await cluster.client.delete(NODES, "n3")
    assert await counts(cluster) == {"a": 2, "b": 1, "top": 2}


async def test_labels_of_nodes_describe_domains(cluster: VirtualCluster) -> None:
    for name, leaf in (("n1", "l1"), ("n2", "l1"), ("n3", "l2")):
        await node(cluster, name, spine="s1", leaf=leaf)
    await node(cluster, "alone")
    config = {"metadata": {"name": "volcano-controller-configmap", "namespace": "kube-system"}}
    await cluster.client.create(("", "v1", "configmaps"), {**config, "data": {"volcano-controller.conf": CONFIG}})
    assert sorted((await counts(cluster)).values()) == [1, 2, 3]
    found = {one["spec"]["tier"]: one for one in (await cluster.client.list(kinds.HYPER_NODES)).items}
    assert {one["type"] for one in found[2]["spec"]["members"]} == {"HyperNode"}
    assert meta.labels(found[2])["volcano.sh/network-topology-source"] == "label"
    await cluster.client.patch(NODES, "n3", {"metadata": {"labels": {"leaf": "l1"}}})
    await cluster.clock.advance(2)
    assert sorted((await counts(cluster)).values()) == [3, 3]


def test_domains_in_a_circle_are_counted_once() -> None:
    def around(name: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"members": [member("HyperNode", exactMatch={"name": "a"})]}}

    assert domains.node_count("a", {"a": around("a")}, {}) == 0


def test_no_pattern_keeps_the_controller_busy() -> None:
    nodes = {"a" * 200 + "b": {"metadata": {"name": "a" * 200 + "b"}}}
    assert list(domains._selected({"regexMatch": {"pattern": "^(a+)+$"}}, nodes)) == []
