"""A plugin declares the kinds that it reads: the scheduler watches them, and their changes wake pods."""

from typing import Any

from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler import rights
from rota.scheduler.framework.events import Action, ClusterEvent, Subscription
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SUCCESS, Status, unschedulable
from rota.scheduler.ingest import watched_kinds
from rota.scheduler.ingest.watched_kinds import WatchedKind
from rota.scheduler.plugin_registry.configuration_source import frameworks
from rota.testing.schedulers import SchedulingCluster, cluster, configured

PRICES = ("example.com", "v1", "prices")
CLOSED = unschedulable("node has no price")
CONFIG = "profiles: [{plugins: {multiPoint: {enabled: [{name: Priced}]}}}]"
CRDS = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "prices.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "prices", "kind": "Price"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


class Priced:
    """Places pods on nodes that a Price of the same name is known for."""

    name = "Priced"
    kinds = (WatchedKind("Price", PRICES),)

    def __init__(self, args: Any, handle: Any) -> None:
        pass

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        assert state.cluster is not None
        return SUCCESS if state.cluster.catalog.get("Price", name=node.name) else CLOSED

    def events_to_register(self) -> tuple[Subscription, ...]:
        return (Subscription(ClusterEvent("prices.v1.example.com", Action.ADD)),)


async def add_price(running: SchedulingCluster, node: str) -> None:
    await running.client.create(
        PRICES, {"apiVersion": "example.com/v1", "kind": "Price", "metadata": {"name": node}, "amount": 3}
    )


async def test_an_object_of_a_declared_kind_wakes_the_pods_that_wait_for_it() -> None:
    async with cluster() as running:
        await running.client.create(CRDS, CRD)
        await running.add_node("n1")
        async with running.scheduling(CONFIG, plugins=(Priced,), client=running.client):
            await running.add_pod("web")
            assert "node has no price" in (await running.refused("web"))["message"]
            await add_price(running, "n1")
            assert await running.bound("web") == "n1"


async def test_a_kind_that_the_server_does_not_know_yet_holds_nothing_up() -> None:
    async with cluster() as running:
        await running.add_node("n1")
        async with running.scheduling(CONFIG, plugins=(Priced,), client=running.client):
            await running.add_pod("web")
            assert "node has no price" in (await running.refused("web"))["message"]
            await running.client.create(CRDS, CRD)
            await add_price(running, "n1")
            assert await running.bound("web") == "n1"


async def test_a_configuration_that_is_loaded_later_brings_its_kinds() -> None:
    async with cluster() as running:
        await running.client.create(CRDS, CRD)
        await running.add_node("n1")
        async with running.scheduling(client=running.client) as scheduler:
            await add_price(running, "n1")
            scheduler.load(configured(CONFIG, Priced))
            await running.add_pod("web")
            assert await running.bound("web") == "n1"


def test_rights_name_the_kinds_that_plugins_declare() -> None:
    kinds = watched_kinds.declared(frameworks(configured(CONFIG, Priced)).values())
    assert set(kinds) == {"Price"}
    needed = {(right.group, right.resource, right.verb) for right in rights.needed(None, kinds.values())}
    assert {("example.com", "prices", "list"), ("example.com", "prices", "watch")} <= needed
