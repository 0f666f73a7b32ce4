"""A worker and the masters: how far apart their releases may be."""

import random

import pytest

from rota.api import times
from rota.client import client_factory, masters
from rota.kit import levels, system
from rota.testing.api import ApiServer
from rota.worker.host_resources import HostResources
from rota.worker.node import NODES, NodeKeeper, NotTaken


async def test_a_worker_is_refused_if_a_running_master_is_more_than_one_level_away() -> None:
    """An expired Lease does not count: that master has ended."""
    clock, rng = system.SystemClock(), random.Random(0)
    async with ApiServer() as server, client_factory.to_application(server.app, clock=clock, rng=rng) as client:
        machine = HostResources(node="w1", address="127.0.0.1", capacity={}, allocatable={})
        keeper = NodeKeeper(
            client,
            machine,
            incarnation="a",
            predecessor="b",
            clock=clock,
            info={},
            labels={},
            taints=(),
            conditions=tuple,
            port=None,
        )
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": "rota-master-x",
                "namespace": masters.NAMESPACE,
                "labels": {masters.LABEL: "true"},
                "annotations": {levels.ANNOTATION: "8-9", masters.ADDRESS: "https://m:1"},
            },
            "spec": {"renewTime": times.format_micro_time(clock.now()), "leaseDurationSeconds": 3000},
        }
        await client.create(masters.LEASES, lease)
        with pytest.raises(NotTaken, match="a master has level 9: at most one apart is allowed; install a release of"):
            await keeper.enter(rng)
        ended = {"spec": {"renewTime": times.format_micro_time(1000.0)}}
        await client.patch(masters.LEASES, "rota-master-x", ended, namespace=masters.NAMESPACE)
        await keeper.enter(rng)
        node = await client.get(NODES, "w1")
        assert node["metadata"]["annotations"][levels.ANNOTATION] == str(levels.OWN)
