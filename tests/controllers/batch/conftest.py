from collections.abc import AsyncIterator

import pytest
from tests.controllers.workloads import Kubelet

from rota.testing import virtual_api
from rota.testing.virtual_api import VirtualCluster


@pytest.fixture
async def cluster() -> AsyncIterator[VirtualCluster]:
    """A server with Volcano's kinds, in virtual time."""
    async with virtual_api.cluster(batch_kinds=True) as made:
        yield made


@pytest.fixture
async def kubelet(cluster: VirtualCluster) -> AsyncIterator[Kubelet]:
    it = Kubelet(cluster)
    async with cluster.running(it.run):
        yield it
