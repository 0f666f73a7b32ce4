"""Extended resources that a client advertises on a node by a patch of its status, as Kubernetes documents it."""

from typing import Any

from rota.client.verbs import PatchType
from rota.testing import virtual_api
from rota.testing.virtual_api import VirtualCluster
from rota.worker.host_resources import HostResources
from rota.worker.node import LEASE_S, NODES, NodeKeeper


def keeper(cluster: VirtualCluster, incarnation: str, **amounts: int) -> NodeKeeper:
    machine = HostResources(node="w1", address="127.0.0.1", capacity=amounts, allocatable=amounts)
    return NodeKeeper(
        cluster.client,
        machine,
        incarnation=incarnation,
        predecessor="first",
        clock=cluster.clock,
        info={},
        labels={},
        taints=(),
        conditions=lambda: (),
        port=None,
        lease_s=LEASE_S,
    )


async def allocatable(cluster: VirtualCluster) -> dict[str, Any]:
    return dict((await cluster.client.get(NODES, "w1"))["status"]["allocatable"])


async def test_a_worker_keeps_what_others_advertise_until_it_registers_again() -> None:
    async with virtual_api.cluster() as cluster:
        first = keeper(cluster, "first", cpu=2000, **{"example.com/gpu": 1})
        await first.register()
        patch = {"status": {"capacity": {"example.com/dongle": "4"}, "allocatable": {"example.com/dongle": "4"}}}
        await cluster.client.patch(NODES, "w1", patch, type=PatchType.MERGE, subresource="status")
        await first.tell()
        assert await allocatable(cluster) == {"cpu": "2", "example.com/gpu": "1", "example.com/dongle": "4"}
        second = keeper(cluster, "second", cpu=2000)
        await second.register()
        assert await allocatable(cluster) == {"cpu": "2"}
